//! The places of a finding, grouped by the function of the program's own code that they are in.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{RankUnit, RankedStack};
use crate::own_code::CodeFrames;
use crate::{Profile, StackId};

/// Functions that are shown with a finding.
pub const MOST_GROUPS: usize = 3;
/// Frames of a group's stack, innermost first.
const FRAMES: usize = 4;

/// The places of a finding in one function of the program's own code.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionGroup {
    /// The function.
    pub function: String,
    /// Where its largest place is: `file.c:12`, or empty.
    pub source: String,
    /// The frames from there on, `parse ← read ← main`.
    pub stack: String,
    /// Sum of its places.
    pub value: u64,
    /// Unit of the sum.
    pub unit: RankUnit,
    /// Share of all places, in percent.
    pub percent: f64,
    /// The stack of its largest place.
    pub(super) largest: Option<StackId>,
}

/// The functions of `places`, largest first. A place belongs to the innermost function of the
/// program's own code.
#[must_use]
pub fn groups(profile: &Profile, code: &CodeFrames, places: &[RankedStack]) -> Vec<FunctionGroup> {
    let total = places.iter().map(|place| place.value).sum::<u64>().max(1) as f64;
    let mut groups: Vec<FunctionGroup> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for place in places {
        let function = first_function(profile, code, place.stack);
        let at = *known.entry(function).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.value += place.value,
            None => groups.push(group(profile, code, place)),
        }
    }
    groups.sort_by(|a, b| Reverse(a.value).cmp(&Reverse(b.value)).then_with(|| a.function.cmp(&b.function)));
    groups.iter_mut().for_each(|group| group.percent = 100.0 * group.value as f64 / total);
    groups
}

fn first_function<'a>(profile: &Profile, code: &'a CodeFrames, stack: Option<StackId>) -> &'a str {
    let first = stack.and_then(|stack| code.from_own_code(profile, stack, 1).into_iter().next());
    first.map_or("[unknown]", |frame| &frame.label)
}

fn group(profile: &Profile, code: &CodeFrames, place: &RankedStack) -> FunctionGroup {
    let frames = place.stack.map(|stack| code.from_own_code(profile, stack, FRAMES)).unwrap_or_default();
    let source = frames.first().filter(|frame| !frame.file.is_empty()).map(|frame| {
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        if frame.line == 0 { file.to_owned() } else { format!("{file}:{}", frame.line) }
    });
    // What starts `main` says nothing.
    let main = frames.iter().position(|frame| frame.label == "main").unwrap_or(FRAMES);
    let labels: Vec<&str> = frames.iter().take(main + 1).map(|frame| frame.label.as_str()).collect();
    FunctionGroup {
        function: first_function(profile, code, place.stack).to_owned(),
        source: source.unwrap_or_default(),
        stack: labels.join(" ← "),
        value: place.value,
        unit: place.unit,
        percent: 0.0,
        largest: place.stack,
    }
}
