//! Facts about the selected profile: what it is, how much it holds, how far it can be trusted.

use heapwise_profile::metric::Unit;
use heapwise_profile::{Metric, Profile, Sampling};
use serde_json::{Value, json};

use crate::findings;
use crate::http::Response;
use crate::selection::Selection;
use crate::source::Source;
use crate::trouble::Answer;

/// The answer of `GET …/summary`.
pub(super) fn summary(selection: &Selection) -> Value {
    let profile = &*selection.profile;
    let meta = &profile.meta;
    let losses = &meta.losses;
    json!({
        "profile": selection.name,
        "program": meta.program,
        "args": meta.args,
        "pid": meta.pid,
        "format": meta.source,
        "sampling_mean_bytes": match meta.sampling {
            Sampling::Exact => None,
            Sampling::Poisson { mean_bytes } => Some(mean_bytes),
        },
        "time_unix_ms": meta.time_unix_ns.map(|time| time / 1_000_000),
        "duration_ms": meta.duration_ns.map(|time| time / 1_000_000),
        "peak_bytes": meta.peak_bytes,
        "stacks": distinct_stacks(profile),
        "functions": profile.functions.len(),
        "threads": profile.threads.len(),
        "modules": profile.modules.len(),
        "losses": {
            "dropped_events": losses.dropped_events, "truncated_stacks": losses.truncated_stacks,
            "broken_stacks": losses.broken_stacks, "reentrant_events": losses.reentrant_events,
        },
        "comments": meta.comments,
        "sample_types": sample_types(selection),
    })
}

/// The answer of `GET …/findings`: what stands out in the recording, then in the profile.
pub(super) fn findings(source: &dyn Source, selection: &Selection) -> Answer {
    let mut all = source.findings()?;
    all.extend(findings::of_profile(selection));
    Ok(Response::json(json!({ "findings": all }).to_string()))
}

fn distinct_stacks(profile: &Profile) -> usize {
    let mut stacks: Vec<_> = profile.samples.iter().map(|sample| sample.stack).collect();
    stacks.sort_unstable();
    stacks.dedup();
    stacks.len()
}

/// Every number this profile has: live ones first, then allocated, then further columns.
fn sample_types(selection: &Selection) -> Vec<Value> {
    let total = selection.profile.total();
    let base = selection.base.as_ref().map(|base| base.total()).unwrap_or_default();
    let shared = [Metric::InuseSpace, Metric::InuseObjects, Metric::AllocSpace, Metric::AllocObjects];
    let mut types: Vec<Value> = shared
        .iter()
        .map(|metric| {
            let unit = match metric {
                Metric::InuseSpace | Metric::AllocSpace => Unit::Bytes,
                _ => Unit::Objects,
            };
            let (now, before) = (total.get(*metric), base.get(*metric));
            json!({
                "name": metric.name(), "unit": unit_name(unit),
                "total": (now - before).round() as i64, "base": before.round() as i64,
            })
        })
        .collect();
    types.extend(selection.profile.extra.iter().map(|column| {
        let sum: f64 = column.values.iter().sum();
        json!({ "name": column.name, "unit": unit_name(column.unit), "total": sum.round() as i64, "base": 0 })
    }));
    types
}

/// As the API names units.
pub(super) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Objects => "objects",
    }
}
