//! The coverage of a profile as JSON: its line, and every gap with its words and numbers.

use heapwise_profile::coverage::{Coverage, Gap};
use heapwise_profile::{Began, Inherited, ProgramEnd, Sampling, Shortage, Shortages};
use serde_json::{Map, Value, json};

use crate::Language;
use crate::coverage as words;

/// `{"line", "source", "rate_bytes", "began", "end", "gaps": [{"kind", "words", …}]}`.
#[must_use]
pub fn coverage(coverage: &Coverage) -> Value {
    coverage_in(coverage, Language::English)
}

/// The coverage with its words in a language, for a person.
#[must_use]
pub fn coverage_in(coverage: &Coverage, language: Language) -> Value {
    let rate_bytes = match coverage.sampling {
        Sampling::Exact => None,
        Sampling::Poisson { mean_bytes } => Some(mean_bytes),
    };
    let (began, after_ns) = match coverage.began {
        Began::Unknown => ("unknown", None),
        Began::Never => ("never", None),
        Began::WithProgram => ("with_program", None),
        Began::Late { after_ns } => ("late", Some(after_ns)),
        Began::Reset { after_ns } => ("reset", Some(after_ns)),
    };
    json!({
        "line": words::line(coverage, language),
        "source": coverage.source,
        "rate_bytes": rate_bytes,
        "began": { "how": began, "after_ns": after_ns },
        "duration_ns": coverage.duration_ns,
        "end": end(coverage.end),
        "named_share": coverage.named,
        "gaps": coverage.gaps.iter().map(|gap| gap_json(gap, language)).collect::<Vec<_>>(),
    })
}

/// `{"how": "exited", "status": 0}`, `{"how": "killed", "signal": 9}`, `{"how": "running"}`.
#[must_use]
pub fn end(end: ProgramEnd) -> Value {
    match end {
        ProgramEnd::Unknown => json!({ "how": "unknown" }),
        ProgramEnd::Running => json!({ "how": "running" }),
        ProgramEnd::Exited { status } => json!({ "how": "exited", "status": status }),
        ProgramEnd::Killed { signal } => json!({ "how": "killed", "signal": signal }),
        ProgramEnd::Replaced => json!({ "how": "replaced" }),
    }
}

fn gap_json(gap: &Gap, language: Language) -> Value {
    let mut fields = Map::new();
    fields.insert("kind".into(), gap.name().into());
    fields.insert("words".into(), words::phrase(gap, language).into());
    fields.extend(gap_values(gap).into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

/// The values of a gap, by name.
fn gap_values(gap: &Gap) -> Vec<(&'static str, Value)> {
    let shortages = |set: Shortages| -> Value { set.iter().map(Shortage::name).collect::<Vec<_>>().into() };
    match gap {
        Gap::NeverRecorded => Vec::new(),
        Gap::Cut(cut) => vec![
            ("at", cut.at.to_string().into()),
            ("read_bytes", cut.share.map(|share| share.read_bytes).into()),
            ("stated_bytes", cut.share.map(|share| share.stated_bytes).into()),
        ],
        Gap::Runtime(runtime) => vec![("version", format!("{}.{}", runtime.major, runtime.minor).into())],
        Gap::OwnAllocator(function) => vec![("function", function.as_str().into())],
        Gap::Earlier { after_ns, frees } => {
            vec![("after_ns", (*after_ns).into()), ("frees", (*frees).into())]
        }
        Gap::BeforeReset { after_ns } => vec![("after_ns", (*after_ns).into())],
        Gap::Stopped { ns } => vec![("ns", (*ns).into())],
        Gap::Paused { times } => vec![("times", (*times).into())],
        Gap::Inherited(Inherited { bytes, parent }) => {
            vec![("bytes", (*bytes).into()), ("parent", (*parent).into())]
        }
        Gap::LostEvents { events, shortages: why } => {
            vec![("events", (*events).into()), ("reasons", shortages(*why))]
        }
        Gap::Untracked { blocks, bytes, shortages: why } => {
            vec![("blocks", (*blocks).into()), ("bytes", (*bytes).into()), ("reasons", shortages(*why))]
        }
        Gap::Unattributed { cause, values, shortages: why } => vec![
            ("lacking", cause.name().into()),
            ("values", super::missing::four(values).into()),
            ("reasons", shortages(*why)),
        ],
        Gap::BelowPeak { counted, peak } => vec![("counted", (*counted).into()), ("peak", (*peak).into())],
        Gap::InsideProbe { samples: count }
        | Gap::UnhookedBlocks { frees: count }
        | Gap::CutStacks { stacks: count }
        | Gap::BrokenStacks { stacks: count }
        | Gap::Threads(count)
        | Gap::Modules(count)
        | Gap::Marks(count) => vec![("count", (*count).into())],
    }
}
