//! Findings in words and as JSON, with the functions that they are about.

use std::borrow::Cow;

use heapwise_profile::finding::{
    self, Finding, FindingClass, FindingKind, FindingRow, FunctionGroup, MOST_GROUPS, RankUnit,
};
use heapwise_profile::own_code::{CodeFrames, OwnRule};
use heapwise_profile::printable::printable;
use heapwise_profile::{Profile, ProgramEnd, quantity};
use serde_json::{Map, Value, json};

use crate::{Language, Text};

/// The profile that names the places of findings.
#[derive(Debug)]
pub struct Names<'a> {
    profile: &'a Profile,
    code: CodeFrames,
    own: &'a OwnRule,
}

impl<'a> Names<'a> {
    /// Names from `profile`, which has symbols; `own` is the user's rule.
    #[must_use]
    pub fn new(profile: &'a Profile, own: &'a OwnRule) -> Self {
        Self { code: CodeFrames::new(profile, own), profile, own }
    }

    /// Names from `profile`, which has the stacks of a recording and no samples.
    #[must_use]
    pub fn of_recording(profile: &'a Profile, findings: &[Finding], own: &'a OwnRule) -> Self {
        let places = findings.iter().flat_map(|finding| &finding.places);
        let weights = places.filter_map(|place| Some((place.stack?, place.value as f64)));
        Self { code: CodeFrames::weighted(profile, own, weights), profile, own }
    }

    /// The findings in the profile itself.
    #[must_use]
    pub fn find(&self, baseline: Option<&Profile>) -> Vec<Finding> {
        let baseline = baseline.map(|base| (base, CodeFrames::new(base, self.own)));
        finding::findings(self.profile, &self.code, baseline.as_ref().map(|(base, code)| (*base, code)))
    }

    /// The functions of a finding, largest first.
    #[must_use]
    pub fn groups(&self, finding: &Finding) -> Vec<FunctionGroup> {
        let mut groups = finding::groups(self.profile, &self.code, &finding.places);
        groups.truncate(MOST_GROUPS);
        groups
    }

    /// The findings as text, with next commands about `files`.
    #[must_use]
    pub fn text(&self, findings: &[Finding], files: Files<'_>, language: Language) -> String {
        let mut out = String::new();
        for finding in findings {
            let groups = self.groups(finding);
            let sentence = sentence(finding, groups.first(), language);
            out += &format!("\n{}: {}\n", title(finding.kind).text(language), printable(&sentence));
            for group in &groups {
                out += &format!(
                    "  {:>12} {:5.1} %  {}\n",
                    amount(group, language),
                    group.percent,
                    printable(&place(group))
                );
            }
            for row in &finding.rows {
                out += &format!("  {}\n", printable(&line(row)));
            }
            out += &format!("  → {}\n", printable(&files.fill(&next_command(finding, self.kind()))));
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
                "places": self.groups(finding).iter().take(most).map(group_json).collect::<Value>(),
                "rows": finding.rows.iter().map(row_json).collect::<Vec<_>>(),
                "next": next_command(finding, self.kind()),
            })
        };
        findings.iter().map(one).collect()
    }

    /// The functions of a finding as JSON.
    #[must_use]
    pub fn places(&self, finding: &Finding) -> Value {
        self.groups(finding).iter().map(group_json).collect()
    }

    /// Whether the profile is that of a recording, which has moments.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.kind() == SourceKind::Recording
    }

    /// The profiled program.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.profile.meta.program
    }

    fn kind(&self) -> SourceKind {
        match &*self.profile.meta.source {
            "heapwise recording" => SourceKind::Recording,
            "heapwise segment" if self.profile.meta.end == ProgramEnd::Running => SourceKind::Process,
            _ => SourceKind::File,
        }
    }
}

/// What findings are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    Recording,
    /// A running process.
    Process,
    File,
}

