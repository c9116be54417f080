//! Sampling distances in use. A block's tally names the one it was sampled with, so that the
//! distance can change at any moment without bias.

use heapwise_format::segment::{Counter, SectionKind};

use crate::atomics::Ordering;
use crate::segment::Segment;

/// Starts with rate 0: every block.
pub(crate) fn describe(segment: &Segment) {
    segment.write(SectionKind::Rates, 0, 0_u64);
    segment.counter(Counter::Rates).store(1, Ordering::Release);
}

/// The number of a sampling distance; `None` when the table is full of others. One thread at a
/// time.
pub(crate) fn number(segment: &Segment, bytes: u64) -> Option<u16> {
    let capacity = segment.section(SectionKind::Rates).capacity;
    let used = segment.counter(Counter::Rates).load(Ordering::Relaxed).min(capacity);
    let known = (1..used).find(|index| of(segment, *index as u16) == bytes);
    if let Some(known) = known {
        return Some(known as u16);
    }
    if !segment.write(SectionKind::Rates, used, bytes) {
        return None;
    }
    segment.counter(Counter::Rates).store(used + 1, Ordering::Release);
    Some(used as u16)
}

/// The distance of a number; 0 for every block.
pub(crate) fn of(segment: &Segment, number: u16) -> u64 {
    segment.read(SectionKind::Rates, u64::from(number)).unwrap_or(0)
}
