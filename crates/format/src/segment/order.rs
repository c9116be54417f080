//! Writes of a controller to the control page: settings, leases, and the time of a recording.

use super::{CONTROL_OFFSET, Control, ControlWord, Lease, LeaseWord, SegmentSink, Writer};

/// Change of a control word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Set it to this value.
    Set(u64),
    /// Add 1 to it.
    Increment,
}

/// Change of the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseChange {
    /// Put a lease into a slot that is free, or whose holder has ended.
    Take(usize, Lease),
    /// Free a slot.
    Release(usize),
}

fn at(index: usize) -> u64 {
    (CONTROL_OFFSET + index * 8) as u64
}

fn read<S: SegmentSink>(segment: &S, word: ControlWord) -> u64 {
    let mut bytes = [0; 8];
    segment.read_at(at(word as usize), &mut bytes);
    u64::from_le_bytes(bytes)
}

fn write<S: SegmentSink>(segment: &S, index: usize, value: u64) -> Result<(), S::Error> {
    segment.write_at(at(index), &value.to_le_bytes())
}

/// Writes a change; returns its sequence number. One writer at a time: the caller holds the lock.
///
/// # Errors
/// When the segment cannot be written to; the sequence then stays odd until the next change.
pub fn write_control<S: SegmentSink>(
    segment: &S,
    words: &[(ControlWord, Update)],
    leases: &[LeaseChange],
) -> Result<u64, S::Error> {
    // A writer that died half-way left the sequence odd: `| 1` covers both cases.
    let before = read(segment, ControlWord::Sequence);
    write(segment, ControlWord::Sequence as usize, before | 1)?;
    for (word, update) in words {
        let value = match update {
            Update::Set(value) => *value,
            Update::Increment => read(segment, *word).wrapping_add(1),
        };
        write(segment, *word as usize, value)?;
    }
    for change in leases {
        write_lease(segment, change)?;
    }
    let after = Control::next_sequence(before, Writer::Controller);
    write(segment, ControlWord::Sequence as usize, after)?;
    Ok(after)
}

/// The bit of a slot in the word `Leases`.
fn bit(slot: usize) -> u64 {
    1_u64.wrapping_shl(slot as u32)
}

fn write_lease<S: SegmentSink>(segment: &S, change: &LeaseChange) -> Result<(), S::Error> {
    let bits = read(segment, ControlWord::Leases);
    let bits = match change {
        LeaseChange::Take(slot, lease) => {
            for part in LeaseWord::ALL {
                write(segment, part.index(*slot), lease.word(part))?;
            }
            bits | bit(*slot)
        }
        LeaseChange::Release(slot) => {
            write(segment, LeaseWord::Pid.index(*slot), 0)?;
            bits & !bit(*slot)
        }
    };
    write(segment, ControlWord::Leases as usize, bits)
}

/// Writes the heartbeat of a lease. `Sequence` does not cover it.
///
/// # Errors
/// When the segment cannot be written to.
pub fn beat<S: SegmentSink>(segment: &S, slot: usize, now_ns: u64) -> Result<(), S::Error> {
    write(segment, LeaseWord::Heartbeat.index(slot), now_ns)
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
    write(segment, ControlWord::DrainHeartbeat as usize, now_ns)?;
    write(segment, ControlWord::TickMillis as usize, milliseconds)
}
