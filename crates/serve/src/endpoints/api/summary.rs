//! Facts about the selected profile: what it is, how much it holds, how far it can be trusted.

use heapwise_profile::coverage::Coverage;
use heapwise_profile::finding::{self, Finding, FindingKind};
use heapwise_profile::metric::Unit;
use heapwise_profile::{Metric, Profile, Sampling, query};
use heapwise_render::json::coverage;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::http::{QueryString, Response};
use crate::source::Source;
use heapwise_capture::report_input::Report;

/// The answer of `GET …/summary`.
pub(super) fn summary(report: &Report, parameters: &QueryString) -> Value {
    let profile = &*report.profile;
    let meta = &profile.meta;
    json!({
        "profile": parameters.given("profile").unwrap_or("now"),
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
        "losses": heapwise_render::json::missing::lost(&meta.losses),
        "unattributed": heapwise_render::json::missing::per_cause(profile),
        "coverage": coverage::coverage(&Coverage::of(profile)),
        "comments": meta.comments,
        "sample_types": sample_types(report),
    })
}

/// The answer of `GET …/findings`: findings in the recording, then in the profile.
pub(super) fn findings(source: &dyn Source, report: &Report) -> Result {
    let mut all = source.findings()?;
    let of_profile = finding::findings(&report.profile, report.baseline.as_deref(), &report.query);
    all.extend(of_profile.iter().map(finding_json));
    Ok(Response::json(json!({ "findings": all }).to_string()))
}

/// One finding, and the view that goes deeper into it.
fn finding_json(finding: &Finding) -> Value {
    let function = finding.function.as_deref();
    let exactly = function.map(query::exactly);
    let (view, focus, metric) = match finding.kind {
        FindingKind::Growth => ("diff", None, Metric::InuseSpace),
        FindingKind::Concentration => ("flame", exactly, Metric::InuseSpace),
        FindingKind::Churn => ("flame", exactly, Metric::AllocSpace),
    };
    let values: Map<String, Value> =
        finding.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "kind": finding.kind.name(), "values": values, "function": function,
        "view": view, "focus": focus.unwrap_or_default(), "sample_type": metric.name(),
    })
}

fn distinct_stacks(profile: &Profile) -> usize {
    let mut stacks: Vec<_> = profile.samples.iter().map(|sample| sample.stack).collect();
    stacks.sort_unstable();
    stacks.dedup();
    stacks.len()
}

/// Every number this profile has: live ones first, then allocated, then further columns.
fn sample_types(report: &Report) -> Vec<Value> {
    let total = report.profile.total();
    let base = report.baseline.as_ref().map(|base| base.total()).unwrap_or_default();
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
    types.extend(report.profile.extra.iter().map(|column| {
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
