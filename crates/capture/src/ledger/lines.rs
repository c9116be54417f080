//! The lines of a ledger, added up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use heapwise_profile::ledger::{HeapBasis, Line, LineKind, Part};

use super::heap::HeapUse;
use super::span::Owner;

/// Lines being added up.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<(LineKind, String), Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    parts: HashMap<String, u64>,
}

/// Kind and name of the line of an owner's memory; of the heap, the one that takes what is not
/// known to be something else.
pub(super) fn line_of(owner: &Owner) -> (LineKind, &str) {
    let kind = match owner {
        Owner::Heap => LineKind::HeapFree,
        Owner::Runtime(_) => LineKind::Runtime,
        Owner::Mapping => LineKind::Mappings,
        Owner::Earlier => LineKind::EarlierMappings,
        Owner::Stack => LineKind::Stacks,
        Owner::Binary => LineKind::Binaries,
        Owner::File => LineKind::Files,
        Owner::Shared => LineKind::SharedMemory,
        Owner::Kernel => LineKind::Kernel,
        Owner::Probe => LineKind::Probe,
        Owner::Unknown => LineKind::Unexplained,
    };
    (kind, if let Owner::Runtime(name) = owner { name } else { kind.title() })
}

impl Lines {
    /// Adds bytes of an owner; `part` is a path or a thread.
    pub(super) fn add(&mut self, owner: &Owner, bytes: u64, part: &str) {
        let (kind, name) = line_of(owner);
        self.add_to(kind, name, bytes, part);
    }

    fn add_to(&mut self, kind: LineKind, name: &str, bytes: u64, part: &str) {
        if bytes == 0 {
            return;
        }
        let sum = self.lines.entry((kind, name.to_owned())).or_default();
        sum.bytes += bytes;
        if !part.is_empty() {
            *sum.parts.entry(part.to_owned()).or_default() += bytes;
        }
    }

    /// Adds the heap. `difference` is the kernel's count of its resident bytes minus the number
    /// of its pages, which were read a moment later. In an attached process, blocks that are not
    /// recorded are those from before.
    pub(super) fn add_heap(&mut self, heap: &HeapUse, difference: i64, is_attached: bool) {
        let sums = &heap.sums;
        let free = match heap.basis {
            HeapBasis::Pages => LineKind::HeapFree.title(),
            HeapBasis::Samples | HeapBasis::Allocator => "heap: slack and free",
        };
        let unrecorded = if is_attached { "heap: before attach" } else { LineKind::HeapUnrecorded.title() };
        let mut parts = [
            (LineKind::HeapFree, free, sums.free),
            (LineKind::HeapFragmentation, LineKind::HeapFragmentation.title(), sums.fragmentation),
            (LineKind::HeapUnrecorded, unrecorded, heap.unrecorded),
            (LineKind::HeapSlack, LineKind::HeapSlack.title(), sums.slack),
            (LineKind::HeapLive, LineKind::HeapLive.title(), sums.live),
        ];
        let mut missing = difference.min(0).unsigned_abs();
        for (kind, name, bytes) in &mut parts {
            let taken = missing.min(*bytes);
            *bytes -= taken;
            missing -= taken;
            self.add_to(*kind, name, *bytes, "");
        }
        self.add(&Owner::Unknown, difference.max(0) as u64, "");
    }

    /// The lines in order.
    pub(super) fn finish(self) -> Vec<Line> {
        let line = |((kind, name), sum): ((LineKind, String), Sum)| {
            let mut parts: Vec<Part> =
                sum.parts.into_iter().map(|(name, bytes)| Part { name, bytes }).collect();
            parts.sort_by(|one, other| {
                (Reverse(one.bytes), &one.name).cmp(&(Reverse(other.bytes), &other.name))
            });
            Line { kind, name, bytes: sum.bytes, parts }
        };
        let mut lines: Vec<Line> = self.lines.into_iter().map(line).collect();
        lines.sort_by_key(|line| (line.kind, Reverse(line.bytes)));
        lines
    }
}
