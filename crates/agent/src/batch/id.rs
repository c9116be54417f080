//! Ids of entries: a hash of process and time, so that a batch sent twice is stored once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// FNV-1a of 128 bits over host, pid, start and time; 32 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u128);

/// The constants of FNV-1a for 128 bits.
const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl EntryId {
    /// The id of a process's profile at one time.
    #[must_use]
    pub fn of(host: &str, pid: u32, start_ns: u64, time_ns: u64) -> Self {
        let numbers = [u64::from(pid), start_ns, time_ns].map(u64::to_le_bytes).concat();
        // No name contains a zero byte, so that name and numbers cannot run into each other.
        let bytes = host.bytes().chain([0]).chain(numbers);
        Self(bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl FromStr for EntryId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors of FNV-1a, through the same fold.
    #[test]
    fn the_hash_is_fnv_1a() {
        let hash = |text: &str| {
            text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
        };
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    /// Stored ids stay valid with every later version.
    #[test]
    fn ids_are_stable_and_differ_in_every_part() {
        let id = EntryId::of("a", 1, 2, 3);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string(), "b49556794f8e7e88cebff6698c950d0c");
        let others = [EntryId::of("b", 1, 2, 3), EntryId::of("a", 2, 2, 3), EntryId::of("a", 1, 3, 3)];
        assert!(!others.contains(&id) && id != EntryId::of("a", 1, 2, 4));
    }
}
