//! Which way each link points, and the rank of each box.

use super::Link;
use super::network_simplex::{Arc, Slack, solve};

/// For each link whether it keeps its direction. Depth first from boxes without callers, then in
/// index order: links that lead back to an open box are turned.
pub(super) fn break_cycles(boxes: usize, links: &[Link]) -> Vec<bool> {
    let mut outgoing = vec![Vec::new(); boxes];
    let mut called = vec![false; boxes];
    for (at, link) in links.iter().enumerate() {
        outgoing[link.from].push(at);
        called[link.to] = true;
    }
    let mut forward = vec![true; links.len()];
    let mut state = vec![State::New; boxes];
    let roots = (0..boxes).filter(|at| !called[*at]).chain(0..boxes);
    for root in roots {
        if state[root] != State::New {
            continue;
        }
        state[root] = State::Open;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.pop() {
            let Some(&at) = outgoing[node].get(next) else {
                state[node] = State::Done;
                continue;
            };
            path.push((node, next + 1));
            let to = links[at].to;
            match state[to] {
                State::New => {
                    state[to] = State::Open;
                    path.push((to, 0));
                }
                State::Open => forward[at] = false,
                State::Done => {}
            }
        }
    }
    forward
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// The rank of each box, from 0. Ranks are even: labels live on the odd ones between.
pub(super) fn assign(boxes: usize, links: &[Link], forward: &[bool]) -> Vec<usize> {
    let arcs: Vec<Arc> = links
        .iter()
        .zip(forward)
        .map(|(link, forward)| {
            let (tail, head) = if *forward { (link.from, link.to) } else { (link.to, link.from) };
            Arc { tail, head, min_length: 1, weight: i64::from(link.weight) }
        })
        .collect();
    let ranks = solve(boxes, &arcs, Slack::Keep);
    ranks.iter().map(|rank| 2 * usize::try_from(*rank).unwrap_or(0)).collect()
}
