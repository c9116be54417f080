//! Splines: each link pulled taut through the gaps it passes, then rounded.
//!
//! A link is a function x(y). Between its gates it is a monotone cubic, which never leaves the
//! range between two neighbouring points, so it cannot swing into a box beside the gate.

use super::layers::{Kind, LABEL_GAP, Layers};
use super::place::Placed;
use super::{BoxSize, Curve, Drawing, Point};

/// How far a line may swing out where nothing is beside it.
const FREE: f64 = 200.0;
/// Rounds of pulling; each halves the remaining kink, or better.
const PULLS: usize = 60;

/// Times all links are pulled; each makes room for its neighbours in the next.
const ROUNDS: usize = 5;

/// A height at which a link must pass between two x.
#[derive(Debug, Clone, Copy)]
struct Gate {
    cell: usize,
    y: f64,
    least: f64,
    most: f64,
    x: f64,
}

pub(super) fn route(boxes: &[BoxSize], forward: &[bool], layers: &Layers, placed: &Placed) -> Drawing {
    let centre = |cell: usize| Point { x: placed.x[cell], y: placed.y[layers.cells[cell].rank] };
    let mut lanes = Lanes::new(layers, placed);
    for _ in 0..ROUNDS {
        for chain in &layers.chains {
            lanes.pull(chain);
        }
    }
    let curves = layers.chains.iter().zip(forward).map(|(chain, forward)| {
        let mut gates = lanes.pull(chain);
        let (upper, lower) = (chain[0], chain[chain.len() - 1]);
        clip_ends(&mut gates, boxes, [upper, lower], [centre(upper), centre(lower)]);
        let mut points = monotone_spline(&gates);
        if !forward {
            points.reverse();
        }
        let label = chain.iter().copied().find(|cell| layers.cells[*cell].kind == Kind::Label);
        let label = label.map_or_else(Point::default, |cell| Point {
            x: spline_x(&gates, centre(cell).y) + LABEL_GAP,
            y: centre(cell).y,
        });
        Curve { points, label }
    });
    Drawing {
        width: placed.total_width,
        height: placed.total_height,
        centres: (0..boxes.len()).map(centre).collect(),
        curves: curves.collect(),
    }
}

/// Where lines run at present: per cell the least and greatest x of its line.
struct Lanes<'a> {
    layers: &'a Layers,
    placed: &'a Placed,
    /// Per cell its neighbours in its rank.
    neighbours: Vec<[Option<usize>; 2]>,
    spans: Vec<(f64, f64)>,
}

impl<'a> Lanes<'a> {
    fn new(layers: &'a Layers, placed: &'a Placed) -> Self {
        let mut neighbours = vec![[None; 2]; layers.cells.len()];
        for rank in &layers.ranks {
            for pair in rank.windows(2) {
                neighbours[pair[0]][1] = Some(pair[1]);
                neighbours[pair[1]][0] = Some(pair[0]);
            }
        }
        let spans = placed.x.iter().map(|x| (*x, *x)).collect();
        Self { layers, placed, neighbours, spans }
    }

    /// Pulls one link taut between its neighbours and notes where it runs now.
    fn pull(&mut self, chain: &[usize]) -> Vec<Gate> {
        let mut gates: Vec<Gate> = chain.iter().flat_map(|cell| self.gates(*cell)).collect();
        pull_taut(&mut gates);
        let mut at = 0;
        while at < gates.len() {
            let cell = gates[at].cell;
            let here = gates[at..].iter().take_while(|gate| gate.cell == cell);
            let (mut low, mut high, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0);
            for gate in here {
                (low, high, count) = (low.min(gate.x), high.max(gate.x), count + 1);
            }
            self.spans[cell] = (low, high);
            at += count;
        }
        gates
    }

