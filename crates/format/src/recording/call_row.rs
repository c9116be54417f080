//! Calls that returned or created memory, over time.

use crate::segment::CallKind;
use crate::varint;

/// Calls of one kind from one stack, since the row before of the same two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRow {
    /// Milliseconds from the start of the recording to the last of these calls.
    pub ms: u64,
    /// The call.
    pub kind: CallKind,
    /// Node of the stack; 0 for the allocator.
    pub node: u32,
    /// Calls.
    pub count: u64,
    /// Advised bytes.
    pub bytes: u64,
}

impl CallRow {
    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        let words = [self.ms, self.kind as u64, self.node.into(), self.count, self.bytes];
        words.into_iter().for_each(|word| varint::put(out, word));
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let mut word = || varint::decode(bytes, at);
        Some(Self {
            ms: word()?,
            kind: CallKind::from_word(u32::try_from(word()?).ok()?)?,
            node: u32::try_from(word()?).ok()?,
            count: word()?,
            bytes: word()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn round_trip_and_every_cut_is_noticed() {
        let row = |ms, kind, node, count, bytes| CallRow { ms, kind, node, count, bytes };
        let rows = [
            row(5, CallKind::DontNeed, 7, 1, 4096),
            row(0, CallKind::MemfdCreate, 0, 3, 0),
            row(u64::MAX, CallKind::Remove, u32::MAX, u64::MAX, u64::MAX),
        ];
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut bytes));
        for cut in 0..=bytes.len() {
            let mut at = 0;
            let decoded: Vec<_> = core::iter::from_fn(|| CallRow::decode(&bytes[..cut], &mut at)).collect();
            assert!(rows.starts_with(&decoded) && (cut == bytes.len()) == (decoded.len() == 3));
        }
        assert_eq!(CallRow::decode(&[1, 9, 1, 1, 1], &mut 0), None, "no such call");
    }
}
