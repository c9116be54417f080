//! Where the resident memory of a process is: the kernel's sizes of its mappings, compared with
//! what the probe counted and the allocator's statistics.

use heapwise_profile::proc_maps::Mapping;

/// Counts from other sources.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Live bytes in recorded blocks, exact or estimated.
    pub live: u64,
    /// Bytes that the allocator has handed out, where it provides them.
    pub allocated: Option<u64>,
    /// The probe's own memory: its segment and its private tables.
    pub probe: u64,
}

/// A part of resident memory, or of what is handed out and not resident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Key in JSON.
    pub name: &'static str,
    /// Bytes; negative for what the allocator counts and the kernel does not.
    pub bytes: i64,
    /// What it is.
    pub about: &'static str,
}

/// A piece of glibc's heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arena {
    /// First address.
    pub start: u64,
    /// Bytes in memory.
    pub resident: u64,
}

/// The breakdown: its parts add up to `resident`.
#[derive(Debug, Clone, Default)]
pub struct RssBreakdown {
    /// Bytes in memory, of all mappings.
    pub resident: u64,
    /// The parts.
    pub parts: Vec<Part>,
    /// Of glibc: the `brk` heap first, then those of 64 MiB for further threads.
    pub arenas: Vec<Arena>,
}

/// glibc maps the heaps of further arenas at multiples of this.
const ARENA_BYTES: u64 = 64 << 20;
/// Largest guard below a thread's stack that is taken for one.
const MAX_GUARD_BYTES: u64 = 64 << 10;

/// What a mapping belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Stack,
    Segment,
    Probe,
    Anonymous,
}

/// A mapping of `smaps`, and how much of it is in memory.
#[derive(Debug, Clone, Copy)]
struct Resident<'a> {
    mapping: Mapping<'a>,
    resident: u64,
}

impl RssBreakdown {
    /// Reads `/proc/PID/smaps`; the segment's mapping is the one of this file name.
    pub fn new(smaps: &str, segment: &str, counted: &Counted) -> Self {
        let mappings = parse(smaps);
        let mut sums = [0_u64; 5];
        let mut arenas = Vec::new();
        let mut before: Option<(Mapping<'_>, Kind)> = None;
        for Resident { mapping, resident } in mappings {
            let kind = classify(&mapping, before, segment);
            sums[kind as usize] += resident;
            if kind == Kind::Anonymous && is_arena(&mapping) {
                arenas.push(Arena { start: mapping.start, resident });
            }
            before = Some((mapping, kind));
        }
        let of = |kind: Kind| sums[kind as usize];
        let tables = counted.probe.saturating_sub(of(Kind::Segment)).min(of(Kind::Anonymous));
        let anonymous = of(Kind::Anonymous) - tables;
        let unrecorded = counted.allocated.unwrap_or(0).saturating_sub(counted.live);
        let rest = anonymous as i64 - counted.live as i64 - unrecorded as i64;
        let probe = of(Kind::Segment) + of(Kind::Probe) + tables;
        let part = |name, bytes, about| Part { name, bytes, about };
        let parts = vec![
            part("live", counted.live as i64, "live in recorded blocks"),
            part("unrecorded", unrecorded as i64, "handed out by the allocator and not recorded"),
            part("overhead", rest.max(0), "free or lost inside the allocator, and other anonymous memory"),
            part("untouched", rest.min(0), "of the above, never touched: not in memory"),
            part("stacks", of(Kind::Stack) as i64, "stacks of threads"),
            part("files", of(Kind::File) as i64, "binaries, mapped files, shared memory"),
            part("probe", probe as i64, "the probe"),
        ];
        Self { resident: sums.iter().sum(), parts, arenas }
    }
}

fn is_arena(mapping: &Mapping<'_>) -> bool {
    let further = mapping.start.is_multiple_of(ARENA_BYTES)
        && mapping.end - mapping.start <= ARENA_BYTES
        && mapping.permissions.starts_with("rw");
    mapping.path == "[heap]" || mapping.path.is_empty() && further
}

fn is_guard(mapping: &Mapping<'_>) -> bool {
    mapping.permissions.starts_with("---")
        && mapping.path.is_empty()
        && mapping.end - mapping.start <= MAX_GUARD_BYTES
}

fn classify(mapping: &Mapping<'_>, before: Option<(Mapping<'_>, Kind)>, segment: &str) -> Kind {
    let name = mapping.path.trim_end_matches(" (deleted)");
    let adjacent = before.filter(|(before, _)| before.end == mapping.start);
    match name {
        _ if name.starts_with("[stack") => Kind::Stack,
        "[heap]" => Kind::Anonymous,
        "" => match adjacent {
            // `.bss` follows the mapping of `.data`.
            Some((before, kind @ (Kind::File | Kind::Probe)))
                if before.permissions == mapping.permissions =>
            {
                kind
            }
            Some((guard, _)) if is_guard(&guard) && !is_arena(mapping) => Kind::Stack,
            _ => Kind::Anonymous,
        },
        _ if !segment.is_empty() && name.ends_with(segment) => Kind::Segment,
        _ if name.contains("/libheapwise") => Kind::Probe,
        _ => Kind::File,
    }
}

