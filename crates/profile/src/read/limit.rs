//! How much memory a profile may take. A file of a megabyte can unfold to any number of bytes, and
//! its rows to a multiple of that.

use super::ReadError;
use super::lines::TextLine;
use crate::builder::Builder;

/// Limit of the memory of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    memory_bytes: u64,
}

impl Default for Limit {
    /// 2 GiB: some ten million stacks or thirty million live blocks.
    fn default() -> Self {
        Self::of_memory(2 << 30)
    }
}

impl Limit {
    /// Readers of text hold the text and tables of up to about this many times its size: a frame of
    /// a folded stack is two bytes of text and a node of the table of stacks.
    const OF_TEXT: u64 = 16;
    /// The same of other formats, whose readers weigh most tables before they read them.
    const OF_BINARY: u64 = 4;

    /// A limit of about this many bytes.
    #[must_use]
    pub fn of_memory(memory_bytes: u64) -> Self {
        Self { memory_bytes }
    }

    /// Decompressed bytes that may be held of a file that begins with `head`.
    pub(super) fn held_bytes(self, head: &[u8]) -> u64 {
        let is_text = head.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace());
        self.memory_bytes / if is_text { Self::OF_TEXT } else { Self::OF_BINARY }
    }

    /// An error when what a reader of text holds, and what a further line may add, is beyond the
    /// limit. Short lines are checked now and then.
    pub(super) fn check_line(
        self,
        format: &'static str,
        line: TextLine<'_>,
        builder: &Builder,
    ) -> Result<(), ReadError> {
        const SHORT: usize = 4096;
        const LINES: u64 = 64;
        if line.text.len() < SHORT && !line.number.is_multiple_of(LINES) {
            return Ok(());
        }
        let may_add = (line.text.len() as u64).saturating_mul(Self::OF_TEXT);
        self.check(format, builder.held_bytes().saturating_add(may_add))
    }

    /// An error when tables of a text of so many bytes may be beyond the limit.
    pub(super) fn check_text(self, format: &'static str, bytes: usize) -> Result<(), ReadError> {
        self.check(format, (bytes as u64).saturating_mul(Self::OF_TEXT))
    }

    /// An error when tables of `bytes` bytes are beyond the limit.
    pub(crate) fn check(self, format: &'static str, bytes: u64) -> Result<(), ReadError> {
        match bytes > self.memory_bytes {
            true => Err(ReadError::TooLarge { format, limit_bytes: self.memory_bytes }),
            false => Ok(()),
        }
    }
}
