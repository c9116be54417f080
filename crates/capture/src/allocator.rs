//! Statistics of the allocator inside a program, read by the probe.
//!
//! The probe reads them where the program itself could: right after an allocation. A program that
//! does not allocate has none, so the probe never waits for a lock that the program may hold.

use std::time::{Duration, Instant};

use heapwise_format::segment::{AllocatorKind, Counter};

use super::control::{self, Change};
use super::segments::SegmentFile;
use crate::failure::Outcome;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// A number: its name, where it is, what it is. All in bytes but the number of arenas.
pub type Number = (&'static str, Counter, &'static str);

/// The numbers, in the order of reports.
pub const NUMBERS: [Number; 9] = [
    ("allocated", Counter::StatsAllocated, "asked for by the program and not freed"),
    ("active", Counter::StatsActive, "in pages that hold at least one block"),
    ("resident", Counter::StatsResident, "in physical memory, as the allocator knows"),
    ("mapped", Counter::StatsMapped, "mapped from the kernel"),
    ("retained", Counter::StatsRetained, "kept for later, given back to the kernel as pages"),
    ("metadata", Counter::StatsMetadata, "the allocator's own books"),
    ("free", Counter::StatsFree, "free inside the heap"),
    ("large", Counter::StatsLarge, "blocks with a mapping of their own"),
    ("arenas", Counter::StatsArenas, "independent heaps"),
];

/// Whether an allocator provides a number.
pub fn tells(allocator: AllocatorKind, number: Counter) -> bool {
    use Counter::{StatsArenas, StatsFree, StatsLarge, StatsMetadata, StatsRetained};
    match allocator {
        AllocatorKind::Glibc => !matches!(number, StatsRetained | StatsMetadata | StatsArenas),
        AllocatorKind::Jemalloc => !matches!(number, StatsLarge),
        AllocatorKind::Tcmalloc => !matches!(number, StatsMetadata | StatsLarge | StatsArenas),
        AllocatorKind::Mimalloc => {
            matches!(number, Counter::StatsActive | Counter::StatsResident | Counter::StatsMapped)
        }
        AllocatorKind::Musl | AllocatorKind::Other => {
            !matches!(number, StatsFree | StatsLarge | StatsArenas | StatsMetadata | StatsRetained)
        }
    }
}

/// Requests the statistics; whether the program answered in time.
pub fn ask(segment: &SegmentFile) -> Outcome<bool> {
    control::write(segment, &Change::new().allocator_stats())?;
    let wanted = control::current(segment)?.allocator_stats_count;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let snapshot = segment.snapshot()?;
        if snapshot.counter(Counter::StatsAnswered) >= wanted {
            return Ok(snapshot.counter(Counter::StatsError) == 0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}
