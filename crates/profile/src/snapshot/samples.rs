//! From sums of tallies to the samples and columns of a profile.

use heapwise_format::bytes::u64_at;
use heapwise_format::segment::{Counter, SectionKind, Thread as ThreadRecord};

use super::tallies::SiteSum;
use super::{SegmentSource, Snapshot, lossy};
use crate::metric::{Unit, column};
use crate::model::ExtraColumn;
use crate::{Profile, Sample, Sampling, StackId, Thread, ThreadId, Values};

/// Adds threads, and one sample per stack, allocating thread and rate of the current period.
pub(super) fn add<S: SegmentSource>(
    snapshot: &Snapshot<'_, S>,
    sums: &[SiteSum],
    stacks: &[Option<StackId>],
    profile: &mut Profile,
) {
    profile.threads = read_threads(snapshot);
    if let Some(mean_bytes) = coarsest_rate(snapshot, sums) {
        profile.meta.sampling = Sampling::Poisson { mean_bytes };
    }
    let mut columns = Columns::default();
    let mut unknown = None;
    for sum in sums {
        let known = stacks.get(sum.node as usize).copied().flatten();
        let stack = known.unwrap_or_else(|| *unknown.get_or_insert_with(|| unknown_stack(profile)));
        // `NO_THREAD` is beyond all records.
        let thread = Some(usize::from(sum.thread)).filter(|number| *number < profile.threads.len());
        let (values, variance) = sum.values();
        let thread = thread.map(ThreadId::new);
        columns.push(sum, &values);
        profile.samples.push(Sample { stack, thread, sizes: sum.sizes, values, variance });
    }
    profile.extra = columns.finish(&profile.samples);
}

/// Stack of blocks whose stack record is missing or damaged, so that totals stay complete.
pub(crate) fn unknown_stack(profile: &mut Profile) -> StackId {
    profile.named_stack("[unknown]")
}

fn read_threads<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> Vec<Thread> {
    let bytes = snapshot.records(SectionKind::Threads, 0, snapshot.counter_now(Counter::Threads));
    let records = bytes.chunks_exact(size_of::<ThreadRecord>()).filter_map(ThreadRecord::decode);
    let thread = |(number, record): (u64, ThreadRecord)| Thread {
        tid: u64::from(record.tid),
        number,
        name: lossy(&record.name),
    };
    (0..).zip(records).map(thread).collect()
}

/// Largest mean distance among the samples; `None` when every block was counted.
fn coarsest_rate<S: SegmentSource>(snapshot: &Snapshot<'_, S>, sums: &[SiteSum]) -> Option<u64> {
    let sampled = || sums.iter().filter(|sum| sum.rate != 0);
    sampled().next()?;
    let bytes = snapshot.records(SectionKind::Rates, 0, snapshot.counter_now(Counter::Rates));
    let rate = |sum: &SiteSum| u64_at(&bytes, usize::from(sum.rate) * 8);
    let most = sampled().filter_map(rate).max().filter(|rate| *rate != 0);
    Some(most.unwrap_or_else(|| snapshot.counter(Counter::SampleBytes)).max(1))
}

impl SiteSum {
    /// Values and variances. A free read after the allocation of its block would make live values
    /// negative, because tallies are read one after the other; as much as was freed was allocated.
    pub(super) fn values(&self) -> (Values, Values) {
        let Some(weights) = &self.weights else {
            let allocs = self.allocs.max(self.frees);
            let alloc_bytes = self.alloc_bytes.max(self.freed_bytes);
            let values = Values {
                alloc_objects: allocs as f64,
                alloc_bytes: alloc_bytes as f64,
                inuse_objects: (allocs - self.frees) as f64,
                inuse_bytes: (alloc_bytes - self.freed_bytes) as f64,
            };
            return (values, Values::default());
        };
        // Float sums in another order leave a remainder where nothing is live.
        let is_live = self.allocs > self.frees;
        let pair = |at: usize| {
            let (alloc, freed) = (weights[at].max(weights[at + 4]), weights[at + 4]);
            (alloc, if is_live { alloc - freed } else { 0.0 })
        };
        let [objects, bytes, objects_variance, bytes_variance] = [0, 1, 2, 3].map(pair);
        let four = |objects: (f64, f64), bytes: (f64, f64)| Values {
            alloc_objects: objects.0,
            alloc_bytes: bytes.0,
            inuse_objects: objects.1,
            inuse_bytes: bytes.1,
        };
        (four(objects, bytes), four(objects_variance, bytes_variance))
    }
}

/// The columns beyond the shared four.
#[derive(Default)]
struct Columns {
    peak_space: Vec<f64>,
    peak_objects: Vec<f64>,
    inuse_slack: Vec<f64>,
    alloc_slack: Vec<f64>,
    growth: Vec<f64>,
}

impl Columns {
    fn push(&mut self, sum: &SiteSum, values: &Values) {
        let live_slack = sum.alloc_slack.saturating_sub(sum.freed_slack);
        self.inuse_slack.push(live_slack as f64);
        self.alloc_slack.push(sum.alloc_slack as f64);
        self.growth.push(sum.grown_bytes as f64);
        let [objects, bytes] = sum.peak;
        self.peak_objects.push(objects.clamp(0.0, values.alloc_objects));
        self.peak_space.push(bytes.clamp(0.0, values.alloc_bytes));
    }

    /// The process may hold more now than when the last snapshot at a peak was taken: then it is at
    /// its peak now.
    fn finish(mut self, samples: &[Sample]) -> Vec<ExtraColumn> {
        let live: f64 = samples.iter().map(|sample| sample.values.inuse_bytes).sum();
        if live > self.peak_space.iter().sum() {
            self.peak_space = samples.iter().map(|sample| sample.values.inuse_bytes).collect();
            self.peak_objects = samples.iter().map(|sample| sample.values.inuse_objects).collect();
        }
        let column = |name: &str, unit, values| ExtraColumn { name: name.to_owned(), unit, values };
        vec![
            column(column::PEAK_SPACE, Unit::Bytes, self.peak_space),
            column(column::PEAK_OBJECTS, Unit::Objects, self.peak_objects),
            column(column::INUSE_SLACK, Unit::Bytes, self.inuse_slack),
            column(column::ALLOC_SLACK, Unit::Bytes, self.alloc_slack),
            column(column::REALLOC_GROWTH, Unit::Bytes, self.growth),
        ]
    }
}
