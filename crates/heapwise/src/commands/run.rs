//! `run`: a program with the probe inside, its profile afterwards.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heapwise_format::segment::{Counter, Mode, OnFull, RuntimeLanguage, State};
use heapwise_hooks::family;
use heapwise_profile::coverage::Coverage;
use heapwise_profile::finding::most_important;
use heapwise_profile::snapshot::Snapshot;
use heapwise_profile::{Began, CallTree, Metric, Profile, Query, script};
use heapwise_render::findings::{Files, Names};
use heapwise_render::{Text, coverage};

use super::dump;
use super::record::{self, RetentionArgs};
use super::run_allocators::AllocatorSearch;
use super::run_resident::Resident;
use super::run_watchers::{WatchOptions, Watched, Watchers, print_not_recorded};
use super::summary;
use super::switch::{GsMode, ModeArgs};
use crate::console::{closing_line, language, message};
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::own_code::OwnArgs;
use crate::symbols::SymbolArgs;
use heapwise_capture::child_recorder::Child;
use heapwise_capture::drain::{Beginning, RecordOptions, Recorded};
use heapwise_capture::failure::Outcome as CaptureOutcome;
use heapwise_capture::launch::{self, Ended, Hooked, Scope};
use heapwise_capture::process_tree::NotRecorded;
use heapwise_capture::recording::rotation;
use heapwise_capture::segment_lock::SegmentLock;
use heapwise_capture::segments::{self, SegmentEntry, SegmentFile};
use heapwise_capture::{process, stale_segments, suitability};
use heapwise_profile::quantity;

/// Findings of a recording with more allocations take seconds to read, and are left to `summary`.
const MOST_READ: u64 = 30_000_000;

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    #[command(flatten)]
    mode: ModeArgs,
    #[command(flatten)]
    keeping: RetentionArgs,
    /// Write the profile to FILE, as jemalloc's text when named .heap [default:
    /// heapwise.PROGRAM.PID.hwp]
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, help_heading = "Output options")]
    force: bool,
    /// Write a profile (FILE.PID), or with --log a recording (NAME.PID.hwr), for each child process
    /// too; wait for the ones that the program leaves behind
    #[arg(long, help_heading = "Capture options")]
    children: bool,
    /// Record arenas of Python's own allocator and not the objects in them
    #[arg(long, help_heading = "Capture options")]
    no_objects: bool,
    /// Print no summary
    #[arg(short, long, help_heading = "Output options")]
    quiet: bool,
    #[command(flatten)]
    own: OwnArgs,
}

/// Runs the program; the exit status is the program's.
pub(crate) fn run(mut args: RunArgs) -> Outcome<ExitCode> {
    args.mode.exact_by_default();
    let overwrite = if args.force { Overwrite::Allow } else { Overwrite::Refuse };
    args.refuse_unwritable(overwrite)?;
    args.own.rule()?;
    stale_segments::collect();
    // There may be many, and all are read at the end.
    let _lock = args.children.then(SegmentLock::take);
    let name = args.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_shell = !args.children && args.mode.mode() != Mode::Log && suitability::is_shell(&name);
    let scope = if args.children || is_shell { Scope::Tree } else { Scope::Child };
    let objects = if args.no_objects { ",objects:false" } else { "" };
    let conf = format!("{}{objects}", args.mode.conf());
    let running = launch::start(&args.command, &conf, scope, print_unhooked)?;
    let pid = running.pid();
    let log = (args.mode.mode() == Mode::Log).then(|| args.log_options(pid));
    let (tree, children, quiet) = (running.tree(), args.children, args.quiet);
    let profile = matches!(args.mode.mode(), Mode::Sampled | Mode::Exact);
    let watchers = Watchers::start(WatchOptions { pid, tree, log, profile, children, is_shell, quiet });
    let ended = running.wait()?;
    let mut watched = watchers.end(&ended)?;
    let segments = watched.tree.segments();
    let Some(found) = segments.iter().find(|found| found.process.pid == pid) else {
        let why = segments::unusable_directory().unwrap_or_else(|| {
            "it ended before its first allocation, or did not load the probe; see heapwise doctor".into()
        });
        note!("the program left no profile: {why}");
        if !args.children && !is_shell {
            segments.iter().for_each(|segment| drop(segment.remove()));
        }
        return Ok(ExitCode::from(ended.code));
    };
    let only = if is_shell { watched.tree.only_child() } else { None };
    let found = match only.as_ref().filter(|only| !only.is_alive() && allocated(only) > allocated(found)) {
        Some(child) => {
            watched.peak_ledger = None;
            args.name_only_child(&name, child);
            child
        }
        None => found,
    };
    // In log mode the first child is named while the program runs.
    if !args.children
        && !args.quiet
        && args.mode.mode() != Mode::Log
        && found.process.pid == pid
        && watched.tree.children() > 0
    {
        print_not_recorded(NotRecorded::Several(watched.tree.children()));
    }
    match finish_all(&args, found, &ended, overwrite, watched) {
        Ok(()) => segments.iter().for_each(|segment| drop(segment.remove())),
        // The exit status is the program's in any case.
        Err(failure) => {
            note!("{}", failure.line(language()));
            note!("the last state of the program can still be read: heapwise dump -o FILE {pid}");
        }
    }
    Ok(ExitCode::from(ended.code))
}

