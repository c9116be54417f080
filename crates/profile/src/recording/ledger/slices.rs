//! The timeline being written: sums of the current slice, and the slices since the last frame.

use heapwise_format::recording::{FrameHeader, FrameKind, MOMENT_MS, Moment, MomentState};

use super::RawFrame;

/// The current slice and those before it.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Sums of the current slice; live bytes and blocks of it are those of now.
    pub now: Moment,
    done: Vec<Moment>,
    is_touched: bool,
}

impl Slices {
    /// Something happened in the current slice.
    #[inline]
    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Time has come to `now_ms`.
    pub(super) fn pass(&mut self, now_ms: u64) {
        let start_ms = now_ms - now_ms % MOMENT_MS;
        if start_ms != self.now.start_ms {
            self.close();
            self.now.start_ms = start_ms;
        }
    }

    fn close(&mut self) {
        let Moment { start_ms, live_bytes, live_blocks, .. } = self.now;
        if std::mem::take(&mut self.is_touched) {
            self.done.push(self.now);
        }
        self.now =
            Moment { start_ms, max_live_bytes: live_bytes, live_bytes, live_blocks, ..Moment::default() };
    }

    /// The frame of all slices so far, the current one too; it may go on in the next frame.
    pub(super) fn take(&mut self) -> Option<RawFrame> {
        self.close();
        let rows = std::mem::take(&mut self.done);
        let (mut state, mut payload) = (MomentState::default(), Vec::new());
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
