//! Boxes and links as layers: every link becomes a chain of cells, one per rank it passes.

use super::{BoxSize, Link};

/// Something that takes room in a rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) rank: usize,
    /// Room left of its x.
    pub(super) left: f64,
    /// Room right of its x.
    pub(super) right: f64,
    pub(super) height: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Box,
    /// The label of a link, right of the line.
    Label,
    /// A link passing through.
    Bend,
}

/// A piece of a link between neighbouring ranks, downwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) upper: usize,
    pub(super) lower: usize,
    pub(super) weight: i64,
}

/// The layered graph.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    /// Boxes first, at their own index.
    pub(super) cells: Vec<Cell>,
    pub(super) segments: Vec<Segment>,
    /// Cells of each rank, from left to right.
    pub(super) ranks: Vec<Vec<usize>>,
    /// Cells of each link from its upper to its lower box, both included.
    pub(super) chains: Vec<Vec<usize>>,
}

/// Room around a line without a label.
const BEND_ROOM: f64 = 5.0;
/// Between a line and its label.
pub(super) const LABEL_GAP: f64 = 4.0;

impl Layers {
    pub(super) fn new(boxes: &[BoxSize], links: &[Link], forward: &[bool], rank_of: &[usize]) -> Self {
        let count = rank_of.iter().max().map_or(0, |rank| rank + 1);
        let cells = boxes.iter().zip(rank_of).map(|(size, rank)| Cell {
            kind: Kind::Box,
            rank: *rank,
            left: size.width / 2.0,
            right: size.width / 2.0,
            height: size.height,
        });
        let mut layers = Self {
            cells: cells.collect(),
            segments: Vec::new(),
            ranks: vec![Vec::new(); count],
            chains: Vec::new(),
        };
        for (link, forward) in links.iter().zip(forward) {
            let (upper, lower) = if *forward { (link.from, link.to) } else { (link.to, link.from) };
            layers.add_chain(upper, lower, link);
        }
        layers
    }

    fn add_chain(&mut self, upper: usize, lower: usize, link: &Link) {
        let (top, bottom) = (self.cells[upper].rank, self.cells[lower].rank);
        // Odd ranks hold no boxes, so that labels never widen a rank of boxes.
        let label_rank = (top + (bottom - top) / 2) | 1;
        let mut chain = vec![upper];
        for rank in top + 1..bottom {
            let is_label = rank == label_rank;
            self.cells.push(Cell {
                kind: if is_label { Kind::Label } else { Kind::Bend },
                rank,
                left: BEND_ROOM,
                right: if is_label { LABEL_GAP + link.label.width } else { BEND_ROOM },
                height: if is_label { link.label.height } else { 0.0 },
            });
            chain.push(self.cells.len() - 1);
        }
        chain.push(lower);
        for pair in chain.windows(2) {
            let [upper, lower] = [pair[0], pair[1]];
            self.segments.push(Segment { upper, lower, weight: i64::from(link.weight) });
        }
        self.chains.push(chain);
    }

    /// Neighbours of each cell in the rank above (`true`) or below.
    pub(super) fn neighbours(&self, above: bool) -> Vec<Vec<usize>> {
        let mut out = vec![Vec::new(); self.cells.len()];
        for segment in &self.segments {
            if above {
                out[segment.lower].push(segment.upper);
            } else {
                out[segment.upper].push(segment.lower);
            }
        }
        out
    }
}
