//! The order within ranks: sweeps of weighted medians, then swaps of neighbours, keeping the best.

use super::layers::Layers;

/// Sweeps after the first order, alternating down and up.
const SWEEPS: usize = 40;
/// Passes of swaps a sweep; most end much earlier, when nothing improves.
const SWAP_PASSES: usize = 30;

/// Fills and orders `layers.ranks` so that few segments cross.
pub(super) fn minimize_crossings(layers: &mut Layers) {
    let above = layers.neighbours(true);
    let below = layers.neighbours(false);
    let mut best: Option<(usize, Vec<Vec<usize>>)> = None;
    for downwards in [true, false] {
        let mut order = first_order(layers, if downwards { &below } else { &above }, downwards);
        for sweep in 0..=SWEEPS {
            let crossings = total_crossings(&order, &below, layers.cells.len());
            if best.as_ref().is_none_or(|(least, _)| crossings < *least) {
                best = Some((crossings, order.clone()));
            }
            if crossings == 0 {
                break;
            }
            let down = sweep % 2 == 0;
            sort_by_medians(&mut order, if down { &above } else { &below }, down);
            if sweep % 4 >= 2 {
                swap_neighbours(&mut order, &above, &below, true);
            }
            swap_neighbours(&mut order, &above, &below, false);
        }
    }
    layers.ranks = best.map(|(_, order)| order).unwrap_or_default();
}

/// Depth first from the outermost boxes, so that subtrees stay together.
fn first_order(layers: &Layers, next: &[Vec<usize>], downwards: bool) -> Vec<Vec<usize>> {
    let mut order = vec![Vec::new(); layers.ranks.len()];
    let mut seen = vec![false; layers.cells.len()];
    let mut roots: Vec<usize> = (0..layers.cells.len()).collect();
    roots.sort_by_key(|cell| {
        let rank = layers.cells[*cell].rank;
        if downwards { rank } else { layers.ranks.len() - rank }
    });
    for root in roots {
        let mut pending = vec![root];
        while let Some(cell) = pending.pop() {
            if !std::mem::replace(&mut seen[cell], true) {
                order[layers.cells[cell].rank].push(cell);
                pending.extend(next[cell].iter().rev());
            }
        }
    }
    order
}

fn places(order: &[Vec<usize>], cells: usize) -> Vec<usize> {
    let mut places = vec![0; cells];
    for rank in order {
        for (place, cell) in rank.iter().enumerate() {
            places[*cell] = place;
        }
    }
    places
}

fn sort_by_medians(order: &mut [Vec<usize>], fixed: &[Vec<usize>], down: bool) {
    let mut place = places(order, fixed.len());
    let count = order.len();
    for step in 1..count {
        let rank = &mut order[if down { step } else { count - 1 - step }];
        let mut keyed: Vec<(Option<f64>, usize)> =
            rank.iter().map(|cell| (median(&fixed[*cell], &place), *cell)).collect();
        // Cells without a neighbour on that side keep their place; the others sort around them.
        let mut movable: Vec<(f64, usize)> =
            keyed.iter().filter_map(|(key, cell)| key.map(|key| (key, *cell))).collect();
        movable.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sorted = movable.into_iter();
        for slot in keyed.iter_mut().filter(|slot| slot.0.is_some()) {
            if let Some((_, cell)) = sorted.next() {
                slot.1 = cell;
            }
        }
        *rank = keyed.into_iter().map(|(_, cell)| cell).collect();
        for (at, cell) in rank.iter().enumerate() {
            place[*cell] = at;
        }
    }
}

/// The middle place of the neighbours, leaning to the side where they are closer together.
fn median(neighbours: &[usize], place: &[usize]) -> Option<f64> {
    let mut at: Vec<f64> = neighbours.iter().map(|cell| place[*cell] as f64).collect();
    at.sort_by(f64::total_cmp);
    let middle = at.len() / 2;
    match at.len() {
        0 => None,
        len if len % 2 == 1 => Some(at[middle]),
        2 => Some(f64::midpoint(at[0], at[1])),
        len => {
            let left = at[middle - 1] - at[0];
            let right = at[len - 1] - at[middle];
            let spread = left + right;
            Some(if spread == 0.0 {
                f64::midpoint(at[middle - 1], at[middle])
            } else {
                (at[middle - 1] * right + at[middle] * left) / spread
            })
        }
    }
}

/// Swaps neighbours while that removes crossings; `even` swaps also where it changes nothing, to
/// leave a local minimum.
fn swap_neighbours(order: &mut [Vec<usize>], above: &[Vec<usize>], below: &[Vec<usize>], even: bool) {
    let mut place = places(order, above.len());
    for _ in 0..SWAP_PASSES {
        let mut improved = false;
        for rank in order.iter_mut() {
            for at in 1..rank.len() {
                let (left, right) = (rank[at - 1], rank[at]);
                let count = |a: usize, b: usize| {
                    pair_crossings(&above[a], &above[b], &place)
                        + pair_crossings(&below[a], &below[b], &place)
                };
                let (now, swapped) = (count(left, right), count(right, left));
                if swapped < now || (even && swapped == now) {
                    rank.swap(at - 1, at);
                    place[left] = at;
                    place[right] = at - 1;
                    improved |= swapped < now;
                }
            }
        }
        if !improved {
            return;
        }
    }
}

fn pair_crossings(left: &[usize], right: &[usize], place: &[usize]) -> usize {
    let crossing = |a: &usize| right.iter().filter(|b| place[**b] < place[*a]).count();
    left.iter().map(crossing).sum()
}

fn total_crossings(order: &[Vec<usize>], below: &[Vec<usize>], cells: usize) -> usize {
    let place = places(order, cells);
    order
        .iter()
        .map(|rank| {
            let ends = rank.iter().flat_map(|cell| {
                let mut ends: Vec<usize> = below[*cell].iter().map(|to| place[*to]).collect();
                ends.sort_unstable();
                ends
            });
            inversions(&mut ends.collect::<Vec<usize>>())
        })
        .sum()
}

/// Pairs out of order, by insertion: ranks are short.
fn inversions(values: &mut Vec<usize>) -> usize {
    let mut sorted: Vec<usize> = Vec::with_capacity(values.len());
    let mut count = 0;
    for value in values.drain(..) {
        let at = sorted.partition_point(|other| *other <= value);
        count += sorted.len() - at;
        sorted.insert(at, value);
    }
    count
}
