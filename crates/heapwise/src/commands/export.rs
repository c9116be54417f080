//! `export` and `symbolize`: a profile in the format of another tool, or with its symbols inside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use heapwise_profile::coverage::Coverage;
use heapwise_profile::query::LeafCut;
use heapwise_profile::{Profile, Query, call_tree};
use heapwise_render::export::{self, Format, Limited, Packing};

use super::{dump, skynet_names};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Overwrite};
use crate::own_code::OwnArgs;
use crate::progress_bar::ReadArgs;
use crate::report_input::{FilterArgs, MetricArgs, ReportOptions};
use crate::symbols::SymbolArgs;
use crate::{input_error, warnings};
use heapwise_capture::recording::embed::{self, Embedded};
use heapwise_capture::recording::moment::DEFAULT_STEP_MS;
use heapwise_capture::recording::open;
use heapwise_capture::target::Target;

/// Bytes that are written unless `--limit` is given: more than other tools read.
const MOST_BYTES: u64 = 4 << 30;

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    targets: Vec<String>,
    /// Write this format: pprof, heap_v2, gperftools, raw, folded, callgrind, speedscope, firefox,
    /// dhat, heaptrack, memray, pro, json, csv
    #[arg(short = 'f', long = "format", value_name = "FORMAT", value_parser = parse_format, help_heading = "Output options")]
    format: Format,
    #[command(flatten)]
    metric: MetricArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Subtract this profile
    #[arg(long, value_name = "FILE|PID", help_heading = "Filter options")]
    base: Option<String>,
    /// Write the result to FILE, compressed if its name ends in .gz or .zst
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, help_heading = "Output options")]
    force: bool,
}

/// Options of `symbolize`.
#[derive(Debug, Args)]
pub(crate) struct SymbolizeArgs {
    /// Profile
    #[arg(value_name = "FILE|PID")]
    target: String,
    #[command(flatten)]
    symbols: SymbolArgs,
    /// Write to FILE [default: the profile itself]
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
}

fn parse_format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("no such format; there are {}", known.join(", "))
    })
}

/// Writes the profile in another tool's format.
pub(crate) fn run(args: ExportArgs) -> Outcome {
    let options = ReportOptions {
        own: OwnArgs::default(),
        metric: args.metric,
        filter: args.filter,
        symbols: args.symbols,
        read: args.read,
        base: args.base,
        step: DEFAULT_STEP_MS,
        rows: None,
        cum: false,
        json: false,
        output: args.output,
        force: args.force,
    };
    let report = options.load(&args.targets)?;
    let profile = match &report.baseline {
        Some(baseline) => Arc::new(heapwise_profile::diff::subtract(&report.profile, baseline)),
        None => report.profile,
    };
    let query = Query { leaf_cut: LeafCut::Nothing, ..report.query.clone() };
    let is_part = query.filter.selects() || query.filter.matches_frames();
    let profile = if is_part { Arc::new(call_tree::select(&profile, &query)) } else { profile };
    let profile = match args.format {
        Format::Skynet => {
            let mut profile = Profile::clone(&profile);
            skynet_names::add(&mut profile, &options.symbols);
            Arc::new(profile)
        }
        _ => profile,
    };
    // Many formats have no place for it.
    let coverage = Coverage::of(&profile);
    if !coverage.is_complete() {
        warnings::coverage(&coverage);
    }
    let packing = options.output().map_or(Packing::None, |path| Packing::of(path, args.format));
    let limit = options.read.limit_bytes().unwrap_or(MOST_BYTES);
    output::write_result(options.output(), options.overwrite(), |out| {
        packing.pack(out, |out| {
            export::export(&profile, args.format, report.query.metric, &mut Limited::new(out, limit))
        })
    })
}

/// Writes the profile with its symbols inside, so that it opens on a machine without the binaries.
pub(crate) fn symbolize(args: &SymbolizeArgs) -> Outcome {
    if open::is_recording(Path::new(&args.target)) {
        return symbolize_recording(args);
    }
    let loaded = Target::parse(&args.target)?.load(&ReadArgs::default().options())?;
    warnings::print(&loaded.warnings);
    let mut profile = loaded.profile;
    let report = args.symbols.symbolize(&mut profile);
    let path = args.output.clone().unwrap_or_else(|| match Path::new(&args.target) {
        file if file.is_file() => file.to_owned(),
        _ => dump::default_name(&profile),
    });
    dump::write_profile(&profile, &path, Overwrite::Allow)?;
    note!("{} of {} addresses have names now; wrote {}", report.resolved, report.locations, path.display());
    Ok(())
}

fn symbolize_recording(args: &SymbolizeArgs) -> Outcome {
    let source = Path::new(&args.target);
    let path = args.output.as_deref().unwrap_or(source);
    if path != source {
        if !source.is_file() {
            return Err(input_error!(
                "{}: a rotated recording takes its names into its own files",
                args.target
            ));
        }
        std::fs::copy(source, path).map_err(|error| Failure::file(path, error))?;
    }
    let embedded = embed::embed(path, |profile| drop(args.symbols.symbolize(profile)))?;
    let Embedded { named, all } = embedded;
    note!("{named} of {all} addresses have names inside {} now", path.display());
    Ok(())
}
