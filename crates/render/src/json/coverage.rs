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
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    let shortages = |set: Shortages| -> Value { set.iter().map(Shortage::name).collect::<Vec<_>>().into() };
    match gap {
        Gap::NeverRecorded => {}
        Gap::Cut(cut) => {
            put("at", cut.at.to_string().into());
            put("read_bytes", cut.share.map(|share| share.read_bytes).into());
            put("stated_bytes", cut.share.map(|share| share.stated_bytes).into());
        }
        Gap::Runtime(runtime) => {
            put("version", format!("{}.{}", runtime.major, runtime.minor).into());
        }
        Gap::OwnAllocator(function) => drop(put("function", function.as_str().into())),
        Gap::Earlier { after_ns, frees } => {
            put("after_ns", (*after_ns).into());
            put("frees", (*frees).into());
        }
        Gap::BeforeReset { after_ns } => drop(put("after_ns", (*after_ns).into())),
        Gap::Stopped { ns } => drop(put("ns", (*ns).into())),
        Gap::Paused { times } => drop(put("times", (*times).into())),
        Gap::Inherited(Inherited { bytes, parent }) => {
            put("bytes", (*bytes).into());
            put("parent", (*parent).into());
        }
        Gap::LostEvents { events, shortages: why } => {
            put("events", (*events).into());
            put("reasons", shortages(*why));
        }
        Gap::Untracked { blocks, bytes, shortages: why } => {
            put("blocks", (*blocks).into());
            put("bytes", (*bytes).into());
            put("reasons", shortages(*why));
        }
        Gap::Unattributed { cause, values, shortages: why } => {
            put("lacking", cause.name().into());
            put("values", super::missing::four(values).into());
            put("reasons", shortages(*why));
        }
        Gap::BelowPeak { counted, peak } => {
            put("counted", (*counted).into());
            put("peak", (*peak).into());
        }
        Gap::InsideProbe { samples: count }
        | Gap::UnhookedBlocks { frees: count }
        | Gap::CutStacks { stacks: count }
        | Gap::BrokenStacks { stacks: count }
        | Gap::Threads(count)
        | Gap::Modules(count)
        | Gap::Marks(count) => drop(put("count", (*count).into())),
    }
    Value::Object(fields)
}
