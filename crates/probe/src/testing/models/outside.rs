//! Another process at the segment. A system call is taken for nothing but the accesses it makes, in
//! any order; the fences are those of `capture/segments.rs` in the executable.
#![allow(unsafe_code)]

use heapwise_format::chunk::{AT_LAST, AT_PUBLISHED, AT_STATE, AT_STREAM, AT_THREAD, HEADER_BYTES};
use heapwise_format::segment::{Node, PAGE_BYTES, SectionKind, SegmentSink, SegmentSource};

use crate::atomics::{AtomicU32, AtomicU64, Ordering, about_to_read, fence};
use crate::session::Session;

/// The segment of a session, by its file.
#[derive(Clone, Copy)]
pub(super) struct Outside(pub(super) &'static Session);

impl Outside {
    fn place(self, offset: u64) -> *mut u8 {
        self.0.segment.base().wrapping_add(offset as usize)
    }

    fn half(self, offset: u64) -> &'static AtomicU32 {
        // SAFETY: inside the segment, which stays.
        unsafe { &*self.place(offset).cast() }
    }

    fn word(self, offset: u64) -> &'static AtomicU64 {
        // SAFETY: as `half`.
        unsafe { &*self.place(offset).cast() }
    }
}

impl SegmentSource for Outside {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let get = |at: u64| self.word(at).load(Ordering::Relaxed).to_le_bytes();
        let is_in = |kind| {
            let section = self.0.segment.section(kind);
            (section.offset..section.offset + section.bytes()).contains(&offset)
        };
        if is_in(SectionKind::Nodes) {
            for (record, bytes) in (offset..).step_by(Node::BYTES).zip(buffer.chunks_exact_mut(Node::BYTES)) {
                let (key, rest) = bytes.split_at_mut(8);
                key.copy_from_slice(&get(record));
                for (at, bytes) in (record + 8..).step_by(4).zip(rest.chunks_exact_mut(4)) {
                    bytes.copy_from_slice(&self.half(at).load(Ordering::Relaxed).to_le_bytes());
                }
            }
        } else if offset < 3 * PAGE_BYTES as u64 {
            for (at, bytes) in (offset..).step_by(8).zip(buffer.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&get(at));
            }
        } else if buffer.len() == HEADER_BYTES {
            for at in [AT_STATE, AT_THREAD, AT_STREAM, AT_LAST] {
                let bytes = self.half(offset + at as u64).load(Ordering::Relaxed).to_le_bytes();
                buffer[at..at + 4].copy_from_slice(&bytes);
            }
            buffer[AT_PUBLISHED..AT_PUBLISHED + 8].copy_from_slice(&get(offset + AT_PUBLISHED as u64));
        } else {
            about_to_read(self.place(offset), buffer.len());
            // SAFETY: inside the segment, which only loom's threads write, one at a time.
            buffer.copy_from_slice(unsafe { core::slice::from_raw_parts(self.place(offset), buffer.len()) });
        }
        fence(Ordering::Acquire);
        buffer.len()
    }
}

impl SegmentSink for Outside {
    type Error = ();

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), ()> {
        fence(Ordering::SeqCst);
        if let Ok(bytes) = bytes.try_into() {
            self.word(offset).store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        } else {
            self.half(offset).store(u32::from_le_bytes(bytes.try_into().map_err(drop)?), Ordering::Relaxed);
        }
        Ok(())
    }
}
