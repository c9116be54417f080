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

pub(crate) use create::{create, end};
use pages::is_real;

use crate::atomics::{self, AtomicPtr, AtomicU32, AtomicU64, Ordering};
pub(crate) use pages::ensure_populated;

/// Used as the three leading pages until a segment exists.
#[repr(align(4096))]
struct Scratch(UnsafeCell<[u8; 3 * 4096]>);
// SAFETY: accessed through atomics only.
unsafe impl Sync for Scratch {}
static SCRATCH: Scratch = Scratch(UnsafeCell::new([0; 3 * 4096]));

/// The section used without a segment.
const EMPTY: Section = Section { offset: 0, capacity: 0, record_bytes: 1 };
/// Bytes mapped at [`BASE`]; 0 while it is the scratch pages.
static BYTES: AtomicU64 = AtomicU64::new(0);
static BASE: AtomicPtr<u8> = AtomicPtr::new(SCRATCH.0.get().cast());

struct Sections(UnsafeCell<[Section; SectionKind::ALL.len()]>);
// SAFETY: written before the segment is published, by the only thread there is.
unsafe impl Sync for Sections {}
static SECTIONS: Sections = Sections(UnsafeCell::new([EMPTY; SectionKind::ALL.len()]));

/// Unmaps an inherited segment: it belongs to the parent.
pub(crate) fn leave() {
    let old = BASE.load(Ordering::Relaxed);
    let bytes = BYTES.swap(0, Ordering::Relaxed);
    publish(SCRATCH.0.get().cast(), &[EMPTY; SectionKind::ALL.len()]);
    if bytes != 0 {
        pages::unmap_segment(old, bytes);
    }
}

/// Whether the segment grows no more, because the program gave up what that takes: system calls, or
/// addresses.
pub(crate) fn is_settled() -> bool {
    pages::is_settled()
}

/// Makes the segment live with what it has and a little more per section, from now on.
///
/// `room` is that little in bytes. With `give_back` the rest of its addresses goes back to the
/// system.
pub(crate) fn settle(room: u64, give_back: bool, by: FrozenBy) {
    counter(Counter::FrozenBy).store(by as u64, Ordering::Relaxed);
    for kind in SectionKind::ALL {
        let section = section(kind);
        pages::extend(section.offset, section.bytes(), room);
    }
    pages::settle();
    if give_back {
        pages::unmap_rest(BYTES.load(Ordering::Relaxed));
    }
}

fn publish(base: *mut u8, new: &[Section]) {
    // SAFETY: see `Sections`.
    let sections = unsafe { &mut *SECTIONS.0.get() };
    for (slot, section) in sections.iter_mut().zip(new) {
        *slot = *section;
    }
    BASE.store(base, Ordering::Release);
}

#[inline(always)]
pub(crate) fn base() -> *mut u8 {
    BASE.load(Ordering::Relaxed)
}

/// Where a section is and how large it may grow.
#[inline(always)]
pub(crate) fn section(kind: SectionKind) -> Section {
    // SAFETY: see `Sections`; `kind` is an index of it.
    unsafe { *(*SECTIONS.0.get()).get_unchecked(kind as usize) }
}

/// A word of the counter page.
#[inline(always)]
pub(crate) fn counter(counter: Counter) -> &'static AtomicU64 {
    // SAFETY: the page is mapped for the life of the process, or is `SCRATCH`.
    unsafe { &*base().add(COUNTERS_OFFSET + counter as usize * 8).cast() }
}

/// The three numbers of an arena of the allocator; `None` beyond the last.
pub(crate) fn arena(index: usize) -> Option<&'static [AtomicU64; 3]> {
    let at = COUNTERS_OFFSET + (ARENA_WORDS + index * 3) * 8;
    // SAFETY: as `counter`; inside the page.
    (index < MOST_ARENAS).then(|| unsafe { &*base().add(at).cast() })
}

/// Adds one to a counter that threads share.
#[inline(always)]
pub(crate) fn count(which: Counter) {
    counter(which).fetch_add(1, Ordering::Relaxed);
}

/// Counts an allocation that a table had no room for, and the cause.
pub(crate) fn count_loss(which: Counter) {
    count(which);
    if let Some(cause) = cause_of_loss(Counter::NoSpaceLosses, Counter::FrozenLosses) {
        count(cause);
    }
}

/// Counts an event that was dropped, and the cause.
pub(crate) fn count_lost_event() {
    count(Counter::LostEvents);
    if let Some(cause) = cause_of_loss(Counter::NoSpaceEvents, Counter::FrozenEvents) {
        count(cause);
    }
}

