//! Coordinates: x by network simplex, so that heavy and long links are straight; y by rank.

use super::layers::{Kind, Layers};
use super::network_simplex::{Arc, Slack, solve};

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// x of each cell.
    pub(super) x: Vec<f64>,
    /// Middle of each rank.
    pub(super) y: Vec<f64>,
    /// Height of each rank.
    pub(super) height: Vec<f64>,
    pub(super) total_width: f64,
    pub(super) total_height: f64,
}

/// Between neighbours of a rank.
const COLUMN_GAP: f64 = 16.0;
/// Between lines, or a line and a label.
const LINE_GAP: f64 = 4.0;
/// Between a rank of boxes and a rank of labels: at least, and at most in a wide drawing, whose
/// lines would otherwise run almost level.
const RANK_GAPS: [f64; 2] = [16.0, 42.0];
/// Width by height that a wide drawing is stretched towards.
const ASPECT: f64 = 2.2;

pub(super) fn place(layers: &Layers) -> Placed {
    let x = columns(layers);
    let height: Vec<f64> = layers
        .ranks
        .iter()
        .map(|rank| rank.iter().map(|cell| layers.cells[*cell].height).fold(0.0, f64::max))
        .collect();
    let right = |cell: usize| x[cell] + layers.cells[cell].right;
    let total_width = (0..x.len()).map(right).fold(0.0, f64::max);
    let [least, most] = RANK_GAPS;
    let solid: f64 = height.iter().sum();
    let gap = ((total_width / ASPECT - solid) / height.len() as f64).clamp(least, most);
    let mut y = Vec::with_capacity(height.len());
    let mut top = 0.0;
    for height in &height {
        y.push(top + height / 2.0);
        top += height + gap;
    }
    Placed { total_width, total_height: top - gap, x, y, height }
}

/// Each segment costs its horizontal length: more the heavier it is, and the longer the chain it
/// is in the middle of.
fn columns(layers: &Layers) -> Vec<f64> {
    let count = layers.cells.len();
    let mut arcs = Vec::new();
    for rank in &layers.ranks {
        for pair in rank.windows(2) {
            let (left, right) = (&layers.cells[pair[0]], &layers.cells[pair[1]]);
            let boxes = left.kind == Kind::Box && right.kind == Kind::Box;
            let gap = if boxes { COLUMN_GAP } else { LINE_GAP };
            arcs.push(Arc {
                tail: pair[0],
                head: pair[1],
                min_length: (left.right + gap + right.left).ceil() as i64,
                weight: 0,
            });
        }
    }
    for (at, segment) in layers.segments.iter().enumerate() {
        let ends = [segment.upper, segment.lower].map(|cell| layers.cells[cell].kind == Kind::Box);
        let straightness = match ends {
            [true, true] => 1,
            [false, false] => 8,
            _ => 2,
        };
        for head in [segment.upper, segment.lower] {
            arcs.push(Arc { tail: count + at, head, min_length: 0, weight: straightness * segment.weight });
        }
    }
    let positions = solve(count + layers.segments.len(), &arcs, Slack::Centre);
    let left_edge = |cell: usize| positions[cell] as f64 - layers.cells[cell].left;
    let least = (0..count).map(left_edge).fold(f64::INFINITY, f64::min);
    positions[..count].iter().map(|position| *position as f64 - least).collect()
}
