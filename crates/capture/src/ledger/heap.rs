//! The heap's part of the ledger: live blocks by stack on the resident pages.

use std::collections::HashMap;
use std::ops::Range;

use heapwise_format::segment::{AllocatorKind, Counter, Mode};
use heapwise_profile::ledger::{HeapBasis, HeapPages};
use heapwise_profile::snapshot::{IndexedBlock, Snapshot, TallySite};

use super::heap_pages::{Extent, HeapSums, ResidentPages};
use super::span::{Claim, Owner, Span};
use crate::segments::SegmentFile;

/// By default glibc maps only blocks of at least twice this size one by one.
const LEAST_MAPPED_BYTES: u64 = 64 << 10;
/// Smaller blocks end in the range of addresses that is read for them.
const FAR_BYTES: u64 = 64 << 10;

/// Live blocks of one stack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SiteUse {
    pub(super) blocks: f64,
    pub(super) live: f64,
    pub(super) resident: f64,
    pub(super) pinned: f64,
    pub(super) sole: u64,
}

/// The heap of a process.
#[derive(Debug)]
pub(super) struct HeapUse {
    pub(super) basis: HeapBasis,
    pub(super) sums: HeapSums,
    /// Bytes that the allocator handed out and the probe did not record.
    pub(super) unrecorded: u64,
    /// By node.
    pub(super) sites: HashMap<u32, SiteUse>,
    pub(super) untouched: u64,
    pub(super) pages: Option<HeapPages>,
}

