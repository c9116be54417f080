//! Rows of the timeline with a mark in them: ages of blocks that were allocated there are exact.

use heapwise_format::recording::{Age, TIMELINE_ROW_MS};

/// The rows, by the number of each, ascending.
#[derive(Debug, Default)]
pub(super) struct MarkedRows {
    rows: Vec<u64>,
    /// The end of the last row.
    until_ms: u64,
}

impl MarkedRows {
    /// A mark lies in the row of `now_ms`.
    pub(super) fn add(&mut self, now_ms: u64) {
        let row = now_ms / TIMELINE_ROW_MS;
        if self.rows.last() != Some(&row) {
            self.rows.push(row);
            self.until_ms = (row + 1).saturating_mul(TIMELINE_ROW_MS);
        }
    }

    /// The age of a block that is freed at `now_ms`.
    #[inline]
    pub(super) fn age(&self, age_ms: u64, now_ms: u64) -> Age {
        let born_ms = now_ms.saturating_sub(age_ms);
        if born_ms < self.until_ms && self.is_exact(born_ms, now_ms) {
            return Age::exact(born_ms, now_ms);
        }
        Age::between(born_ms, now_ms)
    }

    #[cold]
    fn is_exact(&self, born_ms: u64, now_ms: u64) -> bool {
        born_ms != now_ms && self.rows.binary_search(&(born_ms / TIMELINE_ROW_MS)).is_ok()
    }
}
