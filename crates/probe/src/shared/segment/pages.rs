//! Populates sparse pages before they are accessed: on a full file system a store into a hole would
//! be a `SIGBUS` in the program; a failed `madvise` is a counted loss.
#![allow(unsafe_code)]

use heapwise_format::segment::{COUNTERS_OFFSET, Counter};

use super::{base, counter, create};
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sys;

/// Unit of growth. Small, so that many sections with little in them stay small; a multiple of the
/// usual page size (kernels with 64 KiB pages round it up themselves).
const STEP: u64 = 16 * 1024;
/// The smallest page size.
const LEAST_PAGE: usize = 4096;
/// Largest segment the map below covers.
const MOST_BYTES: u64 = 32 << 30;
/// One bit per populated step.
static REAL: [AtomicU64; (MOST_BYTES / STEP / 64) as usize] =
    [const { AtomicU64::new(0) }; (MOST_BYTES / STEP / 64) as usize];

/// Effect of `MADV_POPULATE_WRITE` on this system: one of the three below.
static ADVICE: AtomicU32 = AtomicU32::new(UNTRIED);
const UNTRIED: u32 = 0;
/// The advice populates pages, or fails.
const HEEDED: u32 = 1;
/// Kernels before 5.14 do not support it; qemu-user before 8.0 accepts any advice and does nothing.
const IGNORED: u32 = 2;

/// True once the segment may not grow any more.
static SETTLED: AtomicBool = AtomicBool::new(false);

/// Whether the last attempt to populate pages failed.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// True once addresses of this segment were unmapped: other memory may be mapped there now.
static GIVEN_BACK: AtomicBool = AtomicBool::new(false);

/// Populates the first `room` bytes of a range that are not populated yet.
pub(super) fn extend(start: u64, bytes: u64, room: u64) {
    let mut left = room / STEP;
    let mut at = start;
    while at < start + bytes && left > 0 {
        if !is_real(at) {
            left -= 1;
            if !ensure_populated(at, 1) {
                return;
            }
        }
        at += STEP;
    }
}

/// Stops the growth of the segment: from now on only populated pages are accessed.
pub(super) fn settle() {
    SETTLED.store(true, Ordering::Relaxed);
}

/// Whether it did: then no system call may be made either.
pub(super) fn is_settled() -> bool {
    SETTLED.load(Ordering::Relaxed)
}

/// Whether the file system had no space for pages when they were last populated.
pub(super) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Unmaps everything in `bytes` bytes that is not populated; after [`settle`].
pub(super) fn unmap_rest(bytes: u64) {
    if !GIVEN_BACK.swap(true, Ordering::Relaxed) {
        unmap_where(base(), bytes, false);
    }
}

/// Unmaps a segment of `bytes` bytes: only what is still ours of it. The rest may have become the
/// program's.
pub(super) fn unmap_segment(memory: *mut u8, bytes: u64) {
    if GIVEN_BACK.load(Ordering::Relaxed) {
        unmap_where(memory, bytes, true);
    } else {
        // SAFETY: a forked child has one thread, and it holds no reference into the segment here.
        unsafe { sys::unmap(memory, bytes as usize) };
    }
}

/// Unmaps the populated steps (`real`), or the others.
fn unmap_where(memory: *mut u8, bytes: u64, real: bool) {
    let mut start = 0;
    let mut at = 0;
    while at <= bytes {
        if at == bytes || is_real(at) != real {
            if at > start {
                // SAFETY: not populated: never accessed, and after `settle` never will be;
                // populated: as `unmap_segment`.
                unsafe { sys::unmap(memory.wrapping_add(start as usize), (at - start) as usize) };
            }
            start = at + STEP;
        }
        at += STEP;
    }
}

/// Whether the byte at `offset` belongs to the segment: false once it was unmapped.
pub(super) fn is_ours(offset: u64) -> bool {
    is_real(offset) || !GIVEN_BACK.load(Ordering::Relaxed)
}

