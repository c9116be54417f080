//! `diff BASE FILE`: what changed, signed, matched by function so that it survives a rebuild.

use clap::Args;

use super::report::{self, ReportArgs, StyleArgs, View};
use crate::failure::Outcome;
use crate::report_input::ReportOptions;

/// Options of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Baseline
    #[arg(value_name = "BASE")]
    baseline: String,
    /// Profile to compare with it
    #[arg(value_name = "FILE|PID")]
    target: String,
    #[command(flatten)]
    options: ReportOptions,
    #[command(flatten)]
    style: StyleArgs,
}

/// Prints the differences.
pub(crate) fn run(args: DiffArgs) -> Outcome {
    let options = ReportOptions { base: Some(args.baseline), ..args.options };
    report::run(View::Top, &ReportArgs { options, style: args.style, targets: vec![args.target] })
}
