//! The histogram of block sizes, added up over all threads.

use heapwise_format::segment::{Counter, SIZE_CLASSES, SectionKind, SizeCount, SizeCounts, size_class_start};

use super::{SegmentSource, Snapshot};
use crate::{SizeBin, SizeHistogram, SizeRange, Values};

/// Records read at once: 218 KiB.
const BLOCK: u64 = 32;

/// Blocks by size in the current period; estimated where they were sampled.
pub(super) fn read<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> SizeHistogram {
    let mut sums = [SizeCount::default(); SIZE_CLASSES];
    // Record 0 is shared, record n + 1 belongs to thread n.
    let count = snapshot.counter(Counter::Threads).saturating_add(1);
    let mut first = 0;
    while first < count {
        let wanted = BLOCK.min(count - first);
        let bytes = snapshot.block(SectionKind::Sizes, first, wanted);
        for record in bytes.chunks_exact(size_of::<SizeCounts>()) {
            if record.iter().any(|byte| *byte != 0) {
                add(&mut sums, record);
            }
        }
        if bytes.len() < wanted as usize * size_of::<SizeCounts>() {
            break;
        }
        first += wanted;
    }
    SizeHistogram::new(sums.iter().enumerate().map(|(class, sum)| bin(class, sum)))
}

fn add(sums: &mut [SizeCount; SIZE_CLASSES], record: &[u8]) {
    let Some(counts) = SizeCounts::decode(record) else { return };
    for (sum, one) in sums.iter_mut().zip(&counts.classes) {
        for (sum, one) in [
            (&mut sum.allocs, one.allocs),
            (&mut sum.alloc_bytes, one.alloc_bytes),
            (&mut sum.frees, one.frees),
            (&mut sum.freed_bytes, one.freed_bytes),
        ] {
            *sum = sum.saturating_add(one);
        }
    }
}

/// As much as was freed was allocated, even if that was read earlier.
fn bin(class: usize, sum: &SizeCount) -> SizeBin {
    let (allocs, alloc_bytes) = (sum.allocs.max(sum.frees), sum.alloc_bytes.max(sum.freed_bytes));
    let max = if class + 1 < SIZE_CLASSES { size_class_start(class + 1) - 1 } else { u64::MAX };
    SizeBin {
        range: SizeRange { min: size_class_start(class), max },
        values: Values {
            alloc_objects: allocs as f64,
            alloc_bytes: alloc_bytes as f64,
            inuse_objects: (allocs - sum.frees) as f64,
            inuse_bytes: (alloc_bytes - sum.freed_bytes) as f64,
        },
    }
}
