//! Unattributed and possibly missing memory of a total: part of every header.

use heapwise_profile::Losses;
use heapwise_profile::call_tree::Missing;
use heapwise_profile::metric::Unit;
use heapwise_profile::view::Totals;

use heapwise_profile::quantity;

use crate::amount::{Amounts, percent};

/// One line per fact, none when everything is attributed and tracked.
#[must_use]
pub fn lines(totals: &Totals, amounts: Amounts) -> Vec<String> {
    let Missing { untracked_blocks, untracked_bytes, .. } = totals.missing;
    let untracked = untracked(untracked_blocks, untracked_bytes, amounts);
    [unattributed(totals, amounts), untracked].into_iter().flatten().collect()
}

/// The same of a recording as a whole, for reports that are not sums of stacks: timeline and
/// summary.
#[must_use]
pub fn of_losses(losses: &Losses, amounts: Amounts) -> Vec<String> {
    let dropped = losses.dropped_events;
    let plural = if dropped == 1 { "" } else { "s" };
    let events = (dropped > 0).then(|| format!("Dropped: {dropped} event{plural}; numbers lack them"));
    let untracked = untracked(losses.untracked_blocks, losses.untracked_bytes, amounts);
    [events, untracked].into_iter().flatten().collect()
}

/// `Unattributed: 1.20 MiB (3.4%), no room for: stacks 1.00 MiB, labels 200 KiB`.
fn unattributed(totals: &Totals, amounts: Amounts) -> Option<String> {
    let causes: Vec<_> =
        totals.missing.unattributed.iter().filter(|(_, weight)| weight.value != 0.0).collect();
    let sum: f64 = causes.iter().map(|(_, weight)| weight.value).sum();
    // Of a comparison, the part of what is there now.
    let whole = totals.grand_total.value + totals.grand_total.base;
    let parts: Vec<String> = causes
        .iter()
        .map(|(cause, weight)| format!("{} {}", cause.name(), amount(weight.value, totals.unit, amounts)))
        .collect();
    (!causes.is_empty()).then(|| {
        let (sum, share) = (amount(sum, totals.unit, amounts), percent(sum, whole));
        format!("Unattributed: {sum} ({share}), no room for: {}", parts.join(", "))
    })
}

/// `Untracked: 12 blocks, 1.20 MiB: live memory may be up to that much higher`.
fn untracked(blocks: u64, bytes: u64, amounts: Amounts) -> Option<String> {
    (blocks > 0).then(|| {
        let bytes = amount(bytes as f64, Unit::Bytes, amounts);
        let plural = if blocks == 1 { "" } else { "s" };
        format!("Untracked: {blocks} block{plural}, {bytes}: live memory may be up to that much higher")
    })
}

/// Small parts of a large total are not rounded to `0.0 MB`.
fn amount(value: f64, unit: Unit, amounts: Amounts) -> String {
    match (unit, amounts) {
        (Unit::Bytes, Amounts::Megabytes | Amounts::Human) => quantity::bytes(value),
        _ => amounts.with_unit(value, unit),
    }
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::unattributed::Cause;
    use heapwise_profile::{CallTree, Metric, Profile, Query, view};

    use super::*;
    use crate::text::{TextOptions, leaks, sizes, table, top};

    fn program() -> Profile {
        let mut profile = profile("main;f 3145728 1\nlost 1048576 3\nlabel;g 1024 1");
        for function in &mut profile.functions {
            match function.name.as_str() {
                "lost" => function.name = Cause::Stacks.frame().to_owned(),
                "label" => function.name = Cause::Labels.frame().to_owned(),
                _ => {}
            }
        }
        profile.meta.losses.untracked_blocks = 2;
        profile.meta.losses.untracked_bytes = 2048;
        profile
    }

    #[test]
    fn every_header_tells_what_is_missing() {
        let (profile, query) = (program(), Query::default());
        let tree = CallTree::new(&profile, &query);
        let options = TextOptions::default();
        let texts = [
            top::top(&view::top::top(&tree, &query), &options),
            leaks::leaks(
                &view::leaks::leaks(
                    &tree,
                    view::leaks::LeakClass::Live,
                    &query,
                    view::leaks::StackLimit::NONE,
                ),
                &options,
            ),
            sizes::sizes(&view::sizes::sizes(&profile, &tree, &query), &options),
            table::threads(&view::threads::threads(&profile, &query), &options),
            table::modules(&view::modules::modules(&profile, None, &query), &options),
        ];
        for text in texts {
            let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
            assert_eq!(
                lines,
                [
                    "Unattributed: 1.00 MiB (25.0%), no room for: stacks 1.00 MiB, labels 1.00 KiB",
                    "Untracked: 2 blocks, 2.00 KiB: live memory may be up to that much higher",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn totals_of_allocations_lack_nothing() {
        let query = Query { metric: Metric::AllocObjects, ..Query::default() };
        let totals = Totals::of(&CallTree::new(&program(), &query));
        assert_eq!(
            lines(&totals, Amounts::default()),
            ["Unattributed: 4 objects (80.0%), no room for: stacks 3 objects, labels 1 objects"]
        );
    }

    #[test]
    fn a_recording_tells_what_it_dropped() {
        let losses = Losses { dropped_events: 1, ..program().meta.losses };
        assert_eq!(
            of_losses(&losses, Amounts::Bytes),
            [
                "Dropped: 1 event; numbers lack them",
                "Untracked: 2 blocks, 2048 B: live memory may be up to that much higher"
            ]
        );
    }

    #[test]
    fn a_complete_profile_says_nothing() {
        let totals = Totals::of(&CallTree::new(&profile("main 1 1"), &Query::default()));
        assert!(lines(&totals, Amounts::default()).is_empty());
    }
}
