//! The ranking by allocated amount.

use std::cmp::Ordering;

use super::{OwnPlaces, Row, Totals};
use crate::call_tree::FrameTotals;
use crate::query::Order;
use crate::{CallTree, FrameId, Query, Weight};

/// Frames ranked by flat or cum, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// The whole.
    pub totals: Totals,
    /// The selected rows. Sums over the first rows are running sums of `flat`.
    pub rows: Vec<Row>,
    /// Rows left out by the limit.
    pub dropped: usize,
}

impl Top {
    /// The ranking, each row with the program's own code.
    #[must_use]
    pub fn with_own(mut self, places: &OwnPlaces<'_>) -> Self {
        self.rows.iter_mut().for_each(|row| row.own = places.of(&row.frame));
        self
    }

    /// Leaves out rows that read `0.0%` in both columns, then all but the first `most`.
    pub fn keep_notable(&mut self, most: usize) {
        let (all, least) = (self.rows.len(), self.totals.whole().abs() * LEAST_SHARE);
        self.rows.retain(|row| row.flat.value.abs().max(row.cum.value.abs()) >= least);
        self.rows.truncate(most);
        self.dropped += all - self.rows.len();
    }
}

/// Share of the whole below which a row reads `0.0%`.
const LEAST_SHARE: f64 = 0.0005;

/// Ranks the frames of `tree`.
#[must_use]
pub fn top(tree: &CallTree, query: &Query) -> Top {
    let totals = tree.frame_totals();
    let ranked = ranking(tree, &totals, query.order);
    let shown = query.limit.unwrap_or(usize::MAX).min(ranked.len());
    Top {
        totals: Totals::of(tree),
        rows: ranked[..shown].iter().map(|&id| row(tree, &totals, id)).collect(),
        dropped: ranked.len() - shown,
    }
}

/// Frames that count for something, largest first (of a comparison the largest absolute change);
/// ties by name, so that output is stable.
pub(super) fn ranking(tree: &CallTree, totals: &FrameTotals, order: Order) -> Vec<FrameId> {
    let key = |id: FrameId| {
        let value = match order {
            Order::Flat | Order::FlatThenCum => totals.flat[id.index()].value,
            Order::Cum => totals.cum[id.index()].value,
        };
        if tree.compared { value.abs() } else { value }
    };
    let mut ids: Vec<FrameId> = (0..tree.frames.all().len())
        .map(|at| FrameId(u32::try_from(at).unwrap_or(u32::MAX)))
        .filter(|id| counts(&totals.flat[id.index()]) || counts(&totals.cum[id.index()]))
        .collect();
    let cum = |id: FrameId| match order {
        Order::FlatThenCum => totals.cum[id.index()].value,
        Order::Flat | Order::Cum => 0.0,
    };
    ids.sort_by(|a, b| {
        let values = descending(key(*a), key(*b)).then_with(|| descending(cum(*a), cum(*b)));
        values.then_with(|| tree.frames.get(*a).label.cmp(&tree.frames.get(*b).label))
    });
    ids
}

/// Whether a row is shown: a difference of zero is not.
fn counts(weight: &Weight) -> bool {
    weight.value != 0.0
}

pub(super) fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

