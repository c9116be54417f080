//! Findings for the page, each with the view that goes deeper into it.

use std::borrow::Cow;

use heapwise_profile::finding::{Finding, FindingKind};
use heapwise_profile::metric::column;
use heapwise_profile::{Metric, query};
use heapwise_render::Language;
use heapwise_render::findings::{self as render, Names};
use serde_json::{Value, json};

/// The findings as the page reads them.
pub(crate) fn with_links(names: &Names<'_>, findings: &[Finding], language: Language) -> Vec<Value> {
    let one = |finding: &Finding| {
        let first = names.groups(finding).into_iter().next();
        let function = first.as_ref().map(|group| group.function.as_str());
        let link = link_of(finding, names.is_recording());
        let focus = function.filter(|_| link.view == "flame").map(query::exactly);
        let mut values = render::values(finding);
        values.insert("percent".into(), first.as_ref().map(|group| group.percent).into());
        json!({
            "kind": finding.kind.name(), "values": values, "function": function,
            "sentence": render::sentence(finding, first.as_ref(), language),
            "places": names.places(finding),
            "view": link.view, "focus": focus.unwrap_or_default(),
            "at": link.at, "sample_type": link.sample_type,
        })
    };
    findings.iter().map(one).collect()
}

/// A view: at which moment, of which numbers. `None`: at the moment on screen.
struct Link {
    view: &'static str,
    at: Option<Cow<'static, str>>,
    sample_type: &'static str,
}

fn link_of(finding: &Finding, is_recording: bool) -> Link {
    let at = |moment: &'static str| is_recording.then(|| Cow::from(moment));
    let link = |view, at, metric: Metric| Link { view, at, sample_type: metric.name() };
    match finding.kind {
        FindingKind::Peak if !is_recording => {
            Link { view: "flame", at: None, sample_type: column::PEAK_SPACE }
        }
        FindingKind::Peak => link("flame", at("peak"), Metric::InuseSpace),
        FindingKind::Growth => link("table", None, Metric::InuseSpace),
        FindingKind::PeakGrowth => Link { view: "table", at: None, sample_type: column::PEAK_SPACE },
        FindingKind::Fragmentation | FindingKind::Unexplained if !is_recording => {
            link("allocator", None, Metric::InuseSpace)
        }
        FindingKind::Fragmentation | FindingKind::Unexplained => link("overview", at(""), Metric::InuseSpace),
        FindingKind::Held => link("flame", None, Metric::InuseSpace),
        FindingKind::GrowingSites => {
            link("flame", Some(render::growth_range(finding).into()), Metric::InuseSpace)
        }
        FindingKind::NeverFreed | FindingKind::StillHeld => link("leaks", at("end"), Metric::InuseSpace),
        FindingKind::Temporaries => link("flame", at(""), Metric::AllocObjects),
        FindingKind::Turnover | FindingKind::ReallocChains => link("flame", at(""), Metric::AllocSpace),
        FindingKind::Sizes => link("breakdown", at(""), Metric::AllocObjects),
        FindingKind::Threads => link("flame", at(""), Metric::AllocObjects),
        FindingKind::Lifetimes | FindingKind::UnseenFrees => link("overview", at(""), Metric::InuseSpace),
    }
}