    /// The gates of a cell: a box is passed at its centre, a rank of boxes at its upper and lower
    /// edge, a rank of labels, which is thin, once. Lines share the room between them.
    fn gates(&self, cell: usize) -> Vec<Gate> {
        let here = &self.layers.cells[cell];
        let y = self.placed.y[here.rank];
        let (low, high) = self.spans[cell];
        if here.kind == Kind::Box {
            return vec![Gate { cell, y, least: low, most: low, x: low }];
        }
        let [left, right] = self.neighbours[cell];
        let least = left.map_or(low - FREE, |left| {
            let neighbour = &self.layers.cells[left];
            let edge = self.spans[left].1 + neighbour.right;
            let is_box = neighbour.kind == Kind::Box;
            let limit = if is_box { edge } else { f64::midpoint(edge, low - here.left) };
            limit + here.left
        });
        let most = right.map_or(high + FREE, |right| {
            let neighbour = &self.layers.cells[right];
            let edge = self.spans[right].0 - neighbour.left;
            let is_box = neighbour.kind == Kind::Box;
            let limit = if is_box { edge } else { f64::midpoint(edge, high + here.right) };
            limit - here.right
        });
        let x = f64::midpoint(low, high);
        let gate = |y: f64| Gate { cell, y, least: least.min(low), most: most.max(high), x };
        let half = self.placed.height[here.rank] / 2.0;
        let is_label_rank = here.rank % 2 == 1;
        if is_label_rank || half < 1.0 { vec![gate(y)] } else { vec![gate(y - half), gate(y + half)] }
    }
}

/// Moves every gate's x towards the straight line between its neighbours', as far as it goes.
fn pull_taut(gates: &mut [Gate]) {
    for _ in 0..PULLS {
        for at in 1..gates.len() - 1 {
            let (before, after) = (gates[at - 1], gates[at + 1]);
            let share = (gates[at].y - before.y) / (after.y - before.y);
            let straight = before.x + (after.x - before.x) * share;
            gates[at].x = straight.clamp(gates[at].least, gates[at].most);
        }
    }
}

/// Lets the line begin and end where it meets the edge of its boxes on the way to their centres.
fn clip_ends(gates: &mut [Gate], boxes: &[BoxSize], ends: [usize; 2], centres: [Point; 2]) {
    let last = gates.len() - 1;
    for (at, next, which, down) in [(0, 1, 0, 1.0), (last, last - 1, 1, -1.0)] {
        let (size, centre) = (boxes[ends[which]], centres[which]);
        let half = size.height / 2.0;
        let toward = gates[next];
        let reach = (size.width / 2.0 - 8.0).max(0.0);
        let share = half / (toward.y - centre.y).abs().max(half);
        let offset = ((toward.x - centre.x) * share).clamp(-reach, reach);
        gates[at].x = centre.x + offset;
        gates[at].y = centre.y + down * half;
    }
}

/// dx/dy at each gate, after Fritsch and Carlson: the spline has no extremum between gates.
fn slopes(gates: &[Gate]) -> Vec<f64> {
    let step = |at: usize| {
        let (a, b) = (gates[at], gates[at + 1]);
        ((b.x - a.x) / (b.y - a.y), b.y - a.y)
    };
    let last = gates.len() - 1;
    (0..=last)
        .map(|at| {
            if at == 0 || at == last {
                return step(at.min(last - 1)).0;
            }
            let ((before, h_before), (after, h_after)) = (step(at - 1), step(at));
            if before * after <= 0.0 {
                return 0.0;
            }
            let (w_before, w_after) = (2.0 * h_after + h_before, h_after + 2.0 * h_before);
            (w_before + w_after) / (w_before / before + w_after / after)
        })
        .collect()
}

fn monotone_spline(gates: &[Gate]) -> Vec<Point> {
    let slopes = slopes(gates);
    let mut points = vec![Point { x: gates[0].x, y: gates[0].y }];
    for at in 1..gates.len() {
        let (a, b) = (gates[at - 1], gates[at]);
        let third = (b.y - a.y) / 3.0;
        points.push(Point { x: a.x + slopes[at - 1] * third, y: a.y + third });
        points.push(Point { x: b.x - slopes[at] * third, y: b.y - third });
        points.push(Point { x: b.x, y: b.y });
    }
    points
}

/// x of the spline at a height.
fn spline_x(gates: &[Gate], y: f64) -> f64 {
    let slopes = slopes(gates);
    let at = gates.partition_point(|gate| gate.y < y).clamp(1, gates.len() - 1);
    let (a, b) = (gates[at - 1], gates[at]);
    let h = b.y - a.y;
    let t = ((y - a.y) / h).clamp(0.0, 1.0);
    let (t2, t3) = (t * t, t * t * t);
    a.x * (2.0 * t3 - 3.0 * t2 + 1.0)
        + slopes[at - 1] * h * (t3 - 2.0 * t2 + t)
        + b.x * (3.0 * t2 - 2.0 * t3)
        + slopes[at] * h * (t3 - t2)
}
