//! Populates sparse pages before they are accessed: on a full file system a store into a hole would
//! be a `SIGBUS` in the program; a failed `madvise` is a counted loss.
#![allow(unsafe_code)]

use heapwise_format::segment::{COUNTERS_OFFSET, Counter};

use super::Segment;
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sys;

/// Unit of growth. Small, so that many sections with little in them stay small; a multiple of the
/// usual page size (kernels with 64 KiB pages round it up themselves).
const STEP: u64 = 16 * 1024;
/// The smallest page size.
const LEAST_PAGE: usize = 4096;
/// Largest segment the map below covers.
const MOST_BYTES: u64 = 32 << 30;

const UNTRIED: u32 = 0;
/// The advice populates pages, or fails.
const HEEDED: u32 = 1;
/// Kernels before 5.14 do not support it; qemu-user before 8.0 accepts any advice and does nothing.
const IGNORED: u32 = 2;

/// Which pages of a segment are populated. Zeroed memory is valid: none.
pub(super) struct Pages {
    /// True once the segment may not grow any more.
    settled: AtomicBool,
    /// Whether the last attempt to populate pages failed.
    refused: AtomicBool,
    /// True once addresses of this segment were unmapped: other memory may be mapped there now.
    given_back: AtomicBool,
    /// Effect of `MADV_POPULATE_WRITE` on this system: one of the three above.
    advice: AtomicU32,
    /// One bit per populated step.
    populated: [AtomicU64; (MOST_BYTES / STEP / 64) as usize],
}

impl Pages {
    pub(super) fn inherit(&self, parent: &Pages) {
        self.advice.store(parent.advice.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Stops the growth of the segment: from now on only populated pages are accessed.
    pub(super) fn freeze(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Whether it did: then no system call may be made either.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Whether the file system had no space for pages when they were last populated.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Unmaps everything in `bytes` bytes that is not populated; after [`Pages::freeze`].
    pub(super) fn unmap_rest(&self, memory: *mut u8, bytes: u64) {
        if !self.given_back.swap(true, Ordering::Relaxed) {
            self.unmap_where(memory, bytes, false);
        }
    }

    /// Unmaps a segment of `bytes` bytes: only what is still ours of it. The rest may have become
    /// the program's.
    pub(super) fn unmap_segment(&self, memory: *mut u8, bytes: u64) {
        if self.given_back.load(Ordering::Relaxed) {
            self.unmap_where(memory, bytes, true);
        } else {
            // SAFETY: the session is released: no thread uses the segment any more.
            unsafe { sys::unmap(memory, bytes as usize) };
        }
    }

    /// Unmaps the populated steps, or the others.
    fn unmap_where(&self, memory: *mut u8, bytes: u64, populated: bool) {
        let mut start = 0;
        let mut at = 0;
        while at <= bytes {
            if at == bytes || self.is_populated(at) != populated {
                if at > start {
                    // SAFETY: not populated: never accessed, and after `freeze` never will be;
                    // populated: as `unmap_segment`.
                    unsafe { sys::unmap(memory.wrapping_add(start as usize), (at - start) as usize) };
                }
                start = at + STEP;
            }
            at += STEP;
        }
    }

    /// Whether the byte at `offset` belongs to the segment: false once it was unmapped.
    pub(super) fn is_ours(&self, offset: u64) -> bool {
        self.is_populated(offset) || !self.given_back.load(Ordering::Relaxed)
    }

    /// Replaces the segment's memory by zeroed private memory, except for unmapped parts.
    pub(super) fn replace(&self, memory: *mut u8, bytes: u64) -> bool {
        let at = |offset: u64| memory.wrapping_add(offset as usize);
        if !self.given_back.load(Ordering::Relaxed) {
            // SAFETY: the probe's own mapping; any content of it is valid.
            return unsafe { sys::replace(at(0), bytes as usize) }.is_ok();
        }
        // SAFETY: as above, step by step.
        (0..bytes)
            .step_by(STEP as usize)
            .filter(|offset| self.is_populated(*offset))
            .all(|offset| unsafe { sys::replace(at(offset), STEP as usize) }.is_ok())
    }

    #[inline(always)]
    fn bit(&self, offset: u64) -> Option<(&AtomicU64, u64)> {
        let step = offset / STEP;
        Some((self.populated.get((step / 64) as usize)?, 1 << (step % 64)))
    }

    /// Whether the byte at `offset` may be touched.
    #[inline(always)]
    pub(super) fn is_populated(&self, offset: u64) -> bool {
        self.bit(offset).is_some_and(|(word, mask)| word.load(Ordering::Acquire) & mask != 0)
    }

    fn heeds_advice(&self, address: usize) -> bool {
        if self.advice.load(Ordering::Relaxed) == UNTRIED {
            let heeds = sys::heeds_advice(address, STEP as usize);
            self.advice.store(if heeds { HEEDED } else { IGNORED }, Ordering::Relaxed);
        }
        self.advice.load(Ordering::Relaxed) == HEEDED
    }
}

impl Segment {
    /// Populates the first `room` bytes of a range that are not populated yet.
    pub(super) fn extend(&self, start: u64, bytes: u64, room: u64) {
        let mut left = room / STEP;
        let mut at = start;
        while at < start + bytes && left > 0 {
            if !self.pages.is_populated(at) {
                left -= 1;
                if !self.ensure_populated(at, 1) {
                    return;
                }
            }
            at += STEP;
        }
    }

    /// Makes `bytes` bytes at `offset` safe to touch; false when the memory for them is not there.
    #[inline(always)]
    pub(crate) fn ensure_populated(&self, offset: u64, bytes: u64) -> bool {
        let last = offset + bytes.max(1) - 1;
        let pages = &self.pages;
        if pages.is_populated(offset) && (offset / STEP == last / STEP || pages.is_populated(last)) {
            return true;
        }
        self.grow(offset - offset % STEP, last)
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, first: u64, last: u64) -> bool {
        let bytes = (last - first) / STEP * STEP + STEP;
        if self.is_settled() {
            return false;
        }
        if !self.name.is_private() {
            let populated = self.request(first, bytes);
            self.pages.refused.store(populated.is_err(), Ordering::Relaxed);
            if let Err(sys::Errno(errno)) = populated {
                // The kernel's word for a fault that would have been a SIGBUS.
                let errno = if errno == libc::EFAULT { libc::ENOSPC } else { errno };
                // The counters may be among the pages that are not there.
                if self.pages.is_populated(COUNTERS_OFFSET as u64) {
                    self.counter(Counter::SpaceErrno).store(errno as u64, Ordering::Relaxed);
                }
                return false;
            }
        }
        let mut at = first;
        while at <= last {
            if let Some((word, mask)) = self.pages.bit(at)
                && word.fetch_or(mask, Ordering::AcqRel) & mask == 0
            {
                self.counter(Counter::OwnBytes).fetch_add(STEP, Ordering::Relaxed);
            }
            at += STEP;
        }
        true
    }

    /// Requests memory for a range from the system.
    fn request(&self, offset: u64, bytes: u64) -> Result<(), sys::Errno> {
        let address = self.base() as usize + offset as usize;
        if self.pages.heeds_advice(address) {
            match sys::populate(address, bytes as usize) {
                Ok(()) => return Ok(()),
                Err(sys::Errno(libc::EINVAL)) => self.pages.advice.store(IGNORED, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        (0..bytes).step_by(LEAST_PAGE).try_for_each(|at| sys::touch(address + at as usize))
    }
}
