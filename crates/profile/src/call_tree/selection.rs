//! The part of a profile that a query selects, as a profile of its own: for writers of other
//! formats. Stacks are filtered and frames removed as in a [`CallTree`](super::CallTree).

use rustc_hash::FxHashMap;

use super::path::{Seen, walk_down};
use crate::frame_table::{FrameTable, Steps};
use crate::model::ExtraColumn;
use crate::query::Query;
use crate::{Location, LocationId, Profile, Sample, SizeHistogram, StackId};

/// The samples that pass the filter of `query`, on stacks without the frames that it removes.
#[must_use]
pub fn select(profile: &Profile, query: &Query) -> Profile {
    let steps = Steps::resolve(profile, query, &mut FrameTable::default());
    let seen = walk_down(profile, &steps);
    let mut reshaper = Reshaper::new(profile);
    let ends = reshaper.reshape(&steps, &seen);
    let mut selected = reshaper.selected;
    let mut rows = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let passes = seen[sample.stack.index()].passes(&query.filter)
            && query.filter.passes_thread(profile, sample.thread);
        if let Some(stack) = ends[sample.stack.index()].filter(|_| passes) {
            selected.samples.push(Sample { stack, ..sample.clone() });
            rows.push(row);
        }
    }
    for column in &profile.extra {
        let values = rows.iter().map(|row| column.values[*row]).collect();
        selected.extra.push(ExtraColumn { values, ..column.clone() });
    }
    // The histogram is that of the whole process.
    if rows.len() == profile.samples.len() {
        selected.sizes = profile.sizes.clone();
    }
    selected
}

/// Stacks without removed frames, in a new profile.
struct Reshaper<'a> {
    profile: &'a Profile,
    selected: Profile,
    /// By location and the first and last of its lines that stay.
    locations: FxHashMap<(LocationId, Vec<usize>), LocationId>,
}

impl<'a> Reshaper<'a> {
    fn new(profile: &'a Profile) -> Self {
        let selected = Profile {
            stacks: crate::StackTable::default(),
            samples: Vec::new(),
            extra: Vec::new(),
            sizes: SizeHistogram::default(),
            locations: Vec::new(),
            ..profile.clone()
        };
        Self { profile, selected, locations: FxHashMap::default() }
    }

    /// The new stack of each stack; `None` where no frame stays. Frames of the runtime stay only
    /// between frames of the program.
    fn reshape(&mut self, steps: &Steps, seen: &[Seen]) -> Vec<Option<StackId>> {
        let stacks = &self.profile.stacks;
        let mut whole: Vec<Option<StackId>> = vec![None; stacks.len()];
        let mut ends = whole.clone();
        for stack in stacks.ids() {
            let parent = stacks.parent(stack).map(StackId::index);
            let (mut state, caller, mut end) = match parent {
                Some(parent) => (seen[parent], whole[parent], ends[parent]),
                None => (Seen::default(), None, None),
            };
            let location = stacks.location(stack);
            let (mut kept, mut own) = (Vec::new(), 0);
            for (at, step) in steps.of(location).iter().enumerate() {
                if state.enter(step.flags) && !step.flags.hidden {
                    kept.push(at);
                    let is_alone = end.is_none() && own == 0;
                    own = if step.flags.runtime && !is_alone { own } else { kept.len() };
                }
            }
            if own > 0 {
                end = Some(self.child(caller, location, &kept[..own]));
            }
            whole[stack.index()] =
                if kept.is_empty() { caller } else { Some(self.child(caller, location, &kept)) };
            ends[stack.index()] = end;
        }
        ends
    }

    /// `location` with only the functions `kept`, counted from the outermost, called from `caller`.
    fn child(&mut self, caller: Option<StackId>, location: LocationId, kept: &[usize]) -> StackId {
        let Profile { locations, stacks, .. } = &mut self.selected;
        let old = &self.profile.locations[location.index()];
        let new = *self.locations.entry((location, kept.to_vec())).or_insert_with(|| {
            let outermost = old.lines.len().saturating_sub(1);
            let lines = kept.iter().rev().filter_map(|at| old.lines.get(outermost - at)).copied().collect();
            locations.push(Location { lines, ..old.clone() });
            LocationId::new(locations.len() - 1)
        });
        stacks.child(caller, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;
    use crate::query::{Filter, Regex};
    use crate::{CallTree, view};

    /// Rows of a table, by name.
    fn rows(profile: &Profile, query: &Query) -> Vec<(String, f64, f64)> {
        let top = view::top::top(&CallTree::new(profile, query), query);
        top.rows.iter().map(|row| (row.frame.label.clone(), row.flat.value, row.cum.value)).collect()
    }

    #[test]
    fn a_selection_is_what_the_tree_of_the_query_shows() {
        let program = profile(
            "main;parse;malloc;arena 10 1
             main;parse/read/alloc::alloc::alloc;__rust_alloc;malloc 30 3
             main;serve;std::allocator::allocate;my_pool;malloc 50 5
             main;serve;cache 5 1 7",
        );
        let whole = crate::query::LeafCut::Nothing;
        for filter in [
            Filter::default(),
            Filter { focus: Regex::new("serve").ok(), ..Filter::default() },
            Filter { ignore: Regex::new("cache").ok(), hide: Regex::new("^main").ok(), ..Filter::default() },
            Filter { show: Regex::new("read|pool").ok(), ..Filter::default() },
        ] {
            let query = Query { filter, ..Query::default() };
            let selected = select(&program, &query);
            let all = Query { leaf_cut: whole, ..Query::default() };
            assert_eq!(rows(&selected, &all), rows(&program, &query), "{:?}", query.filter);
        }
    }

    #[test]
    fn runtime_frames_are_cut_at_the_leaf_only() {
        let program = profile(
            "main;grow;std::allocator::allocate;malloc 1 1
             main;grow;std::allocator::allocate;my_pool;malloc 2 1",
        );
        let expected = [
            ("my_pool", 2.0, 2.0),
            ("grow", 1.0, 3.0),
            ("main", 0.0, 3.0),
            ("std::allocator::allocate", 0.0, 2.0),
        ];
        let expected = expected.map(|(name, flat, cum)| (name.to_owned(), flat, cum));
        assert_eq!(rows(&program, &Query::default()), expected);
    }
}
