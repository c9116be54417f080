//! The timeline: what the heap did in each slice of [`TIMELINE_ROW_MS`], so that a chart needs no
//! events.

use crate::varint::{self, unzigzag, zigzag};

/// Length of a slice in milliseconds.
pub const TIMELINE_ROW_MS: u64 = 10;

/// One slice. Slices in which nothing happened are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimelineRow {
    /// Milliseconds at its start, a multiple of [`TIMELINE_ROW_MS`].
    pub start_ms: u64,
    /// Highest number of live bytes within it.
    pub max_live_bytes: u64,
    /// Live bytes at its end.
    pub live_bytes: u64,
    /// Live blocks at its end.
    pub live_blocks: u64,
    /// Blocks allocated within it.
    pub allocs: u64,
    /// Bytes allocated within it.
    pub alloc_bytes: u64,
    /// Blocks freed within it.
    pub frees: u64,
    /// Resident bytes of the process, 0 when not sampled in this slice.
    pub rss_bytes: u64,
}

/// State of writer and reader from row to row; it is reset in every frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimelineState {
    last: TimelineRow,
}

impl TimelineState {
    /// Appends a row to a payload.
    pub fn encode(&mut self, row: &TimelineRow, out: &mut impl Extend<u8>) {
        let delta = |now: u64, before: u64| zigzag(now.wrapping_sub(before) as i64);
        varint::put(out, row.start_ms.saturating_sub(self.last.start_ms) / TIMELINE_ROW_MS);
        varint::put(out, delta(row.max_live_bytes, self.last.live_bytes));
        varint::put(out, delta(row.live_bytes, self.last.live_bytes));
        varint::put(out, delta(row.live_blocks, self.last.live_blocks));
        for field in [row.allocs, row.alloc_bytes, row.frees, row.rss_bytes] {
            varint::put(out, field);
        }
        self.last = *row;
    }

    /// Reads the row at `*at` and moves `*at` behind it.
    pub fn decode(&mut self, bytes: &[u8], at: &mut usize) -> Option<TimelineRow> {
        let mut next = || varint::decode(bytes, at);
        let last = self.last;
        let sum = |before: u64, delta: u64| before.wrapping_add(unzigzag(delta) as u64);
        let row = TimelineRow {
            start_ms: next()?.checked_mul(TIMELINE_ROW_MS)?.checked_add(last.start_ms)?,
            max_live_bytes: sum(last.live_bytes, next()?),
            live_bytes: sum(last.live_bytes, next()?),
            live_blocks: sum(last.live_blocks, next()?),
            allocs: next()?,
            alloc_bytes: next()?,
            frees: next()?,
            rss_bytes: next()?,
        };
        self.last = row;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn round_trip() {
        let rows: Vec<TimelineRow> = (0..50u64)
            .map(|n| TimelineRow {
                start_ms: n * n * TIMELINE_ROW_MS,
                max_live_bytes: 1_000_000 - n * 999,
                live_bytes: 900_000 - n * 999,
                live_blocks: n * 7 % 13,
                allocs: n,
                alloc_bytes: n << 20,
                frees: n / 2,
                rss_bytes: (n % 3) << 30,
            })
            .collect();
        let (mut state, mut bytes) = (TimelineState::default(), Vec::new());
        rows.iter().for_each(|row| state.encode(row, &mut bytes));
        let (mut state, mut at) = (TimelineState::default(), 0);
        let decoded: Vec<TimelineRow> = core::iter::from_fn(|| state.decode(&bytes, &mut at)).collect();
        assert_eq!(decoded, rows);
    }
}
