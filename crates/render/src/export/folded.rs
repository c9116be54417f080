//! Folded stacks: `root;child;leaf 1234` of one metric. Lines of a script are
//! `function (file:line)`.

use heapwise_profile::printable::printable;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use heapwise_profile::{LocationId, Metric, Profile, StackId, StackTable, script};

use super::frames::{FrameList, NamedFrame, value_of, whole};

pub(super) fn write(profile: &Profile, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let frames = FrameList::new(profile);
    let folded = Folded::new(profile, &frames, metric);
    let mut line = String::new();
    let mut names = Vec::new();
    for (stack, value) in &folded.sums {
        let value = whole(*value);
        if value == 0 {
            continue;
        }
        line.clear();
        names.clear();
        names.extend(stack.iter().flat_map(|leaf| folded.stacks.leaf_to_root(*leaf)));
        for (at, node) in names.iter().rev().enumerate() {
            line.push_str(if at == 0 { "" } else { ";" });
            line.push_str(&folded.names[folded.stacks.location(*node).index()]);
        }
        writeln!(out, "{line} {value}")?;
    }
    Ok(())
}

/// Stacks of names. Those of a clang are a hundred megabytes when written out, so they are kept as
/// a tree of which a location is a name.
struct Folded<'a> {
    names: Vec<Cow<'a, str>>,
    stacks: StackTable,
    /// In order of first appearance.
    sums: Vec<(Option<StackId>, f64)>,
}

impl<'a> Folded<'a> {
    fn new(profile: &Profile, frames: &'a FrameList<'_>, metric: Metric) -> Self {
        let mut folded = Self { names: Vec::new(), stacks: StackTable::default(), sums: Vec::new() };
        let names = folded.name(profile, frames);
        let mut named: Vec<Option<StackId>> = Vec::with_capacity(profile.stacks.len());
        for stack in profile.stacks.ids() {
            let caller = profile.stacks.parent(stack).and_then(|caller| named[caller.index()]);
            let calls = names[profile.stacks.location(stack).index()].iter().rev();
            named.push(calls.fold(caller, |caller, name| Some(folded.stacks.child(caller, *name))));
        }
        let mut rows: HashMap<Option<StackId>, usize> = HashMap::new();
        for (sample, at) in profile.samples.iter().zip(0..) {
            let stack = named[sample.stack.index()];
            let row = *rows.entry(stack).or_insert_with(|| {
                folded.sums.push((stack, 0.0));
                folded.sums.len() - 1
            });
            folded.sums[row].1 += value_of(profile, at, metric);
        }
        folded
    }

    /// The names at every location of the profile, the innermost first.
    fn name(&mut self, profile: &Profile, frames: &'a FrameList<'_>) -> Vec<Vec<LocationId>> {
        let mut known: HashMap<Cow<'a, str>, LocationId> = HashMap::new();
        let mut id = |name: Cow<'a, str>| {
            *known.entry(name).or_insert_with_key(|name| {
                self.names.push(name.clone());
                LocationId::new(self.names.len() - 1)
            })
        };
        let locations = (0..profile.locations.len()).map(LocationId::new);
        locations
            .map(|at| {
                let is_line = script::is_line(profile, at);
                let name = |frame: &'a NamedFrame<'_>| match is_line {
                    true => Cow::Owned(folded_name(&place(frame)).into_owned()),
                    false => folded_name(&frame.name),
                };
                frames.at(at).iter().map(|frame| id(name(frame))).collect()
            })
            .collect()
    }
}

fn place(frame: &NamedFrame<'_>) -> String {
    format!("{} ({}:{})", frame.name, frame.file, frame.line)
}

/// `;` parts frames and line ends part stacks, so neither may be in a name.
fn folded_name(name: &str) -> Cow<'_, str> {
    match printable(name) {
        name if name.contains(';') => Cow::Owned(name.replace(';', ":")),
        name => name,
    }
}
