//! The events frame being written.

use heapwise_format::recording::{Columns, Entry, EntryState, FrameHeader, FrameKind, SIZE_SLOTS};

use super::RawFrame;

/// A frame is full at this size: small enough to be unpacked at once, large enough to pack well.
const FULL_BYTES: usize = 2 << 20;

/// Bytes of the main column between two checks of the size: few compared with a frame, many
/// compared with the cost of a check of nine columns.
const LOOK_BYTES: usize = 256;

/// Entries since the last frame.
#[derive(Debug)]
pub(super) struct EventsFrame {
    state: EntryState<Box<[u32]>>,
    columns: Columns<Vec<u8>>,
    first_ms: u64,
    first_marks: u64,
    first_thread: u32,
    thread: u32,
    marks: u64,
    /// Bytes of the main column at which the size is looked at next.
    next_look: usize,
}

impl Default for EventsFrame {
    fn default() -> Self {
        Self {
            state: EntryState::new(vec![0; SIZE_SLOTS].into()),
            columns: Columns::default(),
            first_ms: 0,
            first_marks: 0,
            first_thread: 0,
            thread: 0,
            marks: 0,
            next_look: 0,
        }
    }
}

impl EventsFrame {
    #[inline(always)]
    pub(super) fn put(&mut self, entry: Entry) {
        self.state.encode(entry, &mut self.columns);
    }

    /// Thread of the entries that follow.
    #[inline]
    pub(super) fn thread(&self) -> u32 {
        self.thread
    }

    /// The entries that follow are of `thread`.
    pub(super) fn set_thread(&mut self, thread: u32) {
        if self.thread == thread {
            return;
        }
        self.thread = thread;
        if self.is_empty() {
            self.first_thread = thread;
        } else {
            self.put(Entry::Thread(thread));
        }
    }

    /// The entries that follow are `passed` milliseconds later, at `now_ms`.
    pub(super) fn pass(&mut self, passed: u64, now_ms: u64) {
        if self.is_empty() {
            self.first_ms = now_ms;
        } else {
            self.put(Entry::Tick(passed));
        }
    }

    /// Marks before the entries that follow.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }

    /// The entries that follow are behind so many marks.
    pub(super) fn set_marks(&mut self, marks: u64) {
        self.marks = marks;
        self.put(Entry::Mark(marks));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.main.is_empty()
    }

    /// Looks closely every [`LOOK_BYTES`] only.
    #[inline]
    pub(super) fn is_full(&mut self) -> bool {
        let bytes = self.columns.main.len();
        if bytes < self.next_look {
            return false;
        }
        self.next_look = bytes + LOOK_BYTES;
        self.columns.bytes() >= FULL_BYTES
    }

    /// The frame of all entries put here, up to `now_ms`; a new one is begun.
    pub(super) fn take(&mut self, now_ms: u64) -> RawFrame {
        let mut payload = Vec::with_capacity(self.columns.bytes());
        self.state.write(&self.columns, &mut payload);
        let header = FrameHeader {
            first: self.first_ms,
            last: now_ms,
            count: self.state.entries(&self.columns) as u32,
            thread: self.first_thread,
            ..FrameHeader::new(FrameKind::Events)
        };
        self.columns.all_mut().into_iter().for_each(Vec::clear);
        self.next_look = LOOK_BYTES;
        self.state.start_next_frame();
        let header = header.with_marks(self.first_marks);
        (self.first_ms, self.first_marks, self.first_thread) = (now_ms, self.marks, self.thread);
        RawFrame { header, payload }
    }
}
