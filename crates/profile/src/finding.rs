//! Findings in a profile, as values: the text report, the API and the page word them.

use crate::query::Query;
use crate::view::top::top;
use crate::view::{Row, Totals};
use crate::{CallTree, Metric, Profile};

/// Share of all live bytes from which one function is a finding.
const LARGE_SHARE: f64 = 0.4;
/// Allocated bytes per live byte from which a program churns.
const CHURN_RATIO: f64 = 20.0;

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Against the baseline, a function holds more. Values: `bytes` (its growth), `baseline_bytes`
    /// (what it held), `total_bytes` (change of the whole program).
    Growth,
    /// One function holds a large part of the live bytes. Values: `bytes`, `blocks`, `share`.
    Concentration,
    /// One function allocates most of what is freed again. Values: `bytes` (allocated by it),
    /// `share` (of all allocated bytes), `allocated_bytes`, `live_bytes`.
    Churn,
}

impl FindingKind {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Growth => "growth",
            FindingKind::Concentration => "concentration",
            FindingKind::Churn => "churn",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// The function it is about, if it is about one.
    pub function: Option<String>,
    /// Its numbers by name; the kind determines which exist.
    pub values: Vec<(&'static str, f64)>,
}

/// The findings about a profile, most important first.
#[must_use]
pub fn findings(profile: &Profile, baseline: Option<&Profile>, query: &Query) -> Vec<Finding> {
    let ranked = |metric, baseline| ranked(profile, baseline, metric, query);
    let found = [
        baseline.and_then(|baseline| growth(ranked(Metric::InuseSpace, Some(baseline)))),
        concentration(ranked(Metric::InuseSpace, None)),
        churn(profile, || ranked(Metric::AllocSpace, None)),
    ];
    found.into_iter().flatten().collect()
}

/// The first row of `top` and the totals.
fn ranked(
    profile: &Profile,
    baseline: Option<&Profile>,
    metric: Metric,
    query: &Query,
) -> (Totals, Option<Row>) {
    let query = Query { metric, limit: Some(1), ..query.clone() };
    let top = top(&CallTree::compare(profile, baseline, &query), &query);
    (top.totals, top.rows.into_iter().next())
}

fn growth((totals, row): (Totals, Option<Row>)) -> Option<Finding> {
    let row = row.filter(|row| row.flat.value > 0.0)?;
    Some(Finding {
        kind: FindingKind::Growth,
        values: vec![
            ("bytes", row.flat.value),
            ("baseline_bytes", row.flat.base),
            ("total_bytes", totals.total.value),
        ],
        function: Some(row.frame.label.clone()),
    })
}

fn concentration((totals, row): (Totals, Option<Row>)) -> Option<Finding> {
    let (row, total) = (row?, totals.total.value);
    let share = row.flat.value / total;
    (total > 0.0 && share >= LARGE_SHARE).then(|| Finding {
        kind: FindingKind::Concentration,
        values: vec![("bytes", row.flat.value), ("blocks", row.flat.objects), ("share", share)],
        function: Some(row.frame.label.clone()),
    })
}

fn churn(profile: &Profile, ranked: impl FnOnce() -> (Totals, Option<Row>)) -> Option<Finding> {
    let total = profile.total();
    if total.alloc_bytes < CHURN_RATIO * total.inuse_bytes.max(1.0) {
        return None;
    }
    let (totals, row) = ranked();
    let row = row?;
    Some(Finding {
        kind: FindingKind::Churn,
        values: vec![
            ("bytes", row.flat.value),
            ("share", row.flat.value / totals.total.value.max(1.0)),
            ("allocated_bytes", total.alloc_bytes),
            ("live_bytes", total.inuse_bytes),
        ],
        function: Some(row.frame.label.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(profile: &Profile, baseline: Option<&Profile>) -> Vec<FindingKind> {
        findings(profile, baseline, &Query::default()).iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn one_function_that_holds_most_is_found() {
        let profile = crate::read(b"main;load 90\nmain;parse 10\n").expect("folded stacks");
        let found = findings(&profile, None, &Query::default());
        let values = vec![("bytes", 90.0), ("blocks", found[0].values[1].1), ("share", 0.9)];
        let function = Some("load".to_owned());
        assert_eq!(found, [Finding { kind: FindingKind::Concentration, function, values }]);
        let even = crate::read(b"main;a 30\nmain;b 30\nmain;c 30\n").expect("folded stacks");
        assert_eq!(kinds(&even, None), []);
    }

    #[test]
    fn growth_is_found() {
        let before = crate::read(b"main;a 30\nmain;b 30\nmain;c 30\n").expect("folded stacks");
        let after = crate::read(b"main;a 40\nmain;b 30\nmain;c 30\n").expect("folded stacks");
        let found = findings(&after, Some(&before), &Query::default());
        assert_eq!(found[0].values, [("bytes", 10.0), ("baseline_bytes", 30.0), ("total_bytes", 10.0)]);
    }
}
