//! The owner of each area, from the kernel's view alone: name, permissions, neighbours.

use std::collections::HashSet;

use super::runtime;
use super::smaps::Area;
use super::span::{Owner, Span};

/// glibc maps the heaps of further arenas at multiples of this.
const ARENA_BYTES: u64 = 64 << 20;
/// Largest guard below a thread's stack that is taken for one.
const MAX_GUARD_BYTES: u64 = 64 << 10;
/// Largest anonymous mapping beside a binary that is taken for data of the loader: thread-local
/// storage of the main thread, its lists of libraries.
const MAX_LOADER_BYTES: u64 = 64 << 10;

/// What classification needs besides the areas.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// File name of the probe's segment.
    pub(super) segment: &'a str,
    /// Stack pointers of threads; `None` for one that runs at the moment.
    pub(super) stack_pointers: &'a [Option<u64>],
    /// Whether the allocator is glibc's.
    pub(super) is_glibc: bool,
}

/// One or more spans for each area.
pub(super) fn classify(areas: &[Area], facts: &Facts<'_>) -> Vec<Span> {
    let binaries: HashSet<&str> = areas
        .iter()
        .filter(|area| area.is_executable() && area.path.starts_with('/'))
        .map(|area| area.path.as_str())
        .collect();
    let mut spans: Vec<Span> = Vec::with_capacity(areas.len());
    for (number, area) in areas.iter().enumerate() {
        let before = spans.last().filter(|before| before.end == area.start);
        let neighbours = Neighbours {
            before: before.map(|span| (&areas[span.area], &span.owner)),
            after: areas.get(number + 1).filter(|after| after.start == area.end),
        };
        let owner = if area.path.is_empty() {
            neighbours.owner_of_anonymous(area, facts, &binaries)
        } else {
            owner_of_named(area, facts, &binaries)
        };
        let arena = facts.is_glibc.then(|| arena_start(area, neighbours.after)).flatten();
        let middle = arena.unwrap_or(area.end);
        let span = Span { start: area.start, end: middle, area: number, owner, node: None };
        if area.start < middle {
            spans.push(span.clone());
        }
        if middle < area.end {
            spans.push(Span { start: middle, end: area.end, owner: Owner::Heap, ..span });
        }
    }
    spans
}

fn owner_of_named(area: &Area, facts: &Facts<'_>, binaries: &HashSet<&str>) -> Owner {
    const SHARED: [&str; 4] = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    let path = area.path.as_str();
    match path {
        "[heap]" => Owner::Heap,
        _ if path.starts_with("[stack") => Owner::Stack,
        _ if path.starts_with("[anon: glibc: malloc") => Owner::Heap,
        _ if path.starts_with("[anon: glibc: pthread") => Owner::Stack,
        _ if path.starts_with("[anon: glibc:") => Owner::Binary,
        _ if path.starts_with("[anon_shmem:") => Owner::Shared,
        _ if path.starts_with("[anon:") => {
            runtime::of_kernel_name(path).map_or(Owner::Unknown, Owner::Runtime)
        }
        _ if path.starts_with('[') => Owner::Kernel,
        _ if !facts.segment.is_empty() && path.ends_with(facts.segment) => Owner::Probe,
        _ if path.contains("/libheapwise") || path.starts_with("/memfd:libheapwise") => Owner::Probe,
        _ if SHARED.iter().any(|beginning| path.starts_with(beginning)) => Owner::Shared,
        _ if binaries.contains(path) => Owner::Binary,
        _ => Owner::File,
    }
}

/// The areas next to one, without a gap.
struct Neighbours<'a> {
    before: Option<(&'a Area, &'a Owner)>,
    after: Option<&'a Area>,
}

impl Neighbours<'_> {
    fn owner_of_anonymous(&self, area: &Area, facts: &Facts<'_>, binaries: &HashSet<&str>) -> Owner {
        if area.is_shared() {
            return Owner::Shared;
        }
        if area.is_like_probe {
            return Owner::Probe;
        }
        if runtime::is_go_heap(area.start) {
            return Owner::Runtime("Go heap".into());
        }
        let is_small = area.bytes() <= MAX_LOADER_BYTES;
        if let Some((before, owner @ (Owner::Binary | Owner::Probe))) = self.before
            // `.bss` follows `.data`.
            && (before.permissions == area.permissions && !before.path.is_empty() || is_small)
        {
            return owner.clone();
        }
        if self.before.is_some_and(|(before, _)| is_guard(before)) && holds_stack(area, facts) {
            return Owner::Stack;
        }
        match self.after {
            Some(after) if is_small && binaries.contains(after.path.as_str()) => Owner::Binary,
            _ => Owner::Unknown,
        }
    }
}

