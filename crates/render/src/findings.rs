//! Findings of a recording in words and as JSON, with the names of their stacks.

use std::collections::HashMap;

use heapwise_profile::own_code::CodeFrames;
use heapwise_profile::printable::printable;
use heapwise_profile::recording::analysis::{
    Finding, FindingClass, FindingKind, FindingRow, RankUnit, RankedStack,
};
use heapwise_profile::{Profile, StackId, quantity};
use serde_json::{Map, Value, json};

/// Frames shown of each stack, innermost first.
const FRAMES: usize = 4;
/// Functions shown with each finding.
const MOST_GROUPS: usize = 3;

/// Stacks of the places in findings, with names.
#[derive(Debug)]
pub struct Names {
    profile: Profile,
    code: CodeFrames,
    stacks: Vec<Option<StackId>>,
}

/// The places of a finding in one function of the program's own code.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionGroup {
    /// The function.
    pub function: String,
    /// Where its largest place is: `file.c:12`, or empty.
    pub source: String,
    /// The frames from there on, `parse ← read ← main`.
    pub stack: String,
    /// Sum of its places.
    pub value: u64,
    /// Unit of the sum.
    pub unit: RankUnit,
    /// Share of all places of the finding, in percent.
    pub percent: f64,
}

impl Names {
    /// Names from `profile`, which has symbols; `stacks` maps nodes of the recording to its stacks.
    #[must_use]
    pub fn new(profile: Profile, stacks: Vec<Option<StackId>>) -> Self {
        Self { code: CodeFrames::new(&profile), profile, stacks }
    }

    /// The functions of a finding, largest first. A place belongs to the innermost function of the
    /// program's own code.
    #[must_use]
    pub fn groups(&self, finding: &Finding) -> Vec<FunctionGroup> {
        let total = finding.places.iter().map(|place| place.value).sum::<u64>().max(1) as f64;
        let mut groups: Vec<FunctionGroup> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for place in &finding.places {
            let group = self.group(place);
            let at = *known.entry(group.function.clone()).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(first) => first.value += place.value,
                None => groups.push(group),
            }
        }
        groups.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.function.cmp(&b.function)));
        groups.truncate(MOST_GROUPS);
        groups.iter_mut().for_each(|group| group.percent = 100.0 * group.value as f64 / total);
        groups
    }

    /// The group of one place.
    fn group(&self, place: &RankedStack) -> FunctionGroup {
        let stack = place.stack(&self.stacks);
        let frames =
            stack.map(|stack| self.code.from_own_code(&self.profile, stack, FRAMES)).unwrap_or_default();
        let function = frames.first().map_or_else(|| "[unknown]".to_owned(), |frame| frame.label.clone());
        let source = frames.first().filter(|frame| !frame.file.is_empty()).map(|frame| {
            let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
            if frame.line == 0 { file.to_owned() } else { format!("{file}:{}", frame.line) }
        });
        let labels: Vec<&str> = frames.iter().map(|frame| frame.label.as_str()).collect();
        FunctionGroup {
            function,
            source: source.unwrap_or_default(),
            stack: labels.join(" ← "),
            value: place.value,
            unit: place.unit,
            percent: 0.0,
        }
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
            out += &format!("  → {}\n", next_command(finding.kind).replace("FILE", &printable(file)));
        }
        out
    }

    /// The findings as JSON: kinds, values, places, rows, and the next command.
    #[must_use]
    pub fn data(&self, findings: &[Finding]) -> Value {
        let one = |finding: &Finding| {
            json!({
                "kind": finding.kind.name(),
                "values": values(finding),
                "places": self.groups(finding).iter().map(group_json).collect::<Vec<_>>(),
                "rows": finding.rows.iter().map(row_json).collect::<Vec<_>>(),
                "next": next_command(finding.kind),
            })
        };
        findings.iter().map(one).collect()
    }
}

/// The numbers of a finding by name.
#[must_use]
pub fn values(finding: &Finding) -> Map<String, Value> {
    finding.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// The `heapwise` command that goes deeper; `FILE` is the recording.
fn next_command(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Peak => "heapwise at FILE peak",
        FindingKind::GrowingSites => "heapwise at FILE 50%..end",
        FindingKind::NeverFreed | FindingKind::StillHeld => "heapwise at FILE end leaks",
        FindingKind::UnseenFrees => "heapwise summary FILE --json",
        FindingKind::Temporaries => "heapwise top FILE --alloc_objects",
        FindingKind::Turnover | FindingKind::ReallocChains => "heapwise top FILE --alloc_space",
        FindingKind::Lifetimes => "heapwise timeline FILE",
        FindingKind::Sizes => "heapwise sizes FILE",
        FindingKind::Threads => "heapwise threads --alloc_space FILE",
    }
}

fn sentence(finding: &Finding, first: Option<&FunctionGroup>) -> String {
    let value = |name: &str| finding.value(name);
    let bytes = |name: &str| quantity::bytes(value(name));
    match finding.kind {
        FindingKind::UnseenFrees => format!(
            "{} blocks were freed by a call that is not hooked; each was noticed when its address was used again",
            value("frees")
        ),
        FindingKind::Peak => format!(
            "{} were live at the peak, {} ms after the start{}",
            bytes("bytes"),
            value("ms"),
            first
                .map(|group| format!("; {} held {:.1} % of them", group.function, group.percent))
                .unwrap_or_default()
        ),
        FindingKind::GrowingSites => format!(
            "{} places were still growing at the end, by {} over the second half",
            value("sites"),
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
