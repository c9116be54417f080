//! Findings in words and as JSON, with the functions that they are about.

use heapwise_profile::finding::{
    self, Finding, FindingClass, FindingKind, FindingRow, FunctionGroup, MOST_GROUPS, RankUnit,
};
use heapwise_profile::own_code::CodeFrames;
use heapwise_profile::printable::printable;
use heapwise_profile::{Profile, quantity};
use serde_json::{Map, Value, json};

/// The profile that names the places of findings.
#[derive(Debug)]
pub struct Names<'a> {
    profile: &'a Profile,
    code: CodeFrames,
}

impl<'a> Names<'a> {
    /// Names from `profile`, which has symbols.
    #[must_use]
    pub fn new(profile: &'a Profile) -> Self {
        Self { code: CodeFrames::new(profile), profile }
    }

    /// Names from `profile`, which has the stacks of a recording and no samples.
    #[must_use]
    pub fn of_recording(profile: &'a Profile, findings: &[Finding]) -> Self {
        let places = findings.iter().flat_map(|finding| &finding.places);
        let weights = places.filter_map(|place| Some((place.stack?, place.value as f64)));
        Self { code: CodeFrames::weighted(profile, weights), profile }
    }

    /// The findings in the profile itself.
    #[must_use]
    pub fn find(&self, baseline: Option<&Profile>) -> Vec<Finding> {
        finding::findings(self.profile, &self.code, baseline)
    }

    /// The functions of a finding, largest first.
    #[must_use]
    pub fn groups(&self, finding: &Finding) -> Vec<FunctionGroup> {
        let mut groups = finding::groups(self.profile, &self.code, &finding.places);
        groups.truncate(MOST_GROUPS);
        groups
    }

    /// The findings as text; `file` is inserted into the next commands.
    #[must_use]
    pub fn text(&self, findings: &[Finding], file: &str) -> String {
        let mut out = String::new();
        for finding in findings {
            let groups = self.groups(finding);
            let sentence = sentence(finding, groups.first());
            out += &format!("\n{}: {}\n", finding.kind.name().replace('_', " "), printable(&sentence));
            for group in &groups {
                out += &format!(
                    "  {:>12} {:5.1} %  {}\n",
                    amount(group),
                    group.percent,
                    printable(&place(group))
                );
            }
            for row in &finding.rows {
                out += &format!("  {}\n", printable(&line(row)));
            }
            out += &format!(
                "  → {}\n",
                next_command(finding, self.is_recording()).replace("FILE", &printable(file))
            );
        }
        out
    }

    /// The findings as JSON: kinds, values, at most `most` places each, rows, the next command.
    #[must_use]
    pub fn data(&self, findings: &[Finding], most: usize) -> Value {
        let one = |finding: &Finding| {
            json!({
                "kind": finding.kind.name(),
                "values": values(finding),
                "places": self.groups(finding).iter().take(most).map(group_json).collect::<Vec<_>>(),
                "rows": finding.rows.iter().map(row_json).collect::<Vec<_>>(),
                "next": next_command(finding, self.is_recording()),
            })
        };
        findings.iter().map(one).collect()
    }

    /// Whether the profile is that of a recording, which has moments.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.profile.meta.source == "heapwise recording"
    }
}

/// The numbers of a finding by name.
#[must_use]
pub fn values(finding: &Finding) -> Map<String, Value> {
    finding.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// The `heapwise` command that goes deeper; `FILE` is the recording or profile.
fn next_command(finding: &Finding, is_recording: bool) -> &'static str {
    match finding.kind {
        FindingKind::Peak if is_recording => "heapwise at FILE peak",
        FindingKind::Peak => "heapwise top FILE --sample_index peak_space",
        FindingKind::GrowingSites => "heapwise at FILE 50%..end",
        FindingKind::Growth | FindingKind::Held => "heapwise top FILE",
        FindingKind::NeverFreed | FindingKind::StillHeld if is_recording => "heapwise at FILE end leaks",
        FindingKind::NeverFreed | FindingKind::StillHeld => "heapwise leaks FILE",
        FindingKind::UnseenFrees => "heapwise summary FILE --json",
        FindingKind::Temporaries => "heapwise top FILE --alloc_objects",
        FindingKind::Turnover | FindingKind::ReallocChains => "heapwise top FILE --alloc_space",
        FindingKind::Lifetimes => "heapwise timeline FILE",
        FindingKind::Sizes => "heapwise sizes FILE",
        FindingKind::Threads => "heapwise threads --alloc_space FILE",
    }
}