/// What the user calls the things that findings are about.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// Profile, recording or process.
    pub file: &'a str,
    /// The baseline.
    pub base: Option<&'a str>,
    /// The program.
    pub program: &'a str,
}

impl Files<'_> {
    /// A command with its names inserted.
    fn fill(&self, command: &str) -> String {
        let name = |word| match word {
            "FILE" => self.file,
            "BASE" => self.base.unwrap_or("BASE"),
            "PROGRAM" => self.program,
            word => word,
        };
        command.split(' ').map(name).collect::<Vec<_>>().join(" ")
    }
}

/// The numbers of a finding by name.
#[must_use]
pub fn values(finding: &Finding) -> Map<String, Value> {
    finding.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// The `heapwise` command that goes deeper; `FILE` is the recording, profile or process.
fn next_command(finding: &Finding, kind: SourceKind) -> Cow<'static, str> {
    let is_recording = kind == SourceKind::Recording;
    let command = match finding.kind {
        FindingKind::GrowingSites => return format!("heapwise at FILE {}", growth_range(finding)).into(),
        FindingKind::Fragmentation if kind == SourceKind::Process => "heapwise fragmentation FILE",
        FindingKind::Unexplained if kind == SourceKind::Process => "heapwise top --resident FILE",
        FindingKind::Fragmentation | FindingKind::Unexplained if is_recording => {
            "heapwise timeline --resident FILE"
        }
        FindingKind::Fragmentation => "heapwise sizes FILE",
        FindingKind::Unexplained => "heapwise doctor PROGRAM",
        FindingKind::Growth => "heapwise diff BASE FILE",
        FindingKind::PeakGrowth => "heapwise diff --sample_index peak_space BASE FILE",
        FindingKind::Peak if is_recording => "heapwise at FILE peak",
        FindingKind::Peak => "heapwise top FILE --sample_index peak_space",
        FindingKind::Held => "heapwise top FILE",
        FindingKind::NeverFreed | FindingKind::StillHeld if is_recording => "heapwise at FILE end leaks",
        FindingKind::NeverFreed | FindingKind::StillHeld => "heapwise leaks FILE",
        FindingKind::UnseenFrees => "heapwise summary FILE --json",
        FindingKind::Temporaries => "heapwise top FILE --alloc_objects",
        FindingKind::Turnover | FindingKind::ReallocChains => "heapwise top FILE --alloc_space",
        FindingKind::Lifetimes => "heapwise timeline FILE",
        FindingKind::Sizes => "heapwise sizes FILE",
        FindingKind::Threads => "heapwise threads --alloc_space FILE",
    };
    command.into()
}

/// The time in which places grew, as `at` takes it.
#[must_use]
pub fn growth_range(finding: &Finding) -> String {
    format!("{}ms..{}ms", finding.value("from_ms"), finding.value("until_ms"))
}

fn title(kind: FindingKind) -> Text {
    match kind {
        FindingKind::Growth => Text::KindGrowth,
        FindingKind::PeakGrowth => Text::KindPeakGrowth,
        FindingKind::Fragmentation => Text::KindFragmentation,
        FindingKind::Unexplained => Text::KindUnexplained,
        FindingKind::Held => Text::KindHeld,
        FindingKind::UnseenFrees => Text::KindUnseenFrees,
        FindingKind::Peak => Text::KindPeak,
        FindingKind::GrowingSites => Text::KindGrowingSites,
        FindingKind::NeverFreed => Text::KindNeverFreed,
        FindingKind::StillHeld => Text::KindStillHeld,
        FindingKind::Temporaries => Text::KindTemporaries,
        FindingKind::Turnover => Text::KindTurnover,
        FindingKind::ReallocChains => Text::KindReallocChains,
        FindingKind::Lifetimes => Text::KindLifetimes,
        FindingKind::Sizes => Text::KindSizes,
        FindingKind::Threads => Text::KindThreads,
    }
}