pub(super) fn row(tree: &CallTree, totals: &FrameTotals, id: FrameId) -> Row {
    let (flat, cum) = (totals.flat[id.index()], totals.cum[id.index()]);
    Row { frame: tree.frames.get(id).clone(), flat, cum, own: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;
    use crate::query::{Filter, Granularity, LeafCut, NameStyle, Regex, ThreadFilter};

    const PROGRAM: &str = "
        main;parse;malloc 10 1
        main;parse;read_all;operator_new/malloc;je_arena 30 3
        main;serve;serve;alloc_row;malloc 50 5
        main;serve;cache 5 1
        lib.so!?;malloc 5 1";

    fn rows(text: &str, query: &Query) -> Vec<(String, f64, f64)> {
        let tree = CallTree::new(&profile(text), query);
        let rows = top(&tree, query).rows.into_iter();
        rows.map(|row| (row.frame.label.clone(), row.flat.value, row.cum.value)).collect()
    }

    fn expect(actual: Vec<(String, f64, f64)>, expected: &[(&str, f64, f64)]) {
        let actual: Vec<_> = actual.iter().map(|(name, flat, cum)| (name.as_str(), *flat, *cum)).collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn flat_and_cum_without_the_allocator_and_with_recursion_counted_once() {
        expect(
            rows(PROGRAM, &Query::default()),
            &[
                ("alloc_row", 50.0, 50.0),
                ("operator_new", 30.0, 30.0),
                ("parse", 10.0, 40.0),
                ("cache", 5.0, 5.0),
                ("lib.so+0x234", 5.0, 5.0),
                ("main", 0.0, 95.0),
                ("read_all", 0.0, 30.0),
                ("serve", 0.0, 55.0),
            ],
        );
    }

    #[test]
    fn order_by_cum_with_a_limit() {
        let query = Query { order: Order::Cum, limit: Some(2), ..Query::default() };
        expect(rows(PROGRAM, &query), &[("main", 0.0, 95.0), ("serve", 0.0, 55.0)]);
        let tree = CallTree::new(&profile(PROGRAM), &query);
        assert_eq!(top(&tree, &query).dropped, 6);
    }

    #[test]
    fn rows_of_no_note_are_left_out() {
        let query = Query::default();
        let mut view = top(&CallTree::new(&profile("main;a 9996 1\nmain;b 3 1\nmain;c 2 1"), &query), &query);
        view.keep_notable(5);
        let labels: Vec<&str> = view.rows.iter().map(|row| row.frame.label.as_str()).collect();
        assert_eq!((labels, view.dropped), (vec!["a", "main"], 2));
        view.keep_notable(1);
        assert_eq!((view.rows.len(), view.dropped), (1, 3));
    }

    #[test]
    fn script_frames_stand_above_the_allocator_whatever_their_names() {
        let text = "main;vm;je_malloc;arena;!quest:12;!malloc:3 10 1";
        expect(
            rows(text, &Query::default()),
            &[
                ("malloc app.c", 10.0, 10.0),
                ("main", 0.0, 10.0),
                ("quest app.c", 0.0, 10.0),
                ("vm", 0.0, 10.0),
            ],
        );
    }

    #[test]
    fn allocator_frames_are_kept_on_request() {
        let query = Query { leaf_cut: LeafCut::Nothing, limit: Some(2), ..Query::default() };
        expect(rows(PROGRAM, &query), &[("malloc", 65.0, 95.0), ("je_arena", 30.0, 30.0)]);
    }

    #[test]
    fn focus_ignore_and_totals() {
        let query = Query {
            filter: Filter {
                focus: Regex::new("^serve$").ok(),
                ignore: Regex::new("cache").ok(),
                ..Filter::default()
            },
            ..Query::default()
        };
        expect(
            rows(PROGRAM, &query),
            &[("alloc_row", 50.0, 50.0), ("main", 0.0, 50.0), ("serve", 0.0, 50.0)],
        );
        let totals = top(&CallTree::new(&profile(PROGRAM), &query), &query).totals;
        assert_eq!((totals.grand_total.value, totals.total.value), (100.0, 50.0));
    }

    #[test]
    fn patterns_match_source_lines_and_jeprofs_match_addresses() {
        let text = "main:3;f:10;malloc 4 1\nmain:3;f:11;malloc 6 1\nlib.so!?;malloc 2 1";
        let focused = |focus: &str, names| Query {
            names,
            filter: Filter { focus: Regex::new(focus).ok(), ..Filter::default() },
            ..Query::default()
        };
        expect(rows(text, &focused(r"app\.c:11$", NameStyle::Short)), &[("f", 6.0, 6.0), ("main", 0.0, 6.0)]);
        expect(rows(text, &focused(r"app\.c:11", NameStyle::Jeprof)), &[("f", 6.0, 6.0), ("main", 0.0, 6.0)]);
        expect(rows(text, &focused("^app.c$", NameStyle::Jeprof)), &[]);
        let address = "0x0000000000002234";
        expect(rows(text, &focused("2234", NameStyle::Jeprof)), &[(address, 2.0, 2.0)]);
    }

    #[test]
    fn hidden_frames_give_their_bytes_to_their_callers_and_cut_frames_match_nothing() {
        let query = Query {
            filter: Filter {
                hide: Regex::new("alloc_row|^main").ok(),
                ignore: Regex::new("je_arena").ok(),
                ..Filter::default()
            },
            limit: Some(2),
            ..Query::default()
        };
        expect(rows(PROGRAM, &query), &[("serve", 50.0, 55.0), ("operator_new", 30.0, 30.0)]);
    }

    #[test]
    fn granularities() {
        let text = "main:3;f:10;malloc 4 1\nmain:3;f:11;malloc 6 1\nlib.so!g 2 1";
        let by = |granularity, names| Query { granularity, names, ..Query::default() };
        expect(
            rows(text, &by(Granularity::Lines, NameStyle::Short)),
            &[
                ("f app.c:11", 6.0, 6.0),
                ("f app.c:10", 4.0, 4.0),
                ("g", 2.0, 2.0),
                ("main app.c:3", 0.0, 10.0),
            ],
        );
        expect(
            rows(text, &by(Granularity::Files, NameStyle::Short)),
            &[("app.c", 10.0, 10.0), ("[lib.so]", 2.0, 2.0)],
        );
        expect(
            rows(text, &by(Granularity::Modules, NameStyle::Short)),
            &[("app", 10.0, 10.0), ("lib.so", 2.0, 2.0)],
        );
        let jeprof = rows(text, &by(Granularity::Lines, NameStyle::Jeprof));
        assert_eq!(jeprof[2].0, "g ??:?");
    }

    #[test]
    fn thread_filter() {
        let text = "main;f 4 1 7\nmain;f 6 1 8\nmain;f 1 1";
        let only = |thread| Query {
            filter: Filter { thread: Some(thread), ..Filter::default() },
            ..Query::default()
        };
        let expected = [("f", 6.0, 6.0), ("main", 0.0, 6.0)];
        expect(rows(text, &only(ThreadFilter::Tid(8))), &expected);
        let named = ThreadFilter::Name(Regex::new("-8$").unwrap());
        expect(rows(text, &only(named)), &expected);
    }

    #[test]
    fn a_difference_is_signed_and_matched_by_name() {
        // `f` moved to another address and module order; `gone` is only in the base.
        let now = profile("other.so!x 1 1\nmain;f 10 2");
        let before = profile("main;f 4 1\nmain;gone 3 1\nmain;same 2 1");
        let same = profile("other.so!x 1 1\nmain;f 10 2\nmain;same 2 1");
        let query = Query::default();
        let tree = CallTree::compare(&same, Some(&before), &query);
        let view = top(&tree, &query);
        let rows: Vec<_> =
            view.rows.iter().map(|row| (row.frame.label.as_str(), row.flat.value, row.flat.base)).collect();
        assert_eq!(rows, [("f", 6.0, 4.0), ("gone", -3.0, 3.0), ("x", 1.0, 0.0), ("main", 0.0, 0.0)]);
        assert_eq!(view.totals.total.value, 4.0);
        assert_eq!(view.totals.whole(), 9.0);

        let subtracted = crate::diff::subtract(&now, &before);
        let rows = top(&CallTree::new(&subtracted, &query), &query).rows;
        let values: Vec<_> = rows.iter().map(|row| (row.frame.label.as_str(), row.flat.value)).collect();
        assert_eq!(values, [("f", 6.0), ("x", 1.0), ("main", 0.0), ("same", -2.0), ("gone", -3.0)]);
    }

    #[test]
    fn standard_errors_add_in_squares() {
        let mut sampled = profile("main;f 10 1\nmain;g;f 10 1");
        for (sample, deviation) in sampled.samples.iter_mut().zip([3.0_f64, 4.0]) {
            sample.variance.inuse_bytes = deviation * deviation;
        }
        let query = Query::default();
        let rows = top(&CallTree::new(&sampled, &query), &query).rows;
        assert_eq!(rows[0].flat.standard_error(), 5.0);
    }
}
