//! `summary`: what stands out in a profile or a recording, with numbers and the next command for
//! each finding.

use std::path::Path;

use clap::Args;
use heapwise_capture::ledger;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::recording::{findings, moment_profile, open};
use heapwise_capture::target::Target;
use heapwise_profile::coverage::Coverage;
use heapwise_profile::finding::{Finding, MOST_GROUPS, ResidentMemory, most_important};
use heapwise_profile::{Profile, quantity};
use heapwise_render::coverage;
use heapwise_render::findings::{Files, Names};
use heapwise_render::{Language, Text};
use serde_json::{Value, json};

use crate::console;
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::own_code::OwnArgs;
use crate::progress_bar::ReadArgs;
use crate::report_input;
use crate::symbols::SymbolArgs;
use crate::warnings;

/// Bytes of JSON that places are left out for.
const MOST_JSON: usize = 4096;

/// Options of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Recording, profile or process
    #[arg(value_name = "FILE|PID")]
    target: String,
    /// Show what grew since this profile
    #[arg(long, value_name = "FILE|PID", help_heading = "Filter options")]
    base: Option<String>,
    /// Show every finding of a recording, and its statistics
    #[arg(long, conflicts_with = "base", help_heading = "Output options")]
    all: bool,
    #[command(flatten)]
    own: OwnArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print JSON, of at most 4 KiB without --all
    #[arg(long, help_heading = "Output options")]
    json: bool,
}

/// Shows the findings.
pub(crate) fn run(args: &SummaryArgs) -> Outcome {
    let text = match args.base.is_none() && open::is_recording(Path::new(&args.target)) {
        true => of_recording(args)?,
        false => of_profile(args)?,
    };
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(text.as_bytes()))
}

/// The findings of a recording that was just written, as text.
pub(crate) fn recording_findings(path: &Path, own: &OwnArgs) -> Outcome<String> {
    let mut opened = open::open(path, &ReadOptions::default())?;
    let (mut profile, stacks) = opened.tables.stacks();
    let found = most_important(findings::read(&mut opened, &stacks)?);
    SymbolArgs::default().symbolize(&mut profile);
    let own = own.rule()?;
    let names = Names::of_recording(&profile, &found, &own);
    let file = path.display().to_string();
    let files = Files { file: &file, base: None, program: names.program() };
    Ok(names.text(&found, files, console::language()))
}

fn of_recording(args: &SummaryArgs) -> Outcome<String> {
    let mut opened = open::open(Path::new(&args.target), &args.read.options())?;
    warnings::print(&opened.warnings);
    let (mut profile, stacks) = opened.tables.stacks();
    let mut found = findings::read(&mut opened, &stacks)?;
    if !args.all {
        found = most_important(found);
    }
    let covered = moment_profile::coverage(&mut opened);
    args.symbols.symbolize(&mut profile);
    let own = args.own.rule()?;
    Ok(render(args, &opened.contains(), &covered, &Names::of_recording(&profile, &found, &own), &found))
}

fn of_profile(args: &SummaryArgs) -> Outcome<String> {
    let target = Target::parse(&args.target)?;
    let own = args.own.rule()?;
    let load = |target: &Target| report_input::load_target(target, &args.read, &args.symbols);
    let profile = load(&target)?;
    let baseline = args.base.as_deref().map(|base| load(&Target::parse(base)?)).transpose()?;
    let names = Names::new(&profile, &own);
    let mut found = names.find(baseline.as_deref());
    if let (Target::Process(process), None) = (&target, &baseline) {
        let reading = ledger::read(process)?;
        found.extend(reading.iter().flat_map(|reading| ResidentMemory::of(&reading.ledger).findings()));
        found = most_important(found);
    }
    // JSON has one language.
    let language = if args.json { Language::English } else { console::language() };
    Ok(render(args, &contains(&profile, language), &Coverage::of(&profile), &names, &found))
}

/// `redis-server: 12.0 MiB held in 5000 blocks, 14.0 MiB at the peak, 1.00 GiB allocated`.
fn contains(profile: &Profile, language: Language) -> String {
    let total = profile.total();
    let bytes = quantity::bytes;
    let peak = profile.meta.peak_bytes.map(|peak| bytes(peak as f64));
    let peak = peak.map(|peak| Text::ContainsPeak.with(language, &[("bytes", &peak)]));
    let values = [
        ("program", Some(profile.meta.title()).filter(|name| !name.is_empty()).unwrap_or("profile")),
        ("held", &bytes(total.inuse_bytes)),
        ("blocks", &format!("{:.0}", total.inuse_objects)),
        ("peak", &peak.unwrap_or_default()),
        ("allocated", &bytes(total.alloc_bytes)),
        ("allocations", &format!("{:.0}", total.alloc_objects)),
    ];
    Text::Contains.with(language, &values)
}

fn render(
    args: &SummaryArgs,
    contains: &str,
    covered: &Coverage,
    names: &Names<'_>,
    found: &[Finding],
) -> String {
    if !args.json {
        let language = console::language();
        let covers = Text::CoversTitle.text(language);
        let head = format!("{contains}\n{covers}: {}\n", coverage::line(covered, language));
        let files = Files { file: &args.target, base: args.base.as_deref(), program: names.program() };
        return head + &names.text(found, files, language);
    }
    let data = |most: usize| -> Value {
        json!({
            "contains": contains,
            "coverage": heapwise_render::json::coverage::coverage(covered),
            "findings": names.data(found, most),
        })
    };
    let mut texts = (1..=MOST_GROUPS).rev().map(|most| console::json(&data(most)));
    match args.all {
        true => texts.next(),
        false => texts.find(|text| text.len() <= MOST_JSON),
    }
    .unwrap_or_else(|| console::json(&data(0)))
}
