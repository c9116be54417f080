//! The places of a finding, grouped by the function of the program's own code that they are in.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{RankUnit, RankedStack};
use crate::own_code::CodeFrames;
use crate::{Profile, StackId};

/// Functions that are shown with a finding.
pub const MOST_GROUPS: usize = 3;
/// Functions with less are not shown: `0.0 %`.
const LEAST_PERCENT: f64 = 0.05;
/// Frames of a group's stack, innermost first.
const FRAMES: usize = 4;
/// Frames that are looked at for them.
const MOST_FRAMES: usize = 24;
/// Functions that start `main` or a thread.
const STARTUP: [&str; 5] = [
    "_start",
    "__libc_start",
    "core::ops::function::FnOnce::call_once",
    "std::sys::backtrace::__rust_begin",
    "std::rt::lang_start",
];
/// In place of callers without a name.
const UNNAMED: &str = "…";

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
    groups.retain(|group| group.percent >= LEAST_PERCENT);
    groups
}

fn first_function<'a>(profile: &Profile, code: &'a CodeFrames, stack: Option<StackId>) -> &'a str {
    let first = stack.and_then(|stack| code.from_own_code(profile, stack, 1).into_iter().next());
    first.map_or("[unknown]", |frame| &frame.label)
}

fn group(profile: &Profile, code: &CodeFrames, place: &RankedStack) -> FunctionGroup {
    let frames = place.stack.map(|stack| code.from_own_code(profile, stack, MOST_FRAMES)).unwrap_or_default();
    let source = frames.first().filter(|frame| !frame.file.is_empty()).map(|frame| {
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        if frame.line == 0 { file.to_owned() } else { format!("{file}:{}", frame.line) }
    });
    let labels = chain(frames.iter().map(|frame| frame.label.as_str()));
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

/// The first function and its callers up to `main`: what starts `main` says nothing. Callers
/// without a name are left out.
fn chain<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut shown: Vec<&str> = Vec::new();
    let mut named = 0;
    for label in labels {
        if !shown.is_empty() && STARTUP.iter().any(|start| label.starts_with(start)) {
            break;
        }
        let is_named = shown.is_empty() || !label.contains("+0x");
        if is_named {
            named += 1;
            shown.push(label);
        } else if shown.last() != Some(&UNNAMED) {
            shown.push(UNNAMED);
        }
        if named == FRAMES || label == "main" {
            return shown;
        }
    }
    if shown.last() == Some(&UNNAMED) {
        shown.pop();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_without_a_name_are_left_out() {
        let chain = |text: &str| chain(text.split(' ')).join(" ");
        assert_eq!(chain("parse read main _start"), "parse read main");
        assert_eq!(chain("a.so+0x1 a.so+0x2 a.so+0x3 step a.so+0x4 run b c"), "a.so+0x1 … step … run b");
        assert_eq!(chain("grow a.so+0x2 a.so+0x3"), "grow");
        assert_eq!(chain("grow a.so+0x2 __libc_start_call_main _start"), "grow");
    }
}
