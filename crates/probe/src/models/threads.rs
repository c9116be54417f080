//! What threads leave to each other.
#![allow(unsafe_code)]

use heapwise_format::segment::{SectionKind, Tally};

use super::{check_of, together};
use crate::atomics::Ordering;
use crate::segment;
use crate::tallies::Slab;
use crate::thread::{acquire_slab, release_slab};

const BUCKET: u32 = 17;

/// A thread that lives for one allocation.
fn count() {
    let (number, record) = acquire_slab();
    let slab = Slab::numbered(number);
    let counts = slab.counts(BUCKET).expect("room");
    slab.add_alloc(counts, 0);
    release_slab(number, record);
}

/// Allocations counted in a slab.
fn counted(slab: u64) -> u64 {
    let buckets = segment::section(SectionKind::Buckets).capacity;
    let place = segment::existing_of::<Tally>(SectionKind::Tallies, slab * buckets + u64::from(BUCKET));
    // SAFETY: the first word of a tally.
    place.map_or(0, |place| unsafe { segment::word64(place, 0) }.load(Ordering::Relaxed))
}

/// A slab's next owner goes on from what the last one counted, though neither adds atomically.
///
/// For a slab's `owned` (release in `release`, acquire in `claim`).
#[test]
fn nothing_is_lost_when_a_slab_changes_hands() {
    // A thread looks at the names of all slabs.
    check_of(320, count, || {
        together(count, count);
        assert_eq!(counted(1) + counted(2), 3);
    });
}
