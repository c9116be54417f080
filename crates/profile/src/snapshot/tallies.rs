//! Tallies of a segment, added up per site and allocating thread.
//!
//! The table is read in blocks, and blocks of zeros are skipped: memory is proportional to the
//! records in use, for any counter value of a hostile sparse file.

use foldhash::HashMap;
use heapwise_format::segment::{Counter, SectionKind, Tally, TallyDetails, TallyWeights};

use super::{SegmentSource, Snapshot};
use crate::SizeRange;

/// Records read at once: 256 KiB of tallies.
const BLOCK: u64 = 4096;
/// Times the table is read when the process reaches new peaks meanwhile.
const ATTEMPTS: usize = 3;

/// Counts of all threads for the blocks that one thread allocated at one site.
#[derive(Debug, Default)]
pub(super) struct SiteSum {
    pub(super) node: u32,
    pub(super) rate: u16,
    pub(super) thread: u16,
    pub(super) allocs: u64,
    pub(super) alloc_bytes: u64,
    pub(super) frees: u64,
    pub(super) freed_bytes: u64,
    pub(super) alloc_slack: u64,
    pub(super) freed_slack: u64,
    pub(super) grown_bytes: u64,
    pub(super) sizes: Option<SizeRange>,
    /// Live blocks and bytes at the process's peak, estimated for samples.
    pub(super) peak: [f64; 2],
    /// Sums of [`TallyWeights`] in the order of its fields; `None` where every block was counted.
    pub(super) weights: Option<Box<[f64; 8]>>,
}

/// All sites of the current period, in the order in which they were first used.
pub(super) fn read<S: SegmentSource>(snapshot: &Snapshot<'_, S>) -> Vec<SiteSum> {
    let mut epoch = snapshot.counter_now(Counter::PeakEpoch);
    let mut sums = Vec::new();
    for _ in 0..ATTEMPTS {
        sums = read_at_epoch(snapshot, epoch as u32);
        let before = std::mem::replace(&mut epoch, snapshot.counter_now(Counter::PeakEpoch));
        if before == epoch {
            break;
        }
    }
    sums
}

fn read_at_epoch<S: SegmentSource>(snapshot: &Snapshot<'_, S>, epoch: u32) -> Vec<SiteSum> {
    let count = snapshot.counter(Counter::Tallies);
    let period = snapshot.counter(Counter::PeriodEpoch) as u32;
    let mut sites = Sites::default();
    let mut first = 1;
    while first < count {
        let wanted = BLOCK.min(count - first);
        let block = Block::read(snapshot, first, wanted);
        for (at, tally) in block.tallies().enumerate() {
            if is_used(&tally) && tally.is_since(period) {
                sites.add(&tally, &block.details(at), block.weights(at), epoch);
            }
        }
        if block.is_last {
            break;
        }
        first += wanted;
    }
    sites.sums
}

/// Threads take records in chunks, so some records were never used.
fn is_used(tally: &Tally) -> bool {
    let Tally { allocs, alloc_bytes, frees, freed_bytes, .. } = tally;
    allocs | alloc_bytes | frees | freed_bytes != 0
}

/// Some consecutive tallies with their details and weights.
struct Block {
    tallies: Vec<u8>,
    details: Vec<u8>,
    weights: Vec<u8>,
    /// Whether the file ends here.
    is_last: bool,
}

impl Block {
    fn read<S: SegmentSource>(snapshot: &Snapshot<'_, S>, first: u64, count: u64) -> Self {
        let mut tallies = snapshot.block(SectionKind::Tallies, first, count);
        let is_last = tallies.len() < count as usize * size_of::<Tally>();
        if tallies.iter().all(|byte| *byte == 0) {
            tallies.clear();
        }
        let mut block = Self { tallies, details: Vec::new(), weights: Vec::new(), is_last };
        let used = block.tallies.len().div_ceil(size_of::<Tally>()) as u64;
        block.details = snapshot.block(SectionKind::TallyDetails, first, used);
        if block.tallies().any(|tally| tally.rate != 0) {
            block.weights = snapshot.block(SectionKind::TallyWeights, first, used);
        }
        block
    }

    fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.tallies.chunks_exact(size_of::<Tally>()).filter_map(Tally::decode)
    }

    fn details(&self, at: usize) -> TallyDetails {
        let bytes = self.details.get(at * size_of::<TallyDetails>()..).unwrap_or_default();
        TallyDetails::decode(bytes).unwrap_or_default()
    }

    fn weights(&self, at: usize) -> TallyWeights {
        let bytes = self.weights.get(at * size_of::<TallyWeights>()..).unwrap_or_default();
        TallyWeights::decode(bytes).unwrap_or_default()
    }
}

/// Sums by node, rate and allocating thread.
#[derive(Default)]
struct Sites {
    sums: Vec<SiteSum>,
    by_key: HashMap<(u32, u16, u16), usize>,
}

