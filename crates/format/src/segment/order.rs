//! Writes of a controller to the control page: orders, and the time of a recording.

use super::{CONTROL_OFFSET, Control, ControlWord, SegmentSink, Writer};

/// Change of a control word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Set it to this value.
    Set(u64),
    /// Add 1 to it.
    Increment,
}

fn at(word: ControlWord) -> u64 {
    CONTROL_OFFSET as u64 + word as u64 * 8
}

/// Writes an order; returns its sequence number. One writer at a time: the caller holds the lock.
///
/// # Errors
/// When the segment cannot be written to; the sequence then stays odd until the next order.
pub fn write_control<S: SegmentSink>(segment: &S, words: &[(ControlWord, Update)]) -> Result<u64, S::Error> {
    let get = |word: ControlWord| {
        let mut bytes = [0; 8];
        segment.read_at(at(word), &mut bytes);
        u64::from_le_bytes(bytes)
    };
    let put = |word: ControlWord, value: u64| segment.write_at(at(word), &value.to_le_bytes());
    // A writer that died half-way left the sequence odd: `| 1` covers both cases.
    let before = get(ControlWord::Sequence);
    put(ControlWord::Sequence, before | 1)?;
    for (word, update) in words {
        match update {
            Update::Set(value) => put(*word, *value)?,
            Update::Increment => put(*word, get(*word).wrapping_add(1))?,
        }
    }
    let after = Control::next_sequence(before, Writer::Controller);
    put(ControlWord::Sequence, after)?;
    Ok(after)
}

/// Writes the time of the recording, which is also the drainer's heartbeat at `now_ns`. `Sequence`
/// does not cover these words.
///
/// The heartbeat is written first: the probe adds the time since the heartbeat to the tick, so a
/// new tick with an old heartbeat would be a time in the future.
///
/// # Errors
/// When the segment cannot be written to.
pub fn tick<S: SegmentSink>(segment: &S, milliseconds: u64, now_ns: u64) -> Result<(), S::Error> {
    segment.write_at(at(ControlWord::DrainHeartbeat), &now_ns.to_le_bytes())?;
    segment.write_at(at(ControlWord::TickMillis), &milliseconds.to_le_bytes())
}
