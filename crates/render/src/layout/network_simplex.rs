//! Integer positions that keep minimum distances at the least total weighted length.
//!
//! A spanning tree of tight arcs determines all positions. While a tree arc has a negative cut
//! value (shortening it reduces the cost), it is exchanged for the tightest arc across the same
//! cut. The cut value needs no walk: the weights of arcs inside one side cancel, so it is the sum
//! over that side of each node's outgoing minus incoming weight.

/// `position[head] − position[tail] ≥ min_length`, and each unit of that distance costs `weight`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arc {
    pub(super) tail: usize,
    pub(super) head: usize,
    pub(super) min_length: i64,
    pub(super) weight: i64,
}

/// Placement of nodes that have the same cost anywhere in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slack {
    Keep,
    /// In the middle.
    Centre,
}

/// Limit on exchanges; the solution at that point is used. Only graphs too large to read reach it.
const MAX_PIVOTS: usize = 20_000;
/// Limit on the nodes and arcs visited in all exchanges, each of which visits all of them: some
/// tenths of a second. Every intermediate solution keeps the distances; a better one is only a
/// little shorter.
const MAX_LOOKS: usize = 50_000_000;

/// Optimal positions of `count` nodes, the smallest 0. `arcs` must be acyclic.
pub(super) fn solve(count: usize, arcs: &[Arc], slack: Slack) -> Vec<i64> {
    // One more node ties unconnected parts together at no cost.
    let mut arcs = arcs.to_vec();
    for part in parts(count, &arcs) {
        arcs.push(Arc { tail: count, head: part, min_length: 0, weight: 0 });
    }
    let mut simplex = Simplex::new(count + 1, arcs);
    simplex.grow_tight_tree();
    simplex.index_tree();
    simplex.optimize();
    if slack == Slack::Centre {
        simplex.centre();
    }
    let mut positions = simplex.positions;
    positions.truncate(count);
    let least = positions.iter().copied().min().unwrap_or(0);
    positions.iter().map(|position| position - least).collect()
}

/// A node without predecessor in each connected part.
fn parts(count: usize, arcs: &[Arc]) -> Vec<usize> {
    let mut part: Vec<usize> = (0..count).collect();
    fn find(part: &mut [usize], mut at: usize) -> usize {
        while part[at] != at {
            part[at] = part[part[at]];
            at = part[at];
        }
        at
    }
    let mut has_predecessor = vec![false; count];
    for arc in arcs {
        has_predecessor[arc.head] = true;
        let (a, b) = (find(&mut part, arc.tail), find(&mut part, arc.head));
        part[a] = b;
    }
    let mut seen = vec![false; count];
    let mut out = Vec::new();
    for node in (0..count).filter(|node| !has_predecessor[*node]) {
        let root = find(&mut part, node);
        if !std::mem::replace(&mut seen[root], true) {
            out.push(node);
        }
    }
    out
}

struct Simplex {
    arcs: Vec<Arc>,
    /// Arcs at each node, in and out.
    incident: Vec<Vec<usize>>,
    /// Outgoing minus incoming weight of each node.
    net: Vec<i64>,
    positions: Vec<i64>,
    in_tree: Vec<bool>,
    /// Tree arcs at each node.
    tree: Vec<Vec<usize>>,
    /// Arc to the parent in the tree; `usize::MAX` at the root.
    parent_arc: Vec<usize>,
    /// A subtree is the nodes whose `number` lies in its root's `first..=number`.
    number: Vec<usize>,
    first: Vec<usize>,
    /// Sum of `net` over the subtree.
    subtree_net: Vec<i64>,
}

impl Simplex {
    fn new(count: usize, arcs: Vec<Arc>) -> Self {
        let mut incident = vec![Vec::new(); count];
        let mut net = vec![0; count];
        for (at, arc) in arcs.iter().enumerate() {
            incident[arc.tail].push(at);
            incident[arc.head].push(at);
            net[arc.tail] += arc.weight;
            net[arc.head] -= arc.weight;
        }
        let positions = longest_paths(count, &arcs, &incident);
        Self {
            in_tree: vec![false; arcs.len()],
            arcs,
            incident,
            net,
            positions,
            tree: vec![Vec::new(); count],
            parent_arc: vec![usize::MAX; count],
            number: vec![0; count],
            first: vec![0; count],
            subtree_net: vec![0; count],
        }
    }

