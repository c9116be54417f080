//! Call stacks as a parent-linked prefix tree in columns.
//!
//! Invariant: a parent precedes its children, so one forward pass visits callers before callees
//! and one backward pass sums callees into callers.

use crate::child_table::ChildTable;
use crate::{LocationId, StackId};

/// All stacks of a profile. A stack is named by its leaf node.
#[derive(Debug, Clone)]
pub struct StackTable {
    /// Its root is not a stack; stack `n` is node `n + 1`.
    children: ChildTable<LocationId>,
    /// By stack: node of the caller, 0 for none.
    parents: Vec<u32>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self { children: ChildTable::new(LocationId(u32::MAX)), parents: Vec::new() }
    }
}

impl StackTable {
    /// The node for `location` called from `parent` (`None`: a root).
    pub fn child(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        let parent = parent.map_or(0, |parent| parent.0 + 1);
        let node = self.children.child(parent, location);
        if node as usize > self.parents.len() {
            self.parents.push(parent);
        }
        StackId(node - 1)
    }

    /// Makes room for `nodes` more nodes at once.
    pub fn reserve(&mut self, nodes: usize) {
        self.parents.reserve(nodes);
        self.children.reserve(nodes);
    }

    /// Interns a whole stack given from root to leaf; `None` for an empty one.
    pub fn intern(&mut self, root_to_leaf: impl IntoIterator<Item = LocationId>) -> Option<StackId> {
        root_to_leaf.into_iter().fold(None, |parent, location| Some(self.child(parent, location)))
    }

    /// The caller of a node.
    #[must_use]
    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        self.parents[stack.index()].checked_sub(1).map(StackId)
    }

    /// The code location of a node.
    #[must_use]
    pub fn location(&self, stack: StackId) -> LocationId {
        self.children.key(stack.0 + 1)
    }

    /// The nodes of a stack from leaf to root.
    pub fn leaf_to_root(&self, stack: StackId) -> impl Iterator<Item = StackId> + '_ {
        std::iter::successors(Some(stack), |node| self.parent(*node))
    }

    /// All nodes, callers before callees.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = StackId> + use<> {
        (0..self.len()).map(StackId::new)
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_precede_children_and_prefixes_are_shared() {
        let mut table = StackTable::default();
        let [main, left, right] = [0, 1, 2].map(LocationId);
        let a = table.intern([main, left]).unwrap();
        let b = table.intern([main, right]).unwrap();
        assert_eq!(table.intern([main, left]), Some(a));
        assert_eq!(table.parent(a), table.parent(b));
        assert_eq!(table.len(), 3);
        for node in (0..table.len()).map(StackId::new) {
            assert!(table.parent(node).is_none_or(|parent| parent < node));
        }
    }
}
