//! Version 3 of recordings, which heapwise 0.1 wrote: what differs from the present version. Blocks
//! are counted per bucket (stack, size, thread), marks are a table, and counters are a page of the
//! segment.

mod bucket;
mod entry;

pub use bucket::{BucketCount, SiteBucket};
pub use entry::{Entries, Entry};

use crate::bytes::u64_at;
use crate::segment::Counter;

/// The number in the preamble.
pub const VERSION: u32 = 3;

/// Events that found no room in the index of live blocks and in the table of buckets.
const LOST_EVENTS: [usize; 2] = [29, 30];

/// Reads the counter page; `None` when it is too short.
pub fn decode_counters(page: &[u8], mut write: impl FnMut(Counter, u64)) -> Option<()> {
    let word = |number: usize| u64_at(page, number * 8);
    for (number, counter) in super::tables::COUNTERS {
        let number = usize::from(number);
        if number >= super::tables::FIRST_NEW_COUNTER {
            continue;
        }
        let mut value = word(number)?;
        if counter == Counter::LostEvents {
            value = LOST_EVENTS.into_iter().filter_map(word).fold(value, u64::saturating_add);
        }
        write(counter, value);
    }
    Some(())
}
