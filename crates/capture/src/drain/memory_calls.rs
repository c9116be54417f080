//! Calls that return or create memory, as rows of the recording: what the program's sums grew by
//! since the last look.

use std::collections::HashMap;

use heapwise_format::recording::{CallRow, FrameHeader, FrameKind};
use heapwise_format::segment::{CallKind, Counter, MemoryCall};
use heapwise_profile::recording::RawFrame;
use heapwise_profile::snapshot::Snapshot;

use super::read_counter;
use crate::segments::SegmentFile;

/// The sums of the last look.
#[derive(Debug, Default)]
pub(super) struct MemoryCalls {
    /// Calls in all: a larger number means that there is something new.
    calls: u64,
    /// Calls and bytes by node and kind.
    sums: HashMap<(u32, u32), (u64, u64)>,
    /// Milliseconds from the start of the process to that of the recording.
    origin_ms: u64,
}

impl MemoryCalls {
    /// Calls from before are of no recording that begins now.
    pub(super) fn from_now(snapshot: &Snapshot<'_, SegmentFile>, origin_ns: u64) -> Self {
        let origin_ms = origin_ns.saturating_sub(snapshot.header.start_monotonic_ns) / 1_000_000;
        let mut calls = Self { origin_ms, ..Self::default() };
        calls.grown(&snapshot.memory_calls());
        calls
    }

    /// The frame of what is new.
    pub(super) fn update(&mut self, segment: &SegmentFile) -> Option<RawFrame> {
        let calls = read_counter(segment, Counter::MemoryCalls);
        if calls == self.calls {
            return None;
        }
        let rows = self.grown(&segment.snapshot().ok()?.memory_calls());
        self.calls = calls;
        let mut payload = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut payload));
        let header = FrameHeader {
            first: rows.first()?.ms,
            last: rows.last()?.ms,
            count: rows.len() as u32,
            ..FrameHeader::new(FrameKind::Calls)
        };
        Some(RawFrame { header, payload })
    }

    /// What sums grew by, in the order of time.
    fn grown(&mut self, records: &[MemoryCall]) -> Vec<CallRow> {
        let mut rows = Vec::new();
        for record in records {
            let Some(kind) = CallKind::from_word(record.kind) else { continue };
            let (count, bytes) = self.sums.entry((record.node, record.kind)).or_default();
            if record.count > *count {
                rows.push(CallRow {
                    ms: u64::from(record.last_ms).saturating_sub(self.origin_ms),
                    kind,
                    node: record.node,
                    count: record.count - *count,
                    bytes: record.bytes.saturating_sub(*bytes),
                });
                (*count, *bytes) = (record.count, record.bytes);
            }
        }
        rows.sort_by_key(|row| (row.ms, row.node, row.kind));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_what_is_new() {
        let record = |node, count, bytes, last_ms| MemoryCall {
            node,
            kind: CallKind::Free as u32,
            count,
            bytes,
            first_ms: 1,
            last_ms,
        };
        let mut calls = MemoryCalls { origin_ms: 10, ..MemoryCalls::default() };
        calls.grown(&[record(3, 1, 4096, 2)]);
        let rows = calls.grown(&[record(3, 4, 16_384, 30), record(0, 2, 8192, 20)]);
        let row = |ms, node, count, bytes| CallRow { ms, kind: CallKind::Free, node, count, bytes };
        assert_eq!(rows, [row(10, 0, 2, 8192), row(20, 3, 3, 12_288)]);
        assert_eq!(calls.grown(&[record(3, 4, 16_384, 30)]), []);
    }
}
