//! Memory that is counted but cannot be attributed: a table of the probe was full, so events were
//! counted on a frame that names the table. Totals include these bytes; only their stack or label
//! is not known.
//!
//! The frames have names like all declared frames, so they survive every format, sum and
//! difference.

use crate::{Profile, StackId, Values};

/// Why something could not be attributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No room for a stack.
    Stacks,
    /// No room for a tally.
    Sites,
    /// No room for the name of a label or script frame; the rest of the stack is known.
    Labels,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 3] = [Cause::Stacks, Cause::Sites, Cause::Labels];

    /// The word for it in reports and JSON: what there was no room for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Stacks => "stacks",
            Cause::Sites => "sites",
            Cause::Labels => "labels",
        }
    }

    /// Name of the frame that such events are counted on.
    #[must_use]
    pub fn frame(self) -> &'static str {
        match self {
            Cause::Stacks => "[out of table space: stacks]",
            Cause::Sites => "[out of table space: sites]",
            Cause::Labels => "[out of table space: labels]",
        }
    }

    fn of_frame(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.frame() == name)
    }
}

/// Something for each cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerCause<T> {
    /// No room for a stack.
    pub stacks: T,
    /// No room for a tally.
    pub sites: T,
    /// No room for a label.
    pub labels: T,
}

impl<T: Copy> PerCause<T> {
    /// Each cause with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, T)> {
        Cause::ALL.into_iter().zip([self.stacks, self.sites, self.labels])
    }

    /// The value of one cause.
    pub fn get_mut(&mut self, cause: Cause) -> &mut T {
        match cause {
            Cause::Stacks => &mut self.stacks,
            Cause::Sites => &mut self.sites,
            Cause::Labels => &mut self.labels,
        }
    }
}

/// Unattributed part of a profile.
#[must_use]
pub fn unattributed(profile: &Profile) -> PerCause<Values> {
    let causes = Causes::of(profile);
    let mut sums = PerCause::<Values>::default();
    for sample in &profile.samples {
        if let Some(cause) = causes.get(sample.stack) {
            *sums.get_mut(cause) += sample.values;
        }
    }
    sums
}

/// The cause of each stack that is not attributed.
pub(crate) struct Causes {
    /// By stack; empty when every stack is attributed, which is the rule.
    by_stack: Vec<Option<Cause>>,
}

impl Causes {
    pub(crate) fn of(profile: &Profile) -> Self {
        let functions: Vec<Option<Cause>> =
            profile.functions.iter().map(|function| Cause::of_frame(&function.name)).collect();
        let mut by_stack = Vec::new();
        if functions.iter().any(Option::is_some) {
            let cause_of = |stack| {
                let location = &profile.locations[profile.stacks.location(stack).index()];
                location.lines.iter().find_map(|line| functions[line.function.index()])
            };
            for stack in profile.stacks.ids() {
                let caller =
                    profile.stacks.parent(stack).and_then(|caller: StackId| by_stack[caller.index()]);
                by_stack.push(caller.or_else(|| cause_of(stack)));
            }
        }
        Self { by_stack }
    }

    pub(crate) fn get(&self, stack: StackId) -> Option<Cause> {
        self.by_stack.get(stack.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;

    #[test]
    fn every_stack_with_an_overflow_frame_counts_once() {
        let mut builder = Builder::new("test");
        let [stacks, labels, main] =
            [Cause::Stacks.frame(), Cause::Labels.frame(), "main"].map(|name| builder.named(name));
        let one = Values { inuse_bytes: 1.0, ..Values::default() };
        for path in [vec![stacks], vec![labels, main], vec![labels, main, main], vec![main]] {
            let stack = builder.stack(path);
            builder.add(stack, None, None, one, Values::default());
        }
        let profile = builder.finish();
        let sums = unattributed(&profile);
        let bytes = sums.iter().map(|(_, values)| values.inuse_bytes);
        assert_eq!(bytes.collect::<Vec<_>>(), [1.0, 0.0, 2.0]);
    }
}
