//! The histogram of block sizes: one record per thread in the segment, and one that is shared.
#![allow(unsafe_code)]

use heapwise_format::segment::{
    SIZE_CLASSES, SectionKind, SizeCount, SizeCounts, size_class, size_class_start,
};

use crate::atomics::{AtomicU64, Ordering};
use crate::session::Session;
use crate::sites::tallies::{Writer, add};
use crate::threads;

/// Blocks allocated, their bytes, blocks freed, their bytes.
type Class = [AtomicU64; 4];

/// One [`SizeCounts`]. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Histogram {
    classes: [Class; SIZE_CLASSES],
}

const _: () = assert!(size_of::<Histogram>() == size_of::<SizeCounts>());

/// The record of a thread, or the shared one for `None`. Without room for one it is a histogram of
/// the session that is never read.
pub(crate) fn of_thread(session: &Session, record: Option<u32>) -> &Histogram {
    let index = record.map_or(0, |record| u64::from(record) + 1);
    // SAFETY: a populated record, whose words are atomics and stay mapped.
    session
        .segment
        .record(SectionKind::Sizes, index)
        .map_or(&session.unread, |place| unsafe { &*place.cast() })
}

/// Calls `with` for each class and thread: the largest size of the class, and what was counted.
pub(crate) fn each_class(session: &Session, mut with: impl FnMut(u64, &SizeCount)) {
    for thread in [None].into_iter().chain((0..threads::used(session)).map(Some)) {
        for (class, words) in of_thread(session, thread).classes.iter().enumerate() {
            let [allocs, alloc_bytes, frees, freed_bytes] =
                words.each_ref().map(|word| word.load(Ordering::Relaxed));
            with(size_class_start(class + 1) - 1, &SizeCount { allocs, alloc_bytes, frees, freed_bytes });
        }
    }
}

/// Where a class is, in bytes from the start of a histogram. Only [`ClassOffset::of`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct ClassOffset(u32);

impl ClassOffset {
    #[inline(always)]
    pub(crate) fn of(size: u64) -> Self {
        Self((size_class(size) * size_of::<Class>()) as u32)
    }

    /// From the number that [`ClassOffset::bytes`] returned.
    #[inline(always)]
    pub(super) fn new(bytes: u32) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(self) -> u32 {
        self.0
    }
}

impl Histogram {
    #[inline(always)]
    fn class(&self, class: ClassOffset) -> &Class {
        // SAFETY: the offset of a class, which is inside.
        unsafe { &*self.classes.as_ptr().wrapping_byte_add(class.0 as usize) }
    }

    /// Counts an allocation of a block, as the only writer.
    #[inline(always)]
    pub(crate) fn add_own_alloc(&self, class: ClassOffset, size: u64) {
        let [allocs, alloc_bytes, ..] = self.class(class);
        add(allocs, 1);
        add(alloc_bytes, size);
    }

    /// Counts a free of a block of a size, as the only writer.
    #[inline(always)]
    pub(crate) fn add_own_free(&self, class: ClassOffset, size: u64) {
        let [.., frees, freed_bytes] = self.class(class);
        add(frees, 1);
        add(freed_bytes, size);
    }

    /// Bytes allocated, and bytes freed.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.classes.iter().fold((0, 0), |(allocated, freed), [_, alloc_bytes, _, freed_bytes]| {
            let add = |sum: u64, word: &AtomicU64| sum.wrapping_add(word.load(Ordering::Relaxed));
            (add(allocated, alloc_bytes), add(freed, freed_bytes))
        })
    }

    /// Counts `blocks` blocks of a size that were allocated (`first` 0) or freed (2).
    fn add(&self, writer: Writer, size: u64, blocks: u64, first: usize) {
        let amounts = [blocks, blocks.saturating_mul(size)];
        for (word, amount) in self.classes[size_class(size)].iter().skip(first).zip(amounts) {
            match writer {
                Writer::Own => add(word, amount),
                Writer::Shared => drop(word.fetch_add(amount, Ordering::Relaxed)),
            }
        }
    }

    pub(crate) fn count_alloc(&self, writer: Writer, size: u64, blocks: u64) {
        self.add(writer, size, blocks, 0);
    }

    pub(crate) fn count_free(&self, writer: Writer, size: u64, blocks: u64) {
        self.add(writer, size, blocks, 2);
    }

    /// Starts another period.
    pub(crate) fn clear(&self) {
        self.classes.iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}
