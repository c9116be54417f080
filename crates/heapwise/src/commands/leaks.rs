//! `leaks`: what is still held, without known leaks and what the runtimes keep for themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use heapwise_profile::{Profile, Suppressions, Values, suppression};

use super::report::{self, ReportArgs, View};
use crate::failure::{Failure, Outcome};
use heapwise_capture::report_input::Report;
use heapwise_profile::quantity;

/// Options of `leaks`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LeaksArgs {
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    known: KnownArgs,
}

/// What is known already.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "known")]
#[command(next_help_heading = "Filter options")]
pub(crate) struct KnownArgs {
    /// Read known leaks from FILE, in LeakSanitizer's format (`leak:PATTERN` lines)
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    /// Keep what the C and C++ runtimes allocate for themselves
    #[arg(long = "keep-runtime")]
    keep_runtime: bool,
}

/// Shows what is still held, by allocation site.
pub(crate) fn run(args: &LeaksArgs) -> Outcome {
    let ReportArgs { options, style, targets } = &args.report;
    let mut report = options.load(targets)?;
    args.known.remove_known(&mut report)?;
    report::show(View::Leaks, report, options, style)
}

impl KnownArgs {
    /// Removes known blocks from the profile and its baseline, and prints what they were.
    pub(crate) fn remove_known(&self, report: &mut Report) -> Outcome {
        let suppressions = self.suppressions.as_deref().map(read).transpose()?;
        let remove = |profile: &mut Profile| {
            let suppressed = suppressions.as_ref().map(|known| known.apply(profile)).unwrap_or_default();
            let of_runtime = match self.keep_runtime {
                true => Values::default(),
                false => suppression::take_out_runtime(profile),
            };
            (suppressed, of_runtime)
        };
        let (suppressed, of_runtime) = remove(Arc::make_mut(&mut report.profile));
        report.baseline.as_mut().map(Arc::make_mut).map(remove);
        print_removed("suppressed", suppressed);
        print_removed("not counted, of the C and C++ runtimes", of_runtime);
        Ok(())
    }
}

fn read(path: &Path) -> Outcome<Suppressions> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, error.to_string()))?;
    Suppressions::parse(&text).map_err(|error| Failure::file(path, error.to_string()))
}

fn print_removed(what: &str, values: Values) {
    if values.inuse_objects > 0.0 {
        let bytes = quantity::bytes(values.inuse_bytes);
        let plural = if values.inuse_objects.round() == 1.0 { "" } else { "s" };
        note!("{what}: {bytes} in {:.0} block{plural}", values.inuse_objects);
    }
}
