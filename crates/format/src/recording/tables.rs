//! Numbers of tables and counters in a recording: they are the recording's own, so that a segment
//! can change its layout without a new version of recordings.

use crate::segment::{Counter, SectionKind};
use crate::varint;

/// Tables of the segment that a recording carries.
const TABLES: [(u16, SectionKind); 5] = [
    (0, SectionKind::Modules),
    (1, SectionKind::Nodes),
    (2, SectionKind::Strings),
    (6, SectionKind::Threads),
    // Version 3 only: later versions have a frame of their own for marks.
    (12, SectionKind::Marks),
];

/// The number of a table in the header of its frame.
#[must_use]
pub fn table_number(kind: SectionKind) -> Option<u16> {
    TABLES.into_iter().find(|(_, known)| *known == kind).map(|(number, _)| number)
}

/// The table of that number.
#[must_use]
pub fn table_kind(number: u16) -> Option<SectionKind> {
    TABLES.into_iter().find(|(known, _)| *known == number).map(|(_, kind)| kind)
}

/// Counters that version 3 did not have are numbered from here on. Smaller numbers are words of its
/// page.
pub(super) const FIRST_NEW_COUNTER: usize = 100;

/// Counters of the segment that a recording carries.
pub(super) const COUNTERS: [(u16, Counter); 48] = [
    (3, Counter::Mode),
    (7, Counter::PeriodStart),
    (8, Counter::LastSeen),
    (9, Counter::Modules),
    (10, Counter::Nodes),
    (11, Counter::Strings),
    (14, Counter::Threads),
    (15, Counter::Marks),
    (21, Counter::Recorded),
    (22, Counter::Freed),
    (23, Counter::LiveBytes),
    (24, Counter::PeakBytes),
    (25, Counter::AllocatedBytes),
    (26, Counter::OwnBytes),
    (28, Counter::UnknownFrees),
    (31, Counter::LostNodes),
    (32, Counter::LostThreads),
    (33, Counter::LostEvents),
    (34, Counter::WaitedEvents),
    (35, Counter::Reentrant),
    (36, Counter::Truncated),
    (37, Counter::Broken),
    (38, Counter::LostModules),
    (40, Counter::Forks),
    (41, Counter::Dumps),
    (42, Counter::FailedDumps),
    (54, Counter::RecordedNanos),
    (100, Counter::Tallies),
    (101, Counter::PeakEpoch),
    (102, Counter::PeakEpochBytes),
    (103, Counter::UntrackedBlocks),
    (104, Counter::UntrackedBytes),
    (105, Counter::LostTallies),
    (106, Counter::LostStrings),
    (107, Counter::LostMarks),
    (108, Counter::NoSpaceLosses),
    (109, Counter::FrozenLosses),
    (110, Counter::NoSpaceEvents),
    (111, Counter::FrozenEvents),
    (112, Counter::SpaceErrno),
    (113, Counter::FrozenBy),
    (114, Counter::Starts),
    (115, Counter::StartedNanos),
    (116, Counter::StoppedNanos),
    (117, Counter::End),
    (118, Counter::Pauses),
    (119, Counter::LostCalls),
    (120, Counter::Runtime),
];

/// Appends the counters of a page to the payload of a counters frame.
pub fn encode_counters(read: impl Fn(Counter) -> u64, out: &mut impl Extend<u8>) {
    for (number, counter) in COUNTERS {
        let value = read(counter);
        if value != 0 {
            varint::put(out, u64::from(number));
            varint::put(out, value);
        }
    }
}

/// Reads the payload of a counters frame; `None` when it makes no sense. Unknown counters are
/// skipped.
pub fn decode_counters(payload: &[u8], mut write: impl FnMut(Counter, u64)) -> Option<()> {
    let mut at = 0;
    while at < payload.len() {
        let (number, value) = (varint::decode(payload, &mut at)?, varint::decode(payload, &mut at)?);
        if let Some((_, counter)) = COUNTERS.into_iter().find(|(known, _)| u64::from(*known) == number) {
            write(counter, value);
        }
    }
    Some(())
}
