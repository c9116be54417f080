//! Marks: points of a recording that the program or a controller named.

use crate::varint;

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkRow<'a> {
    /// Its number, from 1 to [`super::MOST_MARKS`], if the program set it: [`super::Entry::Mark`]
    /// of this or a larger number is behind all events that happened before it. 0: only its time is
    /// known, because a controller set it or there were too many.
    pub number: u64,
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
    /// Its name: any bytes.
    pub name: &'a [u8],
}

impl<'a> MarkRow<'a> {
    /// Appends it to a payload.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        varint::put(out, self.number);
        varint::put(out, self.time_ns);
        varint::put(out, self.name.len() as u64);
        out.extend(self.name.iter().copied());
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(bytes: &'a [u8], at: &mut usize) -> Option<Self> {
        let (number, time_ns) = (varint::decode(bytes, at)?, varint::decode(bytes, at)?);
        let length = usize::try_from(varint::decode(bytes, at)?).ok()?;
        let name = bytes.get(*at..at.checked_add(length)?)?;
        *at += length;
        Some(Self { number, time_ns, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn round_trip_and_every_cut_is_noticed() {
        let rows = [(1, 5_000_000, &b"loaded"[..]), (0, u64::MAX, b"a/b@50%..peak"), (2, 0, b"\xff")];
        let rows = rows.map(|(number, time_ns, name)| MarkRow { number, time_ns, name });
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut bytes));
        for cut in 0..=bytes.len() {
            let mut at = 0;
            let decoded: Vec<_> = core::iter::from_fn(|| MarkRow::decode(&bytes[..cut], &mut at)).collect();
            assert!(rows.starts_with(&decoded) && (cut == bytes.len()) == (decoded.len() == 3));
        }
    }
}
