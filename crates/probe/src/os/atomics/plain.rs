//! Accesses of whole records, synchronized by another word. A model reports accesses that are too
//! early.
//!
//! Some records are replaced while other threads may read them (the name of a thread while a dump
//! is written). Therefore each word is stored and loaded atomically: such a reader gets words of
//! the old record and of the new one, not undefined behavior.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Whether records of this type are bytes, or else words.
const fn is_byte<T>() -> bool {
    assert!(size_of::<T>() == 1 || align_of::<T>() == 8 && size_of::<T>().is_multiple_of(8));
    size_of::<T>() == 1
}

/// Writes a record.
///
/// # Safety
/// `place` is valid for writes of a `T`, aligned, and written by these functions and atomics only;
/// a `T` is plain numbers without gaps.
#[inline(always)]
pub(crate) unsafe fn write<T: Copy>(place: *mut T, value: T) {
    about_to_write(place.cast(), size_of::<T>());
    if const { is_byte::<T>() } {
        // SAFETY: the caller's promise.
        unsafe {
            (*place.cast::<AtomicU8>()).store((&raw const value).cast::<u8>().read(), Ordering::Relaxed)
        };
        return;
    }
    for word in 0..size_of::<T>() / 8 {
        // SAFETY: a word of the value, and the same of the record.
        unsafe {
            let value = (&raw const value).cast::<u64>().add(word).read();
            (*place.cast::<AtomicU64>().add(word)).store(value, Ordering::Relaxed);
        }
    }
}

/// Copies the current contents of a record.
///
/// # Safety
/// As [`write()`], for reads; any content is a valid `T`.
#[inline(always)]
pub(crate) unsafe fn read<T: Copy>(place: *const T) -> T {
    about_to_read(place.cast(), size_of::<T>());
    let mut value = MaybeUninit::<T>::uninit();
    if const { is_byte::<T>() } {
        // SAFETY: the caller's promise.
        unsafe { value.as_mut_ptr().cast::<u8>().write((*place.cast::<AtomicU8>()).load(Ordering::Relaxed)) };
    } else {
        for word in 0..size_of::<T>() / 8 {
            // SAFETY: a word of the record, and the same of the value.
            unsafe {
                let loaded = (*place.cast::<AtomicU64>().add(word)).load(Ordering::Relaxed);
                value.as_mut_ptr().cast::<u64>().add(word).write(loaded);
            }
        }
    }
    // SAFETY: all its bytes were written.
    unsafe { value.assume_init() }
}

/// At most these bytes are written next, without the help of [`write()`].
#[inline(always)]
pub(crate) fn about_to_write(place: *mut u8, bytes: usize) {
    #[cfg(all(test, loom))]
    super::modelled::note_write(place, bytes);
    let _ = (place, bytes);
}

/// These bytes are read next, without the help of [`read()`].
#[inline(always)]
pub(crate) fn about_to_read(place: *const u8, bytes: usize) {
    #[cfg(all(test, loom))]
    super::modelled::note_read(place as usize, bytes);
    let _ = (place, bytes);
}
