//! Fixed-width little-endian fields at fixed offsets; out of range reads give `None`.
//!
//! The segment is written by native stores; both supported architectures are little-endian, so
//! a segment of one opens on the other.

/// Reads the `u16` at byte `at`.
#[must_use]
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array_at(bytes, at)?))
}

/// Reads the `u32` at byte `at`.
#[must_use]
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array_at(bytes, at)?))
}

/// Reads the `u64` at byte `at`.
#[must_use]
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array_at(bytes, at)?))
}

/// Copies the `N` bytes at `at`.
#[must_use]
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The bytes of a fixed-size text field up to its first NUL.
#[must_use]
pub fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    field.get(..end).unwrap_or(field)
}

/// Copies as much of `text` as fits with a terminating NUL; the rest of the field becomes zero.
pub fn set_text(field: &mut [u8], text: &[u8]) {
    field.fill(0);
    let len = text.len().min(field.len().saturating_sub(1));
    if let (Some(target), Some(source)) = (field.get_mut(..len), text.get(..len)) {
        target.copy_from_slice(source);
    }
}
