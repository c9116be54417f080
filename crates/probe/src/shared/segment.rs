//! The mapped segment, for the rest of the probe: counters, control words, records.
//!
//! Every access goes through here, so that three things hold everywhere: an index is checked
//! against the section's capacity, a page is populated before it is accessed (`pages`), and without
//! a segment the same code runs against a scratch page and capacities of zero.
#![allow(unsafe_code)]

mod create;
mod pages;
mod truncation;

use core::cell::UnsafeCell;

use heapwise_format::segment::{
    ARENA_WORDS, CONTROL_OFFSET, COUNTERS_OFFSET, ControlWord, Counter, FrozenBy, MOST_ARENAS, PAGE_BYTES,
    Section, SectionKind, State,
};

use create::Name;
use pages::Pages;

use crate::atomics::{self, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::clock;

/// Used as the three leading pages until a segment exists.
#[repr(align(4096))]
struct Scratch(UnsafeCell<[u8; 3 * 4096]>);
// SAFETY: accessed through atomics only.
unsafe impl Sync for Scratch {}

struct Sections(UnsafeCell<[Section; SectionKind::ALL.len()]>);
// SAFETY: written before the session is published, by the only thread there is.
unsafe impl Sync for Sections {}

/// The segment of a session. Zeroed memory is valid, after [`Segment::start_empty`].
#[repr(C)]
pub(crate) struct Segment {
    base: AtomicPtr<u8>,
    sections: Sections,
    /// Bytes mapped at `base`; 0 while it is the scratch pages.
    bytes: AtomicU64,
    /// `CLOCK_MONOTONIC` nanoseconds from which milliseconds of records count.
    start_ns: AtomicU64,
    /// Its file was truncated, and private memory is or will be in its place.
    is_replaced: AtomicBool,
    pages: Pages,
    name: Name,
    scratch: Scratch,
}

impl Segment {
    /// Starts without a segment: counters and control words are in scratch pages.
    pub(crate) fn start_empty(&self) {
        self.base.store(self.scratch.0.get().cast(), Ordering::Relaxed);
    }

    /// Takes over what the parent of a forked child found out about the system.
    pub(crate) fn inherit(&self, parent: &Segment) {
        self.pages.inherit(&parent.pages);
    }

    /// Unmaps the segment. What is written now is lost.
    pub(crate) fn release(&self) {
        let old = self.base();
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        truncation::unwatch(self);
        self.publish(self.scratch.0.get().cast(), &[]);
        if bytes != 0 {
            self.pages.unmap_segment(old, bytes);
        }
    }

    /// Whether the segment grows no more, because the program gave up what that takes: system
    /// calls, or addresses.
    pub(crate) fn is_settled(&self) -> bool {
        self.pages.is_settled()
    }

    /// Whether the file system had no space for pages when they were last populated.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.pages.is_refused()
    }

    /// Makes the segment live with what it has and a little more per section, from now on.
    ///
    /// `room` is that little in bytes. With `give_back` the rest of its addresses goes back to the
    /// system.
    pub(crate) fn freeze(&self, room: u64, give_back: bool, by: FrozenBy) {
        self.counter(Counter::FrozenBy).store(by as u64, Ordering::Relaxed);
        for kind in SectionKind::ALL {
            self.reserve(kind, room);
        }
        self.pages.freeze();
        if give_back {
            self.pages.unmap_rest(self.base(), self.bytes.load(Ordering::Relaxed));
        }
    }

    /// Populates the next `room` bytes of a section.
    pub(crate) fn reserve(&self, kind: SectionKind, room: u64) {
        let section = self.section(kind);
        self.extend(section.offset, section.bytes(), room);
    }

    /// Sections that are not in `new` are empty.
    fn publish(&self, base: *mut u8, new: &[Section]) {
        // SAFETY: see `Sections`.
        let sections = unsafe { &mut *self.sections.0.get() };
        let none = Section { offset: 0, capacity: 0, record_bytes: 1 };
        for (index, slot) in sections.iter_mut().enumerate() {
            *slot = new.get(index).copied().unwrap_or(none);
        }
        self.base.store(base, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    /// Where a section is and how large it may grow.
    #[inline(always)]
    pub(crate) fn section(&self, kind: SectionKind) -> Section {
        // SAFETY: see `Sections`; `kind` is an index of it.
        unsafe { *(*self.sections.0.get()).get_unchecked(kind as usize) }
    }

    /// A word of the counter page.
    #[inline(always)]
    pub(crate) fn counter(&self, counter: Counter) -> &AtomicU64 {
        // SAFETY: the page is mapped for the life of the session, or is a scratch page.
        unsafe { &*self.base().add(COUNTERS_OFFSET + counter as usize * 8).cast() }
    }

    /// The three numbers of an arena of the allocator; `None` beyond the last.
    pub(crate) fn arena(&self, index: usize) -> Option<&[AtomicU64; 3]> {
        let at = COUNTERS_OFFSET + (ARENA_WORDS + index * 3) * 8;
        // SAFETY: as `counter`; inside the page.
        (index < MOST_ARENAS).then(|| unsafe { &*self.base().add(at).cast() })
    }

    /// Adds one to a counter that threads share.
    #[inline(always)]
    pub(crate) fn count(&self, which: Counter) {
        self.counter(which).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an allocation that a table had no room for, and the cause.
    pub(crate) fn count_loss(&self, which: Counter) {
        self.count(which);
        if let Some(cause) = self.cause_of_loss(Counter::NoSpaceLosses, Counter::FrozenLosses) {
            self.count(cause);
        }
    }

    /// Counts an event that was dropped, and the cause.
    pub(crate) fn count_lost_event(&self) {
        self.count(Counter::LostEvents);
        if let Some(cause) = self.cause_of_loss(Counter::NoSpaceEvents, Counter::FrozenEvents) {
            self.count(cause);
        }
    }

    /// The counter of the cause of a loss just now; `None`: the capacity is used up.
    pub(crate) fn cause_of_loss(&self, no_space: Counter, frozen: Counter) -> Option<Counter> {
        if self.is_settled() {
            Some(frozen)
        } else if self.pages.is_refused() {
            Some(no_space)
        } else {
            None
        }
    }

    /// A word of the control page by its index: one of a slot for leases.
    pub(crate) fn control_at(&self, index: usize) -> &AtomicU64 {
        // SAFETY: as `counter`; the index is brought into the page.
        unsafe { &*self.base().add(CONTROL_OFFSET + index % (PAGE_BYTES / 8) * 8).cast() }
    }

    /// A word of the control page.
    #[inline(always)]
    pub(crate) fn control(&self, word: ControlWord) -> &AtomicU64 {
        // SAFETY: as `counter`.
        unsafe { &*self.base().add(CONTROL_OFFSET + word as usize * 8).cast() }
    }

    /// Publishes the probe's state.
    pub(crate) fn set_state(&self, state: State) {
        self.counter(Counter::State).store(state as u64, Ordering::Release);
    }

    /// Publishes that the probe records nothing, for want of memory for its tables.
    pub(crate) fn stand_aside(&self) {
        let reason = self.counter(Counter::SpaceErrno).load(Ordering::Relaxed);
        self.counter(Counter::Errno).store(reason, Ordering::Relaxed);
        self.set_state(State::StoodAside);
    }

    /// Milliseconds since the segment was made, to the kernel's tick.
    pub(crate) fn age_ms(&self) -> u32 {
        (clock::coarse_ns().saturating_sub(self.start_ns.load(Ordering::Relaxed)) / 1_000_000) as u32
    }

    /// A record whose pages are populated; `None` beyond the capacity or without memory for it.
    #[inline]
    pub(crate) fn record(&self, kind: SectionKind, index: u64) -> Option<*mut u8> {
        let section = self.section(kind);
        let offset = section.record_offset(index)?;
        // SAFETY: inside the mapping, because `index` is below the capacity.
        self.ensure_populated(offset, section.record_bytes)
            .then(|| unsafe { self.base().add(offset as usize) })
    }

    /// A record that may never have been written; `None` when it was not.
    #[inline]
    pub(crate) fn existing(&self, kind: SectionKind, index: u64) -> Option<*mut u8> {
        let offset = self.section(kind).record_offset(index)?;
        // SAFETY: as `record`.
        self.pages.is_populated(offset).then(|| unsafe { self.base().add(offset as usize) })
    }

    /// As [`Segment::existing`], for a section of `T`, whose size is a compile-time constant.
    #[inline(always)]
    pub(crate) fn existing_of<T>(&self, kind: SectionKind, index: u64) -> Option<*mut u8> {
        let section = self.section(kind);
        debug_assert_eq!(size_of::<T>() as u64, section.record_bytes);
        if index >= section.capacity {
            return None;
        }
        let offset = section.offset + index * size_of::<T>() as u64;
        // SAFETY: as `record`.
        self.pages.is_populated(offset).then(|| unsafe { self.base().add(offset as usize) })
    }

    /// Writes a whole record before it is published.
    pub(crate) fn write<T: Copy>(&self, kind: SectionKind, index: u64, value: T) -> bool {
        debug_assert_eq!(size_of::<T>() as u64, self.section(kind).record_bytes);
        let Some(place) = self.record(kind, index) else { return false };
        // SAFETY: a record of this section has the size and alignment of `T` (asserted in the
        // format crate).
        unsafe { atomics::write(place.cast::<T>(), value) };
        true
    }

    /// As [`Segment::write`], for readers of the segment that do not wait for a word elsewhere: the
    /// record's first word, which must not be 0, is stored last (see
    /// [`heapwise_format::segment::read_appended`]).
    pub(crate) fn append<T: Copy>(&self, kind: SectionKind, index: u64, value: T) -> bool {
        const { assert!(align_of::<T>() == 8) };
        debug_assert_eq!(size_of::<T>() as u64, self.section(kind).record_bytes);
        let Some(place) = self.record(kind, index) else { return false };
        let words = (&raw const value).cast::<u64>();
        for word in (0..size_of::<T>() / 8).rev() {
            let order = if word == 0 { Ordering::Release } else { Ordering::Relaxed };
            // SAFETY: a word of the value, and the same of the record; records are plain numbers
            // without gaps.
            unsafe { word64(place, word * 8).store(words.add(word).read(), order) };
        }
        true
    }

    /// Copies a record; `None` when it was never written. Any content of shared memory is a valid
    /// `T`.
    #[inline]
    pub(crate) fn read<T: Copy>(&self, kind: SectionKind, index: u64) -> Option<T> {
        // SAFETY: as `write`; records are plain numbers.
        self.existing_of::<T>(kind, index).map(|place| unsafe { atomics::read(place.cast::<T>()) })
    }
}

/// A `u32` inside a populated record.
///
/// # Safety
/// `place` came from [`record`] or [`existing`], and `byte` is a multiple of 4 inside that record.
#[inline(always)]
pub(crate) unsafe fn word32(place: *mut u8, byte: usize) -> &'static AtomicU32 {
    // SAFETY: the caller's promise; records are 8-byte aligned.
    unsafe { &*place.add(byte).cast() }
}

/// A `u64` inside a populated record.
///
/// # Safety
/// As [`word32`], a multiple of 8.
#[inline(always)]
pub(crate) unsafe fn word64(place: *mut u8, byte: usize) -> &'static AtomicU64 {
    // SAFETY: the caller's promise.
    unsafe { &*place.add(byte).cast() }
}
