//! `at`: any report on a recording at one moment, or on what a window of time left behind.

use std::path::PathBuf;

use clap::Args;
use heapwise_capture::target::Target;

use super::report::{self, StyleArgs, View};
use crate::failure::Outcome;
use crate::report_input::ReportOptions;

/// Options of `at`.
#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// 305ms, peak, end, 50%, A..B (allocated in that window and not freed in it), peak:A..B, or a
    /// mark
    #[arg(value_name = "MOMENT")]
    moment: String,
    /// Report to show
    #[arg(value_enum, default_value = "top", value_name = "REPORT")]
    view: View,
    #[command(flatten)]
    options: ReportOptions,
    #[command(flatten)]
    style: StyleArgs,
}

/// Shows the report.
pub(crate) fn run(args: AtArgs) -> Outcome {
    let target = Target::at(&args.file, &args.moment, args.options.step)?;
    let mut report = report::load(args.view, vec![target], &args.options)?;
    if args.view == View::Leaks {
        super::leaks::KnownArgs::default().remove_known(&mut report)?;
    }
    report::show(args.view, report, &args.options, &args.style)
}
