//! What happened to the blocks of each bucket, up to an instant.

use heapwise_format::recording::{BucketCount, Entry, SiteBucket};

/// One bucket's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
}

impl Count {
    /// A block came and went.
    #[inline]
    pub fn pass(&mut self) {
        self.allocs += 1;
        self.frees += 1;
    }

    /// Blocks in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.allocs.saturating_sub(self.frees)
    }
}

/// Counts by bucket number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    rows: Vec<Count>,
}

impl Counts {
    /// Counts for buckets below `buckets`.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        Self { rows: vec![Count::default(); buckets] }
    }

    /// All rows; the index is the bucket's number.
    #[must_use]
    pub fn rows(&self) -> &[Count] {
        &self.rows
    }

    /// The row of a bucket, made if there is none. Buckets come from tables that were checked, so the
    /// number of rows is bounded by the tables.
    #[inline]
    pub fn row(&mut self, bucket: u32) -> &mut Count {
        let index = bucket as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, Count::default());
        }
        &mut self.rows[index]
    }

    /// Counts an entry.
    #[inline]
    pub fn add(&mut self, entry: &Entry) {
        match *entry {
            Entry::Alloc { bucket, .. } => self.row(bucket).allocs += 1,
            Entry::Temporary { bucket, .. } => self.row(bucket).pass(),
            Entry::Free { bucket, .. } | Entry::MissedFree { bucket, .. } => self.row(bucket).frees += 1,
            Entry::Tick(_) | Entry::Thread(_) | Entry::Gap(_) | Entry::UnknownFree(_) => {}
        }
    }

    /// The sum of `parts`, for buckets below `buckets`.
    #[must_use]
    pub fn sum(parts: impl IntoIterator<Item = Self>, buckets: usize) -> Self {
        let mut sum = Self::new(buckets);
        for part in parts {
            for (own, more) in sum.rows.iter_mut().zip(&part.rows) {
                own.allocs += more.allocs;
                own.frees += more.frees;
            }
        }
        sum
    }

    /// Live bytes of all buckets.
    #[must_use]
    pub fn live_bytes(&self, buckets: &[SiteBucket]) -> u64 {
        self.rows.iter().zip(buckets).map(|(count, bucket)| count.live().saturating_mul(bucket.size)).sum()
    }

    /// The payload of a checkpoint frame, and the number of rows in it.
    #[must_use]
    pub fn encode(&self) -> (Vec<u8>, u32) {
        let (mut payload, mut written, mut previous) = (Vec::new(), 0, 0);
        for (bucket, count) in
            self.rows.iter().enumerate().filter(|(_, count)| count.allocs | count.frees != 0)
        {
            let row = BucketCount { bucket: bucket as u32, allocs: count.allocs, frees: count.frees };
            row.encode(previous, &mut payload);
            previous = row.bucket;
            written += 1;
        }
        (payload, written)
    }

    /// Reads the payload of a checkpoint frame for `buckets` buckets; `None` when it makes no sense.
    #[must_use]
    pub fn decode(payload: &[u8], buckets: usize) -> Option<Self> {
        let mut counts = Self::new(buckets);
        let (mut at, mut previous) = (0, 0);
        while at < payload.len() {
            let row = BucketCount::decode(previous, payload, &mut at)?;
            *counts.rows.get_mut(row.bucket as usize)? = Count { allocs: row.allocs, frees: row.frees };
            previous = row.bucket;
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
        for bucket in [1, 2, 50, 99] {
            *counts.row(bucket) = Count { allocs: u64::from(bucket) << 30, frees: 3 };
        }
        let (payload, rows) = counts.encode();
        assert_eq!((Counts::decode(&payload, 100), rows), (Some(counts), 4));
        assert_eq!(Counts::decode(&payload, 99), None);
    }
}
