//! Names of functions and files that a thread has interned in the segment, recognized by their
//! text: the objects of a runtime are collected as garbage, unnoticed, and others begin at the same
//! addresses.

use super::woven::mixed;

/// Cached names, as a power of two.
const BITS: u32 = 8;

#[derive(Clone, Copy)]
struct Named {
    /// Of the text; 0: none.
    hash: u64,
    /// In the segment.
    string: u32,
}

/// Names that a thread has interned. Zeroed memory is valid: none.
pub(super) struct Names {
    known: [Named; 1 << BITS],
    /// The segment's generation that they belong to.
    generation: u64,
}

impl Names {
    /// Drops all names of another segment.
    pub(super) fn validate(&mut self, generation: u64) {
        if self.generation != generation {
            self.known.fill(Named { hash: 0, string: 0 });
            self.generation = generation;
        }
    }

    /// The name with a hash; made where it is not known.
    pub(super) fn find_or_intern(&mut self, hash: u64, intern: impl FnOnce() -> u32) -> u32 {
        let place = self.known.get_mut((hash >> (64 - BITS)) as usize);
        if let Some(known) = place.as_ref().filter(|known| known.hash == hash) {
            return known.string;
        }
        let string = intern();
        if let Some(place) = place {
            *place = Named { hash, string };
        }
        string
    }
}

/// The hash of a text, which continues another one; never 0.
pub(super) fn hash(start: u64, text: &[u8]) -> u64 {
    let words = text
        .chunks(8)
        .map(|bytes| bytes.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte)));
    words.fold(mixed(start, text.len() as u64), mixed).max(1)
}
