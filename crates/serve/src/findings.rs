//! What stands out in a profile: a short list of sentences with numbers, each leading to a view.

use heapwise_profile::query::Query as Question;
use heapwise_profile::view::top::top;
use heapwise_profile::view::{Row, Summary};
use heapwise_profile::{CallTree, Metric};
use serde_json::{Value, json};

use super::selection::Selection;

/// Share of the whole from which one function is worth a sentence.
const LARGE_SHARE: f64 = 0.4;
/// Allocated bytes per live byte from which a site counts as churning.
const CHURN: f64 = 20.0;

/// The findings of a selection, most important first.
pub(super) fn of_profile(selection: &Selection) -> Vec<Value> {
    let mut found: Vec<Value> =
        [grown(selection), concentrated(selection), churning(selection), lost(selection)]
            .into_iter()
            .flatten()
            .collect();
    found.truncate(6);
    found
}

fn ranked(selection: &Selection, metric: Metric, compared: bool) -> (Summary, Vec<Row>) {
    let question = Question { metric, limit: Some(1), ..selection.question.clone() };
    let base = selection.base.as_deref().filter(|_| compared);
    let top = top(&CallTree::compare(&selection.profile, base, &question), &question);
    (top.summary, top.rows)
}

fn finding(title: String, detail: String, view: &str, focus: &str) -> Value {
    let focus = if focus.is_empty() { String::new() } else { format!("^{}$", escape(focus)) };
    json!({ "title": title, "detail": detail, "view": view, "focus": focus })
}

/// Against a base: who grew most.
fn grown(selection: &Selection) -> Option<Value> {
    selection.base.as_ref()?;
    let (summary, rows) = ranked(selection, Metric::InuseSpace, true);
    let row = rows.first().filter(|row| row.flat.value > 0.0)?;
    let title = format!("{} grew by {}", row.frame.label, exact_bytes(row.flat.value));
    let detail = format!("from {}; all together {}", exact_bytes(row.flat.base), signed(summary.total.value));
    Some(finding(title, detail, "diff", ""))
}

/// One function holds a large part.
fn concentrated(selection: &Selection) -> Option<Value> {
    let (summary, rows) = ranked(selection, Metric::InuseSpace, false);
    let row = rows.first()?;
    let share = row.flat.value / summary.total.value;
    if summary.total.value <= 0.0 || share < LARGE_SHARE {
        return None;
    }
    let title = format!("{} holds {:.0} % of the live bytes", row.frame.label, share * 100.0);
    let blocks = row.flat.objects;
    let detail = format!(
        "{} in {blocks:.0} blocks of {} on average",
        exact_bytes(row.flat.value),
        exact_bytes(row.flat.value / blocks.max(1.0))
    );
    Some(finding(title, detail, "flame", &row.frame.label))
}

/// One function allocates far more than it keeps.
fn churning(selection: &Selection) -> Option<Value> {
    let total = selection.profile.total();
    if total.alloc_bytes < CHURN * total.inuse_bytes.max(1.0) {
        return None;
    }
    let (summary, rows) = ranked(selection, Metric::AllocSpace, false);
    let row = rows.first()?;
    let title = format!("{} allocates most of what is freed again", row.frame.label);
    let share = row.flat.value / summary.total.value.max(1.0) * 100.0;
    let detail = format!(
        "{} of {} allocated ({share:.0} %), {} live",
        exact_bytes(row.flat.value),
        exact_bytes(total.alloc_bytes),
        exact_bytes(total.inuse_bytes)
    );
    Some(finding(title, detail, "flame", &row.frame.label))
}

/// What was missed belongs to the report.
fn lost(selection: &Selection) -> Option<Value> {
    let losses = &selection.profile.meta.losses;
    (losses.dropped_events > 0).then(|| {
        let title = format!("{} events were lost", losses.dropped_events);
        finding(title, "numbers are too small by what was missed".into(), "allocator", "")
    })
}

/// Numbers of the API are exact; the page makes them short.
fn exact_bytes(value: f64) -> String {
    format!("{value:.0} bytes")
}

fn signed(bytes: f64) -> String {
    format!("{}{}", if bytes > 0.0 { "+" } else { "" }, exact_bytes(bytes))
}

/// A pattern that matches exactly this name, for engines of both ends.
fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
