//! Profiles of segments made by hand, and of hostile ones.

mod hostile;
mod sampled;
mod segment;

use heapwise_format::segment::{Counter, NO_THREAD, Tally, TallyDetails, TallyWeights};

use self::segment::Segment;
use super::Snapshot;
use crate::metric::column;
use crate::unattributed::{Cause, unattributed};
use crate::{Began, CallTree, Metric, Profile, Query, Sample, Sampling, SizeRange, Values};

fn values(sample: &Sample) -> [f64; 4] {
    let Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes } = sample.values;
    [alloc_objects, alloc_bytes, inuse_objects, inuse_bytes]
}

fn column_of<'a>(profile: &'a Profile, name: &str) -> &'a [f64] {
    &profile.column(name).expect("a column").values
}

#[test]
fn tallies_of_a_site_and_thread_add_up_whoever_wrote_them() {
    let mut segment = Segment::new();
    let (one, other) = (segment.node(0x1000), segment.node(0x2000));
    let [first, second] = [segment.thread(100), segment.thread(200)];
    segment.counts(one, first, [10, 1000, 1, 100]);
    segment.counts(other, second, [5, 50, 0, 0]);
    // The second thread frees blocks of the first one.
    segment.counts(one, first, [0, 0, 4, 400]);
    segment.counts(one, second, [2, 20, 0, 0]);
    segment.counts(other, NO_THREAD, [3, 30, 1, 10]);
    let profile = segment.profile();
    let found: Vec<_> = profile
        .samples
        .iter()
        .map(|sample| {
            let location = profile.stacks.location(sample.stack);
            let tid = sample.thread.map(|thread| profile.threads[thread.index()].tid);
            (profile.locations[location.index()].address, tid, values(sample))
        })
        .collect();
    assert_eq!(
        found,
        [
            (0x1000, Some(100), [10.0, 1000.0, 5.0, 500.0]),
            (0x2000, Some(200), [5.0, 50.0, 5.0, 50.0]),
            (0x1000, Some(200), [2.0, 20.0, 2.0, 20.0]),
            (0x2000, None, [3.0, 30.0, 2.0, 20.0]),
        ]
    );
    assert_eq!(profile.meta.sampling, Sampling::Exact);
}

#[test]
fn other_periods_and_unused_records_are_skipped() {
    let mut segment = Segment::new();
    let node = segment.node(0x1000);
    segment.counts(0, 0, [0; 4]);
    let old = Tally { node, allocs: 7, epoch: segment::PERIOD_EPOCH - 1, ..Tally::default() };
    segment.tally(old, TallyDetails::default(), TallyWeights::default());
    segment.counts(node, 0, [1, 8, 0, 0]);
    let profile = segment.profile();
    assert_eq!(profile.samples.iter().map(values).collect::<Vec<_>>(), [[1.0, 8.0, 1.0, 8.0]]);
}

/// Tallies are read one after the other while the program runs.
#[test]
fn a_free_that_was_read_without_its_allocation_does_not_make_live_bytes_negative() {
    let mut segment = Segment::new();
    let node = segment.node(0x1000);
    segment.counts(node, 0, [1, 10, 3, 30]);
    assert_eq!(values(&segment.profile().samples[0]), [3.0, 30.0, 0.0, 0.0]);
}

#[test]
fn a_stack_that_is_not_there_is_unknown() {
    let mut segment = Segment::new();
    segment.counts(12_345, 0, [1, 8, 0, 0]);
    let profile = segment.profile();
    assert_eq!(profile.functions[0].name, "[unknown]");
    assert_eq!(profile.total().inuse_bytes, 8.0);
}

