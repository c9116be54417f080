//! The ledger of a process as text.

use std::fmt::Write as _;
use std::time::Duration;

use heapwise_profile::ledger::{Hint, Ledger, Line, LineKind};
use heapwise_profile::quantity;

use crate::{Language, Text};

/// Lines of less than this share of the resident bytes are left out of [`sentence`].
const LEAST_SHARE: u64 = 100;
/// Lines in [`sentence`] at most, the unexplained aside.
const MOST_LINES: usize = 6;
/// Parts shown of a line.
const MOST_PARTS: usize = 3;

/// A table: one row per line, with bytes and share, and the largest parts.
#[must_use]
pub fn ledger(ledger: &Ledger) -> String {
    let mut out = String::new();
    let bytes = |bytes: u64| quantity::bytes(bytes as f64);
    let _ = writeln!(out, "  ledger");
    let mut row = |name: &str, value: u64, rest: &str| {
        let _ = writeln!(out, "    {name:<22} {value:>14}  {:>10}{rest}", bytes(value));
    };
    row("resident (RSS)", ledger.resident, "");
    for line in &ledger.lines {
        let share = 100.0 * line.bytes as f64 / ledger.resident.max(1) as f64;
        let calls = calls(ledger, line);
        row(&line.name, line.bytes, &format!("  {share:>5.1} %{}{calls}", parts(line)));
    }
    row("untouched", ledger.untouched, "  live, not resident");
    row("proportional (PSS)", ledger.proportional, "");
    row("swapped", ledger.swapped, "");
    if ledger.lazily_free > 0 {
        row("lazily free", ledger.lazily_free, "  resident until the kernel needs it");
    }
    out
}

/// The calls that mapped the memory of a line.
fn calls(ledger: &Ledger, line: &Line) -> String {
    let Some((count, last_ms)) = ledger.mapping_calls(&line.name) else { return String::new() };
    let calls = if count == 1 { "call" } else { "calls" };
    let last = quantity::duration(Duration::from_millis(last_ms.into()));
    format!("  {count} {calls}, the last {last} after the start")
}

fn parts(line: &Line) -> String {
    let show =
        matches!(line.kind, LineKind::Binaries | LineKind::Files | LineKind::SharedMemory | LineKind::Stacks);
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut names: Vec<String> = line
        .parts
        .iter()
        .filter(|_| show)
        .take(MOST_PARTS)
        .map(|part| format!("{} {}", name(&part.name), quantity::bytes(part.bytes as f64)))
        .collect();
    if show && line.parts.len() > MOST_PARTS {
        names.push(format!("{} more", line.parts.len() - MOST_PARTS));
    }
    if names.is_empty() { String::new() } else { format!("  {}", names.join(", ")) }
}

/// The main lines in one sentence: `heap 9 MiB, Python arenas 97 MiB, libraries 14 MiB`.
#[must_use]
pub fn sentence(ledger: &Ledger, language: Language) -> String {
    let mut lines = ledger.main_lines(ledger.resident / LEAST_SHARE);
    let unexplained = lines.pop_if(|(name, _)| *name == LineKind::Unexplained.title());
    lines.truncate(MOST_LINES);
    let shown: u64 = lines.iter().chain(&unexplained).map(|(_, bytes)| bytes).sum();
    let rest = ledger.resident.saturating_sub(shown);
    if rest > 0 {
        lines.push(("other", rest));
    }
    lines.extend(unexplained);
    let amount = |(name, bytes): &(&str, u64)| {
        format!("{} {}", line_name(name, language), quantity::bytes(*bytes as f64))
    };
    let between = match language {
        Language::English => ", ",
        Language::Chinese => "，",
    };
    lines.iter().map(amount).collect::<Vec<_>>().join(between)
}

/// The name of a line in a language. Lines of runtimes have names of their own.
#[must_use]
pub fn line_name(name: &str, language: Language) -> &str {
    LINES.iter().find(|text| text.pair().0 == name).map_or(name, |text| text.text(language))
}

