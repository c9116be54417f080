//! `mark`: names the present moment of a process, for `at`.

use clap::Args;
use heapwise_capture::{mark, target};

use super::switch;
use crate::failure::Outcome;

/// Options of `mark`.
#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// Pid or program name
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Name of the moment
    name: String,
}

/// Sets a mark.
pub(crate) fn run(args: &MarkArgs) -> Outcome {
    let segment = switch::open_live(&target::process(&args.target)?)?;
    Ok(mark::set(&segment, &args.name)?)
}