#[test]
fn the_peak_is_kept_by_tallies_that_changed_and_is_live_in_the_others() {
    let mut segment = Segment::new();
    let [changed, same, remote] = [0x1000, 0x2000, 0x3000].map(|address| segment.node(address));
    segment.set(Counter::PeakEpoch, 9);
    segment.set(Counter::PeakBytes, 1050);
    let tally = |node, epoch, allocs: u64, frees: u64| Tally {
        node,
        epoch,
        allocs,
        alloc_bytes: allocs * 10,
        frees,
        freed_bytes: frees * 10,
        ..Tally::default()
    };
    let peak = |blocks: i64| TallyDetails {
        peak_blocks: blocks,
        peak_bytes: blocks * 10,
        ..TallyDetails::default()
    };
    segment.tally(tally(changed, 9, 100, 90), peak(80), TallyWeights::default());
    segment.tally(tally(same, 8, 20, 5), peak(77), TallyWeights::default());
    // Of 30 blocks live in the owner's tally, another thread had freed 20 at the peak and 30 by
    // now.
    segment.tally(tally(remote, 8, 30, 0), peak(0), TallyWeights::default());
    segment.tally(tally(remote, 9, 0, 30), peak(-20), TallyWeights::default());
    let profile = segment.profile();
    assert_eq!(column_of(&profile, column::PEAK_OBJECTS), [80.0, 15.0, 10.0]);
    assert_eq!(column_of(&profile, column::PEAK_SPACE), [800.0, 150.0, 100.0]);
    assert_eq!(profile.meta.peak_bytes, Some(1050));
}

#[test]
fn a_process_that_holds_more_than_at_its_last_snapshot_is_at_its_peak() {
    let mut segment = Segment::new();
    let node = segment.node(0x1000);
    let tally = Tally { node, allocs: 4, alloc_bytes: 400, frees: 1, freed_bytes: 100, ..Tally::default() };
    segment.tally(tally, TallyDetails::default(), TallyWeights::default());
    let profile = segment.profile();
    assert_eq!(column_of(&profile, column::PEAK_SPACE), [300.0]);
    assert_eq!(column_of(&profile, column::PEAK_OBJECTS), [3.0]);
    assert_eq!(profile.meta.peak_bytes, Some(300));
}

#[test]
fn slack_and_growth_of_exact_tallies() {
    let mut segment = Segment::new();
    let node = segment.node(0x1000);
    let tally = Tally {
        node,
        allocs: 4,
        alloc_bytes: 400,
        frees: 1,
        freed_bytes: 100,
        alloc_slack: 48,
        freed_slack: 12,
        ..Tally::default()
    };
    let details = TallyDetails { grown_bytes: 33, ..TallyDetails::default() };
    segment.tally(tally, details, TallyWeights::default());
    let profile = segment.profile();
    let cell = |name| column_of(&profile, name)[0];
    assert_eq!(cell(column::ALLOC_SLACK), 48.0);
    assert_eq!(cell(column::INUSE_SLACK), 36.0);
    assert_eq!(cell(column::REALLOC_GROWTH), 33.0);
    let usable = Query { usable: true, ..Query::default() };
    assert_eq!(CallTree::new(&profile, &usable).total().value, 336.0);
}

