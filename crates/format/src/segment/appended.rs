//! Reads an array to which several threads append concurrently.

use super::SegmentSource;
use crate::bytes::u64_at;

/// Fills `records` from `offset` on with records of `record_bytes` each; returns how many there are
/// before the first that is not whole yet.
///
/// For arrays whose records have a first word that is not 0 and is stored last: what has one in a
/// first reading is whole in a second.
pub fn read_appended(
    segment: &impl SegmentSource,
    offset: u64,
    record_bytes: usize,
    records: &mut [u8],
) -> usize {
    segment.read_at(offset, records);
    let is_written = |record: &&[u8]| u64_at(record, 0).is_some_and(|word| word != 0);
    let whole = records.chunks_exact(record_bytes).take_while(is_written).count();
    segment.read_at(offset, records);
    whole
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// Two records of two words; the first is written between the two readings.
    struct Growing(Cell<u64>);

    impl SegmentSource for Growing {
        fn read_at(&self, _: u64, buffer: &mut [u8]) -> usize {
            let readings = self.0.replace(self.0.get() + 1);
            let words = [7, if readings == 0 { 0 } else { 8 }, 0, 9];
            for (to, from) in buffer.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&u64::to_le_bytes(from));
            }
            buffer.len()
        }
    }

    #[test]
    fn what_is_whole_is_read_whole() {
        let mut records = [0; 32];
        assert_eq!(read_appended(&Growing(Cell::new(0)), 0, 16, &mut records), 1);
        assert_eq!((u64_at(&records, 0), u64_at(&records, 8)), (Some(7), Some(8)));
    }
}