/// The live-block index of a segment.
pub(super) struct Blocks<'a> {
    snapshot: &'a Snapshot<'a, SegmentFile>,
    tallies: Vec<TallySite>,
    page_bytes: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<'a, SegmentFile>, page_bytes: u64) -> Self {
        Self { snapshot, tallies: snapshot.tally_sites(), page_bytes }
    }

    fn is_glibc(&self) -> bool {
        self.snapshot.header.allocator == AllocatorKind::Glibc
    }

    /// Calls `visit` for each block whose tally exists.
    fn each(&self, visit: impl FnMut(&IndexedBlock, &TallySite)) {
        self.each_in(|_| true, visit);
    }

    /// As [`Blocks::each`], at least for the blocks that start in a wanted range.
    fn each_in(&self, wanted: impl Fn(Range<u64>) -> bool, mut visit: impl FnMut(&IndexedBlock, &TallySite)) {
        self.snapshot.visit_live_blocks_in(wanted, &mut |block| {
            if let Some(site) = self.tallies.get(block.tally as usize).filter(|site| site.node != 0) {
                visit(&block, site);
            }
        });
    }

    /// Claims of blocks in spans that no other rule gave to the heap: the block's pages over glibc,
    /// which maps large blocks one by one; the whole span over other allocators.
    pub(super) fn claims(&self, spans: &[Span]) -> Vec<Claim> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut last = 0;
        let is_guessed = |range: Range<u64>| {
            let first = spans.partition_point(|span| span.end <= range.start);
            let mut spans = spans.iter().skip(first).take_while(|span| span.start < range.end);
            spans.any(|span| span.owner.is_guess())
        };
        self.each_in(is_guessed, |block, _| {
            if spans.get(last).is_none_or(|span| !(span.start..span.end).contains(&block.address)) {
                last = spans.partition_point(|span| span.end <= block.address);
            }
            let Some(span) = spans.get(last).filter(|span| span.start <= block.address) else { return };
            if !span.owner.is_guess() {
                return;
            }
            let range = if self.is_glibc() {
                let end = block.address.saturating_add(16 + block.size);
                // A block may reach over several areas: `madvise` splits its mapping.
                let end = end.checked_next_multiple_of(self.page_bytes).unwrap_or(span.end);
                (block.address / self.page_bytes * self.page_bytes, end)
            } else {
                (span.start, span.end)
            };
            if ranges.last() != Some(&range) {
                ranges.push(range);
            }
        });
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joins = next.0 <= before.1;
            if joins {
                before.1 = before.1.max(next.1);
            }
            joins
        });
        let claim = |(start, end)| Claim { start, end, owner: Some(Owner::Heap), node: None };
        ranges.into_iter().map(claim).collect()
    }

    /// The block with header and rounding.
    fn extent(&self, block: &IndexedBlock, node: u32) -> Extent {
        let IndexedBlock { address, size, .. } = *block;
        if !self.is_glibc() {
            return Extent { address, size, header: 0, rounding: 0, node };
        }
        // Large blocks have a mapping of their own.
        if size >= LEAST_MAPPED_BYTES && address.is_multiple_of(self.page_bytes) {
            let all = (size + 16).next_multiple_of(self.page_bytes);
            return Extent { address: address + 16, size, header: 16, rounding: all - 16 - size, node };
        }
        let chunk = (size + 8).next_multiple_of(16).max(32);
        // The index knows addresses to 32 bytes. A block that would reach only 16 bytes into its
        // last page starts in the first half.
        let end = address + 16 + size;
        let in_last = end & (self.page_bytes - 1);
        let late = if (1..=16).contains(&in_last) && size > 16 { 0 } else { 16 };
        Extent { address: address + late, size, header: 8, rounding: chunk - 8 - size, node }
    }

    /// Sums over the resident runs of the heap.
    pub(super) fn account(&self, runs: &[(u64, u64)], told: Option<u64>) -> HeapUse {
        let mut pages = ResidentPages::new(self.page_bytes, runs);
        let mut uses = vec![SiteUse::default(); self.tallies.len()];
        let mut samples = 0_u64;
        let mut far = Vec::new();
        self.each(|block, site| {
            let extent = self.extent(block, site.node);
            let resident = pages.add(&extent) as f64;
            if extent.size >= FAR_BYTES {
                far.push((block.tally as usize, extent));
            }
            let weight = weight(block.size, site.mean_bytes);
            samples += u64::from(site.mean_bytes != 0);
            let sum = &mut uses[block.tally as usize];
            sum.blocks += weight;
            sum.live += weight * block.size as f64;
            sum.resident += weight * resident;
        });
        let is_exact = samples == 0 && uses.iter().any(|sum| sum.blocks > 0.0);
        if is_exact {
            self.pin(&mut pages, &mut uses, &far);
        }
        let mut sites: HashMap<u32, SiteUse> = HashMap::new();
        for (sum, site) in uses.iter().zip(&self.tallies).filter(|(sum, _)| sum.blocks > 0.0) {
            sites.entry(site.node).or_default().add(sum);
        }
        pages.each_sole_page(|node, bytes| sites.entry(node).or_default().sole += bytes);
        let live: f64 = sites.values().map(|site| site.live).sum();
        let resident: f64 = sites.values().map(|site| site.resident).sum();
        let mut heap = HeapUse {
            basis: HeapBasis::Pages,
            sums: pages.sums(),
            unrecorded: 0,
            untouched: (live - resident).max(0.0) as u64,
            sites,
            pages: Some(pages.histogram()),
        };
        if is_exact || matches!(self.snapshot.mode(), Mode::Exact | Mode::Log) {
            heap.complete(self.slack_total(), self.unrecorded(live, told));
        } else {
            heap.estimate(page_map_bytes(runs), resident, self.unrecorded(live, told));
        }
        heap
    }

    /// Adds what each block pins. Most of a heap is dense, and is not read again.
    fn pin(&self, pages: &mut ResidentPages, uses: &mut [SiteUse], far: &[(usize, Extent)]) {
        let sparse = pages.sparse();
        let has_sparse = |range: Range<u64>| {
            let next = sparse.partition_point(|page| page + self.page_bytes <= range.start);
            sparse.get(next).is_some_and(|page| *page < range.end)
        };
        self.each_in(has_sparse, |block, site| {
            if block.size < FAR_BYTES {
                uses[block.tally as usize].pinned += pages.pinned(&self.extent(block, site.node));
            }
        });
        for (tally, extent) in far {
            uses[*tally].pinned += pages.pinned(extent);
        }
    }

    /// Slack of all live blocks, where it cannot be computed from each block's size.
    fn slack_total(&self) -> Option<u64> {
        let sum: i64 = self.tallies.iter().map(|site| site.slack).sum();
        (!self.is_glibc()).then_some(sum.max(0) as u64)
    }

    /// Bytes that the allocator handed out before or beside the recording.
    fn unrecorded(&self, live: f64, told: Option<u64>) -> Unrecorded {
        let inherited = self.snapshot.counter(Counter::InheritedBytes);
        let is_attached = self.snapshot.counter(Counter::AgeAtAttach) > 0;
        let is_late = is_attached || self.snapshot.counter(Counter::UnknownFrees) > 0;
        match self.snapshot.mode() {
            _ if inherited > 0 => Unrecorded::Bytes(inherited),
            _ if is_attached && told.is_none() => Unrecorded::All,
            Mode::Off => {
                told.map_or(Unrecorded::All, |told| Unrecorded::Bytes(told.saturating_sub(live as u64)))
            }
            _ if is_late => Unrecorded::Bytes(told.unwrap_or(0).saturating_sub(live as u64)),
            _ => Unrecorded::Bytes(0),
        }
    }
}

