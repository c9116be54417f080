//! Statistics of the allocator inside a program, read by the probe.
//!
//! The probe reads them where the program itself could: right after an allocation. A program that
//! does not allocate has none, so the probe never waits for a lock that the program may hold.

use std::time::{Duration, Instant};

use heapwise_format::segment::{AllocatorKind, Counter, SectionKind, SegmentSource, StatsText};

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
    let answered = request(segment, None)?;
    Ok(answered && segment.snapshot()?.counter(Counter::StatsError) == 0)
}

/// What jemalloc's `malloc_stats_print` prints with these letters; `None` where the program did not
/// answer in time, or has no jemalloc.
pub fn ask_text(segment: &SegmentFile, letters: &str) -> Outcome<Option<String>> {
    if !request(segment, Some(StatsText::new(letters)))? {
        return Ok(None);
    }
    let snapshot = segment.snapshot()?;
    let section = snapshot.header.layout.section(SectionKind::StatsText);
    let bytes = snapshot.counter(Counter::StatsTextBytes).min(section.bytes());
    let mut text = vec![0; bytes as usize];
    let read = segment.read_at(section.offset, &mut text);
    text.truncate(read);
    Ok((read > 0).then(|| String::from_utf8_lossy(&text).into_owned()))
}

/// Requests an answer of the probe; whether it came in time.
fn request(segment: &SegmentFile, text: Option<StatsText>) -> Outcome<bool> {
    control::write(segment, &Change::new().allocator_stats(text))?;
    let wanted = control::current(segment)?.allocator_stats_count;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if segment.snapshot()?.counter(Counter::StatsAnswered) >= wanted {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}
