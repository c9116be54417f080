//! A DWARF reader that can run dry.
//!
//! DWARF entries refer to lists and to each other by offset, so a file of a megabyte can take years
//! to read: a hundred thousand functions that all state the same list of a hundred thousand ranges.
//! Real files are read a few times over at most, which sets the bound. Entries also nest, and the
//! library that reads them recurses, so the meter limits the stack, too.

use std::{borrow::Cow, cell::Cell};

use gimli::{EndianSlice, Error, Reader, ReaderOffsetId, Result, RunTimeEndian};

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// How often each byte may be read on average. Asking for every function of libc or of a Rust
/// program reads 0.7 of theirs.
const MAX_PASSES: u64 = 8;
/// Allowance for tiny files.
const MIN_BYTES: u64 = 16 << 20;

/// Deepest stack below the meter's own frame: half of what a thread gets by default, and room for
/// thousands of nested inlined functions, where real ones reach about a hundred.
const MAX_STACK_BYTES: usize = 1 << 20;

/// The remaining budget of reads. Shared by all readers of one lookup, on one thread.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    stack: usize,
}

impl Default for Meter {
    fn default() -> Self {
        Self { left: Cell::new(MIN_BYTES), stack: stack_position() }
    }
}

/// Roughly where the stack is now.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0_u8;
    (&raw const here).addr()
}

impl Meter {
    /// Allows for the bytes of a file.
    pub(crate) fn extend(&self, bytes: u64) {
        let more = bytes.saturating_mul(MAX_PASSES);
        self.left.set(self.left.get().saturating_add(more));
    }
}

/// A slice of a section, read at the meter's expense.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metered<'a> {
    slice: Slice<'a>,
    meter: &'a Meter,
}

impl<'a> Metered<'a> {
    pub(crate) fn new(slice: Slice<'a>, meter: &'a Meter) -> Self {
        Self { slice, meter }
    }

    /// The bytes themselves.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.slice.slice()
    }

    #[inline]
    fn charge(&self, bytes: usize) -> Result<()> {
        let left = self.meter.left.get().checked_sub(bytes as u64);
        self.meter.left.set(left.unwrap_or(0));
        let is_deep = self.meter.stack.abs_diff(stack_position()) > MAX_STACK_BYTES;
        if left.is_none() || is_deep {
            return Err(Error::TooManyIterations);
        }
        Ok(())
    }
}

impl Reader for Metered<'_> {
    type Endian = RunTimeEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> RunTimeEndian {
        self.slice.endian()
    }

    #[inline]
    fn len(&self) -> usize {
        self.slice.len()
    }

    #[inline]
    fn empty(&mut self) {
        self.slice.empty();
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        self.slice.truncate(len)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.slice.offset_from(base.slice)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.slice.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.slice.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        let found = Reader::find(&self.slice, byte)?;
        self.charge(found)?;
        Ok(found)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.charge(1)?;
        self.slice.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.charge(1)?;
        Ok(Self { slice: self.slice.split(len)?, meter: self.meter })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.slice.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        Reader::to_string(&self.slice)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Reader::to_string_lossy(&self.slice)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.charge(buffer.len())?;
        Reader::read_slice(&mut self.slice, buffer)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.charge(1)?;
        self.slice.read_u8()
    }
}