    fn slack(&self, arc: usize) -> i64 {
        let Arc { tail, head, min_length, .. } = self.arcs[arc];
        self.positions[head] - self.positions[tail] - min_length
    }

    /// Spans all nodes with tight arcs, moving what is reached as a whole where needed.
    fn grow_tight_tree(&mut self) {
        let count = self.positions.len();
        let mut reached = vec![false; count];
        let mut members = vec![count - 1];
        reached[count - 1] = true;
        let mut next = 0;
        loop {
            while next < members.len() {
                let node = members[next];
                next += 1;
                for at in self.incident[node].clone() {
                    let Arc { tail, head, .. } = self.arcs[at];
                    let other = if tail == node { head } else { tail };
                    if !reached[other] && self.slack(at) == 0 {
                        reached[other] = true;
                        members.push(other);
                        self.link(at);
                    }
                }
            }
            let crossing = |at: &usize| reached[self.arcs[*at].tail] != reached[self.arcs[*at].head];
            let Some(tightest) = (0..self.arcs.len()).filter(crossing).min_by_key(|at| self.slack(*at))
            else {
                return;
            };
            let slack = self.slack(tightest);
            let shift = if reached[self.arcs[tightest].tail] { slack } else { -slack };
            for node in &members {
                self.positions[*node] += shift;
            }
            // The arc is tight now: another visit of its reached end adds it.
            let Arc { tail, head, .. } = self.arcs[tightest];
            let added = if reached[tail] { head } else { tail };
            reached[added] = true;
            members.push(added);
            self.link(tightest);
        }
    }

    fn link(&mut self, at: usize) {
        let Arc { tail, head, .. } = self.arcs[at];
        self.in_tree[at] = true;
        self.tree[tail].push(at);
        self.tree[head].push(at);
    }

    fn unlink(&mut self, at: usize) {
        let Arc { tail, head, .. } = self.arcs[at];
        self.in_tree[at] = false;
        self.tree[tail].retain(|other| *other != at);
        self.tree[head].retain(|other| *other != at);
    }

    /// Numbers the tree in postorder and sums `net` over subtrees.
    fn index_tree(&mut self) {
        let root = self.positions.len() - 1;
        let mut next_number = 0;
        self.parent_arc[root] = usize::MAX;
        self.first[root] = 0;
        self.subtree_net[root] = self.net[root];
        let mut pending = vec![(root, 0)];
        while let Some((node, edge)) = pending.pop() {
            if let Some(&at) = self.tree[node].get(edge) {
                pending.push((node, edge + 1));
                if at != self.parent_arc[node] {
                    let child = self.other_end(at, node);
                    self.parent_arc[child] = at;
                    self.first[child] = next_number;
                    self.subtree_net[child] = self.net[child];
                    pending.push((child, 0));
                }
                continue;
            }
            self.number[node] = next_number;
            next_number += 1;
            if self.parent_arc[node] != usize::MAX {
                let parent = self.other_end(self.parent_arc[node], node);
                self.subtree_net[parent] += self.subtree_net[node];
            }
        }
    }

    fn other_end(&self, at: usize, node: usize) -> usize {
        let Arc { tail, head, .. } = self.arcs[at];
        if tail == node { head } else { tail }
    }

    fn in_subtree(&self, root: usize, node: usize) -> bool {
        (self.first[root]..=self.number[root]).contains(&self.number[node])
    }

    /// The lower end of a tree arc, whose subtree is one side of the cut.
    fn child_end(&self, at: usize) -> usize {
        let Arc { tail, head, .. } = self.arcs[at];
        if self.parent_arc[tail] == at { tail } else { head }
    }

    fn cut_value(&self, at: usize) -> i64 {
        let child = self.child_end(at);
        let net = self.subtree_net[child];
        if self.arcs[at].tail == child { net } else { -net }
    }

    /// The tightest arc that crosses the cut of tree arc `at` the other way.
    fn entering(&self, at: usize) -> Option<usize> {
        let child = self.child_end(at);
        let tail_is_below = self.arcs[at].tail == child;
        (0..self.arcs.len())
            .filter(|other| {
                let Arc { tail, head, .. } = self.arcs[*other];
                let (from, to) = if tail_is_below { (head, tail) } else { (tail, head) };
                !self.in_tree[*other] && self.in_subtree(child, from) && !self.in_subtree(child, to)
            })
            .min_by_key(|other| self.slack(*other))
    }

