//! How large the blocks are: a histogram, and the sites of the largest.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Totals;
use super::top::descending;
use crate::call_tree::{CallTree, NodeId};
use crate::weigh::Weigher;
use crate::{Frame, FrameId, Metric, Profile, Query, SizeRange, StackId, Values};

/// Block sizes of what a call tree holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// The whole.
    pub totals: Totals,
    /// Where the classes come from.
    pub source: SizeSource,
    /// Size classes from small to large, from the first to the last that is used: up to 8 bytes,
    /// then up to the next power of two.
    pub classes: Vec<SizeClass>,
    /// The classes of the source that are finer than `classes`; empty when it has none.
    pub fine: Vec<SizeClass>,
    /// Sites that allocate the largest blocks, largest block first.
    pub largest: Vec<SiteSizes>,
}

/// Where size classes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeSource {
    /// The size of every block is known.
    Blocks,
    /// Blocks of the whole process were counted by size class.
    Process,
    /// Stacks that mix sizes count as blocks of their mean size.
    Means,
}

/// Blocks of at least `min` and at most `max` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SizeClass {
    /// Smallest size.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// Blocks.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

/// A frame and the sizes of the blocks it allocated.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteSizes {
    /// The allocating frame.
    pub site: Arc<Frame>,
    /// Smallest and largest requested size, of live and freed blocks; `None` when not known.
    pub sizes: Option<SizeRange>,
    /// Blocks.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

impl SiteSizes {
    /// Mean size of a block, rounded.
    #[must_use]
    pub fn mean(&self) -> u64 {
        mean(self.objects, self.bytes)
    }
}

/// Sites listed when the query sets no limit.
const DEFAULT_SITES: usize = 10;

/// Block sizes of the samples of `profile` that are in `tree` (made from it with `query`). Live
/// blocks, unless the query selects allocated ones.
#[must_use]
pub fn sizes(profile: &Profile, tree: &CallTree, query: &Query) -> Sizes {
    let counted = Counted::of(query);
    let blocks = selected(profile, tree, query, counted);
    let is_mixed = blocks.iter().any(|block| block.sizes.and_then(SizeRange::single).is_none());
    let (source, classes) = match () {
        () if !is_mixed && !query.usable => (SizeSource::Blocks, by_size(&blocks)),
        () if profile.sizes.is_empty() || query.filter.selects() || query.usable => {
            (SizeSource::Means, by_size(&blocks))
        }
        () => (SizeSource::Process, of_process(profile, counted)),
    };
    Sizes {
        totals: Totals::of(tree),
        source,
        classes: coarse(&classes),
        fine: if source == SizeSource::Process { classes } else { Vec::new() },
        largest: largest(tree, &blocks, query.limit.unwrap_or(DEFAULT_SITES)),
    }
}

/// Whether live or all blocks are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Live,
    Allocated,
}

impl Counted {
    fn of(query: &Query) -> Self {
        match query.metric {
            Metric::AllocSpace | Metric::AllocObjects => Counted::Allocated,
            _ => Counted::Live,
        }
    }

    fn bytes(self) -> Metric {
        match self {
            Counted::Live => Metric::InuseSpace,
            Counted::Allocated => Metric::AllocSpace,
        }
    }

    fn of_values(self, values: &Values) -> (f64, f64) {
        match self {
            Counted::Live => (values.inuse_objects, values.inuse_bytes),
            Counted::Allocated => (values.alloc_objects, values.alloc_bytes),
        }
    }
}

/// Blocks of one sample.
struct Blocks {
    stack: StackId,
    sizes: Option<SizeRange>,
    objects: f64,
    bytes: f64,
}

