//! `dump`: the profile of a process, running or ended, as a file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::{Metric, Profile};
use heapwise_render::export::{self, Format};

use super::skynet_names;
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::symbols::SymbolArgs;
use heapwise_capture::target;

/// Options of `dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Pid or program name
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Write to FILE, in the format of its ending: .hwp, .heap, .pro, .pb.gz, .folded, .json, …
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, help_heading = "Output options")]
    force: bool,
}

/// Writes the profile.
pub(crate) fn run(args: &DumpArgs) -> Outcome {
    let found = target::process(&args.target)?;
    let profile = target::of_segment(&found)?;
    let path = args.output.clone().unwrap_or_else(|| default_name(&profile));
    let overwrite = if args.force { Overwrite::Allow } else { Overwrite::Refuse };
    write_profile(&profile, &path, overwrite)?;
    note!("wrote {0}; show it with: heapwise top {0}", path.display());
    Ok(())
}

/// `heapwise.<program>.<pid>.hwp`.
pub(crate) fn default_name(profile: &Profile) -> PathBuf {
    let program = profile.meta.title();
    format!("heapwise.{program}.{}.hwp", profile.meta.pid.unwrap_or(0)).into()
}

/// Writes a profile in the format of the ending of `path`; without one, and under an
/// ending that no format has, heapwise's own. Names are added where the format could not get them
/// later.
pub(crate) fn write_profile(profile: &Profile, path: &Path, overwrite: Overwrite) -> Outcome {
    let format = Format::of_file_name(&path.to_string_lossy()).unwrap_or(Format::Heapwise);
    let mut profile = Cow::Borrowed(profile);
    // Later the names are gone.
    heapwise_symbolize::name_compiled_until_now(&mut profile);
    if !format.keeps_addresses() {
        let symbols = SymbolArgs::default();
        symbols.symbolize(profile.to_mut());
        if format == Format::Skynet {
            skynet_names::add(profile.to_mut(), &symbols);
        }
    }
    output::write_private_file(path, overwrite, |mut out| {
        export::export(&profile, format, Metric::InuseSpace, &mut out)
    })
}