/// Bytes that a process allocated.
fn allocated(found: &SegmentEntry) -> u64 {
    let read = |segment: SegmentFile| Ok(segment.snapshot()?.counter(Counter::AllocatedBytes));
    found.open().and_then(read).unwrap_or(0)
}

/// Writes and reports what was recorded of the program and its children.
fn finish_all(
    args: &RunArgs,
    found: &SegmentEntry,
    ended: &Ended,
    overwrite: Overwrite,
    watched: Watched,
) -> Outcome {
    let Watched { recorded, children, mut tree, peak_ledger, allocators } = watched;
    if let Some(recorded) = recorded {
        return args.finish_log(recorded, children, noted_peak(found));
    }
    if args.mode.mode() == Mode::Off {
        return Ok(());
    }
    let resident = peak_ledger.map(|ledger| Resident { ledger, peak: noted_peak(found) });
    finish(args, found, ended, overwrite, resident.as_ref(), allocators)?;
    if args.children { write_children(args, &tree.descendants(), overwrite) } else { Ok(()) }
}

impl RunArgs {
    /// Fails before the program runs when its profile or recording could not be written afterwards.
    fn refuse_unwritable(&self, overwrite: Overwrite) -> Outcome {
        match &self.output {
            Some(path) => record::refuse_unwritable(path, overwrite),
            None if self.mode.mode() == Mode::Off => Ok(()),
            // The name has the pid in it; only the directory is known.
            None => output::refuse_unwritable(&dump::default_name(&Profile::default()), Overwrite::Allow),
        }
    }

    /// Says that the profile is that of the process which a shell started.
    fn name_only_child(&self, shell: &str, child: &SegmentEntry) {
        if !self.quiet {
            let pid = child.process.pid;
            note!("this is the profile of process {pid}, the only one that {shell} started");
        }
    }

    /// What is done at the end of a recorded program, and said about it.
    fn finish_log(
        &self,
        recorded: CaptureOutcome<Recorded>,
        children: Option<CaptureOutcome<Vec<Child>>>,
        noted_peak: Option<u64>,
    ) -> Outcome {
        let recorded = recorded?;
        self.keeping.finish(&recorded)?;
        if !self.quiet {
            record::report(&recorded);
            Resident { ledger: recorded.peak_ledger, peak: noted_peak }.print();
            // The run succeeds even if its recording cannot be read.
            let text = (recorded.totals.allocs <= MOST_READ)
                .then(|| summary::recording_findings(&recorded.path, &self.own).ok())
                .flatten();
            match text {
                Some(text) => text.lines().for_each(|line| say_err!("{line}")),
                None => record::suggest_summary(&recorded.path),
            }
        }
        let mut children = children.transpose()?.unwrap_or_default();
        children.sort_by_key(|child| Reverse(child.peak_bytes()));
        children.into_iter().try_for_each(|child| self.finish_child(child))
    }