/// A finding in words; `first` is the largest of its functions.
#[must_use]
pub fn sentence(finding: &Finding, first: Option<&FunctionGroup>) -> String {
    let value = |name: &str| finding.value(name);
    let has = |name: &str| finding.values.iter().any(|(known, _)| *known == name);
    let bytes = |name: &str| quantity::bytes(value(name));
    match finding.kind {
        FindingKind::UnseenFrees => format!(
            "{} blocks were freed by a call that is not hooked; each was noticed when its address was used again",
            value("frees")
        ),
        FindingKind::Growth => format!(
            "the functions that grew hold {} more; the whole program changed by {}{}",
            bytes("bytes"),
            if value("total_bytes") > 0.0 { "+" } else { "" },
            bytes("total_bytes")
        ),
        FindingKind::Held => {
            format!("{} in {} blocks are held{}", bytes("bytes"), value("blocks"), share_of(first, "holds"))
        }
        FindingKind::Peak => format!(
            "{} were live at the peak{}{}",
            bytes("bytes"),
            if has("ms") { format!(", {} ms after the start", value("ms")) } else { String::new() },
            share_of(first, "held")
        ),
        FindingKind::GrowingSites => format!(
            "{} places grew steadily until {} ms after the start, by {}",
            value("sites"),
            value("until_ms"),
            bytes("bytes")
        ),
        FindingKind::NeverFreed => {
            format!("{} in {} blocks were never freed", bytes("bytes"), value("blocks"))
        }
        FindingKind::StillHeld => {
            format!("{} in {} blocks were still held at the end", bytes("bytes"), value("blocks"))
        }
        FindingKind::Temporaries => format!(
            "{} of {} blocks ({:.1} %) were temporary: freed by the next call of the thread that had allocated them",
            value("blocks"),
            value("allocations"),
            value("percent")
        ),
        FindingKind::Turnover => {
            format!("{} were allocated, {} times the peak", bytes("bytes"), value("turnover"))
        }
        FindingKind::ReallocChains => format!(
            "{} steps of realloc on blocks that realloc had made; at the place with most, a block was resized \
             {} times on average",
            value("steps"),
            value("length")
        ),
        FindingKind::Lifetimes => format!(
            "freed blocks had lived {:.1} ms on average; {:.1} % less than a millisecond",
            value("mean_ms"),
            value("percent")
        ),
        FindingKind::Sizes => format!(
            "{:.1} % of all blocks were of {} to {} bytes",
            value("percent"),
            value("min"),
            value("max")
        ),
        FindingKind::Threads => {
            format!("{} threads allocated {} blocks", value("threads"), value("blocks"))
        }
    }
}

/// `; parse holds 66.0 % of them`.
fn share_of(first: Option<&FunctionGroup>, verb: &str) -> String {
    first
        .map(|group| format!("; {} {verb} {:.1} % of them", group.function, group.percent))
        .unwrap_or_default()
}

fn line(row: &FindingRow) -> String {
    let (blocks, percent) = (row.blocks, row.percent);
    let bytes = row.bytes.map(|bytes| format!(" {:>12}", quantity::bytes(bytes as f64))).unwrap_or_default();
    match &row.class {
        FindingClass::Lifetime(end_ms) => {
            let label = match end_ms {
                Some(end) if *end >= 1_000 => format!("< {} s", end / 1_000),
                Some(end) => format!("< {end} ms"),
                None => "longer".into(),
            };
            format!("{label:>10} {blocks:>12} {percent:5.1} %")
        }
        FindingClass::Sizes(min, max) => {
            let label = if min == max { min.to_string() } else { format!("{min} to {max}") };
            format!("{label:>24} {blocks:>12} {percent:5.1} %{bytes}")
        }
        FindingClass::Thread(tid, name) => {
            format!("{tid:>8} {name:<16} {blocks:>12} blocks {percent:5.1} %{bytes}")
        }
    }
}

fn row_json(row: &FindingRow) -> Value {
    let class = match &row.class {
        FindingClass::Lifetime(end_ms) => json!({ "below_ms": end_ms }),
        FindingClass::Sizes(min, max) => json!({ "min": min, "max": max }),
        FindingClass::Thread(tid, name) => json!({ "tid": tid, "name": name }),
    };
    json!({ "class": class, "blocks": row.blocks, "percent": row.percent, "bytes": row.bytes })
}

fn amount(group: &FunctionGroup) -> String {
    match group.unit {
        RankUnit::Bytes => quantity::bytes(group.value as f64),
        RankUnit::Blocks => format!("{} blocks", group.value),
    }
}

/// `parse (lexer.c:12) ← read ← main`.
fn place(group: &FunctionGroup) -> String {
    let callers = group.stack.strip_prefix(group.function.as_str()).unwrap_or_default();
    let source = if group.source.is_empty() { String::new() } else { format!(" ({})", group.source) };
    format!("{}{source}{callers}", group.function)
}

fn group_json(group: &FunctionGroup) -> Value {
    let unit = match group.unit {
        RankUnit::Bytes => "bytes",
        RankUnit::Blocks => "blocks",
    };
    json!({
        "value": group.value, "unit": unit, "percent": (group.percent * 10.0).round() / 10.0,
        "function": group.function, "source": group.source, "stack": group.stack,
    })
}
