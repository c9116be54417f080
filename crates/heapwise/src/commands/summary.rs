//! `summary`: what in a recording deserves a look, with numbers and the command to go on with.

use std::path::PathBuf;

use clap::Args;
use heapwise_profile::Profile;
use heapwise_profile::StackId;
use heapwise_profile::name;
use heapwise_profile::recording::analysis::{Evidence, Finding, Place, PlaceUnit, findings};
use heapwise_profile::recording::{Counts, Damage, PointInTime, Recording, Statistics, Tables, Timeline};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::notes;
use crate::output::{self, Overwrite};
use crate::quantity;
use crate::recording::moment::DEFAULT_STEP_MS;
use crate::recording::open::{self, Opened, RecordingFile};
use crate::recording::reading::ReadingArgs;
use crate::symbols::SymbolArgs;

/// Options of `summary`.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    reading: ReadingArgs,
    /// As data
    #[arg(long)]
    json: bool,
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Frames of a place that are shown, from the allocation on.
const FRAMES: usize = 4;

/// Shows the findings.
pub fn run(args: &SummaryArgs) -> Outcome {
    let mut opened = open::open(&args.file, &args.reading.watched())?;
    notes::losses(&opened.catalog.losses());
    let found = analyse(&mut opened)?;
    let names = Names::new(&opened, &found, &args.symbols);
    let text = if args.json {
        json!({ "contains": opened.contains(), "findings": names.data(&found) }).to_string() + "\n"
    } else {
        opened.contains() + "\n" + &names.text(&found, &args.file.display().to_string())
    };
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(text.as_bytes()))
}

/// The findings of a recording as data.
pub fn data(opened: &mut Opened, symbols: &SymbolArgs) -> Outcome<Value> {
    let found = analyse(opened)?;
    Ok(Names::new(opened, &found, symbols).data(&found))
}

fn analyse(opened: &mut Opened) -> Outcome<Vec<Finding>> {
    let jobs = opened.jobs;
    let facts = opened
        .recording
        .read(|recording| Facts::read(recording, &opened.catalog, jobs))
        .ok_or_else(|| Failure::file(&opened.path, "holds nothing that can be read"))?;
    opened.recording.set_progress(None);
    let peak = (&facts.peak, facts.peak_ms);
    let evidence = Evidence::new(&opened.catalog, &facts.statistics, &facts.timeline, &facts.base, peak);
    Ok(findings(&evidence))
}

/// Everything the analyses look at.
struct Facts {
    statistics: Statistics,
    timeline: Timeline,
    base: Counts,
    peak: Counts,
    peak_ms: u64,
}

impl Facts {
    fn read(recording: &Recording<RecordingFile>, tables: &Tables, jobs: usize) -> Result<Self, Damage> {
        let (peak, peak_ms) = recording.counts_at(tables, PointInTime::Peak, jobs)?;
        Ok(Self {
            statistics: Statistics::read(recording, tables, jobs)?,
            timeline: Timeline::read(recording, DEFAULT_STEP_MS)?,
            base: recording.base(tables)?,
            peak,
            peak_ms,
        })
    }
}

/// Stacks of the places in findings, with names.
struct Names {
    profile: Profile,
    stacks: Vec<Option<StackId>>,
}

impl Names {
    fn new(opened: &Opened, _findings: &[Finding], symbols: &SymbolArgs) -> Self {
        let (mut profile, stacks) = opened.catalog.stacks();
        symbols.symbolize(&mut profile);
        Self { profile, stacks }
    }

    /// `malloc ← parse ← main`, leaf first.
    fn of(&self, place: &Place) -> String {
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

    fn text(&self, findings: &[Finding], file: &str) -> String {
        let mut out = String::new();
        for finding in findings {
            out += &format!("\n{}: {}\n", finding.name, finding.headline);
            for place in &finding.places {
                out += &format!("  {:>12}  {}\n", amount(place), self.of(place));
            }
            for line in &finding.lines {
                out += &format!("  {line}\n");
            }
            out += &format!("  → {}\n", finding.next.replace("FILE", file));
        }
        out
    }

    fn data(&self, findings: &[Finding]) -> Value {
        let place = |place: &Place| json!({ "value": place.value, "stack": self.of(place) });
        findings
            .iter()
            .map(|finding| {
                json!({
                    "name": finding.name,
                    "headline": finding.headline,
                    "places": finding.places.iter().map(place).collect::<Vec<_>>(),
                    "lines": finding.lines,
                    "next": finding.next,
                })
            })
            .collect()
    }
}

fn amount(place: &Place) -> String {
    match place.unit {
        PlaceUnit::Bytes => quantity::bytes(place.value as f64),
        PlaceUnit::Blocks => format!("{} blocks", place.value),
    }
}