    /// The named file, or else `default`. The name of a restart in a container has the same pid, so
    /// it gets a number where a file exists: `heapwise.app.7_2.hwp`.
    fn path_or(&self, default: PathBuf) -> PathBuf {
        if let Some(path) = &self.output {
            return path.clone();
        }
        let (stem, ending) = (default.with_extension(""), default.extension().unwrap_or_default());
        let numbered = |number: u32| {
            let mut name = stem.clone().into_os_string();
            name.push(format!("_{number}."));
            name.push(ending);
            PathBuf::from(name)
        };
        let is_free = |path: &PathBuf| path.symlink_metadata().is_err() && rotation::existing(path).is_none();
        let mut names = std::iter::once(default.clone()).chain((2..).map(numbered));
        if self.force { default } else { names.find(is_free).unwrap_or(default) }
    }

    /// How the program is recorded in log mode.
    fn log_options(&self, pid: u32) -> RecordOptions {
        let program = self.command.first().map(|program| program.to_string_lossy().into_owned());
        let path = self.path_or(record::default_name(&program.unwrap_or_default(), pid));
        let mut options = self.keeping.record_options(path, Beginning::Start);
        if self.mode.mode == Some(GsMode::LogFast) {
            options.on_full = OnFull::Drop;
        }
        options
    }

    /// What is done with the recording of a child, and said about it.
    fn finish_child(&self, child: Child) -> Outcome {
        let Child { pid, program, recorded, runs_on } = child;
        let recorded = recorded?;
        self.keeping.finish(&recorded)?;
        if !self.quiet {
            let peak = quantity::bytes(recorded.peak.0 as f64);
            let path = recorded.path.display();
            let lost = match recorded.lost {
                0 => String::new(),
                lost => format!(", {lost} events lost"),
            };
            let how = if runs_on { "; it runs on, unrecorded" } else { "" };
            note!("child {pid} ({program}): {path}, peak {peak}{lost}{how}");
        }
        Ok(())
    }
}

/// Names what is not hooked of the allocators inside a program.
fn print_unhooked(pid: u32, hooked: CaptureOutcome<Hooked>) {
    let name = process::usual_name(pid);
    // It may have ended.
    let program = if name.is_empty() { format!("process {pid}") } else { format!("{name} (pid {pid})") };
    match hooked {
        Err(failure) => note!("allocators inside {program} are not hooked: {failure}"),
        Ok(hooked) => {
            for (function, why) in &hooked.refused {
                note!("{function} of {program} is not hooked: {why}");
            }
        }
    }
}

fn finish(
    args: &RunArgs,
    found: &SegmentEntry,
    ended: &Ended,
    overwrite: Overwrite,
    resident: Option<&Resident>,
    allocators: Option<AllocatorSearch>,
) -> Outcome {
    let segment = found.open()?;
    let snapshot = segment.snapshot()?;
    if snapshot.state() == State::StoodAside {
        let reason = io::Error::from_raw_os_error(snapshot.counter(Counter::Errno) as i32);
        note!("nothing was recorded: no memory for the tables in {}: {reason}", found.path.display());
    }
    let mut profile = snapshot.profile();
    profile.meta.end = ended.into();
    let recorded = &mut profile.meta.recorded;
    // CPython contains mimalloc, and uses it in free-threaded builds only.
    if recorded.runtime.is_none_or(|runtime| runtime.language != RuntimeLanguage::Python) {
        let families = AllocatorSearch::end(allocators, Path::new(&profile.meta.program));
        recorded.own_allocator = family::unseen(&families, recorded.entry_hooks > 0).unwrap_or_default();
    }
    // The probe's last sign of life may be long before the end.
    if recorded.began == Began::WithProgram && recorded.stopped_ns.is_none() {
        profile.meta.duration_ns = u64::try_from(ended.ran.as_nanos()).ok();
    }
    let path = args.path_or(dump::default_name(&profile));
    dump::write_profile(&profile, &path, overwrite)?;
    if !args.quiet {
        script::fold_native(&mut profile);
        print_totals(&snapshot, &profile, ended);
        resident.into_iter().for_each(Resident::print);
        closing_line(Text::ProfileFile, &path.display().to_string());
        print_findings(profile, &path, resident, &args.own)?;
    }
    Ok(())
}

