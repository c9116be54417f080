//! `summary`: what stands out in a recording, with numbers and the next command for each finding.

use std::path::PathBuf;

use clap::Args;
use heapwise_capture::recording::{findings, moment_profile, open};
use heapwise_render::coverage;
use heapwise_render::findings::Names;
use serde_json::json;

use crate::console;
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::progress_bar::ReadArgs;
use crate::symbols::SymbolArgs;
use crate::warnings;

/// Options of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the findings.
pub(crate) fn run(args: &SummaryArgs) -> Outcome {
    let mut opened = open::open(&args.file, &args.read.options())?;
    warnings::print(&opened.warnings);
    let found = findings::read(&mut opened)?;
    let covered = moment_profile::coverage(&mut opened);
    let (mut profile, stacks) = opened.tables.stacks();
    args.symbols.symbolize(&mut profile);
    let names = Names::new(profile, stacks);
    let text = if args.json {
        console::json(&json!({
            "contains": opened.contains(),
            "coverage": heapwise_render::json::coverage::coverage(&covered),
            "findings": names.data(&found),
        }))
    } else {
        format!("{}\nCovers: {}\n", opened.contains(), coverage::line(&covered))
            + &names.text(&found, &args.file.display().to_string())
    };
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(text.as_bytes()))
}
