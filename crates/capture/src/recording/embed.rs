//! Puts names and lines into recordings that have ended, so that they open where the binaries are
//! not.

use std::collections::HashMap;
use std::path::Path;

use heapwise_format::recording::{FrameHeader, FrameKind};
use heapwise_profile::Profile;
use heapwise_profile::recording::{RawFrame, names};

use super::open;
use super::read_options::ReadOptions;
use super::writer::Writer;
use crate::failure::{Failure, Outcome};

/// Number of distinct addresses in all files of a recording, and of those with names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedded {
    /// Addresses with names.
    pub named: usize,
    /// All addresses.
    pub all: usize,
}

/// Embeds the names that `symbolize` finds into every file of the recording at `path`. Names that
/// it has already stay.
pub fn embed(path: &Path, symbolize: impl Fn(&mut Profile)) -> Outcome<Embedded> {
    // The files of a rotated recording have most of their addresses in common.
    let mut has_name: HashMap<u64, bool> = HashMap::new();
    for file in open::files(path)? {
        let opened = open::open(&file, &ReadOptions::default())?;
        let (mut profile, _) = opened.tables.stacks();
        symbolize(&mut profile);
        for location in &profile.locations {
            *has_name.entry(location.address).or_default() |= !location.lines.is_empty();
        }
        let count = profile.locations.iter().filter(|location| !location.lines.is_empty()).count() as u32;
        let header = FrameHeader { count, ..FrameHeader::new(FrameKind::Symbols) };
        let frame = RawFrame { header, payload: names::encode(&profile) };
        let mut writer = Writer::reopen(&file).map_err(|error| Failure::file(&file, error))?;
        writer.put(&frame).map_err(|error| Failure::file(&file, error))?;
        writer.end().map_err(|error| Failure::file(&file, error))?;
    }
    Ok(Embedded { named: has_name.values().filter(|named| **named).count(), all: has_name.len() })
}
