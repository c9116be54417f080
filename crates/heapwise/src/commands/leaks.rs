//! `leaks`: what is still held, less what is known and what the runtimes keep for themselves.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::view::leaks::{self, Verdict};
use heapwise_profile::{Profile, Suppressions, Values, suppression};
use heapwise_render::{json, text};

use super::report::{self, ReportArgs};
use crate::failure::{Failure, Outcome};
use crate::look::Look;
use heapwise_profile::quantity;

/// Options of `leaks`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LeaksArgs {
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    known: KnownArgs,
}

/// What is no news.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "known")]
pub(crate) struct KnownArgs {
    /// File of known leaks, as LeakSanitizer has it (`leak:PATTERN` lines)
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    /// Keep what the C and C++ runtimes allocate for themselves
    #[arg(long = "keep-runtime")]
    keep_runtime: bool,
}

/// What is still held, by allocating site.
pub(crate) fn run(args: &LeaksArgs) -> Outcome {
    show(&args.report, &args.known)
}

/// The same for a report that has no options about what is known.
pub(crate) fn show(report: &ReportArgs, known: &KnownArgs) -> Outcome {
    let mut look = report.look.load(&report.targets)?;
    known.take_out(&mut look)?;
    let view = leaks::leaks(&look.tree(), Verdict::of(&look.profile), &look.query);
    report::write(
        &report.look,
        || text::leaks::leaks(&view, &report.style.text(&look)),
        || json::leaks(&view),
    )
}

impl KnownArgs {
    /// Takes known blocks out of what is looked at and its base, and says on stderr what they were.
    pub(crate) fn take_out(&self, look: &mut Look) -> Outcome {
        let suppressions = self.suppressions.as_deref().map(read).transpose()?;
        let take_out = |profile: &mut Profile| {
            let suppressed = suppressions.as_ref().map(|known| known.apply(profile)).unwrap_or_default();
            let of_runtime = match self.keep_runtime {
                true => Values::default(),
                false => suppression::take_out_runtime(profile),
            };
            (suppressed, of_runtime)
        };
        let (suppressed, of_runtime) = take_out(&mut look.profile);
        look.base.as_mut().map(take_out);
        tell("suppressed", suppressed);
        tell("not counted, of the C and C++ runtimes", of_runtime);
        Ok(())
    }
}

fn read(path: &Path) -> Outcome<Suppressions> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, error.to_string()))?;
    Suppressions::parse(&text).map_err(|error| Failure::file(path, error.to_string()))
}

fn tell(what: &str, values: Values) {
    if values.inuse_objects > 0.0 {
        let bytes = quantity::bytes(values.inuse_bytes);
        let plural = if values.inuse_objects.round() == 1.0 { "" } else { "s" };
        eprintln!("heapwise: {what}: {bytes} in {:.0} block{plural}", values.inuse_objects);
    }
}
