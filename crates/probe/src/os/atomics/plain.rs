//! Non-atomic accesses, synchronized by another word. A model reports accesses that are too early.
#![allow(unsafe_code)]

/// Writes a record.
///
/// # Safety
/// As [`core::ptr::write`].
#[inline(always)]
pub(crate) unsafe fn write<T>(place: *mut T, value: T) {
    about_to_write(place.cast(), size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
}

/// Copies the current contents of a record.
///
/// # Safety
/// As [`core::ptr::read_volatile`].
#[inline(always)]
pub(crate) unsafe fn read<T: Copy>(place: *const T) -> T {
    about_to_read(place.cast(), size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe { place.read_volatile() }
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
