//! Control of a running probe, through words in its segment.

use std::time::{Duration, Instant};

use heapwise_format::segment::{
    CONTROL_OFFSET, Control, ControlWord, Counter, IndexKind, LeaseChange, Mode, SegmentSource, State,
    StatsText, Update, write_control,
};

use heapwise_profile::snapshot::Snapshot;

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

    /// Changes the process's own mode.
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

    /// Requests the allocator's own statistics, and perhaps their text.
    pub fn allocator_stats(self, text: Option<StatsText>) -> Self {
        let text = text.map_or(0, StatsText::word);
        self.set(ControlWord::StatsText, text).increment(ControlWord::AllocatorStatsCount)
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
    await_applied(segment)
}

/// Waits until the probe has applied the control page, or for [`PATIENCE`].
pub fn await_applied(segment: &SegmentFile) -> Outcome<Applied> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if is_applied(&segment.snapshot()?) {
            return Ok(Applied::Yes);
        }
        if Instant::now() >= deadline {
            return Ok(Applied::Pending);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the probe has applied the control page. Not compared with our own sequence: the program
/// may have written another one since, which covers ours.
pub(crate) fn is_applied(snapshot: &Snapshot<'_, SegmentFile>) -> bool {
    let wanted = snapshot.control().map(|control| control.sequence);
    wanted == Some(snapshot.counter(Counter::AppliedSequence))
}

/// Writes a change.
pub fn write(segment: &SegmentFile, change: &Change) -> Outcome {
    locked(segment, || write_locked(segment, change, &[]))
}

/// Runs `act` while no other controller writes: a lock on the file, which the kernel releases when
/// its holder dies.
pub(crate) fn locked<T>(segment: &SegmentFile, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    segment.file().lock().map_err(|error| cannot_control(segment, error))?;
    let result = act();
    segment.file().unlock().map_err(|error| cannot_control(segment, error))?;
    result
}

/// Longest wait for a probe that is being set up: milliseconds, unless the program is stopped.
const STARTING: Duration = Duration::from_secs(10);

/// Waits until the probe has written its first control words: earlier changes would be overwritten.
fn await_started(segment: &SegmentFile) -> Outcome {
    let deadline = Instant::now() + STARTING;
    while segment.snapshot()?.state() == State::Starting {
        if Instant::now() >= deadline {
            return Err(Failure::file(segment.path(), "cannot control: its program is still starting"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Writes a change of words and leases; inside [`locked`].
pub(crate) fn write_locked(segment: &SegmentFile, change: &Change, leases: &[LeaseChange]) -> Outcome {
    await_started(segment)?;
    write_control(segment, &change.words, leases).map(drop).map_err(|error| cannot_control(segment, error))
}

fn cannot_control(segment: &SegmentFile, error: std::io::Error) -> Failure {
    Failure::file(segment.path(), format!("cannot control: {error}"))
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