/// A finding in words; `first` is the largest of its functions.
#[must_use]
pub fn sentence(finding: &Finding, first: Option<&FunctionGroup>, language: Language) -> String {
    let (text, values) = wording(finding, first, language);
    let bytes = quantity::bytes(finding.value("bytes"));
    let blocks = finding.value("blocks").to_string();
    let mut all = vec![("bytes", bytes.as_str()), ("blocks", blocks.as_str())];
    all.extend(values.iter().map(|(name, value)| (*name, value.as_str())));
    text.with(language, &all)
}

/// The share of the largest function.
fn share(text: Text, group: &FunctionGroup, language: Language) -> String {
    let percent = format!("{:.1}", group.percent);
    text.with(language, &[("function", &group.function), ("percent", &percent)])
}

/// What a sentence states, by the names in it.
type Values = Vec<(&'static str, String)>;

/// The sentence of a finding, and what it states besides bytes and blocks.
fn wording(finding: &Finding, first: Option<&FunctionGroup>, language: Language) -> (Text, Values) {
    let value = |name: &str| finding.value(name);
    let number = |name: &str| value(name).to_string();
    let tenths = |name: &str| format!("{:.1}", value(name));
    let bytes = |name: &str| quantity::bytes(value(name));
    let share = |text: Text| first.map_or_else(String::new, |group| share(text, group, language));
    match finding.kind {
        FindingKind::UnseenFrees => (Text::UnseenFrees, vec![("n", number("frees"))]),
        FindingKind::Fragmentation => {
            (Text::Fragmentation, vec![("live", bytes("live_bytes")), ("percent", tenths("percent"))])
        }
        FindingKind::Unexplained => {
            (Text::Unexplained, vec![("resident", bytes("resident_bytes")), ("percent", tenths("percent"))])
        }
        kind @ (FindingKind::Growth | FindingKind::PeakGrowth) => {
            let plus = if value("total_bytes") > 0.0 { "+" } else { "" };
            let text = if kind == FindingKind::Growth { Text::Growth } else { Text::PeakGrowth };
            (text, vec![("total", plus.to_owned() + &bytes("total_bytes"))])
        }
        FindingKind::Held => (Text::Held, vec![("share", share(Text::HoldsShare))]),
        FindingKind::Peak => {
            let is_timed = finding.values.iter().any(|(known, _)| *known == "ms");
            let when = is_timed.then(|| Text::PeakWhen.with(language, &[("ms", &number("ms"))]));
            (Text::PeakHeld, vec![("when", when.unwrap_or_default()), ("share", share(Text::HeldShare))])
        }
        FindingKind::GrowingSites => {
            (Text::GrowingSites, vec![("sites", number("sites")), ("ms", number("until_ms"))])
        }
        FindingKind::NeverFreed => (Text::NeverFreed, Vec::new()),
        FindingKind::StillHeld => (Text::StillHeld, Vec::new()),
        FindingKind::Temporaries => {
            let [n, all] = [number("blocks"), number("allocations")];
            (Text::Temporaries, vec![("n", n), ("all", all), ("percent", tenths("percent"))])
        }
        FindingKind::Turnover => (Text::Turnover, vec![("times", number("turnover"))]),
        FindingKind::ReallocChains => {
            (Text::ReallocChains, vec![("steps", number("steps")), ("length", number("length"))])
        }
        FindingKind::Lifetimes => {
            (Text::Lifetimes, vec![("ms", tenths("mean_ms")), ("percent", tenths("percent"))])
        }
        FindingKind::Sizes => {
            let [min, max] = [number("min"), number("max")];
            (Text::Sizes, vec![("min", min), ("max", max), ("percent", tenths("percent"))])
        }
        FindingKind::Threads => (Text::Threads, vec![("threads", number("threads"))]),
    }
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

fn amount(group: &FunctionGroup, language: Language) -> String {
    match group.unit {
        RankUnit::Bytes => quantity::bytes(group.value as f64),
        RankUnit::Blocks => Text::Blocks.with(language, &[("n", &group.value.to_string())]),
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
