//! The children of the nodes of a growing tree, by key.
//!
//! Most nodes have a handful of children, which are found by walking their list; only the children
//! of crowded nodes are hashed. A million nodes are laid down without a million hash entries, and
//! a stack seen before is followed through memory in the order it was laid down.

use std::hash::Hash;

use foldhash::HashMap;

/// Children beyond which a node's are hashed.
const FEW: u32 = 8;
const NONE: u32 = u32::MAX;

/// Who is whose child. Node 0 is the root; keys are what tells siblings apart.
#[derive(Debug, Clone)]
pub(crate) struct Families<K> {
    members: Vec<Member<K>>,
    crowded: HashMap<(u32, K), u32>,
}

/// The links of one node, kept apart from all else so that a walk touches little memory.
#[derive(Debug, Clone, Copy)]
struct Member<K> {
    key: K,
    youngest_child: u32,
    elder_sibling: u32,
    children: u32,
}

impl<K: Copy + Eq + Hash> Families<K> {
    /// A root without children; its key is never looked at.
    pub(crate) fn new(root: K) -> Self {
        let mut families = Self { members: Vec::new(), crowded: HashMap::default() };
        families.push(root);
        families
    }

    /// Makes room for this many more nodes.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.members.reserve(more);
    }

    /// What a node is to its parent.
    pub(crate) fn key(&self, node: u32) -> K {
        self.members[node as usize].key
    }

    /// The child of `parent` with this key; a new one is the last of all nodes.
    pub(crate) fn child(&mut self, parent: u32, key: K) -> u32 {
        let known = if self.members[parent as usize].children > FEW {
            self.crowded.get(&(parent, key)).copied()
        } else {
            self.children(parent).find(|child| self.key(*child) == key)
        };
        known.unwrap_or_else(|| self.add(parent, key))
    }

    fn children(&self, parent: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |node: u32| (node != NONE).then_some(node);
        std::iter::successors(some(self.members[parent as usize].youngest_child), move |child| {
            some(self.members[*child as usize].elder_sibling)
        })
    }

    fn add(&mut self, parent: u32, key: K) -> u32 {
        let child = self.push(key);
        let member = &mut self.members[parent as usize];
        let elder = std::mem::replace(&mut member.youngest_child, child);
        member.children += 1;
        let children = member.children;
        self.members[child as usize].elder_sibling = elder;
        if children == FEW + 1 {
            let all: Vec<u32> = self.children(parent).collect();
            self.crowded
                .extend(all.into_iter().map(|child| ((parent, self.members[child as usize].key), child)));
        } else if children > FEW {
            self.crowded.insert((parent, key), child);
        }
        child
    }

    fn push(&mut self, key: K) -> u32 {
        self.members.push(Member { key, youngest_child: NONE, elder_sibling: NONE, children: 0 });
        u32::try_from(self.members.len() - 1).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_again_however_many_there_are() {
        let mut families = Families::new(0_u16);
        let caller = families.child(0, 7);
        let first: Vec<u32> = (0..40).map(|key| families.child(caller, key)).collect();
        let again: Vec<u32> = (0..40).map(|key| families.child(caller, key)).collect();
        assert_eq!(first, again);
        assert_eq!(families.child(0, 7), caller);
        assert_eq!(families.members.len(), 42);
        assert_eq!(families.key(first[3]), 3);
    }
}
