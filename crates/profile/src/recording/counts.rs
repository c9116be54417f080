//! Sums over the events of each site, up to a point of the stream.

use heapwise_format::recording::{Entry, SiteCount};

/// Sums over the events of one site. Bytes wrap around rather than panic on sizes that no program
/// can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Blocks allocated.
    pub allocs: u64,
    /// Their bytes.
    pub alloc_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

impl Count {
    /// Counts an allocation.
    #[inline]
    pub fn alloc(&mut self, size: u64) {
        self.allocs += 1;
        self.alloc_bytes = self.alloc_bytes.wrapping_add(size);
    }

    /// Counts a free.
    #[inline]
    pub fn free(&mut self, size: u64) {
        self.frees += 1;
        self.freed_bytes = self.freed_bytes.wrapping_add(size);
    }

    /// Counts an allocation and its free.
    #[inline]
    pub(crate) fn alloc_and_free(&mut self, size: u64) {
        self.alloc(size);
        self.free(size);
    }

    /// Blocks in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.allocs.saturating_sub(self.frees)
    }

    /// Bytes in use.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.alloc_bytes.saturating_sub(self.freed_bytes)
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocs | self.frees == 0
    }

    /// Adds the sums of other events.
    pub fn add(&mut self, more: &Self) {
        self.allocs = self.allocs.wrapping_add(more.allocs);
        self.alloc_bytes = self.alloc_bytes.wrapping_add(more.alloc_bytes);
        self.frees = self.frees.wrapping_add(more.frees);
        self.freed_bytes = self.freed_bytes.wrapping_add(more.freed_bytes);
    }
}

/// Counts by site number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    rows: Vec<Count>,
}

impl Counts {
    /// Counts for sites below `sites`.
    #[must_use]
    pub fn new(sites: usize) -> Self {
        Self { rows: vec![Count::default(); sites] }
    }

    /// Counts of these rows; the index is the number of the site.
    #[must_use]
    pub(crate) fn from_rows(rows: Vec<Count>) -> Self {
        Self { rows }
    }

    /// All rows; the index is the number of the site.
    #[must_use]
    pub fn rows(&self) -> &[Count] {
        &self.rows
    }

    /// The row of a site, made if there is none. Sites come from tables that were checked, so the
    /// number of rows is bounded by the tables.
    #[inline]
    pub fn row(&mut self, site: u32) -> &mut Count {
        let index = site as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, Count::default());
        }
        &mut self.rows[index]
    }

    /// Counts an entry.
    #[inline]
    pub fn add(&mut self, entry: &Entry) {
        match *entry {
            Entry::Alloc { block, .. } => self.row(block.site).alloc(block.size),
            Entry::Temporary { block, .. } => self.row(block.site).alloc_and_free(block.size),
            Entry::Free { block, .. } | Entry::MissedFree { block, .. } => {
                self.row(block.site).free(block.size);
            }
            Entry::Tick(_) | Entry::Thread(_) | Entry::Gap(_) | Entry::UnknownFree(_) | Entry::Mark(_) => {}
        }
    }

    /// The sum of `parts`, for sites below `sites`.
    #[must_use]
    pub fn sum(parts: impl IntoIterator<Item = Self>, sites: usize) -> Self {
        let mut sum = Self::new(sites);
        for part in parts {
            for (own, more) in sum.rows.iter_mut().zip(&part.rows) {
                own.add(more);
            }
        }
        sum
    }

    /// Live bytes of all sites.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.rows.iter().map(Count::live_bytes).fold(0, u64::saturating_add)
    }

    /// The payload of a checkpoint frame, and the number of rows in it.
    #[must_use]
    pub fn encode(&self) -> (Vec<u8>, u32) {
        let (mut payload, mut written, mut previous) = (Vec::new(), 0, 0);
        for (site, count) in self.rows.iter().enumerate().filter(|(_, count)| !count.is_empty()) {
            let Count { allocs, alloc_bytes, frees, freed_bytes } = *count;
            let row = SiteCount { site: site as u32, allocs, alloc_bytes, frees, freed_bytes };
            row.encode(previous, &mut payload);
            previous = row.site;
            written += 1;
        }
        (payload, written)
    }

    /// Reads the payload of a checkpoint frame for `sites` sites; `None` when it makes no sense.
    #[must_use]
    pub fn decode(payload: &[u8], sites: usize) -> Option<Self> {
        let mut counts = Self::new(sites);
        let (mut at, mut previous) = (0, 0);
        while at < payload.len() {
            let row = SiteCount::decode(previous, payload, &mut at)?;
            let SiteCount { site, allocs, alloc_bytes, frees, freed_bytes } = row;
            *counts.rows.get_mut(site as usize)? = Count { allocs, alloc_bytes, frees, freed_bytes };
            previous = site;
        }
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let mut counts = Counts::new(100);
        for site in [1, 2, 50, 99] {
            let allocs = u64::from(site) << 30;
            *counts.row(site) = Count { allocs, alloc_bytes: allocs * 77, frees: 3, freed_bytes: 200 };
        }
        let (payload, rows) = counts.encode();
        assert_eq!((Counts::decode(&payload, 100), rows), (Some(counts), 4));
        assert_eq!(Counts::decode(&payload, 99), None);
    }
}
