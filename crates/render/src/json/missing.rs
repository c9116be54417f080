//! Lost and unattributed data of a profile, as JSON.

use heapwise_profile::view::Totals;
use heapwise_profile::{Losses, Metric, Profile, Values, unattributed};
use serde_json::{Map, Value, json};

use super::coverage::coverage;

/// One key per counter.
#[must_use]
pub fn lost(losses: &Losses) -> Map<String, Value> {
    let pairs = Losses::NAMES.into_iter().zip(losses.numbers());
    pairs.map(|(name, number)| (name.to_owned(), number.into())).collect()
}

/// One key per cause, each with the four shared numbers.
#[must_use]
pub fn per_cause(profile: &Profile) -> Map<String, Value> {
    let sums = unattributed::unattributed(profile);
    sums.iter().map(|(cause, values)| (cause.name().to_owned(), four(&values).into())).collect()
}

/// The four shared numbers as integers: `alloc_objects`, `alloc_bytes`, `inuse_objects`,
/// `inuse_bytes`.
#[must_use]
pub fn four(values: &Values) -> Map<String, Value> {
    let key = |metric| match metric {
        Metric::AllocSpace => "alloc_bytes",
        Metric::InuseSpace => "inuse_bytes",
        other => other.name(),
    };
    let number = |metric| (key(metric).to_owned(), super::integer(values.get(metric)));
    Metric::SHARED.into_iter().map(number).collect()
}

/// Adds to a view its `coverage`, and where there is something: `usable` (bytes are usable ones),
/// `unattributed` by cause in the view's metric, and `untracked` blocks and bytes.
pub(super) fn insert(fields: &mut Map<String, Value>, totals: &Totals) {
    if totals.usable {
        fields.insert("usable".into(), true.into());
    }
    fields.insert("coverage".into(), coverage(&totals.coverage));
    if let Some(base) = &totals.base_coverage {
        fields.insert("base_coverage".into(), coverage(base));
    }
    let missing = &totals.missing;
    if missing.unattributed.iter().any(|(_, weight)| weight.value != 0.0) {
        let causes = missing.unattributed.iter();
        let causes = causes.map(|(cause, weight)| (cause.name().to_owned(), super::integer(weight.value)));
        fields.insert("unattributed".into(), Value::Object(causes.collect()));
    }
    if missing.untracked_blocks > 0 {
        let (blocks, bytes) = (missing.untracked_blocks, missing.untracked_bytes);
        fields.insert("untracked".into(), json!({ "blocks": blocks, "bytes": bytes }));
    }
}
