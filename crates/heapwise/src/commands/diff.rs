//! `diff BASE FILE`: what changed, signed, matched by function so that it survives a rebuild.

use clap::Args;

use super::report::{self, ReportArgs, StyleArgs};
use crate::failure::Outcome;
use crate::look::LookArgs;

/// Options of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    style: StyleArgs,
    /// What it was
    #[arg(value_name = "BASE")]
    before: String,
    /// What it is
    #[arg(value_name = "FILE|PID")]
    after: String,
}

/// Prints the differences.
pub(crate) fn run(args: DiffArgs) -> Outcome {
    let mut look = args.look;
    look.base = Some(args.before);
    report::top(&ReportArgs { look, style: args.style, targets: vec![args.after] })
}
