//! Allocators that the dynamic linker does not lead to: how the sizes of their blocks are found.
//!
//! A controller writes a row for each of them before it hooks the first function.
#![allow(unsafe_code)]

use heapwise_format::entry_hooks::{FAMILY_BYTES, FamilyWord, MOST_FAMILIES};

use crate::arch::words;
use crate::atomics::{AtomicU64, Ordering};
use crate::record::usable::Family;

/// The words of a family, in the order of [`FamilyWord`].
pub(super) type Row = [AtomicU64; FamilyWord::Count as usize];
const _: () = assert!(size_of::<Row>() == FAMILY_BYTES);

pub(super) static ROWS: [Row; MOST_FAMILIES] =
    [const { [const { AtomicU64::new(0) }; FamilyWord::Count as usize] }; MOST_FAMILIES];

#[inline(always)]
fn word(family: Family, word: FamilyWord) -> usize {
    ROWS[family.number()][word as usize].load(Ordering::Relaxed) as usize
}

/// Largest alignment that does not change the size class of a block which is not smaller.
#[inline(always)]
pub(super) fn natural_alignment(family: Family) -> usize {
    word(family, FamilyWord::NaturalAlignment)
}

/// Whether a family has a function for usable sizes.
pub(crate) fn has_usable_size(family: Family) -> bool {
    word(family, FamilyWord::UsableSize) != 0
}

/// Usable bytes of a live block; `None` when they are not known. The function of tcmalloc returns 0
/// until tcmalloc's constructor has run. Its first call allocates: the usable size of that block is
/// not known.
pub(crate) fn usable_size(family: Family, address: u64, size: u64) -> Option<u64> {
    let function = word(family, FamilyWord::UsableSize);
    let measuring = &words().measuring;
    if function == 0 || measuring.load(Ordering::Relaxed) != 0 {
        return None;
    }
    measuring.store(1, Ordering::Relaxed);
    // SAFETY: the controller wrote the address of such a function of this family. jemalloc's
    // `sallocx` takes flags besides, of which none is set.
    let function: unsafe extern "C" fn(u64, u64) -> usize = unsafe { core::mem::transmute(function) };
    // SAFETY: a live block of the family.
    let usable = unsafe { function(address, 0) } as u64;
    measuring.store(0, Ordering::Relaxed);
    (usable >= size).then_some(usable)
}

/// Usable bytes of a block of `size` bytes by the size classes of its family: the smallest class
/// that holds it. `None` when they are not known.
pub(crate) fn usable_by_classes(family: Family, size: u64) -> Option<u64> {
    let (classes, count) = (word(family, FamilyWord::Classes), word(family, FamilyWord::ClassCount));
    if classes == 0 {
        return None;
    }
    // SAFETY: the controller wrote address and length of an array of words that the family computes
    // before its first allocation and does not change afterwards.
    let classes = unsafe { core::slice::from_raw_parts(classes as *const u64, count) };
    classes.get(classes.partition_point(|class| *class < size)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_class_that_holds_a_block_is_found() {
        static CLASSES: [u64; 4] = [8, 16, 32, 48];
        let family = Family::new(3);
        assert_eq!((usable_by_classes(family, 8), usable_size(family, 8, 8)), (None, None));
        let row = &ROWS[family.number()];
        row[FamilyWord::ClassCount as usize].store(CLASSES.len() as u64, Ordering::Relaxed);
        row[FamilyWord::Classes as usize].store(CLASSES.as_ptr() as u64, Ordering::Relaxed);
        let found = [1, 8, 9, 33, 48, 49].map(|size| usable_by_classes(family, size));
        assert_eq!(found, [Some(8), Some(8), Some(16), Some(48), Some(48), None]);
    }
}
