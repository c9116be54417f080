//! Sampled tallies against Horvitz–Thompson estimates computed from a list of samples.

use std::collections::HashMap;

use heapwise_format::segment::{Counter, Tally, TallyDetails, TallyWeights};

use super::segment::{Random, Segment};
use super::{column_of, values};
use crate::metric::column;
use crate::{CallTree, Metric, Query, Sampling, Values};

/// A sampled block.
#[derive(Clone, Copy)]
struct Block {
    site: usize,
    size: u64,
    /// Which of two threads freed it.
    freed_by: Option<usize>,
    was_live_at_peak: bool,
}

const MEAN_BYTES: [u64; 2] = [512, 4096];
const SITES: usize = 6;

fn probability(size: u64, mean_bytes: u64) -> f64 {
    1.0 - (-(size as f64) / mean_bytes as f64).exp()
}

fn mean_of(site: usize) -> u64 {
    MEAN_BYTES[site % MEAN_BYTES.len()]
}

/// The samples of a random program.
fn blocks(random: &mut Random) -> Vec<Block> {
    let mut blocks = Vec::new();
    for _ in 0..20_000 {
        let site = random.below(SITES as u64) as usize;
        let size = 1 + random.below(1 << (4 + 2 * site));
        if random.unit() < probability(size, mean_of(site)) {
            let freed_by = [None, Some(0), Some(1)][random.below(3) as usize];
            blocks.push(Block { site, size, freed_by, was_live_at_peak: random.below(2) == 0 });
        }
    }
    blocks
}

/// Weight and variance of a block's count.
fn estimate(block: &Block) -> (f64, f64) {
    let p = probability(block.size, mean_of(block.site));
    (1.0 / p, (1.0 - p) / (p * p))
}

fn sums(blocks: impl Iterator<Item = Block>) -> [f64; 4] {
    blocks.fold([0.0; 4], |[w, ws, v, vs], block| {
        let ((weight, variance), size) = (estimate(&block), block.size as f64);
        [w + weight, ws + weight * size, v + variance, vs + variance * size * size]
    })
}

/// Slack of blocks rounded up to 16 bytes; the probe weighs that of each sample.
fn slack(blocks: &[Block]) -> u64 {
    let one = |block: &Block| (block.size.next_multiple_of(16) - block.size) as f64 * estimate(block).0;
    blocks.iter().map(|block| one(block).round() as u64).sum()
}

fn weights(allocated: [f64; 4], freed: [f64; 4]) -> TallyWeights {
    let [a, b, c, d] = allocated.map(f64::to_bits);
    let [e, f, g, h] = freed.map(f64::to_bits);
    TallyWeights {
        alloc_blocks: a,
        alloc_bytes: b,
        alloc_blocks_variance: c,
        alloc_bytes_variance: d,
        freed_blocks: e,
        freed_bytes: f,
        freed_blocks_variance: g,
        freed_bytes_variance: h,
    }
}

/// Two tallies a site: that of the allocating thread 0, and that in which thread 1 counts its
/// frees.
fn segment(blocks: &[Block]) -> (Segment, HashMap<u64, usize>) {
    let mut segment = Segment::new();
    segment.thread(1);
    segment.thread(2);
    segment.set(Counter::PeakEpoch, 5);
    let rates = MEAN_BYTES.map(|mean| segment.rate(mean));
    let mut site_of = HashMap::new();
    for site in 0..SITES {
        let address = 0x1000 + site as u64;
        site_of.insert(address, site);
        let node = segment.node(address);
        for thread in 0..2 {
            let at_site = |block: &&Block| block.site == site;
            let allocated = |block: &Block| thread == 0 && block.site == site;
            let freed: Vec<Block> = blocks
                .iter()
                .filter(at_site)
                .filter(|block| block.freed_by == Some(thread))
                .copied()
                .collect();
            let allocated: Vec<Block> = blocks.iter().filter(|block| allocated(block)).copied().collect();
            let bytes = |blocks: &[Block]| blocks.iter().map(|block| block.size).sum::<u64>();
            // Thread 0 keeps what its site held at the peak.
            let at_peak = sums(allocated.iter().filter(|block| block.was_live_at_peak).copied());
            let tally = Tally {
                node,
                rate: rates[site % 2],
                thread: 0,
                epoch: 5,
                allocs: allocated.len() as u64,
                alloc_bytes: bytes(&allocated),
                frees: freed.len() as u64,
                freed_bytes: bytes(&freed),
                alloc_slack: slack(&allocated),
                freed_slack: slack(&freed),
                ..Tally::default()
            };
            let details = TallyDetails {
                peak_blocks: at_peak[0] as i64,
                peak_bytes: at_peak[1] as i64,
                ..TallyDetails::default()
            };
            let weights = weights(sums(allocated.into_iter()), sums(freed.into_iter()));
            segment.tally(tally, details, weights);
        }
    }
    (segment, site_of)
}

