//! Batches: profiles with the identity of their processes, as the spool stores them and as
//! `heapwise-fleet` receives them.
//!
//! A batch is a sequence of entries. An entry is one line of JSON, the [`Header`], and the profile
//! in heapwise's own format, whose length and checksum the header has. A reader takes the entries
//! before a torn one: the agent or the machine may have stopped in the middle of a write.

mod end;
mod id;

pub use end::End;
pub use id::EntryId;

use serde::{Deserialize, Serialize};

/// Longest header. Names of services and programs are cut far below it.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// Largest profile of an entry.
pub const MOST_PROFILE_BYTES: u64 = 256 << 20;

/// The process of an entry, as people name it. Empty where it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels {
    /// Name of the service.
    pub service: String,
    /// Version of the service.
    pub release: String,
    /// Name of the host.
    pub host: String,
    /// Id of the container.
    pub container: String,
}

/// What is known of a profile without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Stable: the same profile sent twice has the same id.
    pub id: EntryId,
    /// Time of the profile, nanoseconds since the epoch.
    pub time_ns: u64,
    /// Names of the process.
    #[serde(flatten)]
    pub labels: Labels,
    /// Path of the program.
    pub program: String,
    /// Number of the process on its host.
    pub pid: u32,
    /// When the program started, or got the probe; nanoseconds since the epoch.
    pub start_ns: u64,
    /// How the process ended; `None` while it runs.
    pub end: Option<End>,
    /// Length of the profile that follows the header.
    pub bytes: u64,
    /// CRC-32 of the profile.
    pub crc: u32,
}

/// A profile and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Identity, time and length.
    pub header: Header,
    /// The profile in heapwise's own format (`.hwp`).
    pub profile: Vec<u8>,
}

/// Identity and time of a profile, from which its header is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moment {
    /// Time of the profile, nanoseconds since the epoch.
    pub time_ns: u64,
    /// Names of the process.
    pub labels: Labels,
    /// Path of the program.
    pub program: String,
    /// Number of the process on its host.
    pub pid: u32,
    /// When the program started, or got the probe; nanoseconds since the epoch.
    pub start_ns: u64,
    /// How the process ended; `None` while it runs.
    pub end: Option<End>,
}

impl Entry {
    /// The entry of a profile.
    #[must_use]
    pub fn new(moment: Moment, profile: Vec<u8>) -> Self {
        let Moment { time_ns, labels, program, pid, start_ns, end } = moment;
        let id = EntryId::of(&labels.host, pid, start_ns, time_ns);
        let (bytes, crc) = (profile.len() as u64, crc32fast::hash(&profile));
        Self { header: Header { id, time_ns, labels, program, pid, start_ns, end, bytes, crc }, profile }
    }

    /// Appends the entry to a batch.
    ///
    /// # Panics
    /// Never: a header has no type that JSON lacks.
    pub fn append_to(&self, batch: &mut Vec<u8>) {
        serde_json::to_writer(&mut *batch, &self.header).expect("a header is JSON");
        batch.push(b'\n');
        batch.extend_from_slice(&self.profile);
    }
}

/// Why a batch ends before its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    /// The header has no end, is not JSON, or its id is not that of its process and time.
    Header,
    /// The profile is shorter than its header states.
    Short,
    /// The profile is not the one that its header states.
    Checksum,
}

/// The entries of a batch, in order. The first error is the last item.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

/// Reads the entries of a batch.
#[must_use]
pub fn read(batch: &[u8]) -> Entries<'_> {
    Entries { rest: batch }
}

impl Entries<'_> {
    fn entry(&mut self) -> Result<Entry, Torn> {
        let head = &self.rest[..self.rest.len().min(MOST_HEADER_BYTES)];
        let end = head.iter().position(|byte| *byte == b'\n').ok_or(Torn::Header)?;
        let header: Header = serde_json::from_slice(&head[..end]).map_err(|_| Torn::Header)?;
        let Header { labels, pid, start_ns, time_ns, .. } = &header;
        if header.id != EntryId::of(&labels.host, *pid, *start_ns, *time_ns) {
            return Err(Torn::Header);
        }
        let body = &self.rest[end + 1..];
        let length = usize::try_from(header.bytes.min(MOST_PROFILE_BYTES + 1)).map_err(|_| Torn::Short)?;
        let profile = body.get(..length).ok_or(Torn::Short)?;
        if length as u64 != header.bytes || crc32fast::hash(profile) != header.crc {
            return Err(Torn::Checksum);
        }
        let profile = profile.to_vec();
        self.rest = &body[length..];
        Ok(Entry { header, profile })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Torn>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
