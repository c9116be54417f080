//! Folded stacks: `root;child;leaf 1234` of one metric.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{Metric, Profile};

use super::frames::{FrameList, value_of, whole};

pub(super) fn write(profile: &Profile, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    for (stack, value) in folded(profile, metric) {
        match whole(value) {
            0 => {}
            value => writeln!(out, "{stack} {value}")?,
        }
    }
    Ok(())
}

/// Stacks of names with their sums, in order of first appearance.
pub(super) fn folded(profile: &Profile, metric: Metric) -> Vec<(String, f64)> {
    let frames = FrameList::new(profile);
    let mut sums: Vec<(String, f64)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let names: Vec<String> =
            frames.root_to_leaf(sample.stack).into_iter().map(|frame| folded_name(&frame.name)).collect();
        let stack = names.join(";");
        let at = *known.entry(stack).or_insert_with_key(|stack| {
            sums.push((stack.clone(), 0.0));
            sums.len() - 1
        });
        sums[at].1 += value_of(profile, row, metric);
    }
    sums
}

/// `;` parts frames and line ends part stacks, so neither may be in a name.
fn folded_name(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}
