//! The flight recorder: events of the last minutes in memory, older ones summed up.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heapwise_format::recording::{Entries, Entry, FrameHeader, FrameKind, SIZE_SLOTS};
use heapwise_profile::recording::{Counts, RawFrame};

use super::packing::{self, Packed};
use super::sink::Opening;
use super::writer::Writer;
use crate::own_files::create_output;

/// A recording of the recent past.
#[derive(Debug)]
pub struct Ring {
    path: PathBuf,
    time_ms: u64,
    /// Events, timeline and ledgers, packed, oldest first.
    frames: VecDeque<(FrameHeader, usize, Packed)>,
    /// Sums of the events that were dropped, until when, and the marks before that.
    base: Counts,
    base_ms: u64,
    base_marks: u64,
    /// The empty file of that name, until it is written: keeps other recordings away.
    claim: Option<File>,
}

impl Ring {
    /// An empty ring that will be written to `path`.
    pub fn create(path: &Path, time: Duration) -> io::Result<Self> {
        Ok(Self {
            claim: Some(create_output(path)?),
            path: path.to_owned(),
            time_ms: time.as_millis() as u64,
            frames: VecDeque::new(),
            base: Counts::default(),
            base_ms: 0,
            base_marks: 0,
        })
    }

    /// Takes a frame and lets go of what is too old. Tables are not kept: the segment still has
    /// them.
    pub fn put(&mut self, frame: &RawFrame) {
        let is_kept = matches!(
            frame.header.kind,
            FrameKind::Events | FrameKind::Timeline | FrameKind::Ledger | FrameKind::Calls
        );
        if !is_kept {
            return;
        }
        self.frames.push_back((frame.header, frame.payload.len(), packing::pack(frame)));
        let horizon = frame.header.last.saturating_sub(self.time_ms);
        while self.frames.front().is_some_and(|(header, _, _)| header.last < horizon) {
            if let Some((header, raw_bytes, packed)) = self.frames.pop_front() {
                self.sum_up(&header, raw_bytes, packed);
            }
        }
    }

    fn sum_up(&mut self, header: &FrameHeader, raw_bytes: usize, packed: Packed) {
        if header.kind != FrameKind::Events {
            return;
        }
        let payload = packing::unpack(packed.codec, packed.bytes, raw_bytes).unwrap_or_default();
        self.base_marks = header.marks();
        for entry in Entries::new(&payload, vec![0; SIZE_SLOTS]).into_iter().flatten() {
            self.base.add(&entry);
            if let Entry::Mark(marks) = entry {
                self.base_marks = marks;
            }
        }
        self.base_ms = header.last;
    }

    /// Writes the ring to its own file.
    pub fn end(mut self, opening: &Opening) -> io::Result<PathBuf> {
        self.claim = None;
        self.dump(opening, None)
    }

    /// Writes the ring to its file, or to one named after a mark.
    pub fn dump(&self, opening: &Opening, mark: Option<&str>) -> io::Result<PathBuf> {
        let path = match mark {
            Some(mark) => self.path_of(mark),
            None => self.path.clone(),
        };
        let mut writer = Writer::create(&path)?;
        let frames = opening.tables.iter().chain(&opening.sites);
        frames.into_iter().try_for_each(|frame| writer.put(frame))?;
        let (payload, count) = self.base.encode();
        let header = FrameHeader { first: self.base_ms, count, ..FrameHeader::new(FrameKind::Checkpoint) };
        writer.put(&RawFrame { header: header.with_marks(self.base_marks), payload })?;
        for (header, raw_bytes, packed) in &self.frames {
            writer.put_packed(header, *raw_bytes, packed)?;
        }
        writer.end()
    }

    fn path_of(&self, mark: &str) -> PathBuf {
        let safe: String = mark.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("{stem}-{safe}.hwr"))
    }
}
