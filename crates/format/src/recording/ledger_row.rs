//! Lines of the ledger over time: where the resident memory of the process was.

use crate::varint;

/// One line at one time. The lines of one reading follow one another with the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerRow<'a> {
    /// Milliseconds since the start of the recording.
    pub ms: u64,
    /// Name of the line.
    pub name: &'a [u8],
    /// Resident bytes.
    pub bytes: u64,
}

impl<'a> LedgerRow<'a> {
    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        varint::put(out, self.ms);
        varint::put(out, self.bytes);
        varint::put(out, self.name.len() as u64);
        out.extend(self.name.iter().copied());
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &'a [u8], at: &mut usize) -> Option<Self> {
        let (ms, resident) = (varint::decode(bytes, at)?, varint::decode(bytes, at)?);
        let length = usize::try_from(varint::decode(bytes, at)?).ok()?;
        let name = bytes.get(*at..at.checked_add(length)?)?;
        *at += length;
        Some(Self { ms, name, bytes: resident })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn round_trip_and_every_cut_is_noticed() {
        let rows = [(5, &b"heap"[..], 1 << 30), (5, b"", 0), (u64::MAX, b"libraries", u64::MAX)];
        let rows = rows.map(|(ms, name, bytes)| LedgerRow { ms, name, bytes });
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut bytes));
        for cut in 0..=bytes.len() {
            let mut at = 0;
            let decoded: Vec<_> = core::iter::from_fn(|| LedgerRow::decode(&bytes[..cut], &mut at)).collect();
            assert!(rows.starts_with(&decoded) && (cut == bytes.len()) == (decoded.len() == 3));
        }
    }
}
