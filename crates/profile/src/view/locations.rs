//! Amounts by code address: for annotated disassembly.

use super::Totals;
use crate::call_tree::select;
use crate::weigh::Weigher;
use crate::{CallTree, LocationId, Profile, Query};

/// What each location of a selection allocated.
#[derive(Debug, Clone)]
pub struct Locations {
    /// The whole.
    pub totals: Totals,
    /// The part of the profile that the query selects; ids below are of its tables.
    pub selection: Profile,
    /// By [`LocationId`]: allocated there.
    pub flat: Vec<f64>,
    /// By [`LocationId`]: allocated there and in what is called there.
    pub cum: Vec<f64>,
}

/// Amounts of every location. The query's granularity is not used.
#[must_use]
pub fn locations(profile: &Profile, query: &Query) -> Locations {
    let selection = select(profile, query);
    let (mut flat, mut cum) = (vec![0.0; selection.locations.len()], vec![0.0; selection.locations.len()]);
    let weigher = Weigher::new(&selection, query.metric, query.usable);
    let mut seen: Vec<LocationId> = Vec::new();
    for (row, sample) in selection.samples.iter().enumerate() {
        let value = weigher.weigh(row).value;
        flat[selection.stacks.location(sample.stack).index()] += value;
        seen.clear();
        seen.extend(selection.stacks.leaf_to_root(sample.stack).map(|node| selection.stacks.location(node)));
        seen.sort_unstable();
        seen.dedup();
        seen.iter().for_each(|location| cum[location.index()] += value);
    }
    let totals = Totals::of(&CallTree::new(profile, query));
    Locations { totals, selection, flat, cum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn a_recursive_call_counts_once_per_stack() {
        let program = profile("main;f;f;malloc 10 1\nmain;g 5 1");
        let view = locations(&program, &Query::default());
        let of = |name: &str| {
            let is_it = |function: &crate::Function| function.name == name;
            let place = view.selection.locations.iter().position(|location| {
                location.lines.iter().any(|line| is_it(&view.selection.functions[line.function.index()]))
            });
            place.map(|at| (view.flat[at], view.cum[at]))
        };
        assert_eq!(of("f"), Some((10.0, 10.0)));
        assert_eq!(of("main"), Some((0.0, 15.0)));
        assert_eq!(of("malloc"), None);
        assert_eq!(view.totals.total.value, 15.0);
    }
}
