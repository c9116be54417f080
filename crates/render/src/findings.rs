//! Findings of a recording in words and as JSON, with the names of their stacks.

use heapwise_profile::printable::printable;
use heapwise_profile::recording::analysis::{
    Finding, FindingClass, FindingKind, FindingRow, RankUnit, RankedStack,
};
use heapwise_profile::{Profile, StackId, name, quantity};
use serde_json::{Map, Value, json};

/// Frames shown of each stack, innermost first.
const FRAMES: usize = 4;

/// Stacks of the places in findings, with names.
#[derive(Debug)]
pub struct Names {
    profile: Profile,
    stacks: Vec<Option<StackId>>,
}

impl Names {
    /// Names from `profile`, which has symbols; `stacks` maps nodes of the recording to its stacks.
    #[must_use]
    pub fn new(profile: Profile, stacks: Vec<Option<StackId>>) -> Self {
        Self { profile, stacks }
    }

    /// `malloc ← parse ← main`, leaf first.
    #[must_use]
    pub fn of(&self, place: &RankedStack) -> String {
        let Some(stack) = place.stack(&self.stacks) else { return "[unknown]".into() };
        let frames = self.profile.stacks.leaf_to_root(stack).take(FRAMES);
        let names: Vec<String> = frames.map(|node| self.frame(node)).collect();
        names.join(" ← ")
    }

    fn frame(&self, node: StackId) -> String {
        let location = &self.profile.locations[self.profile.stacks.location(node).index()];
        let line = location.lines.first();
        match line.and_then(|line| self.profile.functions.get(line.function.index())) {
            Some(function) => name::short(&function.name),
            None => match location.module.and_then(|module| self.profile.modules.get(module.index())) {
                Some(module) => format!("{}+0x{:x}", module.name(), module.file_offset_of(location.address)),
                None => format!("0x{:x}", location.address),
            },
        }
    }

    /// The findings as text; `file` is inserted into the next commands.
    #[must_use]
    pub fn text(&self, findings: &[Finding], file: &str) -> String {
        let mut out = String::new();
        for finding in findings {
            out += &format!("\n{}: {}\n", finding.kind.name().replace('_', " "), sentence(finding));
            for place in &finding.places {
                out += &format!("  {:>12}  {}\n", amount(place), printable(&self.of(place)));
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
        let place = |place: &RankedStack| {
            let unit = match place.unit {
                RankUnit::Bytes => "bytes",
                RankUnit::Blocks => "blocks",
            };
            json!({ "value": place.value, "unit": unit, "stack": self.of(place) })
        };
        let one = |finding: &Finding| {
            json!({
                "kind": finding.kind.name(),
                "values": values(finding),
                "places": finding.places.iter().map(place).collect::<Vec<_>>(),
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

fn sentence(finding: &Finding) -> String {
    let value = |name: &str| finding.value(name);
    let bytes = |name: &str| quantity::bytes(value(name));
    match finding.kind {
        FindingKind::UnseenFrees => format!(
            "{} blocks were freed by a call that is not hooked; each was noticed when its address was used again",
            value("frees")
        ),
        FindingKind::Peak => format!(
            "{} were live at the peak, {} ms after the start; one place held {:.1} % of them",
            bytes("bytes"),
            value("ms"),
            value("percent")
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

fn amount(place: &RankedStack) -> String {
    match place.unit {
        RankUnit::Bytes => quantity::bytes(place.value as f64),
        RankUnit::Blocks => format!("{} blocks", place.value),
    }
}
