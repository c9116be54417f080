//! A file that holds less than its writer recorded: cut off, or damaged from some place on.

use std::fmt;

/// A place in the input; in the decompressed input where it was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Offset from the start, in bytes.
    Byte(u64),
    /// Line of a text format, counted from 1.
    Line(u64),
}

/// The end of the readable part of an incomplete file. The profile has everything before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where reading stopped.
    pub at: Position,
    /// Why it stopped there.
    pub reason: CutReason,
    /// The part that was read; `None` when the file states no total.
    pub share: Option<CutShare>,
}

/// Why a file is incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutReason {
    /// It ends within a line, a record or before its last section.
    EndsEarly,
    /// Its bytes are damaged from there on; the text is the decoder's error.
    Damaged(String),
    /// It has an end, but its records add up to less than its header states.
    LessThanStated,
}

/// Bytes of the records that were read, and of all records that the file's header states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutShare {
    /// Bytes of the records that were read.
    pub read_bytes: u64,
    /// Bytes of all records.
    pub stated_bytes: u64,
}

impl CutShare {
    /// The part that was read, in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        match self.stated_bytes {
            0 => 100.0,
            stated => 100.0 * self.read_bytes as f64 / stated as f64,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            stated_bytes: self.stated_bytes.saturating_add(other.stated_bytes),
        }
    }
}

impl Cut {
    /// The cut of a sum of two incomplete files: the place in the first, the share of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let share = self.share.zip(other.share).map(|(one, two)| one.plus(two));
        Self { share, ..self.clone() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Byte(offset) => write!(out, "byte {offset}"),
            Position::Line(number) => write!(out, "line {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_several_files_add_up() {
        let share = |read_bytes, stated_bytes| Some(CutShare { read_bytes, stated_bytes });
        let cut = |share| Cut { at: Position::Line(3), reason: CutReason::EndsEarly, share };
        let both = cut(share(10, 40)).plus(&cut(share(20, 20)));
        assert_eq!(both, cut(share(30, 60)));
        assert_eq!(both.share.unwrap().percent(), 50.0);
        assert_eq!(cut(share(1, 2)).plus(&cut(None)).share, None);
    }
}