/// The counter of the cause of a loss just now; `None`: the capacity is used up.
pub(crate) fn cause_of_loss(no_space: Counter, frozen: Counter) -> Option<Counter> {
    if is_settled() {
        Some(frozen)
    } else if pages::is_refused() {
        Some(no_space)
    } else {
        None
    }
}

/// A word of the control page by its index: one of a slot for leases.
pub(crate) fn control_at(index: usize) -> &'static AtomicU64 {
    // SAFETY: as `counter`; the index is brought into the page.
    unsafe { &*base().add(CONTROL_OFFSET + index % (PAGE_BYTES / 8) * 8).cast() }
}

/// A word of the control page.
#[inline(always)]
pub(crate) fn control(word: ControlWord) -> &'static AtomicU64 {
    // SAFETY: as `counter`.
    unsafe { &*base().add(CONTROL_OFFSET + word as usize * 8).cast() }
}

/// Publishes the probe's state.
pub(crate) fn set_state(state: State) {
    counter(Counter::State).store(state as u64, Ordering::Release);
}

/// Publishes that the probe records nothing, for want of memory for its tables.
pub(crate) fn stand_aside() {
    let reason = counter(Counter::SpaceErrno).load(Ordering::Relaxed);
    counter(Counter::Errno).store(reason, Ordering::Relaxed);
    set_state(State::StoodAside);
}

/// A record whose pages are populated; `None` beyond the capacity or without memory for it.
#[inline]
pub(crate) fn record(kind: SectionKind, index: u64) -> Option<*mut u8> {
    let section = section(kind);
    let offset = section.record_offset(index)?;
    // SAFETY: inside the mapping, because `index` is below the capacity.
    ensure_populated(offset, section.record_bytes).then(|| unsafe { base().add(offset as usize) })
}

/// A record that may never have been written; `None` when it was not.
#[inline]
pub(crate) fn existing(kind: SectionKind, index: u64) -> Option<*mut u8> {
    let offset = section(kind).record_offset(index)?;
    // SAFETY: as `record`.
    is_real(offset).then(|| unsafe { base().add(offset as usize) })
}

/// As [`existing`], for a section of `T`, whose size is a compile-time constant.
#[inline(always)]
pub(crate) fn existing_of<T>(kind: SectionKind, index: u64) -> Option<*mut u8> {
    let section = section(kind);
    debug_assert_eq!(size_of::<T>() as u64, section.record_bytes);
    if index >= section.capacity {
        return None;
    }
    let offset = section.offset + index * size_of::<T>() as u64;
    // SAFETY: as `record`.
    is_real(offset).then(|| unsafe { base().add(offset as usize) })
}

/// Writes a whole record before it is published.
pub(crate) fn write<T: Copy>(kind: SectionKind, index: u64, value: T) -> bool {
    debug_assert_eq!(size_of::<T>() as u64, section(kind).record_bytes);
    let Some(place) = record(kind, index) else { return false };
    // SAFETY: a record of this section has the size and alignment of `T` (asserted in the format
    // crate).
    unsafe { atomics::write(place.cast::<T>(), value) };
    true
}

/// As [`write()`], for readers of the segment that do not wait for a word elsewhere: the record's
/// first word, which must not be 0, is stored last (see
/// [`heapwise_format::segment::read_appended`]).
pub(crate) fn append<T: Copy>(kind: SectionKind, index: u64, value: T) -> bool {
    const { assert!(align_of::<T>() == 8) };
    debug_assert_eq!(size_of::<T>() as u64, section(kind).record_bytes);
    let Some(place) = record(kind, index) else { return false };
    let words = (&raw const value).cast::<u64>();
    for word in (0..size_of::<T>() / 8).rev() {
        let order = if word == 0 { Ordering::Release } else { Ordering::Relaxed };
        // SAFETY: a word of the value, and the same of the record; records are plain numbers
        // without gaps.
        unsafe { word64(place, word * 8).store(words.add(word).read(), order) };
    }
    true
}

/// Copies a record; `None` when it was never written. Any content of shared memory is a valid `T`.
#[inline]
pub(crate) fn read<T: Copy>(kind: SectionKind, index: u64) -> Option<T> {
    // SAFETY: as `write`; records are plain numbers.
    existing_of::<T>(kind, index).map(|place| unsafe { atomics::read(place.cast::<T>()) })
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

/// A segment and empty tables for the unit tests of this process, which share them.
#[cfg(test)]
pub(crate) fn for_tests() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let allocator = heapwise_format::segment::AllocatorKind::Other;
        assert!(create(allocator, heapwise_format::segment::Tier::Full), "memory for a segment");
        create::remove_name();
        crate::sites::rates::init();
        crate::live::init(allocator);
        crate::sites::strings::init();
        crate::sites::stack_tree::init();
        assert!(crate::sites::tallies::init());
    });
}