impl Sites {
    fn add(&mut self, tally: &Tally, details: &TallyDetails, weights: TallyWeights, epoch: u32) {
        let Tally { node, rate, thread, .. } = *tally;
        let row = *self.by_key.entry((node, rate, thread)).or_insert_with(|| {
            self.sums.push(SiteSum { node, rate, thread, ..SiteSum::default() });
            self.sums.len() - 1
        });
        let sum = &mut self.sums[row];
        sum.add_counts(tally, details);
        let mut live =
            [difference(tally.allocs, tally.frees), difference(tally.alloc_bytes, tally.freed_bytes)];
        if rate != 0 {
            let weights = estimates(&weights);
            live = [weights[0] - weights[4], weights[1] - weights[5]];
            let sums = sum.weights.get_or_insert_default();
            sums.iter_mut().zip(weights).for_each(|(sum, one)| *sum += one);
        }
        let kept = [details.peak_blocks as f64, details.peak_bytes as f64];
        // A tally of an older epoch has not changed since the peak.
        let peak = if tally.epoch == epoch { kept } else { live };
        sum.peak.iter_mut().zip(peak).for_each(|(sum, one)| *sum += one);
    }
}

impl SiteSum {
    fn add_counts(&mut self, tally: &Tally, details: &TallyDetails) {
        for (sum, one) in [
            (&mut self.allocs, tally.allocs),
            (&mut self.alloc_bytes, tally.alloc_bytes),
            (&mut self.frees, tally.frees),
            (&mut self.freed_bytes, tally.freed_bytes),
            (&mut self.alloc_slack, tally.alloc_slack),
            (&mut self.freed_slack, tally.freed_slack),
            (&mut self.grown_bytes, details.grown_bytes),
        ] {
            *sum = sum.saturating_add(one);
        }
        if let Some(sizes) = size_range(tally, details) {
            self.sizes = Some(self.sizes.map_or(sizes, |known| known.union(sizes)));
        }
    }
}

/// Live blocks or bytes of one tally: negative where it counts the frees of another thread's
/// blocks.
fn difference(more: u64, less: u64) -> f64 {
    (more.wrapping_sub(less) as i64) as f64
}

/// Sizes of the blocks allocated; `None` for a tally that only counts frees. Always includes the
/// mean, so that a range which the probe is about to widen is not taken for a single size.
fn size_range(tally: &Tally, details: &TallyDetails) -> Option<SizeRange> {
    let floor = tally.alloc_bytes.checked_div(tally.allocs).filter(|_| tally.min_size != 0)?;
    let ceiling = tally.alloc_bytes.div_ceil(tally.allocs);
    if tally.allocs == 1 {
        return Some(SizeRange::one(tally.alloc_bytes));
    }
    let min = match (tally.min_size, details.min_size) {
        // The details had no memory.
        (Tally::LARGE, 0) => floor,
        (Tally::LARGE, min) => u64::from(min) - 1,
        (min, _) => u64::from(min) - 1,
    };
    let max = match (tally.max_size, details.max_size) {
        // 4 GiB or more: at most what the other blocks leave of the sum.
        (Tally::LARGE, u32::MAX) => tally.alloc_bytes.saturating_sub(min.saturating_mul(tally.allocs - 1)),
        (Tally::LARGE, max) => max.into(),
        (max, _) => u64::from(max).saturating_sub(1),
    };
    let range = SizeRange::one(floor).union(SizeRange::one(ceiling));
    let with_min = range.union(SizeRange::one(min));
    Some(if max == 0 { with_min } else { with_min.union(SizeRange::one(max)) })
}

/// Sums of weights as numbers. Those that no probe writes (negative, infinite, above 2⁶⁴ blocks)
/// are brought into range.
fn estimates(weights: &TallyWeights) -> [f64; 8] {
    const MOST: f64 = u64::MAX as f64;
    let TallyWeights { alloc_blocks, alloc_bytes, alloc_blocks_variance, alloc_bytes_variance, .. } =
        *weights;
    let TallyWeights { freed_blocks, freed_bytes, freed_blocks_variance, freed_bytes_variance, .. } =
        *weights;
    let value = |bits: u64, most: f64| {
        let value = f64::from_bits(bits);
        if value.is_nan() { 0.0 } else { value.clamp(0.0, most) }
    };
    [
        value(alloc_blocks, MOST),
        value(alloc_bytes, MOST),
        value(alloc_blocks_variance, MOST * MOST),
        value(alloc_bytes_variance, MOST * MOST),
        value(freed_blocks, MOST),
        value(freed_bytes, MOST),
        value(freed_blocks_variance, MOST * MOST),
        value(freed_bytes_variance, MOST * MOST),
    ]
}
