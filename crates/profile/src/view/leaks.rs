//! Live stacks, grouped by the frame that allocated.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::top::descending;
use super::traces::{StackLimit, Trace};
use super::{OwnPlace, OwnPlaces, Totals};
use crate::call_tree::{CallTree, NodeId};
use crate::{Frame, FrameId, Profile, ProgramEnd, Query, Weight};

/// Classification of a block that is still allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeakClass {
    /// The end of the program is not known.
    #[default]
    Live,
    /// The program was running: the block is in use, perhaps rightly.
    StillHeld,
    /// The program ended without freeing it.
    NeverFreed,
}

impl LeakClass {
    /// Classification of the live blocks of `profile`: a program that ended never freed them.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        match profile.meta.end {
            ProgramEnd::Unknown => LeakClass::Live,
            // Frees after the end of recording are not in the profile.
            _ if profile.meta.recorded.stopped_ns.is_some() => LeakClass::Live,
            ProgramEnd::Running => LeakClass::StillHeld,
            end if end.has_ended() => LeakClass::NeverFreed,
            _ => LeakClass::Live,
        }
    }
}

/// Still-live memory, largest group first.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaks {
    /// The whole.
    pub totals: Totals,
    /// Meaning of the numbers.
    pub class: LeakClass,
    /// One per allocating frame.
    pub groups: Vec<LeakGroup>,
    /// Groups left out by the limit.
    pub dropped: usize,
}

/// Stacks that end in the same frame.
#[derive(Debug, Clone, PartialEq)]
pub struct LeakGroup {
    /// The allocating frame.
    pub site: Arc<Frame>,
    /// Sum of its stacks.
    pub weight: Weight,
    /// The largest stacks, largest first.
    pub stacks: Vec<Trace>,
    /// Number of its stacks, listed or not.
    pub stack_count: usize,
    /// The program's own code that it is allocated for, where a view looks for it.
    pub own: Option<OwnPlace>,
}

impl Leaks {
    /// The groups, each with the program's own code.
    #[must_use]
    pub fn with_own(mut self, places: &OwnPlaces<'_>) -> Self {
        self.groups.iter_mut().for_each(|group| group.own = places.of(&group.site));
        self
    }
}

/// Live memory according to `tree`, whose metric must be one of memory in use.
#[must_use]
pub fn leaks(tree: &CallTree, class: LeakClass, query: &Query, mut limit: StackLimit) -> Leaks {
    let mut by_site: FxHashMap<FrameId, (Weight, Vec<NodeId>)> = FxHashMap::default();
    for (id, node) in tree.frames_in_stacks() {
        if node.own.value != 0.0 {
            let (weight, stacks) = by_site.entry(node.frame).or_default();
            *weight += node.own;
            stacks.push(id);
        }
    }
    let label = |id: &FrameId| &tree.frames.get(*id).label;
    let mut ranked: Vec<_> = by_site.into_iter().collect();
    ranked.sort_by(|(a, (a_sum, _)), (b, (b_sum, _))| {
        descending(a_sum.value, b_sum.value).then_with(|| label(a).cmp(label(b)))
    });
    let shown = query.limit.unwrap_or(usize::MAX).min(ranked.len());
    let dropped = ranked.len() - shown;
    ranked.truncate(shown);
    let groups = ranked.into_iter().map(|(site, (weight, stacks))| LeakGroup {
        site: tree.frames.get(site).clone(),
        weight,
        stack_count: stacks.len(),
        stacks: group_stacks(tree, stacks, &mut limit),
        own: None,
    });
    Leaks { totals: Totals::of(tree), class, groups: groups.collect(), dropped }
}

fn group_stacks(tree: &CallTree, mut stacks: Vec<NodeId>, limit: &mut StackLimit) -> Vec<Trace> {
    let own = |id: &NodeId| tree.node(*id).own;
    stacks.sort_by(|a, b| descending(own(a).value, own(b).value).then_with(|| a.cmp(b)));
    let most = limit.per_group;
    let listed = stacks.into_iter().take(most);
    listed.map_while(|id| Some(Trace { frames: limit.take(tree, id)?, weight: own(&id) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn stacks_are_grouped_by_allocating_frame() {
        let program = profile("main;a;f;malloc 10 1\nmain;b;f;malloc 30 2\nmain;g 35 1\nmain;h 0 0");
        let query = Query::default();
        let tree = CallTree::new(&program, &query);
        let view = leaks(&tree, LeakClass::NeverFreed, &query, StackLimit::NONE);
        let groups: Vec<_> = view
            .groups
            .iter()
            .map(|group| {
                (group.site.label.as_str(), group.weight.value, group.weight.objects, group.stacks.len())
            })
            .collect();
        assert_eq!(groups, [("f", 40.0, 3.0, 2), ("g", 35.0, 1.0, 1)]);
        let largest: Vec<_> =
            view.groups[0].stacks[0].frames.iter().map(|frame| frame.label.as_str()).collect();
        assert_eq!(largest, ["f", "b", "main"]);
        let few = StackLimit { per_group: 1, frames: 4, ..StackLimit::NONE };
        let few = leaks(&tree, LeakClass::Live, &query, few).groups;
        let listed: Vec<_> = few.iter().map(|group| (group.stacks.len(), group.stack_count)).collect();
        assert_eq!(listed, [(1, 2), (0, 1)]);
    }
}
