//! The records of jemalloc's and gperftools' text: counts such that jeprof's unscaling returns our
//! estimate.
//!
//! jeprof multiplies a record of n blocks with mean size x by 1/p, p = 1 - e^(-x/R). So the record
//! of a true count C with mean size x must have n = C p, which is an integer if all blocks of the
//! record have one size and were sampled at R. Hence a record per stack *and* block size. Where a
//! record would not come out as an integer (mixed sizes, a rate changed while running), rounding it
//! could be wrong by half; then the whole file is written as if not sampled, with the estimates.

use std::collections::HashMap;

use heapwise_profile::{Profile, Sample, Sampling, StackId, ThreadId, Values};

use super::frames::{natural, return_address};

/// Counts of a record as text formats have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) inuse: (u64, u64),
    pub(super) alloc: (u64, u64),
}

/// Contents of one `@` record.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) stack: StackId,
    /// All samples of the record.
    pub(super) counts: Counts,
    /// Counts of each thread.
    pub(super) threads: Vec<(ThreadId, Counts)>,
    /// Rows of [`Profile::samples`].
    pub(super) samples: Vec<usize>,
}

/// All records and the rate they are scaled by.
#[derive(Debug)]
pub(super) struct Records {
    /// Mean distance in bytes; 0 when the numbers are to be taken as they are.
    pub(super) rate: u64,
    pub(super) records: Vec<Record>,
}

/// How far from an integer a back-solved count may be and still be one, relative to itself.
const TOLERANCE: f64 = 1e-6;

impl Records {
    pub(super) fn new(profile: &Profile) -> Self {
        let groups = group(&profile.samples);
        let told = match profile.meta.sampling {
            Sampling::Exact => 0,
            Sampling::Poisson { mean_bytes } => mean_bytes,
        };
        let solvable = |rows: &Vec<usize>| {
            let values = sum(profile, rows.iter().copied());
            is_integer(values.inuse_objects, values.inuse_bytes, told)
                && is_integer(values.alloc_objects, values.alloc_bytes, told)
        };
        let rate = if groups.iter().all(|(_, rows)| solvable(rows)) { told } else { 0 };
        let records = groups.into_iter().map(|(stack, rows)| record(profile, stack, rows, rate)).collect();
        Self { rate, records }
    }

    /// Sums of the printed numbers: of all records, and of each of `threads` threads.
    pub(super) fn totals(&self, threads: usize) -> (Counts, Vec<Counts>) {
        let mut all = Counts::default();
        let mut by_thread = vec![Counts::default(); threads];
        for record in &self.records {
            all.add(record.counts);
            for (thread, counts) in &record.threads {
                by_thread[thread.index()].add(*counts);
            }
        }
        (all, by_thread)
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        for (sum, one) in [(&mut self.inuse, other.inuse), (&mut self.alloc, other.alloc)] {
            *sum = (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        }
    }
}

/// Rows of the samples that share a stack and a block size, in order of appearance.
fn group(samples: &[Sample]) -> Vec<(StackId, Vec<usize>)> {
    let mut groups: Vec<(StackId, Vec<usize>)> = Vec::new();
    let mut known: HashMap<(StackId, Option<u64>), usize> = HashMap::new();
    for (row, sample) in samples.iter().enumerate() {
        let at = *known.entry((sample.stack, sample.block_bytes())).or_insert_with(|| {
            groups.push((sample.stack, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(row);
    }
    groups
}

fn record(profile: &Profile, stack: StackId, rows: Vec<usize>, rate: u64) -> Record {
    let mut threads: Vec<(ThreadId, Values)> = Vec::new();
    for row in &rows {
        let sample = &profile.samples[*row];
        let Some(thread) = sample.thread else { continue };
        match threads.iter_mut().find(|(id, _)| *id == thread) {
            Some((_, values)) => *values += sample.values,
            None => threads.push((thread, sample.values)),
        }
    }
    Record {
        stack,
        counts: counts(sum(profile, rows.iter().copied()), rate),
        threads: threads.into_iter().map(|(id, values)| (id, counts(values, rate))).collect(),
        samples: rows,
    }
}

fn sum(profile: &Profile, rows: impl Iterator<Item = usize>) -> Values {
    rows.fold(Values::default(), |sum, row| sum + profile.samples[row].values)
}

fn counts(values: Values, rate: u64) -> Counts {
    Counts {
        inuse: back_solve(values.inuse_objects, values.inuse_bytes, rate),
        alloc: back_solve(values.alloc_objects, values.alloc_bytes, rate),
    }
}

/// The numbers that jeprof scales to `objects` and `bytes`. Blocks of no bytes have no scaled form
/// (jeprof would divide by zero) and are left out of sampled files.
fn back_solve(objects: f64, bytes: f64, rate: u64) -> (u64, u64) {
    if rate == 0 {
        return (natural(objects), natural(bytes));
    }
    if objects <= 0.0 || bytes <= 0.0 {
        return (0, 0);
    }
    let p = probability(bytes / objects, rate);
    (natural(objects * p).max(1), natural(bytes * p).max(1))
}

fn is_integer(objects: f64, bytes: f64, rate: u64) -> bool {
    if rate == 0 || objects <= 0.0 || bytes <= 0.0 {
        return true;
    }
    let count = objects * probability(bytes / objects, rate);
    (count - count.round()).abs() <= TOLERANCE * count && count.round() >= 1.0
}

/// Probability that a block of `size` bytes is sampled.
fn probability(size: f64, rate: u64) -> f64 {
    -(-size / rate as f64).exp_m1()
}

/// The addresses of a stack, the leaf first. jeprof and google-pprof look callers up one byte
/// before their return address but do not adjust the leaf, so the leaf is written inside its call.
pub(super) fn addresses(profile: &Profile, stack: StackId) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for (depth, node) in profile.stacks.leaf_to_root(stack).enumerate() {
        let address = return_address(profile, profile.stacks.location(node)) - u64::from(depth == 0);
        let _ = write!(text, " {address:#x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// jeprof's formula, as its source has it.
    fn jeprof(counts: (u64, u64), rate: u64) -> (f64, f64) {
        let (n, s) = (counts.0 as f64, counts.1 as f64);
        let scale = 1.0 / (1.0 - (-(s / n) / rate as f64).exp());
        (n * scale, s * scale)
    }

    #[test]
    fn a_record_of_one_size_comes_back_exactly() {
        for (sampled, size) in [(1, 64), (7, 4096), (3, 100_000_000)] {
            let p = probability(f64::from(size), 524_288);
            let objects = f64::from(sampled) / p;
            let bytes = objects * f64::from(size);
            assert!(is_integer(objects, bytes, 524_288));
            let counts = back_solve(objects, bytes, 524_288);
            assert_eq!(counts, (sampled as u64, sampled as u64 * size as u64));
            let (back_objects, back_bytes) = jeprof(counts, 524_288);
            assert!((back_objects / objects - 1.0).abs() < 1e-9);
            assert!((back_bytes / bytes - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn mixed_sizes_are_not_squeezed_into_a_record() {
        let small = 1.0 / probability(100.0, 524_288);
        let large = 1.0 / probability(1e6, 524_288);
        assert!(!is_integer(small + large, small * 100.0 + large * 1e6, 524_288));
    }
}
