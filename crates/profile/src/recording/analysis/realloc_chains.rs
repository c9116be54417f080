//! Blocks that grow step by step through `realloc`: each step may copy everything before it.
//!
//! A chain begins with the first `realloc` of a block that `realloc` had not made; its length is
//! the number of `realloc`s after that, on average over the chains of a place.

use super::{Evidence, Site};
use crate::finding::{Finding, FindingKind, RankUnit};

/// Worth saying from this average length on.
const LEAST_LENGTH: u64 = 4;

pub(super) fn check(evidence: &Evidence<'_>) -> Option<Finding> {
    let is_long = |site: &Site| site.events.next_reallocs >= LEAST_LENGTH * site.events.first_reallocs.max(1);
    let steps = |site: &Site| if is_long(site) { site.events.next_reallocs } else { 0 };
    let places = evidence.largest(RankUnit::Blocks, steps);
    let site = evidence.sites().iter().max_by_key(|site| steps(site)).filter(|site| steps(site) > 0)?;
    let length = site.events.next_reallocs / site.events.first_reallocs.max(1) + 1;
    Some(Finding {
        kind: FindingKind::ReallocChains,
        values: vec![("steps", evidence.sum(steps) as f64), ("length", length as f64)],
        places,
        rows: Vec::new(),
    })
}