fn assert_near(found: f64, expected: f64, what: &str) {
    let tolerance = 1e-9 * expected.abs().max(1.0);
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, not {expected}");
}

#[test]
fn values_and_variances_are_those_of_the_samples() {
    let mut random = Random(0x5eed);
    for _ in 0..3 {
        let blocks = blocks(&mut random);
        let (segment, site_of) = segment(&blocks);
        let profile = segment.profile();
        assert_eq!(profile.samples.len(), SITES);
        assert_eq!(profile.meta.sampling, Sampling::Poisson { mean_bytes: 4096 });
        for (row, sample) in profile.samples.iter().enumerate() {
            let location = profile.stacks.location(sample.stack).index();
            let site = site_of[&profile.locations[location].address];
            let here = || blocks.iter().copied().filter(|block| block.site == site);
            let (all, live) = (sums(here()), sums(here().filter(|block| block.freed_by.is_none())));
            for (found, expected) in values(sample).iter().zip([all[0], all[1], live[0], live[1]]) {
                assert_near(*found, expected, "value");
            }
            let Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes } = sample.variance;
            for (found, expected) in [
                (alloc_objects, all[2]),
                (alloc_bytes, all[3]),
                (inuse_objects, live[2]),
                (inuse_bytes, live[3]),
            ] {
                assert_near(found, expected, "variance");
            }
            let at_peak = sums(here().filter(|block| block.was_live_at_peak));
            assert_eq!(column_of(&profile, column::PEAK_SPACE)[row], at_peak[1].floor());
            let blocks: Vec<Block> = here().collect();
            let live: Vec<Block> = here().filter(|block| block.freed_by.is_none()).collect();
            assert_eq!(column_of(&profile, column::ALLOC_SLACK)[row], slack(&blocks) as f64);
            assert_eq!(column_of(&profile, column::INUSE_SLACK)[row], slack(&live) as f64);
        }
    }
}

/// The estimates are unbiased and their variance is correct: the error of many runs equals the
/// reported one.
#[test]
fn the_standard_error_covers_the_truth() {
    let mut random = Random(0xcafe);
    let (size, mean, blocks, runs) = (100, 512, 400, 300);
    let p = probability(size, mean);
    let mut scores = Vec::new();
    for _ in 0..runs {
        let sampled = (0..blocks).filter(|_| random.unit() < p).count();
        let all = (0..sampled).map(|_| Block { site: 0, size, freed_by: None, was_live_at_peak: true });
        let (segment, _) = segment(&all.collect::<Vec<_>>());
        let total = CallTree::new(&segment.profile(), &Query::default()).total();
        scores.push((total.value - f64::from(blocks) * size as f64) / total.standard_error());
    }
    let mean = scores.iter().sum::<f64>() / f64::from(runs);
    let spread = (scores.iter().map(|score| score * score).sum::<f64>() / f64::from(runs)).sqrt();
    assert!(mean.abs() < 0.3 && (0.85..1.15).contains(&spread), "{mean} {spread}");
}

#[test]
fn untracked_blocks_are_within_the_error_of_live_totals() {
    let block = Block { site: 0, size: 100, freed_by: None, was_live_at_peak: true };
    let (mut segment, _) = segment(&[block; 50]);
    let error = |segment: &Segment, metric| {
        let query = Query { metric, ..Query::default() };
        let tree = CallTree::new(&segment.profile(), &query);
        assert_eq!(tree.grand_total.standard_error(), tree.total().standard_error());
        tree.total().standard_error()
    };
    let before = [Metric::InuseSpace, Metric::AllocSpace].map(|metric| error(&segment, metric));
    segment.set(Counter::UntrackedBlocks, 10);
    segment.set(Counter::UntrackedBytes, 1_000_000);
    let losses = segment.profile().meta.losses;
    assert_eq!((losses.untracked_blocks, losses.untracked_bytes), (10, 1_000_000));
    assert!(error(&segment, Metric::InuseSpace) >= 1_000_000.0);
    assert_eq!(error(&segment, Metric::AllocSpace), before[1]);
    assert!(before[0] < 1_000_000.0);
}

#[test]
fn nothing_live_is_exactly_nothing() {
    let block = |size| Block { site: 2, size, freed_by: Some(1), was_live_at_peak: false };
    let (segment, _) = segment(&(1..100).map(block).collect::<Vec<_>>());
    let profile = segment.profile();
    let total = profile.total();
    assert_eq!((total.inuse_objects, total.inuse_bytes), (0.0, 0.0));
    assert!(total.alloc_bytes > 0.0);
}