fn selected(profile: &Profile, tree: &CallTree, query: &Query, counted: Counted) -> Vec<Blocks> {
    let weigher = Weigher::new(profile, counted.bytes(), query.usable);
    let in_tree = |stack| tree.node_of(stack).is_some_and(|id| id != NodeId::ROOT);
    let mut blocks = Vec::new();
    for (at, sample) in profile.samples.iter().enumerate() {
        let weight = weigher.weigh(at);
        let passes = query.filter.passes_thread(profile, sample.thread) && in_tree(sample.stack);
        if passes && weight.objects > 0.0 {
            let sizes = sample.sizes.filter(|_| !query.usable);
            let (objects, bytes) = (weight.objects, weight.value);
            blocks.push(Blocks { stack: sample.stack, sizes, objects, bytes });
        }
    }
    blocks
}

fn mean(objects: f64, bytes: f64) -> u64 {
    if objects > 0.0 { (bytes / objects).round() as u64 } else { 0 }
}

/// One class per sample: its size, or its mean size.
fn by_size(blocks: &[Blocks]) -> Vec<SizeClass> {
    let class = |one: &Blocks| {
        let size = one.sizes.and_then(SizeRange::single).unwrap_or_else(|| mean(one.objects, one.bytes));
        SizeClass { min: size, max: size, objects: one.objects, bytes: one.bytes }
    };
    blocks.iter().map(class).collect()
}

fn of_process(profile: &Profile, counted: Counted) -> Vec<SizeClass> {
    let class = |bin: &crate::SizeBin| {
        let (objects, bytes) = counted.of_values(&bin.values);
        SizeClass { min: bin.range.min, max: bin.range.max, objects, bytes }
    };
    profile.sizes.bins.iter().map(class).filter(|class| class.objects > 0.0).collect()
}

/// Sums of the classes, each of which lies within one of the result.
fn coarse(fine: &[SizeClass]) -> Vec<SizeClass> {
    let mut classes: Vec<SizeClass> = (0..=CLASSES).map(empty).collect();
    for one in fine {
        let class = &mut classes[class_of(one.min)];
        class.objects += one.objects;
        class.bytes += one.bytes;
    }
    used(&classes)
}

/// Number of the last class.
const CLASSES: usize = 61;

/// Class 0 holds sizes up to 8, class `n` those above 2ⁿ⁺² up to 2ⁿ⁺³: classes end with a power of
/// two, as those of allocators do.
fn class_of(size: u64) -> usize {
    let doublings = size.saturating_sub(1).checked_ilog2().unwrap_or(0) as usize;
    (doublings + 1).saturating_sub(3)
}

fn empty(class: usize) -> SizeClass {
    let end = |class: usize| if class == CLASSES { u64::MAX } else { 8 << class };
    let min = if class == 0 { 0 } else { end(class - 1) + 1 };
    SizeClass { min, max: end(class), ..SizeClass::default() }
}

fn used(classes: &[SizeClass]) -> Vec<SizeClass> {
    let is_used = |class: &SizeClass| class.objects > 0.0;
    let first = classes.iter().position(is_used);
    let last = classes.iter().rposition(is_used);
    match (first, last) {
        (Some(first), Some(last)) => classes[first..=last].to_vec(),
        _ => Vec::new(),
    }
}

fn largest(tree: &CallTree, blocks: &[Blocks], limit: usize) -> Vec<SiteSizes> {
    let mut sites: FxHashMap<FrameId, SiteSizes> = FxHashMap::default();
    for one in blocks {
        let Some(node) = tree.node_of(one.stack) else { continue };
        let frame = tree.node(node).frame;
        let row = sites.entry(frame).or_insert_with(|| SiteSizes {
            site: tree.frames.get(frame).clone(),
            sizes: one.sizes,
            objects: 0.0,
            bytes: 0.0,
        });
        row.sizes = row.sizes.zip(one.sizes).map(|(one, other)| one.union(other));
        row.objects += one.objects;
        row.bytes += one.bytes;
    }
    let most = |row: &SiteSizes| row.sizes.map_or_else(|| row.mean(), |sizes| sizes.max);
    let mut rows: Vec<SiteSizes> = sites.into_values().collect();
    rows.sort_by(|a, b| {
        let by_size = most(b).cmp(&most(a)).then_with(|| descending(a.bytes, b.bytes));
        by_size.then_with(|| a.site.label.cmp(&b.site.label))
    });
    rows.truncate(limit);
    rows
}

