//! The coverage of a profile in words: one line in headers of reports, on the page, and in comments
//! of exports. The table in docs/RELIABILITY.md lists every phrase; a test compares them.

use std::time::Duration;

use crate::amount::percent;
use crate::{Language, Text};
use heapwise_profile::coverage::{Coverage, Gap};
use heapwise_profile::model::{Runtime, RuntimeSupport};
use heapwise_profile::printable::printable;
use heapwise_profile::quantity::{bytes, duration};
use heapwise_profile::unattributed::Cause;
use heapwise_profile::{Began, Inherited, ProgramEnd, Sampling, Shortage, Shortages, Values};

/// What a profile covers and lacks, in one line.
#[must_use]
pub fn line(coverage: &Coverage) -> String {
    let mut parts = vec![scope(coverage)];
    parts.extend(reason_of_zero(coverage));
    parts.extend(coverage.runtime.map(|runtime| followed(runtime, coverage.end)));
    parts.extend(coverage.gaps.iter().filter(|gap| **gap != Gap::NeverRecorded).map(phrase));
    parts.extend(coverage.named.map(|share| format!("{} of the bytes have a name", percent(share, 1.0))));
    printable(&parts.join("; ")).into_owned()
}

/// `every block from the start of the program to its exit (status 0)`.
fn scope(coverage: &Coverage) -> String {
    let which = match coverage.sampling {
        Sampling::Exact => "every block".to_owned(),
        Sampling::Poisson { mean_bytes } => format!("one block per {}", bytes(mean_bytes as f64)),
    };
    let from = match coverage.began {
        Began::Never => {
            let hint = match coverage.pid {
                Some(pid) if coverage.end == ProgramEnd::Running => format!(" (heapwise start {pid})"),
                _ => String::new(),
            };
            return format!("nothing: recording was never on{hint}");
        }
        Began::Unknown if coverage.source.is_empty() => return format!("{which} that the source recorded"),
        Began::Unknown => return format!("{which} that the source recorded ({})", coverage.source),
        Began::WithProgram => "the start of the program".to_owned(),
        Began::Late { after_ns } => format!("{} after the start of the program", time(after_ns)),
        Began::Reset { after_ns } => {
            format!("the reset {} after the start of the program", time(after_ns))
        }
    };
    let is_stopped = coverage.gaps.iter().any(|gap| matches!(gap, Gap::Stopped { .. }));
    let to = match coverage.end {
        _ if is_stopped => String::new(),
        ProgramEnd::Running => " until now".to_owned(),
        ended if ended.has_ended() => format!(" to its end ({})", end(ended, Language::English)),
        _ => String::new(),
    };
    let lasting = coverage.duration_ns.map_or_else(String::new, |ns| format!(", {}", time(ns)));
    format!("{which} from {from}{to}{lasting}")
}

/// `Python 3.11 (live when the interpreter began to shut down)`.
fn followed(runtime: Runtime, end: ProgramEnd) -> String {
    let Runtime { major, minor, .. } = runtime;
    let when = match end {
        ProgramEnd::Exited { .. } => " (live when the interpreter began to shut down)",
        _ => "",
    };
    format!("lines of Python {major}.{minor}{when}")
}

/// Why the objects of a runtime are not seen.
fn not_followed(runtime: Runtime) -> String {
    let Runtime { major, minor, support } = runtime;
    let why = match support {
        RuntimeSupport::FreeThreaded => "is a free-threaded build",
        RuntimeSupport::UnknownVersion | RuntimeSupport::Followed => "is not supported",
    };
    format!("Python {major}.{minor} {why}: its small objects count as arenas, without Python lines")
}

/// How a program ended: `exit status 0`, `killed by signal 9`.
#[must_use]
pub fn end(end: ProgramEnd, language: Language) -> String {
    let (text, value) = match end {
        ProgramEnd::Unknown => (Text::EndUnknown, String::new()),
        ProgramEnd::Running => (Text::EndRunning, String::new()),
        ProgramEnd::Exited { status: Some(status) } => (Text::EndStatus, status.to_string()),
        ProgramEnd::Exited { status: None } => (Text::EndExited, String::new()),
        ProgramEnd::Killed { signal: Some(signal) } => (Text::EndSignal, signal.to_string()),
        ProgramEnd::Killed { signal: None } => (Text::EndKilled, String::new()),
        ProgramEnd::Replaced => (Text::EndReplaced, String::new()),
    };
    text.with(language, &[("status", &value), ("signal", &value)])
}

