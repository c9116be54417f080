//! How large the blocks are: a histogram, and the sites of the largest.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Summary;
use super::top::descending;
use crate::call_tree::{CallTree, NodeId};
use crate::{Frame, FrameId, Metric, Profile, Query};

/// Block sizes of what a call tree holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// The whole.
    pub summary: Summary,
    /// Size classes from small to large, from the first to the last that is used.
    pub classes: Vec<SizeClass>,
    /// Sites that allocate the largest blocks, largest block first.
    pub largest: Vec<LargeSite>,
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

/// A frame and the blocks of one size it allocated.
#[derive(Debug, Clone, PartialEq)]
pub struct LargeSite {
    /// The allocating frame.
    pub site: Arc<Frame>,
    /// Bytes of one block; the mean where a sample mixes sizes.
    pub block_bytes: u64,
    /// Blocks.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

/// Sites listed when the query sets no limit.
const DEFAULT_SITES: usize = 10;

/// Block sizes of the samples of `profile` that are in `tree` (made from it with `query`). Live
/// blocks, unless the query asks for allocated ones.
#[must_use]
pub fn sizes(profile: &Profile, tree: &CallTree, query: &Query) -> Sizes {
    let (bytes_of, objects_of) = match query.metric {
        Metric::AllocSpace | Metric::AllocObjects => (Metric::AllocSpace, Metric::AllocObjects),
        _ => (Metric::InuseSpace, Metric::InuseObjects),
    };
    let mut classes = vec![SizeClass::default(); 65];
    let mut sites: FxHashMap<(FrameId, u64), (f64, f64)> = FxHashMap::default();
    for sample in &profile.samples {
        let Some(node) = tree.node_of(sample.stack).filter(|id| *id != NodeId::ROOT) else {
            continue;
        };
        let bytes = sample.values.get(bytes_of);
        let objects = sample.values.get(objects_of);
        if objects <= 0.0 {
            continue;
        }
        let block_bytes = sample.block_bytes.unwrap_or_else(|| (bytes / objects).round() as u64);
        let class = &mut classes[class_of(block_bytes)];
        class.objects += objects;
        class.bytes += bytes;
        let site = sites.entry((tree.node(node).frame, block_bytes)).or_default();
        site.0 += objects;
        site.1 += bytes;
    }
    for (at, class) in classes.iter_mut().enumerate() {
        (class.min, class.max) = bounds(at);
    }
    Sizes {
        summary: Summary::of(tree),
        classes: used(classes),
        largest: largest(tree, sites, query.limit.unwrap_or(DEFAULT_SITES)),
    }
}

/// Class `n` holds sizes above 2ⁿ⁻¹ up to 2ⁿ; class 0 holds 0 and 1.
fn class_of(block_bytes: u64) -> usize {
    (u64::BITS - block_bytes.saturating_sub(1).leading_zeros()) as usize
}

fn bounds(class: usize) -> (u64, u64) {
    match class {
        0 => (0, 1),
        64 => ((1 << 63) + 1, u64::MAX),
        _ => ((1 << (class - 1)) + 1, 1 << class),
    }
}

fn used(classes: Vec<SizeClass>) -> Vec<SizeClass> {
    let is_used = |class: &SizeClass| class.objects > 0.0;
    let first = classes.iter().position(is_used);
    let last = classes.iter().rposition(is_used);
    match (first, last) {
        (Some(first), Some(last)) => classes[first..=last].to_vec(),
        _ => Vec::new(),
    }
}

fn largest(tree: &CallTree, sites: FxHashMap<(FrameId, u64), (f64, f64)>, limit: usize) -> Vec<LargeSite> {
    let mut rows: Vec<LargeSite> = sites
        .into_iter()
        .map(|((frame, block_bytes), (objects, bytes))| LargeSite {
            site: tree.frames.get(frame).clone(),
            block_bytes,
            objects,
            bytes,
        })
        .collect();
    rows.sort_by(|a, b| {
        b.block_bytes
            .cmp(&a.block_bytes)
            .then_with(|| descending(a.bytes, b.bytes))
            .then_with(|| a.site.label.cmp(&b.site.label))
    });
    rows.truncate(limit);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn classes_are_powers_of_two_and_sites_ranked_by_block() {
        let program = profile("main;a 64 2\nmain;b 33 1\nmain;c 4096 1\nmain;a 10 1");
        let query = Query::default();
        let view = sizes(&program, &CallTree::new(&program, &query), &query);
        let used: Vec<_> = view
            .classes
            .iter()
            .filter(|class| class.objects > 0.0)
            .map(|class| (class.min, class.max, class.objects, class.bytes))
            .collect();
        assert_eq!(
            used,
            [(9, 16, 1.0, 10.0), (17, 32, 2.0, 64.0), (33, 64, 1.0, 33.0), (2049, 4096, 1.0, 4096.0)]
        );
        assert_eq!(view.classes.len(), 9);
        let sites: Vec<_> =
            view.largest.iter().map(|site| (site.site.label.as_str(), site.block_bytes)).collect();
        assert_eq!(sites, [("c", 4096), ("b", 33), ("a", 32), ("a", 10)]);
    }

    #[test]
    fn extreme_sizes_have_a_class() {
        assert_eq!([0, 1, 2, 3, 8, 9].map(class_of), [0, 0, 1, 2, 3, 4]);
        assert_eq!(class_of(u64::MAX), 64);
    }
}
