//! How the program of a segment ended.

use heapwise_format::segment::{COUNTERS_OFFSET, Counter, SegmentSink as _, State};
use heapwise_profile::ProgramEnd;
use heapwise_profile::snapshot::Snapshot;

use crate::launch::Ended;
use crate::segments::{SegmentEntry, SegmentFile};

/// The end of the program of a segment: as a controller noted it, else what the state of the
/// segment implies.
pub fn of_segment(found: &SegmentEntry, snapshot: &Snapshot<'_, SegmentFile>) -> ProgramEnd {
    let noted = ProgramEnd::from_code(snapshot.counter(Counter::End));
    match snapshot.state() {
        _ if found.alive => ProgramEnd::Running,
        _ if noted.has_ended() => noted,
        State::Exited => ProgramEnd::Exited { status: None },
        State::Replaced => ProgramEnd::Replaced,
        _ if found.is_alive() => ProgramEnd::Replaced,
        _ => ProgramEnd::Killed { signal: None },
    }
}

/// Notes the end of a program in its segment, for recordings and later readers.
pub fn note(segment: &SegmentFile, end: ProgramEnd) {
    let at = COUNTERS_OFFSET as u64 + Counter::End as u64 * 8;
    // A segment that cannot be written leaves the end unknown.
    let _ = segment.write_at(at, &end.code().to_le_bytes());
}

impl From<&Ended> for ProgramEnd {
    fn from(ended: &Ended) -> Self {
        match ended.signal {
            Some(signal) => ProgramEnd::Killed { signal: u8::try_from(signal).ok() },
            None => ProgramEnd::Exited { status: Some(ended.code) },
        }
    }
}
