//! `mem_profiler -s 60 [-c 1024] [-o ./custom_prof]`: start, wait, stop, write `.heap` files.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::commands::collect::Collection;
use crate::failure::Outcome;
use crate::output::Overwrite;
use heapwise_capture::target;
use heapwise_profile::quantity::{parse_duration, parse_rate};

#[derive(Debug, Parser)]
#[command(name = "mem_profiler", about = "Collects heap profiles of running processes that carry the probe")]
struct Options {
    /// Seconds to collect
    #[arg(short = 's', value_name = "SECONDS", value_parser = parse_duration)]
    seconds: Duration,
    /// Bytes between samples, on average
    #[arg(short = 'c', value_name = "BYTES", default_value = "1024", value_parser = parse_rate)]
    rate: u64,
    /// Beginning of the output files' names
    #[arg(short = 'o', value_name = "PREFIX", default_value = "./custom_prof")]
    prefix: String,
    /// Replace existing files
    #[arg(short = 'f')]
    force: bool,
    /// Process to collect from; all that carry the probe when left out
    #[arg(value_name = "PID")]
    targets: Vec<String>,
}

/// The beginning of file names: `DIR/`, or `PREFIX.`.
fn file_prefix(prefix: &str) -> String {
    match std::path::Path::new(prefix).is_dir() {
        true => format!("{}/", prefix.trim_end_matches('/')),
        false if prefix.ends_with('/') => prefix.to_owned(),
        false => format!("{prefix}."),
    }
}

/// Runs the tool.
pub(super) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let options: Options = match super::parse(arguments) {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    let collection = Collection {
        time: options.seconds,
        sample_bytes: options.rate,
        prefix: file_prefix(&options.prefix),
        overwrite: if options.force { Overwrite::Allow } else { Overwrite::Refuse },
    };
    let files = collection.collect(&target::processes(&options.targets)?)?;
    say!("succeeded in collecting memory data!");
    for file in files {
        say!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}
