//! The columns of a payload, being written and being read.

use crate::bytes::u32_at;
use crate::varint;

/// The columns of a payload being written.
#[derive(Debug, Clone, Default)]
pub struct Columns<B> {
    /// A byte per entry.
    pub main: B,
    /// Lowest bytes of far sites.
    pub site_lows: B,
    /// The rest of them.
    pub site_highs: B,
    /// A byte per block.
    pub sizes: B,
    /// Lowest bytes of large sizes.
    pub size_lows: B,
    /// Their second bytes.
    pub size_mids: B,
    /// The rest of them.
    pub size_highs: B,
    /// Ages of frees.
    pub ages: B,
    /// Values of others.
    pub values: B,
}

/// Number of columns.
const COLUMNS: usize = 9;
/// Bytes before the first column.
const LENGTHS_BYTES: usize = 4 * (COLUMNS - 1);
/// Set in the first length when the bytes of the column of sizes are in the main column, each
/// behind the byte of its entry.
const INTERLEAVED: u32 = 1 << 31;

impl<B> Columns<B> {
    fn all(&self) -> [&B; COLUMNS] {
        [
            &self.main,
            &self.site_lows,
            &self.site_highs,
            &self.sizes,
            &self.size_lows,
            &self.size_mids,
            &self.size_highs,
            &self.ages,
            &self.values,
        ]
    }

    /// All columns, in the order of the payload.
    pub fn all_mut(&mut self) -> [&mut B; COLUMNS] {
        [
            &mut self.main,
            &mut self.site_lows,
            &mut self.site_highs,
            &mut self.sizes,
            &mut self.size_lows,
            &mut self.size_mids,
            &mut self.size_highs,
            &mut self.ages,
            &mut self.values,
        ]
    }
}

impl<B: AsRef<[u8]>> Columns<B> {
    /// Bytes of the payload.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all().into_iter().fold(LENGTHS_BYTES, |sum, column| sum + column.as_ref().len())
    }

    /// Appends the payload to `out`: the lengths, then the columns.
    pub(super) fn write(&self, is_interleaved: bool, out: &mut impl Extend<u8>) {
        let columns = self.all().map(AsRef::as_ref);
        let mut flag = if is_interleaved { INTERLEAVED } else { 0 };
        for column in columns.iter().take(COLUMNS - 1) {
            out.extend((column.len() as u32 | core::mem::take(&mut flag)).to_le_bytes());
        }
        columns.iter().for_each(|column| out.extend(column.iter().copied()));
    }
}

/// A column being read.
#[derive(Debug, Clone, Default)]
pub(super) struct Column<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Column<'_> {
    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        varint::decode(self.bytes, &mut self.at)
    }

    fn is_read(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Splits a payload into its columns, and returns whether sizes are interleaved; `None` when it is
/// shorter than its header says.
pub(super) fn split(payload: &[u8]) -> Option<(Columns<Column<'_>>, bool)> {
    let is_interleaved = u32_at(payload, 0)? & INTERLEAVED != 0;
    let mut rest = payload.get(LENGTHS_BYTES..)?;
    let mut columns = Columns::<Column<'_>>::default();
    for (number, column) in columns.all_mut().into_iter().enumerate() {
        let flags = if number == 0 { INTERLEAVED } else { 0 };
        let length = match number + 1 {
            COLUMNS => rest.len(),
            _ => (u32_at(payload, 4 * number)? & !flags) as usize,
        };
        let bytes;
        (bytes, rest) = rest.split_at_checked(length)?;
        *column = Column { bytes, at: 0 };
    }
    Some((columns, is_interleaved))
}

/// Whether all columns were read to their ends.
pub(super) fn are_read(columns: &Columns<Column<'_>>) -> bool {
    columns.all().into_iter().all(Column::is_read)
}
