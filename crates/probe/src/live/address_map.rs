//! From an address to the word kept for its part of the heap, in three loads: gibibyte, leaf, word.
//!
//! The two upper levels are private to the probe and only grow; leaves are their owners' business.
#![allow(unsafe_code)]

use core::ptr::null_mut;

use crate::atomics::{AtomicPtr, Ordering};
use crate::sys;

/// Addresses of user space have 48 bits; the map covers them all.
pub(crate) const ADDRESS_BITS: u32 = 48;
pub(crate) const GIB_BITS: u32 = 30;
/// Blocks begin at multiples of 2^this.
pub(crate) const BLOCK_BITS: u32 = 4;
const WORD_BITS: u32 = 12;

/// The words of a part of the heap.
pub(crate) type Leaf<T> = [T; 1 << WORD_BITS];
/// The leaves of a gibibyte, null where there is none.
type Leaves<T, const N: usize> = [AtomicPtr<Leaf<T>>; N];

/// With so many leaves in a gibibyte. Untouched pages of it cost nothing. Zeroed memory is valid:
/// no leaves.
pub(crate) struct AddressMap<T: 'static, const LEAVES: usize> {
    gibibytes: [AtomicPtr<Leaves<T, LEAVES>>; 1 << (ADDRESS_BITS - GIB_BITS)],
}

impl<T, const LEAVES: usize> AddressMap<T, LEAVES> {
    /// Bytes of heap that a leaf covers, and a word of it, 2^this.
    const LEAF_BITS: u32 = GIB_BITS - LEAVES.ilog2();
    const CELL_BITS: u32 = Self::LEAF_BITS - WORD_BITS;

    /// Which leaf of its gibibyte an address belongs to.
    pub(crate) fn in_gibibyte(address: u64) -> usize {
        (address >> Self::LEAF_BITS) as usize & (LEAVES - 1)
    }

    /// Whether blocks may be there. None of a program is in the first leaf, so that null is not
    /// known without a question of its own.
    pub(crate) fn may_be_block(address: u64) -> bool {
        address >> ADDRESS_BITS == 0 && address >> Self::LEAF_BITS != 0
    }

    /// The leaf of an address, if it is there, and the place of its word. Never of null, nor of an
    /// address that is not a multiple of 16: its lowest bits become the highest, beyond every
    /// table.
    #[inline(always)]
    pub(crate) fn known(&self, address: u64) -> Option<(&Leaf<T>, usize)> {
        let place = address.rotate_right(BLOCK_BITS);
        let leaves = self.gibibytes.get((place >> (GIB_BITS - BLOCK_BITS)) as usize)?.load(Ordering::Acquire);
        // SAFETY: a published pointer is a mapping of that many words, which stays.
        let leaf = unsafe { leaves.as_ref() }?[Self::in_gibibyte(address)].load(Ordering::Acquire);
        // SAFETY: a published leaf stays, by the promise of `publish`.
        let leaf = unsafe { leaf.as_ref() }?;
        Some((leaf, (place >> (Self::CELL_BITS - BLOCK_BITS)) as usize & ((1 << WORD_BITS) - 1)))
    }

    /// As [`AddressMap::known`], for an address of user space that is a multiple of 16.
    #[inline(always)]
    pub(crate) fn known_aligned(&self, address: u64) -> Option<(&Leaf<T>, usize)> {
        let gibibyte = (address >> GIB_BITS) as usize % self.gibibytes.len();
        let leaves = self.gibibytes[gibibyte].load(Ordering::Acquire);
        // SAFETY: as in `known`.
        let leaf = unsafe { leaves.as_ref() }?[Self::in_gibibyte(address)].load(Ordering::Acquire);
        // SAFETY: as in `known`.
        let leaf = unsafe { leaf.as_ref() }?;
        Some((leaf, (address as u32 >> Self::CELL_BITS) as usize & ((1 << WORD_BITS) - 1)))
    }

    /// Makes a leaf known; whether there was none before.
    ///
    /// # Safety
    /// The leaf stays, until [`AddressMap::release`] at least.
    pub(crate) unsafe fn publish(&self, address: u64, leaf: *mut Leaf<T>) -> bool {
        let Some(leaves) = self.leaves_of(address) else { return false };
        leaves[Self::in_gibibyte(address)]
            .compare_exchange(null_mut(), leaf, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The leaves of an address's gibibyte, added when there are none.
    fn leaves_of(&self, address: u64) -> Option<&Leaves<T, LEAVES>> {
        let gibibyte = self.gibibytes.get((address >> GIB_BITS) as usize)?;
        if gibibyte.load(Ordering::Acquire).is_null() {
            let memory = sys::map_private(size_of::<Leaves<T, LEAVES>>()).ok()?;
            if gibibyte
                .compare_exchange(null_mut(), memory.cast(), Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // SAFETY: just mapped, and not published.
                unsafe { sys::unmap(memory, size_of::<Leaves<T, LEAVES>>()) };
            }
        }
        // SAFETY: as in `known`.
        unsafe { gibibyte.load(Ordering::Acquire).as_ref() }
    }

    /// All leaves.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = *mut Leaf<T>> {
        let gibibytes = self.gibibytes.iter().map(|leaves| leaves.load(Ordering::Acquire));
        // SAFETY: as in `known`.
        let leaves = gibibytes.filter_map(|leaves| unsafe { leaves.as_ref() }).flatten();
        leaves.map(|leaf| leaf.load(Ordering::Acquire)).filter(|leaf| !leaf.is_null())
    }

    /// Removes all leaves. No thread may use the map afterwards.
    pub(crate) fn release(&self) {
        for gibibyte in &self.gibibytes {
            let leaves = gibibyte.load(Ordering::Relaxed);
            if !leaves.is_null() {
                gibibyte.store(null_mut(), Ordering::Relaxed);
                // SAFETY: mapped by `leaves_of`, and no other thread uses it.
                unsafe { sys::unmap(leaves.cast(), size_of::<Leaves<T, LEAVES>>()) };
            }
        }
    }
}
