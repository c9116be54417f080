//! The executable: arguments, output, exit status.
#![forbid(unsafe_code)]

mod args;
mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(args::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "heapwise-fleet: {failure}");
            ExitCode::from(2)
        }
    }
}
