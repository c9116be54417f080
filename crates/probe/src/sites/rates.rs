//! Sampling distances in use. A block's tally names the one it was sampled with, so that the
//! distance can change at any moment without bias.

use heapwise_format::segment::{Counter, SectionKind};

use crate::atomics::Ordering;
use crate::segment::Segment;

/// A sampling distance and its number, in one word, so that a thread reads both of one setting.
/// Zero: nothing is sampled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(u64);

impl Rate {
    pub(crate) const NONE: Rate = Rate(0);
    /// The longest distance, 256 TiB; longer ones are this one.
    const LONGEST: u64 = (1 << 48) - 1;

    /// Mean distance of samples in bytes; 0 when nothing is sampled.
    pub(crate) fn distance(self) -> u64 {
        self.0 >> 16
    }

    /// Its number in the table.
    pub(crate) fn number(self) -> u16 {
        self.0 as u16
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

/// Starts with rate 0: every block.
pub(crate) fn describe(segment: &Segment) {
    segment.write(SectionKind::Rates, 0, 0_u64);
    segment.counter(Counter::Rates).store(1, Ordering::Release);
}

/// The rate of a sampling distance; `None` when the table is full of others. One thread at a time.
pub(crate) fn find_or_insert(segment: &Segment, bytes: u64) -> Option<Rate> {
    if bytes == 0 {
        return Some(Rate::NONE);
    }
    let bytes = bytes.min(Rate::LONGEST);
    let rate = |number: u64| Rate(bytes << 16 | number & 0xffff);
    let capacity = segment.section(SectionKind::Rates).capacity;
    let used = segment.counter(Counter::Rates).load(Ordering::Relaxed).min(capacity);
    let known = (1..used).find(|index| of(segment, *index as u16) == bytes);
    if let Some(known) = known {
        return Some(rate(known));
    }
    if !segment.write(SectionKind::Rates, used, bytes) {
        return None;
    }
    segment.counter(Counter::Rates).store(used + 1, Ordering::Release);
    Some(rate(used))
}

/// The distance of a number; 0 for every block.
pub(crate) fn of(segment: &Segment, number: u16) -> u64 {
    segment.read(SectionKind::Rates, u64::from(number)).unwrap_or(0)
}
