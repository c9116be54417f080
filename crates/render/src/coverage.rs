//! The coverage of a profile in words: one line in headers of reports, on the page, and in comments
//! of exports. The table in docs/RELIABILITY.md lists every phrase; a test compares them.

use std::time::Duration;

use crate::amount::percent;
use crate::{Language, Text};
use heapwise_profile::coverage::{Coverage, Gap};
use heapwise_profile::model::{Cut, CutReason, Position};
use heapwise_profile::model::{Runtime, RuntimeLanguage, RuntimeSupport};
use heapwise_profile::printable::printable;
use heapwise_profile::quantity::{bytes, duration};
use heapwise_profile::unattributed::Cause;
use heapwise_profile::{Began, Inherited, ProgramEnd, Sampling, Shortage, Shortages, Values};

/// What a profile covers and lacks, in one line.
#[must_use]
pub fn line(coverage: &Coverage, language: Language) -> String {
    let mut parts = vec![scope(coverage, language)];
    parts.extend(reason_of_zero(coverage, language));
    parts.extend(coverage.runtime.map(|runtime| followed(runtime, coverage.end, language)));
    let gaps = coverage.gaps.iter().filter(|gap| **gap != Gap::NeverRecorded);
    parts.extend(gaps.map(|gap| phrase(gap, language)));
    let named = |share| Text::NamedShare.with(language, &[("percent", &percent(share, 1.0))]);
    parts.extend(coverage.named.map(named));
    let between = match language {
        Language::English => "; ",
        Language::Chinese => "；",
    };
    printable(&parts.join(between)).into_owned()
}

/// `every block from the start of the program to its exit (status 0)`.
fn scope(coverage: &Coverage, language: Language) -> String {
    let text = |text: Text| text.text(language).to_owned();
    let which = match coverage.sampling {
        Sampling::Exact => text(Text::EveryBlock),
        Sampling::Poisson { mean_bytes } => {
            Text::OneBlockPer.with(language, &[("bytes", &bytes(mean_bytes as f64))])
        }
    };
    let from = match coverage.began {
        Began::Never => {
            let hint = match coverage.pid {
                Some(pid) if coverage.end == ProgramEnd::Running => {
                    Text::NeverOnHint.with(language, &[("pid", &pid.to_string())])
                }
                _ => String::new(),
            };
            return Text::NeverOn.with(language, &[("hint", &hint)]);
        }
        Began::Unknown if coverage.source.is_empty() => {
            return Text::SourceRecorded.with(language, &[("which", &which)]);
        }
        Began::Unknown => {
            let values = [("which", which.as_str()), ("source", &coverage.source)];
            return Text::SourceRecordedBy.with(language, &values);
        }
        Began::WithProgram => text(Text::FromStart),
        Began::Late { after_ns } => Text::FromLater.with(language, &[("time", &time(after_ns))]),
        Began::Reset { after_ns } => Text::FromReset.with(language, &[("time", &time(after_ns))]),
    };
    let is_stopped = coverage.gaps.iter().any(|gap| matches!(gap, Gap::Stopped { .. }));
    let to = match coverage.end {
        _ if is_stopped => String::new(),
        ProgramEnd::Running => text(Text::UntilNow),
        ended if ended.has_ended() => Text::ToItsEnd.with(language, &[("end", &end(ended, language))]),
        _ => String::new(),
    };
    let lasting = coverage.duration_ns.map(|ns| Text::Lasting.with(language, &[("time", &time(ns))]));
    let lasting = lasting.unwrap_or_default();
    let values = [("which", &*which), ("from", &*from), ("to", &*to), ("lasting", &*lasting)];
    Text::ScopeFrom.with(language, &values)
}