fn parse(smaps: &str) -> Vec<Resident<'_>> {
    let mut mappings: Vec<Resident<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            mappings.push(Resident { mapping, resident: 0 });
        } else if let (Some(rest), Some(last)) = (line.strip_prefix("Rss:"), mappings.last_mut()) {
            let kilobytes = rest.trim().strip_suffix("kB").and_then(|text| text.trim().parse::<u64>().ok());
            last.resident = kilobytes.unwrap_or(0) * 1024;
        }
    }
    mappings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d000000000-55d000001000 r-xp 00000000 08:01 12 /opt/server
Rss:                   4 kB
55d000001000-55d000002000 rw-p 00001000 08:01 12 /opt/server
Rss:                   4 kB
55d000002000-55d000003000 rw-p 00000000 00:00 0 
Rss:                   4 kB
55d000100000-55d000200000 rw-p 00000000 00:00 0                          [heap]
Rss:                1000 kB
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
Rss:                 500 kB
7f0000100000-7f0004000000 ---p 00000000 00:00 0 
Rss:                   0 kB
7f0010000000-7f0010001000 ---p 00000000 00:00 0 
Rss:                   0 kB
7f0010001000-7f0010801000 rw-p 00000000 00:00 0 
Rss:                  16 kB
7f0020000000-7f0030000000 rw-s 00000000 08:01 99 /run/user/1/heapwise/12-34.seg
Rss:                 100 kB
7f0040000000-7f0040001000 rw-p 00000000 08:01 98 /home/user/.cache/heapwise/libheapwise-12.so
Rss:                   8 kB
7f0040001000-7f0040002000 rw-p 00000000 00:00 0 
Rss:                   4 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  24 kB
";

    fn bytes(breakdown: &RssBreakdown, name: &str) -> i64 {
        breakdown.parts.iter().find(|part| part.name == name).expect("an entry").bytes / 1024
    }

    #[test]
    fn every_page_is_accounted_for() {
        let counted = Counted { live: 600 << 10, allocated: Some(900 << 10), probe: 130 << 10 };
        let breakdown = RssBreakdown::new(SMAPS, "12-34.seg", &counted);
        assert_eq!(breakdown.resident, 1664 << 10);
        assert_eq!(breakdown.parts.iter().map(|part| part.bytes).sum::<i64>(), breakdown.resident as i64);
        let parts = ["files", "stacks", "probe", "live", "unrecorded", "overhead", "untouched"];
        assert_eq!(parts.map(|name| bytes(&breakdown, name)), [12, 40, 142, 600, 300, 570, 0]);
        let arenas: Vec<u64> = breakdown.arenas.iter().map(|arena| arena.resident >> 10).collect();
        assert_eq!(arenas, [1000, 500]);
    }

    #[test]
    fn what_is_not_touched_is_not_in_memory() {
        let counted = Counted { live: 5000 << 10, allocated: None, probe: 0 };
        let breakdown = RssBreakdown::new(SMAPS, "12-34.seg", &counted);
        assert_eq!([bytes(&breakdown, "overhead"), bytes(&breakdown, "untouched")], [0, 1500 - 5000]);
        assert_eq!(breakdown.parts.iter().map(|part| part.bytes).sum::<i64>(), breakdown.resident as i64);
    }
}
