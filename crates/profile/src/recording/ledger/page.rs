//! The events frame being written.

use heapwise_format::recording::{Columns, Entry, EntryState, FrameHeader, FrameKind};

use super::RawFrame;

/// A page is full at this size: small enough to be unpacked at once, large enough to pack well.
const PAGE_BYTES: usize = 1 << 20;

/// Few against a page, and many against a look at five columns.
const LOOK_ENTRIES: usize = 256;

/// Entries since the last frame, a byte of the main column each.
#[derive(Debug, Default)]
pub(super) struct Page {
    state: EntryState,
    columns: Columns<Vec<u8>>,
    first_ms: u64,
    first_thread: u32,
    thread: u32,
    /// Entries at which its size is looked at next.
    next_look: usize,
}

impl Page {
    #[inline(always)]
    pub(super) fn put(&mut self, entry: Entry) {
        self.state.encode(entry, &mut self.columns);
    }

    /// Thread of the entries that follow.
    #[inline]
    pub(super) fn thread(&self) -> u32 {
        self.thread
    }

    /// What follows is by `thread`.
    pub(super) fn turn_to(&mut self, thread: u32) {
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

    /// What follows is `passed` milliseconds later, at `now_ms`.
    pub(super) fn pass(&mut self, passed: u64, now_ms: u64) {
        if self.is_empty() {
            self.first_ms = now_ms;
        } else {
            self.put(Entry::Tick(passed));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.main.is_empty()
    }

    /// Looked at closely every [`LOOK_ENTRIES`] only.
    #[inline]
    pub(super) fn is_full(&mut self) -> bool {
        let entries = self.columns.main.len();
        if entries < self.next_look {
            return false;
        }
        self.next_look = entries + LOOK_ENTRIES;
        self.bytes() >= PAGE_BYTES
    }

    fn bytes(&self) -> usize {
        let Columns { main, lows, highs, ages, values } = &self.columns;
        main.len() + lows.len() + highs.len() + ages.len() + values.len()
    }

    /// The frame of everything put here, up to `now_ms`; the page is empty then.
    pub(super) fn take(&mut self, now_ms: u64) -> RawFrame {
        let (lengths, parts) = self.columns.parts();
        let payload = [&lengths[..], parts[0], parts[1], parts[2], parts[3], parts[4]].concat();
        let header = FrameHeader {
            first: self.first_ms,
            last: now_ms,
            count: self.columns.main.len() as u32,
            thread: self.first_thread,
            ..FrameHeader::new(FrameKind::Events)
        };
        let Columns { main, lows, highs, ages, values } = &mut self.columns;
        [main, lows, highs, ages, values].into_iter().for_each(Vec::clear);
        self.next_look = LOOK_ENTRIES;
        self.state = self.state.of_next_frame();
        self.first_ms = now_ms;
        self.first_thread = self.thread;
        RawFrame { header, payload }
    }
}
