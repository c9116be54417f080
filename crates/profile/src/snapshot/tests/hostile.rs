//! Segments that no probe wrote: no panic, bounded memory.

use std::cell::Cell;

use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{
    Architecture, COUNTERS_OFFSET, Counter, Header, Layout, PAGE_BYTES, SectionKind, SegmentSource, Tier,
};

use super::segment::{Random, Segment};
use crate::query::Query;
use crate::snapshot::Snapshot;
use crate::view::{sizes, threads, top};
use crate::{CallTree, Metric, Profile, compact, usable};

/// Everything that reports do with a profile.
fn look(profile: &Profile) {
    let extra = (0..profile.extra.len()).map(|at| Metric::Extra(at as u16));
    for metric in Metric::SHARED.into_iter().chain(extra) {
        let query = Query { metric, usable: true, ..Query::default() };
        let tree = CallTree::new(profile, &query);
        let _ = (
            top::top(&tree, &query),
            sizes::sizes(profile, &tree, &query),
            threads::threads(profile, &query),
        );
    }
    assert!(usable::is_known(profile));
    assert!(
        compact::decode(&compact::encode(profile), compact::Version::Two, crate::read::Limit::default())
            .is_ok()
    );
}

/// Fills a section with random records, some of them with small numbers.
fn fill(segment: &mut Segment, kind: SectionKind, random: &mut Random) {
    let section = segment.layout.section(kind);
    let (start, end) = (section.offset as usize, (section.offset + section.bytes()) as usize);
    for word in segment.bytes[start..end].chunks_exact_mut(4) {
        let number = match random.below(4) {
            0 => 0,
            1 => random.below(16) as u32,
            2 => u32::MAX,
            _ => random.next() as u32,
        };
        word.copy_from_slice(&number.to_le_bytes());
    }
}

#[test]
fn random_records_and_counters() {
    let mut random = Random(0xbad);
    for _ in 0..if cfg!(miri) { 1 } else { 8 } {
        let mut segment = Segment::new();
        for kind in SectionKind::ALL {
            fill(&mut segment, kind, &mut random);
        }
        for at in 0..Counter::Count as usize {
            let value = if random.below(2) == 0 { random.next() } else { random.below(4096) };
            let at = COUNTERS_OFFSET + at * 8;
            segment.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        // Tallies have a chance to be of the current period, and to be read at all.
        for (counter, value) in [(Counter::Period, 7), (Counter::Nodes, 500), (Counter::Tallies, u64::MAX)] {
            segment.set(counter, value);
        }
        let profile = segment.profile();
        assert!(!profile.samples.is_empty());
        look(&profile);
    }
}

#[test]
fn a_segment_cut_anywhere() {
    let mut segment = Segment::new();
    let node = segment.node(0x1000);
    segment.counts(node, 0, [1, 8, 0, 0]);
    let step = segment.bytes.len() / if cfg!(miri) { 7 } else { 1000 };
    while segment.bytes.len() > step {
        let shorter = segment.bytes.len() - step;
        segment.bytes.truncate(shorter);
        if let Ok(snapshot) = Snapshot::open(&segment) {
            look(&snapshot.profile());
        }
    }
}

/// A file of holes behind counters that promise everything.
struct Sparse {
    pages: Vec<u8>,
    largest_read: Cell<usize>,
}

impl SegmentSource for Sparse {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        self.largest_read.set(self.largest_read.get().max(buffer.len()));
        buffer.fill(0);
        let rest = self.pages.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        buffer.len()
    }
}

#[test]
fn holes_cost_no_memory() {
    let mut pages = vec![0xff; COUNTERS_OFFSET + PAGE_BYTES];
    let process = ProcessId { pid: 1, starttime: 1 };
    let mut page = [0; PAGE_BYTES];
    let tier = if cfg!(miri) { Tier::Least } else { Tier::Medium };
    Header::new(process, Architecture::X86_64, Layout::new(tier)).encode(&mut page);
    pages[..PAGE_BYTES].copy_from_slice(&page);
    let sparse = Sparse { pages, largest_read: Cell::new(0) };
    let profile = Snapshot::open(&sparse).unwrap().profile();
    assert!(profile.samples.is_empty() && profile.sizes.is_empty());
    assert!(sparse.largest_read.get() <= 1 << 20, "{}", sparse.largest_read.get());
}