/// Bytes handed out and not recorded.
enum Unrecorded {
    Bytes(u64),
    /// Of unknown amount: everything that is not known to be something else.
    All,
}

impl HeapUse {
    /// Every live block is known.
    fn complete(&mut self, slack: Option<u64>, unrecorded: Unrecorded) {
        if let Some(slack) = slack {
            let slack = slack.min(self.sums.fragmentation);
            self.sums.slack += slack;
            self.sums.fragmentation -= slack;
        }
        let wanted = match unrecorded {
            Unrecorded::Bytes(bytes) => bytes,
            Unrecorded::All => u64::MAX,
        };
        for sum in [&mut self.sums.free, &mut self.sums.fragmentation] {
            let taken = (*sum).min(wanted - self.unrecorded);
            *sum -= taken;
            self.unrecorded += taken;
        }
    }

    /// Live bytes are an estimate: the rest of the heap is free, or unrecorded.
    fn estimate(&mut self, heap: u64, resident: f64, unrecorded: Unrecorded) {
        self.basis = if self.sites.is_empty() { HeapBasis::Allocator } else { HeapBasis::Samples };
        self.pages = None;
        let live = (resident as u64).min(heap);
        self.unrecorded = match unrecorded {
            Unrecorded::Bytes(bytes) => bytes.min(heap - live),
            Unrecorded::All => heap - live,
        };
        self.sums = HeapSums { live, free: heap - live - self.unrecorded, ..HeapSums::default() };
        self.sites.values_mut().for_each(|site| (site.sole, site.pinned) = (0, 0.0));
    }
}

impl SiteUse {
    fn add(&mut self, other: &SiteUse) {
        self.blocks += other.blocks;
        self.live += other.live;
        self.resident += other.resident;
        self.pinned += other.pinned;
    }
}

/// Blocks represented by a recorded block.
fn weight(size: u64, mean_bytes: u64) -> f64 {
    if mean_bytes == 0 {
        return 1.0;
    }
    let probability = -(-(size.max(1) as f64) / mean_bytes as f64).exp_m1();
    1.0 / probability.max(f64::MIN_POSITIVE)
}

fn page_map_bytes(runs: &[(u64, u64)]) -> u64 {
    super::page_map::bytes(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_its_distance_or_itself() {
        assert_eq!(weight(100, 0), 1.0);
        let small = weight(16, 1 << 20) * 16.0;
        assert!((small / f64::from(1 << 20) - 1.0).abs() < 0.01, "{small}");
        assert!((weight(100 << 20, 1 << 20) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn unrecorded_bytes_come_out_of_free_space() {
        let sums = HeapSums { live: 10, slack: 1, fragmentation: 5, free: 20 };
        let mut heap = HeapUse {
            basis: HeapBasis::Pages,
            sums,
            unrecorded: 0,
            sites: HashMap::new(),
            untouched: 0,
            pages: None,
        };
        heap.complete(Some(2), Unrecorded::Bytes(21));
        assert_eq!(heap.sums, HeapSums { live: 10, slack: 3, fragmentation: 2, free: 0 });
        assert_eq!(heap.unrecorded, 21);
    }
}
