//! The children of the nodes of a growing tree, by key.
//!
//! Most nodes have a handful of children, which are found by walking their list; only the children
//! of nodes with many children are hashed. A million nodes do not need a million hash entries, and
//! the lookup of a known stack reads memory in the order in which it was written.

use std::hash::Hash;

use foldhash::HashMap;

/// A node with more children than this has them hashed.
const FEW: u32 = 8;
const NONE: u32 = u32::MAX;

/// Nodes and their children. Node 0 is the root; siblings have different keys.
#[derive(Debug, Clone)]
pub(crate) struct ChildTable<K> {
    nodes: Vec<TrieNode<K>>,
    crowded: HashMap<(u32, K), u32>,
}

/// The links of one node and nothing else, so that a walk touches little memory.
#[derive(Debug, Clone, Copy)]
struct TrieNode<K> {
    key: K,
    youngest_child: u32,
    elder_sibling: u32,
    children: u32,
}

impl<K: Copy + Eq + Hash> ChildTable<K> {
    /// A root without children; its key is never read.
    pub(crate) fn new(root: K) -> Self {
        let mut children = Self { nodes: Vec::new(), crowded: HashMap::default() };
        children.push(root);
        children
    }

    /// Reserves memory for this many more nodes.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more);
    }

    /// The key of a node among its siblings.
    pub(crate) fn key(&self, node: u32) -> K {
        self.nodes[node as usize].key
    }

    /// The child of `parent` with this key; a new one is the last of all nodes.
    pub(crate) fn child(&mut self, parent: u32, key: K) -> u32 {
        let known = if self.nodes[parent as usize].children > FEW {
            self.crowded.get(&(parent, key)).copied()
        } else {
            self.children(parent).find(|child| self.key(*child) == key)
        };
        known.unwrap_or_else(|| self.add(parent, key))
    }

    fn children(&self, parent: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |node: u32| (node != NONE).then_some(node);
        std::iter::successors(some(self.nodes[parent as usize].youngest_child), move |child| {
            some(self.nodes[*child as usize].elder_sibling)
        })
    }

    fn add(&mut self, parent: u32, key: K) -> u32 {
        let child = self.push(key);
        let node = &mut self.nodes[parent as usize];
        let elder = std::mem::replace(&mut node.youngest_child, child);
        node.children += 1;
        let children = node.children;
        self.nodes[child as usize].elder_sibling = elder;
        if children == FEW + 1 {
            let all: Vec<u32> = self.children(parent).collect();
            self.crowded
                .extend(all.into_iter().map(|child| ((parent, self.nodes[child as usize].key), child)));
        } else if children > FEW {
            self.crowded.insert((parent, key), child);
        }
        child
    }

    fn push(&mut self, key: K) -> u32 {
        self.nodes.push(TrieNode { key, youngest_child: NONE, elder_sibling: NONE, children: 0 });
        u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_again_however_many_there_are() {
        let mut children = ChildTable::new(0_u16);
        let caller = children.child(0, 7);
        let first: Vec<u32> = (0..40).map(|key| children.child(caller, key)).collect();
        let again: Vec<u32> = (0..40).map(|key| children.child(caller, key)).collect();
        assert_eq!(first, again);
        assert_eq!(children.child(0, 7), caller);
        assert_eq!(children.nodes.len(), 42);
        assert_eq!(children.key(first[3]), 3);
    }
}
