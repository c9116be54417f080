//! Flame graphs: the call tree as nested boxes, in the order they are drawn.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Totals;
use crate::call_tree::{CallTree, NodeId};
use crate::query::Regex;
use crate::{Frame, FrameId, Weight};

/// A call tree flattened for drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// The whole.
    pub totals: Totals,
    /// Frames that boxes refer to.
    pub frames: Vec<Arc<Frame>>,
    /// Boxes, depth first; siblings largest first.
    pub boxes: Vec<FlameBox>,
    /// Boxes too small to draw.
    pub dropped: usize,
}

/// One box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlameBox {
    /// Index in [`Flame::frames`].
    pub frame: u32,
    /// Distance from the root; outermost frames have 0.
    pub depth: u32,
    /// Left edge, in the metric's unit.
    pub start: f64,
    /// Width in the metric's unit: what is drawn. Against a base the larger of both sides, so that
    /// what vanished still shows.
    pub width: f64,
    /// Allocated here and above.
    pub sum: Weight,
    /// Allocated here.
    pub own: Weight,
}

/// What a flame graph shows of a call tree.
#[derive(Debug, Clone, Default)]
pub enum Shape {
    /// Callers at the root.
    #[default]
    TopDown,
    /// Allocating frames at the root, their callers above them.
    BottomUp,
    /// Frames that match at the root, with their callees.
    Callees(Regex),
    /// Frames that match at the root, with their callers.
    Callers(Regex),
}

/// Which boxes are drawn: the widest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detail {
    /// Narrowest box, as a share of the whole.
    pub min_share: f64,
    /// Most boxes.
    pub most_boxes: usize,
}

impl Detail {
    /// Every box.
    pub const ALL: Detail = Detail { min_share: 0.0, most_boxes: usize::MAX };
}

/// The flame graph of `tree`.
#[must_use]
pub fn flame(tree: &CallTree, shape: &Shape, detail: Detail) -> Flame {
    let matches = |pattern: &Regex| {
        let labels = tree.frames.all().iter();
        let hits: Vec<bool> = labels.map(|frame| pattern.is_match(&frame.label)).collect();
        move |id: FrameId| hits[id.index()]
    };
    match shape {
        Shape::TopDown => draw(tree, detail),
        Shape::BottomUp => draw(&tree.inverted(detail.most_boxes), detail),
        Shape::Callees(pattern) => draw(&tree.callees_of(matches(pattern)), detail),
        Shape::Callers(pattern) => draw(&tree.callers_of(matches(pattern), detail.most_boxes), detail),
    }
}

/// Widths are never negative: against a base a box is as wide as the larger side, and always at
/// least as wide as its children together.
fn widths(tree: &CallTree) -> Vec<f64> {
    let nodes = tree.nodes();
    let mut below = vec![0.0; nodes.len()];
    let mut widths = vec![0.0; nodes.len()];
    for at in (0..nodes.len()).rev() {
        let node = &nodes[at];
        let current = node.sum.value + node.sum.base;
        let own = (node.own.value + node.own.base).max(node.own.base).max(0.0);
        widths[at] = current.max(node.sum.base).max(below[at] + own);
        if at > 0 {
            below[node.parent.index()] += widths[at];
        }
    }
    widths
}

/// Boxes must be wider than this.
fn floor(widths: &[f64], detail: Detail) -> f64 {
    let floor = widths[0] * detail.min_share;
    // The root has no box.
    let mut sorted = widths[1..].to_vec();
    if sorted.len() <= detail.most_boxes {
        return floor;
    }
    let (_, first_dropped, _) = sorted.select_nth_unstable_by(detail.most_boxes, |a, b| b.total_cmp(a));
    floor.max(*first_dropped)
}

fn draw(tree: &CallTree, detail: Detail) -> Flame {
    let widths = widths(tree);
    let floor = floor(&widths, detail);
    let children = tree.children();
    let mut flame = Flame { totals: Totals::of(tree), frames: Vec::new(), boxes: Vec::new(), dropped: 0 };
    let mut frames: FxHashMap<FrameId, u32> = FxHashMap::default();
    let mut pending: Vec<(NodeId, u32, f64)> = Vec::new();
    let open = |pending: &mut Vec<(NodeId, u32, f64)>, parent: NodeId, depth: u32, start| {
        let mut next: Vec<NodeId> = children.of(parent).to_vec();
        let before = next.len();
        next.retain(|id| widths[id.index()] > floor);
        next.sort_by(|a, b| widths[b.index()].total_cmp(&widths[a.index()]));
        let mut at: f64 = start;
        let first = pending.len();
        for id in &next {
            pending.push((*id, depth, at));
            at += widths[id.index()];
        }
        pending[first..].reverse();
        before - next.len()
    };
    flame.dropped += open(&mut pending, NodeId::ROOT, 0, 0.0);
    while let Some((id, depth, start)) = pending.pop() {
        let node = tree.node(id);
        let frame = *frames.entry(node.frame).or_insert_with(|| {
            flame.frames.push(tree.frames.get(node.frame).clone());
            u32::try_from(flame.frames.len() - 1).unwrap_or(u32::MAX)
        });
        flame.boxes.push(FlameBox {
            frame,
            depth,
            start,
            width: widths[id.index()],
            sum: node.sum,
            own: node.own,
        });
        flame.dropped += open(&mut pending, id, depth + 1, start);
    }
    flame
}

