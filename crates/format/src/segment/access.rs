//! Access of another process to a segment: positioned reads and writes of its file, never a
//! mapping.
//!
//! The words and bytes of one call are read and written in any order. Calls are ordered, and the
//! implementation must ensure that: system calls are not memory barriers on a weakly ordered
//! machine.

/// Positioned reads of a segment.
pub trait SegmentSource {
    /// Fills as much of `buffer` as there is at `offset`; returns the number of bytes read. An
    /// acquire fence follows: later reads do not return older values.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;
}

/// Positioned writes to a segment.
pub trait SegmentSink: SegmentSource {
    /// Why a write failed.
    type Error;

    /// Writes all of `bytes` at `offset`. A full fence precedes it: all earlier reads and writes
    /// are ordered before this write.
    ///
    /// # Errors
    /// When the file cannot be written to.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;
}