fn is_guard(area: &Area) -> bool {
    area.permissions.starts_with("---") && area.path.is_empty() && area.bytes() <= MAX_GUARD_BYTES
}

/// Whether a thread has its stack there, or may have it: the stack pointer of a running thread is
/// not known.
fn holds_stack(area: &Area, facts: &Facts<'_>) -> bool {
    let is_inside = |sp: &Option<u64>| sp.is_none_or(|sp| (area.start..area.end).contains(&sp));
    area.permissions.starts_with("rw") && facts.stack_pointers.iter().any(is_inside)
}

/// Where the last arena of glibc in an area starts. The rest of its 64 MiB is reserved behind it.
fn arena_start(area: &Area, after: Option<&Area>) -> Option<u64> {
    let start = (area.end - 1) / ARENA_BYTES * ARENA_BYTES;
    let is_reserved = |after: &Area| {
        after.permissions.starts_with("---")
            && after.path.is_empty()
            && after.end == start.saturating_add(ARENA_BYTES)
    };
    let is_whole = area.end == start.saturating_add(ARENA_BYTES) || after.is_some_and(is_reserved);
    let is_plain = area.path.is_empty() && area.permissions == "rw-p";
    (is_plain && start >= area.start && is_whole).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::smaps;

    const SMAPS: &str = "\
55d000000000-55d000001000 r-xp 00000000 08:01 12 /opt/server
55d000001000-55d000002000 rw-p 00001000 08:01 12 /opt/server
55d000002000-55d000003000 rw-p 00000000 00:00 0 
55d000100000-55d000200000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000100000-7f0004000000 ---p 00000000 00:00 0 
7f0010000000-7f0010001000 ---p 00000000 00:00 0 
7f0010001000-7f0010801000 rw-p 00000000 00:00 0 
7f0010900000-7f0010a00000 rw-p 00000000 00:00 0 
7f0013ff0000-7f0014010000 rw-p 00000000 00:00 0 
7f0014010000-7f0018000000 ---p 00000000 00:00 0 
7f0020000000-7f0030000000 rw-s 00000000 08:01 99 /run/user/1/heapwise/12-34.seg
7f0030000000-7f0030001000 rw-s 00000000 00:01 99 /dev/shm/pool (deleted)
7f0030001000-7f0030002000 r--s 00000000 00:01 99 /usr/lib/locale/locale-archive
7f0040000000-7f0040001000 rw-p 00000000 08:01 98 /home/user/.cache/heapwise/libheapwise-12.so
7f0040001000-7f0040002000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00022000-7ffc00023000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn areas_are_known_by_name_and_neighbours() {
        let areas = smaps::parse(SMAPS);
        let facts = Facts { segment: "12-34.seg", stack_pointers: &[Some(0x7f00_1080_0000)], is_glibc: true };
        let spans = classify(&areas, &facts);
        let owners: Vec<(usize, Owner)> = spans.iter().map(|span| (span.area, span.owner.clone())).collect();
        use Owner::{Binary, File, Heap, Kernel, Probe, Shared, Stack, Unknown};
        let expected = [
            (0, Binary),
            (1, Binary),
            (2, Binary),
            (3, Heap),
            (4, Heap),
            (5, Unknown),
            (6, Unknown),
            (7, Stack),
            (8, Unknown),
            (9, Unknown),
            (9, Heap),
            (10, Unknown),
            (11, Probe),
            (12, Shared),
            (13, File),
            (14, Probe),
            (15, Probe),
            (16, Stack),
            (17, Kernel),
        ];
        assert_eq!(owners, expected);
        assert_eq!((spans[10].start, spans[10].end), (0x7f00_1400_0000, 0x7f00_1401_0000));
    }
}