impl Flame {
    /// Width of the whole picture, in the metric's unit.
    #[must_use]
    pub fn width(&self) -> f64 {
        let outermost = self.boxes.iter().filter(|item| item.depth == 0);
        outermost.map(|item| item.width).sum()
    }

    /// Number of levels.
    #[must_use]
    pub fn levels(&self) -> usize {
        let deepest = self.boxes.iter().map(|item| item.depth).max();
        deepest.map_or(0, |depth| depth as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::fixture::profile;

    fn boxes(flame: &Flame) -> Vec<(&str, u32, f64, f64)> {
        let label = |item: &FlameBox| flame.frames[item.frame as usize].label.as_str();
        let boxes = flame.boxes.iter();
        boxes.map(|item| (label(item), item.depth, item.start, item.width)).collect()
    }

    /// A bounded tree of callers has the boxes that an unbounded one would draw.
    #[test]
    fn the_widest_callers_are_drawn() {
        let mut text = String::new();
        for stack in 0..200_u32 {
            let caller = |level: u32| (stack.wrapping_mul(2_654_435_761) >> (level * 3)) % 5;
            text += &format!("a{};b{};c{};d{} {} 1\n", caller(1), caller(2), caller(3), caller(4), 1 + stack);
        }
        let program = profile(&text);
        let tree = CallTree::new(&program, &Query::default());
        let inverted = tree.inverted(usize::MAX);
        for most_boxes in [0, 1, 7, 50, 199, 1000] {
            let detail = Detail { min_share: 0.0, most_boxes };
            assert_eq!(flame(&tree, &Shape::BottomUp, detail), draw(&inverted, detail));
            let callers = flame(&tree, &Shape::Callers(Regex::new("c1").unwrap()), detail);
            assert!(callers.boxes.len() <= most_boxes);
        }
    }

    #[test]
    fn all_four_shapes() {
        let program = profile("main;a;f 10 1\nmain;b;f 30 1\nmain;b 5 1");
        let tree = CallTree::new(&program, &Query::default());
        assert_eq!(
            boxes(&flame(&tree, &Shape::TopDown, Detail::ALL)),
            [
                ("main", 0, 0.0, 45.0),
                ("b", 1, 0.0, 35.0),
                ("f", 2, 0.0, 30.0),
                ("a", 1, 35.0, 10.0),
                ("f", 2, 35.0, 10.0)
            ]
        );
        assert_eq!(
            boxes(&flame(&tree, &Shape::BottomUp, Detail::ALL)),
            [
                ("f", 0, 0.0, 40.0),
                ("b", 1, 0.0, 30.0),
                ("main", 2, 0.0, 30.0),
                ("a", 1, 30.0, 10.0),
                ("main", 2, 30.0, 10.0),
                ("b", 0, 40.0, 5.0),
                ("main", 1, 40.0, 5.0)
            ]
        );
        let b = Regex::new("^b$").unwrap();
        let callers = flame(&tree, &Shape::Callers(b.clone()), Detail::ALL);
        let callees = flame(&tree, &Shape::Callees(b), Detail::ALL);
        assert_eq!(boxes(&callees), [("b", 0, 0.0, 35.0), ("f", 1, 0.0, 30.0)]);
        assert_eq!(boxes(&callers), [("b", 0, 0.0, 35.0), ("main", 1, 0.0, 35.0)]);
        assert_eq!((callers.width(), callers.levels()), (35.0, 2));
    }

    #[test]
    fn narrow_boxes_are_dropped() {
        let program = profile("main;a 99 1\nmain;b 1 1");
        let tree = CallTree::new(&program, &Query::default());
        for detail in [Detail { min_share: 0.01, ..Detail::ALL }, Detail { most_boxes: 2, ..Detail::ALL }] {
            let flame = flame(&tree, &Shape::TopDown, detail);
            assert_eq!(boxes(&flame), [("main", 0, 0.0, 100.0), ("a", 1, 0.0, 99.0)]);
            assert_eq!(flame.dropped, 1);
        }
    }

    #[test]
    fn against_a_base_what_vanished_still_has_a_width() {
        let now = profile("main;grew 30 1");
        let before = profile("main;grew 10 1\nmain;gone 5 1");
        let tree = CallTree::compare(&now, Some(&before), &Query::default());
        let flame = flame(&tree, &Shape::TopDown, Detail::ALL);
        assert_eq!(boxes(&flame), [("main", 0, 0.0, 35.0), ("grew", 1, 0.0, 30.0), ("gone", 1, 30.0, 5.0)]);
        assert_eq!(flame.boxes[2].sum.value, -5.0);
    }
}
