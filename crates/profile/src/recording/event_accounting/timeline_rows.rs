//! The timeline being written: sums of the current row, and the rows since the last frame.

use heapwise_format::recording::{FrameHeader, FrameKind, TIMELINE_ROW_MS, TimelineRow, TimelineState};

use super::RawFrame;

/// The current row and those before it.
#[derive(Debug, Default)]
pub(super) struct TimelineRows {
    /// Sums of the current row; its live bytes and blocks are those of now.
    pub now: TimelineRow,
    done: Vec<TimelineRow>,
    is_touched: bool,
}

impl TimelineRows {
    /// Something was counted in the current row.
    #[inline]
    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// The time is `now_ms`.
    pub(super) fn pass(&mut self, now_ms: u64) {
        let start_ms = now_ms - now_ms % TIMELINE_ROW_MS;
        if start_ms != self.now.start_ms {
            self.close();
            self.now.start_ms = start_ms;
        }
    }

    fn close(&mut self) {
        let TimelineRow { start_ms, live_bytes, live_blocks, .. } = self.now;
        if std::mem::take(&mut self.is_touched) {
            self.done.push(self.now);
        }
        self.now = TimelineRow {
            start_ms,
            max_live_bytes: live_bytes,
            live_bytes,
            live_blocks,
            ..TimelineRow::default()
        };
    }

    /// The frame of all rows so far, with the current one, which may go on in the next frame.
    pub(super) fn take(&mut self) -> Option<RawFrame> {
        self.close();
        let rows = std::mem::take(&mut self.done);
        let (mut state, mut payload) = (TimelineState::default(), Vec::new());
        rows.iter().for_each(|row| state.encode(row, &mut payload));
        let header = FrameHeader {
            first: rows.first()?.start_ms,
            last: rows.last()?.start_ms,
            count: rows.len() as u32,
            ..FrameHeader::new(FrameKind::Timeline)
        };
        Some(RawFrame { header, payload })
    }
}
