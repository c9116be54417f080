//! Live blocks on the resident pages of the heap.

use heapwise_profile::ledger::HeapPages;

/// What lives on one resident page.
#[derive(Debug, Clone, Copy, Default)]
struct PageUse {
    /// Requested bytes of live blocks.
    live: u32,
    /// Rounding and headers of live blocks.
    slack: u32,
    /// Stack of the first block found, as node + 1.
    holder: u32,
    /// Blocks of other stacks live there too.
    is_mixed: bool,
}

/// A range of resident pages.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    /// Number of its first page.
    first: usize,
}

/// The resident pages of the heap.
#[derive(Debug)]
pub(super) struct ResidentPages {
    /// A power of two.
    page_bytes: u64,
    runs: Vec<Run>,
    uses: Vec<PageUse>,
    /// Run of the last address, because blocks come in the order of addresses.
    last: usize,
}

/// A block with what the allocator adds to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// First byte of the block.
    pub(super) address: u64,
    /// Requested bytes.
    pub(super) size: u64,
    /// Bytes before the block: its header.
    pub(super) header: u64,
    /// Bytes behind the block: rounding.
    pub(super) rounding: u64,
    /// Node of its stack.
    pub(super) node: u32,
}

/// Sums over all pages, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeapSums {
    pub(super) live: u64,
    pub(super) slack: u64,
    pub(super) fragmentation: u64,
    pub(super) free: u64,
}

impl ResidentPages {
    /// Pages of the given runs of addresses, in order.
    pub(super) fn new(page_bytes: u64, resident: &[(u64, u64)]) -> Self {
        let mut count = 0;
        let mut runs = Vec::with_capacity(resident.len());
        for (start, end) in resident {
            runs.push(Run { start: *start, end: *end, first: count });
            count += ((end - start) / page_bytes) as usize;
        }
        Self { page_bytes, runs, uses: vec![PageUse::default(); count], last: 0 }
    }

    /// Adds a block; returns how many of its requested bytes are resident.
    pub(super) fn add(&mut self, extent: &Extent) -> u64 {
        let Extent { address, size, header, rounding, node } = *extent;
        let end = address.saturating_add(size);
        if let Some(page) = self.page_of(address.saturating_sub(header), end.saturating_add(rounding)) {
            page.live += size as u32;
            page.slack += (header + rounding) as u32;
            page.hold(node);
            return size;
        }
        let mut resident = 0;
        self.each_page(address, end, |page, bytes| {
            page.live += bytes as u32;
            resident += bytes;
            page.hold(node);
        });
        for (start, end) in [(address.saturating_sub(header), address), (end, end.saturating_add(rounding))] {
            self.each_page(start, end, |page, bytes| {
                page.slack += bytes as u32;
                page.hold(node);
            });
        }
        resident
    }

    /// The resident page that holds all of a range, if it is in the run of the last address: most
    /// blocks are.
    #[inline]
    fn page_of(&mut self, start: u64, end: u64) -> Option<&mut PageUse> {
        let run = self.runs.get(self.last).filter(|run| run.start <= start && end <= run.end)?;
        let bits = self.page_bytes.trailing_zeros();
        let page = (start - run.start) >> bits;
        let is_one = start < end && (end - 1 - run.start) >> bits == page;
        self.uses.get_mut(run.first + page as usize).filter(|_| is_one)
    }

    /// Addresses of the pages that are at most half full and not empty, ascending.
    pub(super) fn sparse(&self) -> Vec<u64> {
        let pages = self.runs.iter().flat_map(|run| (run.start..run.end).step_by(self.page_bytes as usize));
        let pages = pages.zip(&self.uses).filter(|(_, page)| page.is_sparse(self.page_bytes));
        pages.map(|(address, _)| address).collect()
    }

    /// Calls `visit` for each resident page of a range, with the bytes of the range on it.
    fn each_page(&mut self, start: u64, end: u64, mut visit: impl FnMut(&mut PageUse, u64)) {
        let mut at = start;
        while at < end {
            let Some(run) = self.run_from(at) else { return };
            at = at.max(run.start);
            if at >= end {
                return;
            }
            let page = (at - run.start) >> self.page_bytes.trailing_zeros();
            let next = (run.start + (page + 1) * self.page_bytes).min(end);
            if let Some(page) = self.uses.get_mut(run.first + page as usize) {
                visit(page, next - at);
            }
            at = next;
        }
    }

