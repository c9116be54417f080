//! Content hashes: ids of functions and stacks that hosts compute without coordination.
//!
//! The hash is part of the stored data: it must never change.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// The hash of a sequence of parts. Each part is preceded by its length, so that parts cannot run
/// into each other.
#[must_use]
pub fn of_parts(parts: &[&[u8]]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

/// The hash of a sequence of numbers.
#[must_use]
pub fn of_numbers(numbers: &[u64]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    numbers.iter().for_each(|number| hasher.write(&number.to_le_bytes()));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(of_parts(&[b"ab", b"c"]), of_parts(&[b"a", b"bc"]));
        assert_ne!(of_parts(&[b"", b"a"]), of_parts(&[b"a", b""]));
    }

    /// Values of stored segments: a changed hash would split every function in two.
    #[test]
    fn hashes_are_those_of_stored_segments() {
        assert_eq!(of_numbers(&[]), 0x2d06_8005_38d3_94c2);
        assert_eq!(of_parts(&[]), of_numbers(&[]));
    }
}