/// `lines of Python 3.11 (live when the interpreter began to shut down)`.
fn followed(runtime: Runtime, end: ProgramEnd, language: Language) -> String {
    let when = match (runtime.language, end) {
        (RuntimeLanguage::Python, ProgramEnd::Exited { .. }) => Text::PythonShutdown.text(language),
        _ => "",
    };
    let name = runtime.language.name();
    let values = [("runtime", name), ("version", &*version(runtime)), ("when", when)];
    Text::RuntimeLines.with(language, &values)
}

/// Why the objects of a runtime are not seen.
fn not_followed(runtime: Runtime, language: Language) -> String {
    let why = match (runtime.language, runtime.support) {
        (_, RuntimeSupport::LinesOnly) => Text::RuntimePages,
        (RuntimeLanguage::Python, RuntimeSupport::FreeThreaded) => Text::PythonFreeThreaded,
        (RuntimeLanguage::Python, _) => Text::PythonUnsupported,
        _ => Text::RuntimeUnsupported,
    };
    why.with(language, &[("runtime", runtime.language.name()), ("version", &version(runtime))])
}

fn version(Runtime { major, minor, .. }: Runtime) -> String {
    format!("{major}.{minor}")
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
fn reason_of_zero(coverage: &Coverage, language: Language) -> Option<String> {
    let Values { alloc_objects, inuse_objects, .. } = coverage.counted;
    match () {
        () if coverage.began == Began::Never => None,
        () if coverage.counted == Values::default() => Some(match coverage.sampling {
            Sampling::Exact => Text::NoAllocation.text(language).to_owned(),
            Sampling::Poisson { .. } => Text::NoSample.text(language).to_owned(),
        }),
        () if inuse_objects == 0.0 && alloc_objects > 0.0 => {
            Some(Text::AllFreed.with(language, &[("n", &format!("{alloc_objects:.0}"))]))
        }
        () => None,
    }
}

/// One gap.
#[must_use]
pub fn phrase(gap: &Gap, language: Language) -> String {
    let with = |text: Text, values: &[(&str, &str)]| text.with(language, values);
    let counted = |text: Text, number: u64| text.counted(language, number);
    let amount = |number: u64| bytes(number as f64);
    match gap {
        Gap::NeverRecorded => with(Text::GapNever, &[]),
        Gap::Cut(cut) => cut_file(cut, language),
        Gap::OwnAllocator(function) => with(Text::GapOwnAllocator, &[("function", function)]),
        Gap::Runtime(runtime) => not_followed(*runtime, language),
        Gap::Earlier { frees: 0, .. } => with(Text::GapEarlier, &[]),
        Gap::Earlier { frees, .. } => with(Text::GapEarlierFreed, &[("n", &frees.to_string())]),
        Gap::BeforeReset { .. } => with(Text::GapBeforeReset, &[]),
        Gap::Stopped { ns } => with(Text::GapStopped, &[("time", &time(*ns))]),
        Gap::Paused { times } => with(Text::GapPaused, &[("times", &counted(Text::CountTimes, *times))]),
        Gap::Inherited(Inherited { bytes, parent }) => {
            with(Text::GapInherited, &[("bytes", &amount(*bytes)), ("parent", &parent.to_string())])
        }
        Gap::LostEvents { events, shortages } => with(
            Text::GapLost,
            &[
                ("events", &counted(Text::CountEvents, *events)),
                ("reasons", &reasons(*shortages, Text::LogFull, language)),
            ],
        ),
        Gap::Untracked { blocks, bytes, shortages } => with(
            Text::GapUntracked,
            &[
                ("blocks", &counted(Text::CountBlocks, *blocks)),
                ("bytes", &amount(*bytes)),
                ("reasons", &reasons(*shortages, Text::IndexFull, language)),
            ],
        ),
        Gap::Unattributed { cause, values, shortages } => unattributed(*cause, values, *shortages, language),
        Gap::BelowPeak { counted, peak } => {
            with(Text::GapBelowPeak, &[("counted", &amount(*counted)), ("peak", &amount(*peak))])
        }
        Gap::InsideProbe { .. }
        | Gap::UnhookedBlocks { .. }
        | Gap::CutStacks { .. }
        | Gap::BrokenStacks { .. }
        | Gap::Threads(_)
        | Gap::Modules(_)
        | Gap::Marks(_) => counted_gap(gap, language),
    }
}

/// A gap that is a number of things.
fn counted_gap(gap: &Gap, language: Language) -> String {
    let (text, name, things, number) = match *gap {
        Gap::InsideProbe { samples } => (Text::GapInsideProbe, "samples", Text::CountSamples, samples),
        Gap::UnhookedBlocks { frees } => (Text::GapUnhooked, "blocks", Text::CountBlocks, frees),
        Gap::CutStacks { stacks } => (Text::GapCutStacks, "stacks", Text::CountStacks, stacks),
        Gap::BrokenStacks { stacks } => (Text::GapBrokenStacks, "stacks", Text::CountStacks, stacks),
        Gap::Threads(count) => (Text::GapNoRecord, "things", Text::CountThreads, count),
        Gap::Modules(count) => (Text::GapNoRecord, "things", Text::CountBinaries, count),
        Gap::Marks(count) => (Text::GapNoRoom, "things", Text::CountMarks, count),
        _ => return String::new(),
    };
    text.with(language, &[(name, &things.counted(language, number))])
}

/// Why a file was not read to its end, and how much of it was.
fn cut_file(cut: &Cut, language: Language) -> String {
    let at = match cut.at {
        Position::Byte(offset) => Text::AtByte.with(language, &[("n", &offset.to_string())]),
        Position::Line(number) => Text::AtLine.with(language, &[("n", &number.to_string())]),
    };
    let what = match &cut.reason {
        CutReason::EndsEarly => Text::CutEarly.with(language, &[("at", &at)]),
        CutReason::Damaged(error) => Text::CutDamaged.with(language, &[("at", &at), ("error", error)]),
        CutReason::LessThanStated => Text::CutMissing.with(language, &[("at", &at)]),
    };
    let share = cut.share.as_ref().map(|share| {
        let [read, stated] = [share.read_bytes, share.stated_bytes].map(|number| bytes(number as f64));
        let percent = format!("{:.0}", share.percent());
        Text::CutShare.with(language, &[("read", &read), ("stated", &stated), ("percent", &percent)])
    });
    what + &share.unwrap_or_else(|| Text::CutAll.text(language).to_owned())
}

/// `1.20 MiB without a stack (a table of the probe was full)`.
fn unattributed(cause: Cause, values: &Values, shortages: Shortages, language: Language) -> String {
    let lacking = match cause {
        Cause::Stacks => Text::NoStack,
        Cause::Sites => Text::NoSite,
        Cause::Labels => Text::NoLabel,
    };
    let amount = match values.inuse_bytes {
        0.0 => Text::AllocatedAndFreed.with(language, &[("bytes", &bytes(values.alloc_bytes))]),
        held => bytes(held),
    };
    let reasons = reasons(shortages, Text::ShortTable, language);
    lacking.with(language, &[("amount", &amount), ("reasons", &reasons)])
}

fn reasons(shortages: Shortages, otherwise: Text, language: Language) -> String {
    let words: Vec<&str> = shortages.iter().map(|shortage| reason(shortage, language)).collect();
    if words.is_empty() { otherwise.text(language).to_owned() } else { words.join(", ") }
}

/// Why there was no room.
#[must_use]
pub fn reason(shortage: Shortage, language: Language) -> &'static str {
    let text = match shortage {
        Shortage::FileSystem => Text::ShortFileSystem,
        Shortage::Sandbox => Text::ShortSandbox,
        Shortage::AddressSpace => Text::ShortAddressSpace,
        Shortage::LockedMemory => Text::ShortLockedMemory,
        Shortage::Table => Text::ShortTable,
        Shortage::SlowRecorder => Text::ShortRecorder,
    };
    text.text(language)
}

fn time(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}
