//! `at`: any report on a recording at one moment, or on what a stretch of time left behind.

use clap::Args;

use super::leaks::{self, KnownArgs};
use super::report::{self, ReportArgs, StyleArgs};
use crate::failure::Outcome;
use crate::look::LookArgs;
use heapwise_capture::source;

/// Options of `at`.
#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    style: StyleArgs,
    /// Length of the step whose highest moment a time stands for
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = heapwise_profile::quantity::parse_duration)]
    step: std::time::Duration,
    /// Recording
    #[arg(value_name = "FILE")]
    file: String,
    /// 305ms, peak, end, 50%, A..B (what was allocated then and is still there), peak:A..B, or a mark
    #[arg(value_name = "MOMENT")]
    moment: String,
    /// Which report
    #[arg(value_enum, default_value = "top", value_name = "REPORT")]
    view: View,
}

/// A report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum View {
    /// Largest holders first
    Top,
    /// Callers and callees of each function
    Tree,
    /// What is still held, by allocating site
    Leaks,
    /// Sizes of blocks
    Sizes,
    /// One row per binary
    Modules,
    /// One row per thread
    Threads,
    /// Every stack
    Traces,
}

/// Shows the report.
pub(crate) fn run(args: AtArgs) -> Outcome {
    let step_ms = args.step.as_millis();
    let target = format!("{}{}{}/{step_ms}", args.file, source::AT, args.moment);
    let report = ReportArgs { look: args.look, style: args.style, targets: vec![target] };
    match args.view {
        View::Top => report::top(&report),
        View::Tree => report::tree(&report),
        View::Leaks => leaks::show(&report, &KnownArgs::default()),
        View::Sizes => report::sizes(&report),
        View::Modules => report::modules(&report),
        View::Threads => report::threads(&report),
        View::Traces => report::traces(&report),
    }
}