    fn optimize(&mut self) {
        let mut start = 0;
        for _ in 0..self.most_looks_at_all().min(MAX_PIVOTS) {
            let count = self.arcs.len();
            // Round robin: starting at the same arc each time makes bad exchanges likely.
            let leaving = (0..count)
                .map(|step| (start + step) % count)
                .find(|at| self.in_tree[*at] && self.cut_value(*at) < 0);
            let Some(leaving) = leaving else { return };
            let Some(entering) = self.entering(leaving) else { return };
            start = leaving + 1;
            self.exchange(leaving, entering);
        }
    }

    /// How often all nodes and arcs may be looked at.
    fn most_looks_at_all(&self) -> usize {
        MAX_LOOKS / (self.positions.len() + self.arcs.len())
    }

    fn exchange(&mut self, leaving: usize, entering: usize) {
        self.shift_below(leaving, self.slack(entering));
        self.unlink(leaving);
        self.link(entering);
        self.index_tree();
    }

    /// Lengthens a tree arc by `distance`, moving the side below it.
    fn shift_below(&mut self, at: usize, distance: i64) {
        let child = self.child_end(at);
        let shift = if self.arcs[at].tail == child { -distance } else { distance };
        for node in 0..self.positions.len() {
            if self.in_subtree(child, node) {
                self.positions[node] += shift;
            }
        }
    }

    /// Moves subtrees whose cut costs nothing to the middle of their room.
    fn centre(&mut self) {
        let movable = |simplex: &Self, at: usize| simplex.in_tree[at] && simplex.cut_value(at) == 0;
        let all: Vec<usize> = (0..self.arcs.len()).filter(|at| movable(self, *at)).collect();
        for at in all.into_iter().take(self.most_looks_at_all()) {
            if let Some(entering) = self.entering(at) {
                let room = self.slack(entering);
                if room > 1 {
                    self.shift_below(at, room / 2);
                }
            }
        }
    }
}

/// A first feasible answer: every node as low as its predecessors allow.
fn longest_paths(count: usize, arcs: &[Arc], incident: &[Vec<usize>]) -> Vec<i64> {
    let mut waiting = vec![0; count];
    for arc in arcs {
        waiting[arc.head] += 1;
    }
    let mut ready: Vec<usize> = (0..count).filter(|node| waiting[*node] == 0).collect();
    let mut positions = vec![0; count];
    while let Some(node) = ready.pop() {
        for arc in incident[node].iter().map(|at| arcs[*at]).filter(|arc| arc.tail == node) {
            positions[arc.head] = positions[arc.head].max(positions[node] + arc.min_length);
            waiting[arc.head] -= 1;
            if waiting[arc.head] == 0 {
                ready.push(arc.head);
            }
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arc(tail: usize, head: usize, min_length: i64, weight: i64) -> Arc {
        Arc { tail, head, min_length, weight }
    }

    #[test]
    fn the_example_of_the_paper() {
        // Figure 2-3: a→b→c→d→h, a→e→g→h, a→f→g. Two arcs lead to g and one away: g moves up.
        let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7];
        let arcs = [(a, b), (b, c), (c, d), (d, h), (a, e), (a, f), (e, g), (f, g), (g, h)]
            .map(|(tail, head)| arc(tail, head, 1, 1));
        assert_eq!(solve(8, &arcs, Slack::Keep), [0, 1, 2, 3, 1, 1, 2, 4]);
    }

    #[test]
    fn heavy_arcs_are_short_and_parts_are_separate() {
        let arcs = [arc(0, 1, 1, 1), arc(1, 3, 1, 1), arc(0, 2, 1, 1), arc(2, 3, 1, 9), arc(4, 5, 7, 1)];
        let ranks = solve(6, &arcs, Slack::Keep);
        assert!(arcs.iter().all(|arc| ranks[arc.head] - ranks[arc.tail] >= arc.min_length));
        assert_eq!(ranks[3] - ranks[2], 1);
        assert_eq!(ranks[5] - ranks[4], 7);
    }

    #[test]
    fn free_nodes_are_centred() {
        // 1 lies anywhere between 0 and 2, which are 10 apart.
        let arcs = [arc(0, 2, 10, 5), arc(0, 1, 0, 1), arc(1, 2, 0, 1)];
        assert_eq!(solve(3, &arcs, Slack::Centre), [0, 5, 10]);
    }
}
