//! Facts about the selected profile: what it is, how much it holds, how far it can be trusted.

use heapwise_format::segment::RuntimeLanguage;
use heapwise_profile::coverage::Coverage;
use heapwise_profile::finding::{ResidentMemory, most_important};
use heapwise_profile::metric::Unit;
use heapwise_profile::{Metric, Profile, Sampling, script};
use heapwise_render::Language;
use heapwise_render::findings::Names;
use heapwise_render::json::coverage;
use serde_json::{Value, json};

use crate::error::Result;
use crate::finding;
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
        "runtime": script::language(profile).map(RuntimeLanguage::name),
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
        "coverage": coverage::coverage_in(&Coverage::of(profile), language(parameters)),
        "comments": meta.comments,
        "sample_types": sample_types(report),
    })
}

/// The answer of `GET …/findings`: of a whole recording, or of the profile on screen.
pub(super) fn findings(source: &dyn Source, report: &Report, parameters: &QueryString) -> Result {
    let language = language(parameters);
    let of_recording = match report.baseline {
        Some(_) => None,
        None => source.findings(language)?,
    };
    let findings = match of_recording {
        Some(findings) => findings,
        None => {
            let names = Names::new(&report.profile, &report.own);
            let mut found = names.find(report.baseline.as_deref());
            let is_now = report.baseline.is_none() && parameters.given("profile").is_none();
            // A process that must not be read, or has ended, has its other findings.
            let memory = is_now.then(|| source.resident_memory().ok().flatten()).flatten();
            found.extend(memory.iter().flat_map(ResidentMemory::findings));
            finding::with_links(&names, &most_important(found), language)
        }
    };
    Ok(Response::json(json!({ "findings": findings }).to_string()))
}

/// The language of sentences: `lang=zh`.
fn language(parameters: &QueryString) -> Language {
    Language::of_locale(parameters.given("lang").unwrap_or_default())
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
        let (now, before) = (column.values.iter().sum::<f64>(), report.base_sum(&column.name));
        json!({
            "name": column.name, "unit": unit_name(column.unit),
            "total": (now - before).round() as i64, "base": before.round() as i64,
        })
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
