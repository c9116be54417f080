//! Puts names and lines into recordings that have ended, so that they open where the binaries are not.

use std::path::Path;

use heapwise_format::recording::{FrameHeader, FrameKind};
use heapwise_profile::recording::{RawFrame, names};

use super::open;
use super::reading::Reading;
use super::writer::Writer;
use crate::failure::{Failure, Outcome};
use crate::symbols::SymbolArgs;

/// How many addresses a recording has, and how many of them have names now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedded {
    /// Addresses with names.
    pub named: usize,
    /// All addresses.
    pub all: usize,
}

/// Embeds what this machine knows into every file of the recording at `path`. What is inside already stays.
pub fn embed(path: &Path, symbols: &SymbolArgs) -> Outcome<Embedded> {
    let mut embedded = Embedded::default();
    for file in open::files(path)? {
        let opened = open::open(&file, &Reading::default())?;
        let (mut profile, _) = opened.catalog.stacks();
        symbols.symbolize(&mut profile);
        embedded = Embedded {
            named: profile.locations.iter().filter(|location| !location.lines.is_empty()).count(),
            all: profile.locations.len(),
        };
        let count = embedded.named as u32;
        let header = FrameHeader { count, ..FrameHeader::new(FrameKind::Symbols) };
        let frame = RawFrame { header, payload: names::encode(&profile) };
        let mut writer = Writer::reopen(&file).map_err(|error| Failure::file(&file, error))?;
        writer.put(&frame).map_err(|error| Failure::file(&file, error))?;
        writer.end().map_err(|error| Failure::file(&file, error))?;
    }
    Ok(embedded)
}