/// Why the total is zero, where no gap is the reason.
fn reason_of_zero(coverage: &Coverage) -> Option<String> {
    let Values { alloc_objects, inuse_objects, .. } = coverage.counted;
    match () {
        () if coverage.began == Began::Never => None,
        () if coverage.counted == Values::default() => Some(match coverage.sampling {
            Sampling::Exact => "no allocation was recorded in that time".into(),
            Sampling::Poisson { .. } => "no block was sampled in that time".into(),
        }),
        () if inuse_objects == 0.0 && alloc_objects > 0.0 => {
            Some(format!("all {alloc_objects:.0} blocks were freed"))
        }
        () => None,
    }
}

/// One gap.
#[must_use]
pub fn phrase(gap: &Gap) -> String {
    match gap {
        Gap::NeverRecorded => "recording was never on".into(),
        Gap::Cut(cut) => cut.remark(),
        Gap::OwnAllocator(function) => {
            format!("not seen: blocks of the allocator inside the executable ({function})")
        }
        Gap::Runtime(runtime) => not_followed(*runtime),
        Gap::Earlier { frees: 0, .. } => "blocks allocated earlier are missing".into(),
        Gap::Earlier { frees, .. } => {
            format!("blocks allocated earlier are missing ({frees} of them were freed since)")
        }
        Gap::BeforeReset { .. } => "blocks allocated before the reset are missing".into(),
        Gap::Stopped { ns } => {
            format!("recording was switched off {} ago: later blocks are missing", time(*ns))
        }
        Gap::Paused { times } => {
            format!(
                "recording was off {} in between: blocks allocated then are missing",
                counted(*times, "time")
            )
        }
        Gap::Inherited(Inherited { bytes: amount, parent }) => format!(
            "not shown: {} inherited from {parent} by fork (heapwise top {parent})",
            bytes(*amount as f64)
        ),
        Gap::LostEvents { events, shortages } => {
            format!("{} lost ({})", counted(*events, "event"), reasons(*shortages, "the log was full"))
        }
        Gap::Untracked { blocks, bytes: amount, shortages } => format!(
            "{} of {} counted as freed at once ({}): live memory may be up to that much higher",
            counted(*blocks, "block"),
            bytes(*amount as f64),
            reasons(*shortages, "the index of live blocks was full")
        ),
        Gap::Unattributed { cause, values, shortages } => unattributed(*cause, values, *shortages),
        Gap::InsideProbe { samples } => {
            format!("{} of signal handlers inside the probe skipped", counted(*samples, "sample"))
        }
        Gap::UnhookedBlocks { frees } => {
            format!("{} freed that no hooked function allocated", counted(*frees, "block"))
        }
        Gap::CutStacks { stacks } => format!("{} cut at the depth limit", counted(*stacks, "stack")),
        Gap::BrokenStacks { stacks } => {
            format!("{} without unwind information to the end", counted(*stacks, "stack"))
        }
        Gap::Threads(count) => format!("{} without a record", counted(*count, "thread")),
        Gap::Modules(count) => format!("{} without a record", counted(*count, "binary")),
        Gap::Marks(count) => format!("{} without room", counted(*count, "mark")),
        Gap::BelowPeak { counted, peak } => {
            let [counted, peak] = [counted, peak].map(|amount| bytes(*amount as f64));
            format!("counted when {counted} of the peak of {peak} were live")
        }
    }
}

/// `1.20 MiB without a stack (a table of the probe was full)`.
fn unattributed(cause: Cause, values: &Values, shortages: Shortages) -> String {
    let lacking = match cause {
        Cause::Stacks => "stack",
        Cause::Sites => "site",
        Cause::Labels => "label",
    };
    let amount = match values.inuse_bytes {
        0.0 => format!("{} allocated and freed", bytes(values.alloc_bytes)),
        held => bytes(held),
    };
    format!("{amount} without a {lacking} ({})", reasons(shortages, "a table of the probe was full"))
}

fn reasons(shortages: Shortages, otherwise: &str) -> String {
    let words: Vec<&str> = shortages.iter().map(reason).collect();
    if words.is_empty() { otherwise.to_owned() } else { words.join(", ") }
}

/// Why there was no room.
#[must_use]
pub fn reason(shortage: Shortage) -> &'static str {
    match shortage {
        Shortage::FileSystem => "the file system of the segment was full",
        Shortage::Sandbox => "the program forbade system calls by seccomp",
        Shortage::AddressSpace => "the program limited its address space",
        Shortage::LockedMemory => "the program locked its memory",
        Shortage::Table => "a table of the probe was full",
        Shortage::SlowRecorder => "the recorder was slower than the program",
    }
}

fn counted(count: u64, noun: &str) -> String {
    match (count, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "binary") => format!("{count} binaries"),
        _ => format!("{count} {noun}s"),
    }
}

fn time(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}