/// Names of lines.
const LINES: [Text; 18] = [
    Text::LineHeap,
    Text::LineHeapLive,
    Text::LineHeapSlack,
    Text::LineHeapFragmentation,
    Text::LineHeapFree,
    Text::LineHeapUnrecorded,
    Text::LineRuntime,
    Text::LineMappings,
    Text::LineHeapEarlier,
    Text::LineMappingsEarlier,
    Text::LineStacks,
    Text::LineBinaries,
    Text::LineFiles,
    Text::LineSharedMemory,
    Text::LineKernel,
    Text::LineProbe,
    Text::LineUnexplained,
    Text::LineOther,
];

/// One sentence with the next step.
#[must_use]
pub fn hint(hint: Hint) -> String {
    let text = match hint {
        Hint::Python => {
            "python keeps small objects in arenas of its own; PYTHONMALLOC=malloc shows each of them"
        }
        Hint::Zend => "php allocates from a heap of its own; USE_ZEND_ALLOC=0 shows each block",
        Hint::V8 => {
            "JavaScript objects are in V8's heap; `node --heapsnapshot-signal=SIGUSR2` or Chrome's \
             Memory panel shows them"
        }
        Hint::Jvm => {
            "Java objects are in the JVM's heap; `jcmd PID GC.class_histogram` shows them, \
             `jcmd PID VM.native_memory` the rest (-XX:NativeMemoryTracking=summary)"
        }
        Hint::Go => "Go has a heap of its own; `go tool pprof` reads it from net/http/pprof",
        Hint::Ruby => "Ruby objects are in its own heap; ObjectSpace.dump_all (objspace) shows them",
        Hint::Allocator(name) => {
            return format!(
                "{name} is linked into the executable and maps this memory; build with the system \
                 allocator, or with {name} as a shared library, to see its blocks"
            );
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use heapwise_profile::ledger::Part;

    use super::*;

    fn specimen() -> Ledger {
        let line = |kind: LineKind, name: &str, mebibytes: u64, parts| Line {
            kind,
            name: name.into(),
            bytes: mebibytes << 20,
            parts,
        };
        let part = |name: &str, mebibytes: u64| Part { name: name.into(), bytes: mebibytes << 20 };
        Ledger {
            resident: 128 << 20,
            lines: vec![
                line(LineKind::HeapLive, "heap: live", 8, vec![]),
                line(LineKind::HeapFree, "heap: free", 1, vec![]),
                line(LineKind::Runtime, "Python arenas", 97, vec![]),
                line(LineKind::Binaries, "libraries", 14, vec![part("/lib/libc.so.6", 2)]),
                line(LineKind::Probe, "probe", 7, vec![]),
                line(LineKind::Unexplained, "unexplained", 1, vec![]),
            ],
            ..Ledger::default()
        }
    }

    #[test]
    fn the_sentence_names_the_main_lines() {
        assert_eq!(
            sentence(&specimen(), Language::English),
            "heap 9.00 MiB, Python arenas 97.0 MiB, libraries 14.0 MiB, probe 7.00 MiB, unexplained 1.00 MiB"
        );
    }

    #[test]
    fn every_kind_of_line_has_a_chinese_name() {
        for kind in LineKind::ALL {
            assert!(!line_name(kind.title(), Language::Chinese).is_ascii(), "{kind:?}");
        }
        let chinese = sentence(&specimen(), Language::Chinese);
        assert!(chinese.starts_with("\u{5806} 9.00 MiB\u{ff0c}Python arenas 97.0 MiB"), "{chinese}");
    }

    #[test]
    fn the_table_has_every_line_with_its_share() {
        let text = ledger(&specimen());
        assert!(text.contains("    Python arenas               101711872    97.0 MiB   75.8 %\n"), "{text}");
        assert!(text.contains("10.9 %  libc.so.6 2.00 MiB\n"), "{text}");
    }
}