/// What stands out, with the next command for each.
fn print_findings(mut profile: Profile, path: &Path, resident: Option<&Resident>, own: &OwnArgs) -> Outcome {
    SymbolArgs::default().symbolize(&mut profile);
    let own = own.rule()?;
    let names = Names::new(&profile, &own);
    let mut found = names.find(None);
    found.extend(resident.into_iter().flat_map(Resident::findings));
    let found = most_important(found);
    let path = path.display().to_string();
    let files = Files { file: &path, base: None, program: names.program() };
    for line in names.text(&found, files, language()).lines() {
        say_err!("{line}");
    }
    if found.is_empty() {
        let next = format!("heapwise top --alloc_space {path}");
        say_err!("{}", message(Text::Next, &[("command", &next)]));
    }
    Ok(())
}

/// Most resident bytes at any time, as the probe noted when the program exited.
fn noted_peak(found: &SegmentEntry) -> Option<u64> {
    let segment = found.open().ok()?;
    let peak = segment.snapshot().ok()?.counter(Counter::PeakResident);
    (peak > 0).then_some(peak)
}

fn print_totals(snapshot: &Snapshot<'_, SegmentFile>, profile: &Profile, ended: &Ended) {
    let total = profile.total();
    let error = |metric: Metric| {
        let total = CallTree::new(profile, &Query { metric, ..Query::default() }).total();
        let percent = if total.value > 0.0 { 100.0 * total.standard_error() / total.value } else { 0.0 };
        if percent > 0.0 { format!(" ±{percent:.1} %") } else { String::new() }
    };
    let how = coverage::end(profile.meta.end, language());
    let time = quantity::duration(ended.ran);
    let ran = [("program", profile.meta.title()), ("time", &*time), ("end", &*how)];
    note!("{}", message(Text::Ran, &ran));
    let line = |name: Text, bytes: f64, rest: String| closing_line(name, &(quantity::bytes(bytes) + &rest));
    let blocks = |count: f64| message(Text::InBlocks, &[("n", &format!("{count:.0}"))]);
    line(Text::Allocated, total.alloc_bytes, error(Metric::AllocSpace) + &blocks(total.alloc_objects));
    line(Text::Peak, profile.meta.peak_bytes.unwrap_or(0) as f64, String::new());
    line(Text::StillLive, total.inuse_bytes, error(Metric::InuseSpace) + &blocks(total.inuse_objects));
    if snapshot.mode() == Mode::Sampled {
        closing_line(Text::Samples, &snapshot.counter(Counter::Recorded).to_string());
    }
    closing_line(Text::Covers, &coverage::line(&Coverage::of(profile), language()));
    let own = quantity::bytes(snapshot.counter(Counter::OwnBytes) as f64);
    closing_line(Text::Probe, &message(Text::ProbeMemory, &[("bytes", &own)]));
}

/// Writes a profile of each child. One that runs on, because Ctrl-C ended the recording, has its
/// profile until now.
fn write_children(args: &RunArgs, children: &[SegmentEntry], overwrite: Overwrite) -> Outcome {
    for child in children {
        let runs_on = child.is_alive();
        let profile = child.open()?.snapshot()?.profile();
        let path = match &args.output {
            Some(path) => format!("{}.{}", path.display(), child.process.pid).into(),
            None => args.path_or(dump::default_name(&profile)),
        };
        dump::write_profile(&profile, &path, overwrite)?;
        if !args.quiet {
            let how = if runs_on { Text::RunsOn.text(language()) } else { "" };
            closing_line(Text::Child, &format!("{}{how}", path.display()));
        }
    }
    Ok(())
}