#[test]
fn sizes_of_a_site_are_a_range_or_a_single_size() {
    let mut segment = Segment::new();
    const LARGE: u16 = Tally::LARGE;
    // (blocks, bytes, smallest and largest plus 1, large ones: smallest plus 1 and largest,
    // expected)
    let cases = [
        (3, 192, (65, 65), (0, 0), Some((64, 64))),
        (3, 300, (17, 201), (0, 0), Some((16, 200))),
        // The probe is about to widen the range.
        (2, 100, (33, 33), (0, 0), Some((32, 50))),
        (3, 300_000, (LARGE, LARGE), (80_001, 130_000), Some((80_000, 130_000))),
        (3, 150_000, (101, LARGE), (69_901, 80_000), Some((100, 80_000))),
        // The details had no memory.
        (3, 300_000, (LARGE, LARGE), (0, 0), Some((100_000, 100_000))),
        (1, 5 << 32, (LARGE, LARGE), (u32::MAX, u32::MAX), Some((5 << 32, 5 << 32))),
        (2, (5 << 32) + 16, (17, LARGE), (u32::MAX, u32::MAX), Some((16, 5 << 32))),
        (1, 0, (1, 1), (0, 0), Some((0, 0))),
        (2, 20, (0, 0), (0, 0), None),
    ];
    for (number, (allocs, alloc_bytes, small, large, _)) in cases.into_iter().enumerate() {
        let node = segment.node(0x1000 + number as u64);
        let tally =
            Tally { node, allocs, alloc_bytes, min_size: small.0, max_size: small.1, ..Tally::default() };
        let details = TallyDetails { min_size: large.0, max_size: large.1, ..TallyDetails::default() };
        segment.tally(tally, details, TallyWeights::default());
    }
    // A thread that frees another thread's blocks has no sizes.
    segment.counts(1, 0, [0, 0, 1, 64]);
    let profile = segment.profile();
    let found = profile.samples.iter().map(|sample| sample.sizes);
    let expected = cases.map(|case| case.4.map(|(min, max)| SizeRange { min, max }));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn sizes_of_the_process_are_those_of_all_threads() {
    let mut segment = Segment::new();
    segment.thread(1);
    segment.thread(2);
    for (record, size, allocs, frees) in [(0, 40, 1, 0), (1, 47, 5, 1), (2, 40, 0, 2), (2, 5000, 7, 7)] {
        segment.size_count(record, size, allocs, frees);
    }
    // A thread that has no record yet.
    segment.size_count(3, 40, 100, 0);
    let bins = segment.profile().sizes.bins;
    let found: Vec<_> = bins.iter().map(|bin| (bin.range.min, bin.range.max, bin.values)).collect();
    let values = |alloc_objects, alloc_bytes, inuse_objects, inuse_bytes| Values {
        alloc_objects,
        alloc_bytes,
        inuse_objects,
        inuse_bytes,
    };
    assert_eq!(
        found,
        [(33, 48, values(6.0, 275.0, 3.0, 148.0)), (4097, 5120, values(7.0, 35_000.0, 0.0, 0.0))]
    );
}

#[test]
fn what_found_no_room_is_told_by_cause() {
    let mut segment = Segment::new();
    let stacks = segment.declared(Cause::Stacks.frame(), 0);
    let sites = segment.declared(Cause::Sites.frame(), 0);
    let label = segment.declared(Cause::Labels.frame(), 0);
    let labelled = segment.declared("work", label);
    segment.counts(stacks, NO_THREAD, [4, 400, 1, 100]);
    segment.counts(sites, NO_THREAD, [2, 20, 0, 0]);
    segment.counts(labelled, 0, [1, 7, 0, 0]);
    segment.set(Counter::UntrackedBlocks, 6);
    segment.set(Counter::UntrackedBytes, 600);
    segment.set(Counter::LostThreads, 2);
    segment.set(Counter::LostEvents, 99);
    let profile = segment.profile();
    let bytes = unattributed(&profile).iter().map(|(_, values)| values.inuse_bytes).collect::<Vec<_>>();
    assert_eq!(bytes, [300.0, 20.0, 7.0]);
    let losses = profile.meta.losses;
    assert_eq!((losses.untracked_blocks, losses.untracked_bytes, losses.unrecorded_threads), (6, 600, 2));
    // The log's losses are missing from recordings, not from tallies.
    assert_eq!(losses.dropped_events, 0);
    assert_eq!(Snapshot::open(&segment).unwrap().losses().dropped_events, 99);

    let live = CallTree::new(&profile, &Query::default());
    assert_eq!(live.missing.unattributed.stacks.value, 300.0);
    assert_eq!((live.missing.untracked_blocks, live.missing.untracked_bytes), (6, 600));
    // Exact totals have no standard error; the untracked bytes are reported beside them.
    assert_eq!(live.total().variance, 0.0);
    let allocated = CallTree::new(&profile, &Query { metric: Metric::AllocSpace, ..Query::default() });
    assert_eq!(allocated.missing.unattributed.stacks.value, 400.0);
    assert_eq!(allocated.missing.untracked_bytes, 0);
}

#[test]
fn a_late_start_a_pause_and_a_reset_are_told_apart() {
    let mut segment = Segment::new();
    let began = |segment: &Segment| segment.profile().meta.recorded.began;
    segment.set(Counter::Period, 1);
    segment.set(Counter::PeriodStart, 100);
    segment.set(Counter::LastSeen, 900);
    assert_eq!(began(&segment), Began::Never);
    segment.set(Counter::RecordingStart, 100);
    assert_eq!(began(&segment), Began::WithProgram);
    segment.set(Counter::RecordingStart, 500);
    assert_eq!(began(&segment), Began::Late { after_ns: 500 });
    segment.set(Counter::Period, 2);
    segment.set(Counter::PeriodStart, 600);
    assert_eq!(began(&segment), Began::Reset { after_ns: 600 });
    assert_eq!(segment.profile().meta.recorded.stopped_ns, Some(900));
    segment.set(Counter::StoppedNanos, 700);
    segment.set(Counter::Pauses, 3);
    let recorded = segment.profile().meta.recorded;
    assert_eq!((recorded.stopped_ns, recorded.pauses), (Some(200), 3));
}