    /// The run that holds an address, or else the next one.
    fn run_from(&mut self, address: u64) -> Option<Run> {
        let is_it = |at: usize| {
            let begins = at.checked_sub(1).is_none_or(|before| self.runs[before].end <= address);
            begins && self.runs.get(at).is_some_and(|run| address < run.end)
        };
        if !is_it(self.last) {
            self.last = self.runs.partition_point(|run| run.end <= address);
        }
        self.runs.get(self.last).copied()
    }

    /// Sums over all pages.
    pub(super) fn sums(&self) -> HeapSums {
        let mut sums = HeapSums::default();
        for page in &self.uses {
            // Blocks that changed while the index was read may overlap.
            let live = u64::from(page.live).min(self.page_bytes);
            let slack = u64::from(page.slack).min(self.page_bytes - live);
            let rest = self.page_bytes - live - slack;
            sums.live += live;
            sums.slack += slack;
            *(if page.holder == 0 { &mut sums.free } else { &mut sums.fragmentation }) += rest;
        }
        sums
    }

    /// Pages by how full they are.
    pub(super) fn histogram(&self) -> HeapPages {
        let mut pages = HeapPages { page_bytes: self.page_bytes, ..HeapPages::default() };
        for page in &self.uses {
            let used = u64::from(page.live + page.slack).clamp(1, self.page_bytes);
            match page.holder {
                0 => pages.empty += 1,
                _ => pages.quarters[((used - 1) * 4 / self.page_bytes) as usize] += 1,
            }
        }
        pages
    }

    /// Each stack whose blocks are alone on a page: its node, and bytes of a page.
    pub(super) fn each_sole_page(&self, mut visit: impl FnMut(u32, u64)) {
        for page in self.uses.iter().filter(|page| page.holder != 0 && !page.is_mixed) {
            visit(page.holder - 1, self.page_bytes);
        }
    }

    /// A block's share of the free bytes on those of its pages that are at most half full: by the
    /// share of live bytes that are the block's.
    pub(super) fn pinned(&mut self, extent: &Extent) -> f64 {
        let page_bytes = self.page_bytes;
        let mut pinned = 0.0;
        self.each_page(extent.address, extent.address.saturating_add(extent.size), |page, bytes| {
            if page.is_sparse(page_bytes) {
                let free = page_bytes - u64::from(page.live + page.slack);
                pinned += free as f64 * bytes as f64 / f64::from(page.live);
            }
        });
        pinned
    }
}

impl PageUse {
    /// Whether it is at most half full, and not empty.
    fn is_sparse(&self, page_bytes: u64) -> bool {
        self.live > 0 && u64::from(self.live + self.slack) * 2 <= page_bytes
    }

    fn hold(&mut self, node: u32) {
        match self.holder {
            0 => self.holder = node + 1,
            holder => self.is_mixed |= holder != node + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(address: u64, size: u64, node: u32) -> Extent {
        Extent { address, size, header: 16, rounding: 8, node }
    }

    #[test]
    fn every_byte_of_a_resident_page_is_in_one_sum() {
        let mut pages = ResidentPages::new(0x1000, &[(0x1000, 0x4000), (0x6000, 0x8000)]);
        assert_eq!(pages.add(&extent(0x1010, 100, 1)), 100);
        assert_eq!(pages.add(&extent(0x1f10, 0x1000, 2)), 0x1000);
        // From a resident page over two that are not into another resident one.
        assert_eq!(pages.add(&extent(0x3f10, 0x3000, 2)), 0xf0 + 0xf10);
        let sums = pages.sums();
        assert_eq!(sums.live, 100 + 0x1000 + 0x1000);
        assert_eq!(sums.slack, 3 * 24);
        assert_eq!(sums.free, 0x1000);
        assert_eq!(sums.live + sums.slack + sums.fragmentation + sums.free, 5 * 0x1000);
        let mut sole = Vec::new();
        pages.each_sole_page(|node, bytes| sole.push((node, bytes)));
        assert_eq!(sole, [(2, 0x1000); 3], "the first page is shared, the last is empty");
        let histogram = pages.histogram();
        assert_eq!((histogram.empty, histogram.quarters), (1, [2, 0, 0, 2]));
    }

    #[test]
    fn a_lonely_block_pins_the_rest_of_its_page() {
        let mut pages = ResidentPages::new(0x1000, &[(0x1000, 0x2000)]);
        let (one, other) = (extent(0x1010, 100, 1), extent(0x1100, 300, 2));
        pages.add(&one);
        pages.add(&other);
        let free = (0x1000 - 400 - 48) as f64;
        assert_eq!(pages.pinned(&one), free / 4.0);
        assert_eq!(pages.pinned(&other), free * 3.0 / 4.0);
        assert_eq!(pages.pinned(&extent(0x9000, 100, 1)), 0.0);
    }
}
