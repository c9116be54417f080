//! Buckets and tallies of a segment: the samples of the profile.

use heapwise_format::bytes::u64_at;
use heapwise_format::segment::{Bucket, Counter, SectionKind, Tally, Thread as ThreadRecord};

use super::{SegmentSource, Snapshot, lossy};
use crate::estimate::Weight;
use crate::metric::Unit;
use crate::model::ExtraColumn;
use crate::{
    Function, FunctionId, Line, Location, LocationId, Profile, Sample, StackId, Thread, ThreadId, Values,
};

/// Appends one sample per bucket that counted anything in the current period.
pub(super) fn read<S: SegmentSource>(
    snapshot: &Snapshot<'_, S>,
    stacks: &[Option<StackId>],
    profile: &mut Profile,
) {
    let rates = read_rates(snapshot);
    let buckets = read_buckets(snapshot);
    let period = snapshot.counter(Counter::Period) as u32;
    let slabs = snapshot.counter(Counter::Slabs).clamp(1, snapshot.layout().slabs().max(1));
    let owners = read_threads(snapshot, profile, slabs);
    let mut columns = Columns::default();
    let mut unknown = None;
    for (bucket, tally) in buckets.iter().zip(sums(snapshot, slabs, buckets.len())) {
        if bucket.period != period || tally.allocs | tally.frees == 0 {
            continue;
        }
        let known = stacks.get(bucket.node as usize).copied().flatten();
        let stack = known.unwrap_or_else(|| *unknown.get_or_insert_with(|| unknown_stack(profile)));
        let rate = rates.get(usize::from(bucket.rate)).copied().unwrap_or(0);
        let weight = Weight::new(bucket.size, rate);
        let thread = owners.get(usize::from(bucket.owner)).copied().flatten();
        profile.samples.push(sample(bucket, &tally, weight, stack, thread));
        columns.push(bucket, &tally, weight);
    }
    profile.extra = columns.finish();
}

/// The tally of each bucket over all slabs: one thread allocates its blocks, any may free them. The highest live count
/// is that of the allocating thread alone, so an upper bound where others free.
fn sums<S: SegmentSource>(snapshot: &Snapshot<'_, S>, slabs: u64, buckets: usize) -> Vec<Tally> {
    let mut sums = vec![Tally { allocs: 0, frees: 0, peak: 0, grown_bytes: 0 }; buckets];
    for slab in 0..slabs {
        let first = snapshot.layout().tally_index(slab, 0);
        let tallies = snapshot.records(SectionKind::Tallies, first, buckets as u64);
        // A thread touches few of all buckets, and of a hostile file's slabs most are holes.
        if tallies.iter().all(|byte| *byte == 0) {
            continue;
        }
        for (sum, tally) in sums.iter_mut().zip(tallies.chunks_exact(size_of::<Tally>())) {
            let Some(tally) = Tally::decode(tally) else { continue };
            sum.allocs = sum.allocs.wrapping_add(tally.allocs);
            sum.frees = sum.frees.wrapping_add(tally.frees);
            sum.peak = sum.peak.max(tally.peak);
            sum.grown_bytes = sum.grown_bytes.wrapping_add(tally.grown_bytes);
        }
    }
    sums
}

/// Where blocks go whose stack could not be recorded, so that totals stay whole.
pub(crate) fn unknown_stack(profile: &mut Profile) -> StackId {
    profile.functions.push(Function { name: "[unknown]".into(), ..Function::default() });
    let function = FunctionId::new(profile.functions.len() - 1);
    profile.locations.push(Location { lines: vec![Line { function, line: 0 }], ..Location::default() });
    profile.stacks.child(None, LocationId::new(profile.locations.len() - 1))
}

fn read_rates<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> Vec<u64> {
    let bytes = snapshot.records(SectionKind::Rates, 0, snapshot.counter(Counter::Rates));
    bytes.chunks_exact(8).filter_map(|word| u64_at(word, 0)).collect()
}

fn read_buckets<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> Vec<Bucket> {
    let bytes = snapshot.records(SectionKind::Buckets, 0, snapshot.counter(Counter::Buckets));
    bytes.chunks_exact(size_of::<Bucket>()).filter_map(Bucket::decode).collect()
}

/// Fills `profile.threads` and tells whose each slab is; a slab that served several threads of one
/// name counts for the last of them, slab 0 for nobody.
fn read_threads<S: SegmentSource>(
    snapshot: &Snapshot<'_, S>,
    profile: &mut Profile,
    slabs: u64,
) -> Vec<Option<ThreadId>> {
    let bytes = snapshot.records(SectionKind::Threads, 0, snapshot.counter(Counter::Threads));
    let mut owners = vec![None; slabs as usize];
    for record in bytes.chunks_exact(size_of::<ThreadRecord>()).filter_map(ThreadRecord::decode) {
        let id = ThreadId::new(profile.threads.len());
        profile.threads.push(Thread { tid: u64::from(record.tid), name: lossy(&record.name) });
        if let Some(owner) = owners.get_mut(record.slab as usize).filter(|_| record.slab != 0) {
            *owner = Some(id);
        }
    }
    owners
}

fn sample(
    bucket: &Bucket,
    tally: &Tally,
    weight: Weight,
    stack: StackId,
    thread: Option<ThreadId>,
) -> Sample {
    let size = bucket.size as f64;
    let allocs = tally.allocs as f64;
    let inuse = allocs - tally.frees as f64;
    let scaled = |objects: f64, object_weight: f64| (objects * object_weight, objects * object_weight * size);
    let (alloc_objects, alloc_bytes) = scaled(allocs, weight.objects);
    let (inuse_objects, inuse_bytes) = scaled(inuse, weight.objects);
    let variance = |objects: f64| objects.max(0.0) * weight.variance;
    Sample {
        stack,
        thread,
        block_bytes: Some(bucket.size),
        values: Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes },
        variance: Values {
            alloc_objects: variance(allocs),
            alloc_bytes: variance(allocs) * size * size,
            inuse_objects: variance(inuse),
            inuse_bytes: variance(inuse) * size * size,
        },
    }
}

/// The columns beyond the shared four.
#[derive(Default)]
struct Columns {
    peak: Vec<f64>,
    waste: Vec<f64>,
    grown: Vec<f64>,
}

impl Columns {
    fn push(&mut self, bucket: &Bucket, tally: &Tally, weight: Weight) {
        let inuse = tally.allocs as f64 - tally.frees as f64;
        self.peak.push(tally.peak as f64 * weight.objects * bucket.size as f64);
        self.waste.push(inuse * weight.objects * f64::from(bucket.waste));
        self.grown.push(tally.grown_bytes as f64 * weight.objects);
    }

    fn finish(self) -> Vec<ExtraColumn> {
        let column = |name: &str, values| ExtraColumn { name: name.to_owned(), unit: Unit::Bytes, values };
        vec![
            column("peak_space", self.peak),
            column("waste_space", self.waste),
            column("realloc_growth", self.grown),
        ]
    }
}
