//! Control of a running probe, through words in its segment.

use std::time::{Duration, Instant};

use heapwise_format::segment::{
    CONTROL_OFFSET, Control, ControlWord, Counter, IndexKind, Mode, SegmentSource, Update, write_control,
};

use super::segments::SegmentFile;
use crate::failure::{Failure, Outcome};

/// One change of the control page.
#[derive(Debug, Clone, Default)]
pub struct Change {
    words: Vec<(ControlWord, Update)>,
}

impl Change {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the mode.
    pub fn mode(self, mode: Mode) -> Self {
        self.set(ControlWord::Mode, mode as u64)
    }

    /// Changes the mean distance of samples.
    pub fn sample_bytes(self, bytes: u64) -> Self {
        self.set(ControlWord::SampleBytes, bytes)
    }

    /// Changes the depth limit.
    pub fn max_depth(self, depth: u32) -> Self {
        self.set(ControlWord::MaxDepth, u64::from(depth))
    }

    /// Changes the index of exact mode.
    pub fn index(self, index: IndexKind) -> Self {
        self.set(ControlWord::Index, index as u64)
    }

    /// Clears what was counted.
    pub fn reset(self) -> Self {
        self.increment(ControlWord::ResetCount)
    }

    /// Requests the allocator's own statistics.
    pub fn allocator_stats(self) -> Self {
        self.increment(ControlWord::AllocatorStatsCount)
    }

    /// Sets any word.
    pub fn set(mut self, word: ControlWord, value: u64) -> Self {
        self.words.push((word, Update::Set(value)));
        self
    }

    fn increment(mut self, word: ControlWord) -> Self {
        self.words.push((word, Update::Increment));
        self
    }
}

/// The state of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The probe has applied it.
    Yes,
    /// It will take effect when the program allocates next.
    Pending,
}

/// Longest wait for a change: an allocating program applies it within 100 ms.
const PATIENCE: Duration = Duration::from_millis(500);

/// Writes a change and waits until the probe has applied it, or for [`PATIENCE`].
pub fn apply(segment: &SegmentFile, change: &Change) -> Outcome<Applied> {
    write(segment, change)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let snapshot = segment.snapshot()?;
        // Not our own sequence: the program may have written another one since, which covers ours.
        let wanted = snapshot.control().map(|control| control.sequence);
        if wanted == Some(snapshot.counter(Counter::AppliedSequence)) {
            return Ok(Applied::Yes);
        }
        if Instant::now() >= deadline {
            return Ok(Applied::Pending);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes a change; returns its sequence number. Writers are serialized by a lock on the
/// file, which the kernel releases when one dies.
pub fn write(segment: &SegmentFile, change: &Change) -> Outcome<u64> {
    let failed = |error: std::io::Error| Failure::file(segment.path(), format!("cannot control: {error}"));
    segment.file().lock().map_err(failed)?;
    let result = write_control(segment, &change.words).map_err(failed);
    segment.file().unlock().map_err(failed)?;
    result
}

/// The control page now.
pub fn current(segment: &SegmentFile) -> Outcome<Control> {
    segment
        .snapshot()?
        .control()
        .ok_or_else(|| Failure::file(segment.path(), "is cut off before the end of its control page"))
}

/// Whether a recorder drains the log, or did and ended without resetting its heartbeat.
pub(crate) fn is_drained(segment: &SegmentFile) -> bool {
    let mut word = [0; 8];
    segment.read_at(CONTROL_OFFSET as u64 + ControlWord::DrainHeartbeat as u64 * 8, &mut word);
    u64::from_le_bytes(word) != 0
}
