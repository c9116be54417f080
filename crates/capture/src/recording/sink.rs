//! Where the frames of a recording go: one file, numbered files of limited size, or a ring in
//! memory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heapwise_profile::recording::RawFrame;

use super::background::Background;
use super::ring::Ring;
use super::rotation::Rotation;
use super::writer::Writer;

/// How a recording is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retention {
    /// Everything in one file.
    All,
    /// Numbered files of about `bytes` each, the newest `files` of them.
    Rotated {
        /// Size at which another file is begun.
        bytes: u64,
        /// Files kept.
        files: usize,
    },
    /// Events of the last `time` in memory, older ones summed up; written at the end and at every
    /// mark.
    Ring {
        /// How far back.
        time: Duration,
    },
}

/// What a file needs before its first events, so that it can be read on its own.
#[derive(Debug, Default)]
pub struct Opening {
    /// Process, tables and counters.
    pub tables: Vec<RawFrame>,
    /// All sites so far.
    pub sites: Option<RawFrame>,
    /// Everything before, summed up; none at the very beginning.
    pub checkpoint: Option<RawFrame>,
}

impl Opening {
    pub(super) fn write(&self, writer: &mut Writer) -> io::Result<()> {
        let frames = self.tables.iter().chain(&self.sites).chain(&self.checkpoint);
        frames.into_iter().try_for_each(|frame| writer.put(frame))
    }
}

/// A recording being written.
#[derive(Debug)]
pub enum Sink {
    /// One file.
    File(Background),
    /// Numbered files.
    Rotation(Rotation),
    /// Memory.
    Ring(Ring),
}

impl Sink {
    /// Begins a recording at `path`.
    pub fn create(path: &Path, retention: &Retention) -> io::Result<Self> {
        Ok(match *retention {
            Retention::All => Sink::File(Background::create(path)?),
            Retention::Rotated { bytes, files } => Sink::Rotation(Rotation::create(path, bytes, files)?),
            Retention::Ring { time } => Sink::Ring(Ring::create(path, time)?),
        })
    }

    /// Takes a frame.
    pub fn put(&mut self, frame: RawFrame) -> io::Result<()> {
        match self {
            Sink::File(file) => file.put(frame),
            Sink::Rotation(rotation) => rotation.put(&frame),
            Sink::Ring(ring) => {
                ring.put(&frame);
                Ok(())
            }
        }
    }

    /// Waits until all frames are written.
    pub fn wait(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.wait(),
            Sink::Rotation(_) | Sink::Ring(_) => Ok(()),
        }
    }

    /// Whether another file should be begun, with [`Sink::turn`].
    pub fn is_full(&self) -> bool {
        matches!(self, Sink::Rotation(rotation) if rotation.is_full())
    }

    /// Begins another file.
    pub fn turn(&mut self, opening: &Opening) -> io::Result<()> {
        match self {
            Sink::Rotation(rotation) => rotation.turn(opening),
            Sink::File(_) | Sink::Ring(_) => Ok(()),
        }
    }

    /// Whether marks trigger a dump.
    pub(crate) fn is_ring(&self) -> bool {
        matches!(self, Sink::Ring(_))
    }

    /// Writes what a ring holds to a file named after `mark`; nothing for other sinks.
    pub fn dump(&self, opening: &Opening, mark: &str) -> io::Result<Option<PathBuf>> {
        match self {
            Sink::Ring(ring) => ring.dump(opening, Some(mark)).map(Some),
            Sink::File(_) | Sink::Rotation(_) => Ok(None),
        }
    }

    /// Ends the recording; `opening` is what a ring needs to be written.
    pub fn end(self, opening: &Opening) -> io::Result<PathBuf> {
        match self {
            Sink::File(file) => file.end(),
            Sink::Rotation(rotation) => rotation.end(),
            Sink::Ring(ring) => ring.end(opening),
        }
    }
}