/// Replaces the segment's memory by zeroed private memory, except for unmapped parts.
pub(super) fn replace(memory: *mut u8, bytes: u64) -> bool {
    let at = |offset: u64| memory.wrapping_add(offset as usize);
    if !GIVEN_BACK.load(Ordering::Relaxed) {
        // SAFETY: the probe's own mapping; any content of it is valid.
        return unsafe { sys::replace(at(0), bytes as usize) }.is_ok();
    }
    // SAFETY: as above, step by step.
    (0..bytes)
        .step_by(STEP as usize)
        .filter(|offset| is_real(*offset))
        .all(|offset| unsafe { sys::replace(at(offset), STEP as usize) }.is_ok())
}

/// Clears the record of populated pages: the segment is a new one.
pub(super) fn forget() {
    SETTLED.store(false, Ordering::Relaxed);
    REFUSED.store(false, Ordering::Relaxed);
    GIVEN_BACK.store(false, Ordering::Relaxed);
    for word in &REAL {
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn bit(offset: u64) -> Option<(&'static AtomicU64, u64)> {
    let step = offset / STEP;
    Some((REAL.get((step / 64) as usize)?, 1 << (step % 64)))
}

/// Whether the byte at `offset` may be touched.
#[inline(always)]
pub(crate) fn is_real(offset: u64) -> bool {
    bit(offset).is_some_and(|(word, mask)| word.load(Ordering::Acquire) & mask != 0)
}

/// Makes `bytes` bytes at `offset` safe to touch; false when the memory for them is not there.
#[inline(always)]
pub(crate) fn ensure_populated(offset: u64, bytes: u64) -> bool {
    let last = offset + bytes.max(1) - 1;
    if is_real(offset) && (offset / STEP == last / STEP || is_real(last)) {
        return true;
    }
    grow(offset - offset % STEP, last)
}

#[cold]
#[inline(never)]
fn grow(first: u64, last: u64) -> bool {
    let bytes = (last - first) / STEP * STEP + STEP;
    if is_settled() {
        return false;
    }
    if !create::is_private() {
        let populated = populate(first, bytes);
        REFUSED.store(populated.is_err(), Ordering::Relaxed);
        if let Err(sys::Errno(errno)) = populated {
            // The kernel's word for a fault that would have been a SIGBUS.
            let errno = if errno == libc::EFAULT { libc::ENOSPC } else { errno };
            // The counters may be among the pages that are not there.
            if is_real(COUNTERS_OFFSET as u64) {
                counter(Counter::SpaceErrno).store(errno as u64, Ordering::Relaxed);
            }
            return false;
        }
    }
    let mut at = first;
    while at <= last {
        if let Some((word, mask)) = bit(at)
            && word.fetch_or(mask, Ordering::AcqRel) & mask == 0
        {
            counter(Counter::OwnBytes).fetch_add(STEP, Ordering::Relaxed);
        }
        at += STEP;
    }
    true
}

fn populate(offset: u64, bytes: u64) -> Result<(), sys::Errno> {
    let address = base() as usize + offset as usize;
    if heeds_advice(address) {
        match sys::populate(address, bytes as usize) {
            Ok(()) => return Ok(()),
            Err(sys::Errno(libc::EINVAL)) => ADVICE.store(IGNORED, Ordering::Relaxed),
            Err(error) => return Err(error),
        }
    }
    (0..bytes).step_by(LEAST_PAGE).try_for_each(|at| sys::touch(address + at as usize))
}

fn heeds_advice(address: usize) -> bool {
    if ADVICE.load(Ordering::Relaxed) == UNTRIED {
        let heeds = sys::heeds_advice(address, STEP as usize);
        ADVICE.store(if heeds { HEEDED } else { IGNORED }, Ordering::Relaxed);
    }
    ADVICE.load(Ordering::Relaxed) == HEEDED
}