#[cfg(test)]
mod tests {
    use heapwise_format::segment::{SIZE_CLASSES, size_class_start};

    use super::*;
    use crate::query::{Filter, Regex};
    use crate::{SizeBin, SizeHistogram, fixture};

    fn view(profile: &Profile, query: &Query) -> Sizes {
        sizes(profile, &CallTree::new(profile, query), query)
    }

    fn used_classes(view: &Sizes) -> Vec<(u64, u64, f64, f64)> {
        let used = view.classes.iter().filter(|class| class.objects > 0.0);
        used.map(|class| (class.min, class.max, class.objects, class.bytes)).collect()
    }

    #[test]
    fn classes_are_powers_of_two_and_sites_ranked_by_block() {
        let mut program = fixture::profile("main;a 64 2\nmain;b 33 1\nmain;c 4096 1\nmain;a 10 1");
        let means = view(&program, &Query::default());
        let expected =
            [(9, 16, 1.0, 10.0), (17, 32, 2.0, 64.0), (33, 64, 1.0, 33.0), (2049, 4096, 1.0, 4096.0)];
        assert_eq!((means.source, used_classes(&means)), (SizeSource::Means, expected.to_vec()));
        assert_eq!(means.classes.len(), 9);
        for (sample, size) in program.samples.iter_mut().zip([32, 33, 4096, 10]) {
            sample.sizes = Some(SizeRange::one(size));
        }
        let blocks = view(&program, &Query::default());
        assert_eq!((blocks.source, used_classes(&blocks)), (SizeSource::Blocks, expected.to_vec()));
        let site = |row: &SiteSizes| (row.site.label.clone(), row.sizes.map(|s| (s.min, s.max)), row.mean());
        assert_eq!(
            blocks.largest.iter().map(site).collect::<Vec<_>>(),
            [
                ("c".to_owned(), Some((4096, 4096)), 4096),
                ("b".to_owned(), Some((33, 33)), 33),
                ("a".to_owned(), Some((10, 32)), 25)
            ]
        );
    }

    #[test]
    fn mixed_sizes_take_the_histogram_of_the_process_unless_filtered() {
        let mut program = fixture::profile("main;a 300 3");
        program.samples[0].sizes = Some(SizeRange { min: 20, max: 200 });
        let bin = |min, max, objects, bytes| SizeBin {
            range: SizeRange { min, max },
            values: Values { inuse_objects: objects, inuse_bytes: bytes, ..Values::default() },
        };
        let bins = [bin(17, 32, 1.0, 20.0), bin(65, 80, 1.0, 80.0), bin(113, 128, 1.0, 120.0)];
        program.sizes = SizeHistogram::new(bins);
        let process = view(&program, &Query::default());
        assert_eq!(process.source, SizeSource::Process);
        assert_eq!(used_classes(&process), [(17, 32, 1.0, 20.0), (65, 128, 2.0, 200.0)]);
        assert_eq!(process.fine.len(), 3);
        let filter = Filter { focus: Regex::new("a").ok(), ..Filter::default() };
        let focused = view(&program, &Query { filter, ..Query::default() });
        assert_eq!(focused.source, SizeSource::Means);
        assert_eq!(used_classes(&focused), [(65, 128, 3.0, 300.0)]);
    }

    #[test]
    fn every_size_has_a_class() {
        assert_eq!([0, 1, 8, 9, 16, 17, 1 << 63].map(class_of), [0, 0, 0, 1, 1, 2, CLASSES - 1]);
        assert_eq!(class_of(u64::MAX), CLASSES);
        for class in 0..CLASSES {
            assert_eq!(empty(class).max + 1, empty(class + 1).min);
        }
        // Classes of a segment are parts of these.
        for class in 0..SIZE_CLASSES - 1 {
            let (first, last) = (size_class_start(class), size_class_start(class + 1) - 1);
            assert_eq!(class_of(first), class_of(last), "{first}..{last}");
        }
    }
}
