//! Stacks of native frames and frames of a runtime: the calling thread's cache of them, and the
//! buffer in which one is put together.

use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::{CachedTally, TallyRef};
use crate::unwind::NativeId;
pub(super) use crate::unwind::mixed;

/// Deepest stack of a runtime; of deeper ones the innermost frames.
pub(super) const DEPTH: usize = 1024;
/// Cached stacks, as a power of two. A request of a Flask server has about 1 500 stacks.
const BITS: u32 = 13;
/// Most frames of a woven stack.
const MOST: usize = 2 * DEPTH;
/// In the place of the hash of the runtime's frames where there are none.
const NO_FRAMES: u64 = 0;

/// A stack of native frames and frames of the runtime.
#[derive(Clone, Copy)]
struct Cached {
    /// Of both, see [`key`].
    key: u64,
    /// The calling thread's tally of the stack, where every block is recorded.
    tally: CachedTally,
    node: u32,
}

const NOTHING: Cached = Cached { key: 0, tally: CachedTally::NONE, node: 0 };

/// A frame in the form that the stack tree stores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) place: u64,
    pub(super) module: u32,
}

/// Woven stacks of a thread. Zeroed memory is valid: none.
pub(super) struct Woven {
    cached: [Cached; 1 << BITS],
    is_used: bool,
    /// The key of the last stack.
    last: u64,
    /// The session's generation that the cached stacks belong to.
    generation: u64,
    /// The stack that is woven, the innermost frame first.
    frames: [Frame; MOST],
    len: usize,
    pub(super) path: Path,
}

/// The stack that was woven last, the outermost frame first. Zeroed memory is valid: none.
pub(super) struct Path {
    interned: [Interned; MOST],
    len: usize,
}

/// A frame of the stack that was woven last, and its node.
#[derive(Clone, Copy)]
struct Interned {
    frame: Frame,
    node: u32,
}

/// The key of a stack in the cache, of its native frames and the hash of the runtime's. A stack
/// without readable frames of the runtime has a key of its own.
#[inline(always)]
pub(super) fn key(hash: Option<u64>, native: NativeId) -> u64 {
    mixed(hash.unwrap_or(NO_FRAMES), native.word()).max(1)
}

/// The two places where a stack may be.
#[inline(always)]
fn slots(key: u64) -> [usize; 2] {
    let first = (key >> (64 - BITS)) as usize;
    [first, first ^ 1]
}

impl Woven {
    #[inline(always)]
    fn slot_of(&self, key: u64) -> Option<usize> {
        let is_it = |slot: &usize| self.cached.get(*slot).is_some_and(|cached| cached.key == key);
        slots(key).into_iter().find(is_it)
    }

    /// The calling thread's tally of a stack, if it is cached.
    #[inline(always)]
    pub(super) fn tally(&self, key: u64) -> Option<&CachedTally> {
        self.cached.get(self.slot_of(key)?).map(|cached| &cached.tally)
    }

    /// The node of a stack, if it is cached. It is the last stack from now on.
    pub(super) fn find(&mut self, key: u64) -> Option<u32> {
        self.last = key;
        self.cached.get(self.slot_of(key)?).map(|cached| cached.node)
    }

    /// Caches the node of a stack, and returns it. The stack that was in its place moves to the
    /// other one.
    pub(super) fn insert(&mut self, key: u64, node: u32) -> u32 {
        if let Ok([first, second]) = self.cached.get_disjoint_mut(slots(key)) {
            *second = core::mem::replace(first, Cached { key, tally: CachedTally::NONE, node });
            self.is_used = true;
        }
        node
    }

    /// Empties the buffer.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Puts the next frame outwards into the buffer.
    pub(super) fn put(&mut self, frame: Frame) {
        if let Some(place) = self.frames.get_mut(self.len) {
            *place = frame;
            self.len += 1;
        }
    }

    /// The node of the stack in the buffer.
    pub(super) fn intern(&mut self, session: &Session) -> u32 {
        let mut path = self.path.start(0);
        let frames = self.frames.get(..self.len).unwrap_or(&[]);
        frames.iter().rev().for_each(|frame| path.push(session, *frame));
        path.end()
    }

    /// Caches the tally of the last stack, in which a block of `size` bytes was counted.
    pub(super) fn cache_tally(&mut self, session: &Session, tally: TallyRef, size: u64) {
        if let Some(cached) = self.slot_of(self.last).and_then(|slot| self.cached.get_mut(slot)) {
            cached.tally.widen(session, tally, size);
        }
    }

    /// Drops the cached stacks of another generation: something changed that nodes or tallies
    /// depend on. A thread that continues with the state of an ended one keeps them. Returns
    /// whether stacks were dropped.
    pub(super) fn validate(&mut self, generation: u64) -> bool {
        if self.generation == generation {
            return false;
        }
        let was_used = self.is_used;
        if was_used {
            self.cached.fill(NOTHING);
        }
        (self.is_used, self.generation) = (false, generation);
        self.path.len = 0;
        was_used
    }
}

impl Path {
    /// Frames of the stack that was woven last.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Starts another stack, whose outermost `kept` frames are those of the last one.
    pub(super) fn start(&mut self, kept: usize) -> Growing<'_> {
        let last = kept.checked_sub(1).and_then(|last| self.interned.get(last));
        let node = Some(last.map_or(stack_tree::ROOT, |interned| interned.node));
        let common = core::mem::take(&mut self.len);
        Growing { path: self, node, len: kept, common }
    }
}

/// A path whose next frames are pushed.
pub(super) struct Growing<'a> {
    path: &'a mut Path,
    /// The innermost frame; `None` when there is no room for it.
    node: Option<u32>,
    len: usize,
    /// Frames that are not known to differ from the last stack.
    common: usize,
}

impl Growing<'_> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds the next frame inwards. Frames that the last stack has too have the same nodes.
    pub(super) fn push(&mut self, session: &Session, frame: Frame) {
        let (Some(node), Some(interned)) = (self.node, self.path.interned.get_mut(self.len)) else { return };
        if self.len >= self.common || interned.frame != frame {
            self.common = 0;
            self.node = stack_tree::child(session, node, frame.place, frame.module);
            *interned = Interned { frame, node: self.node.unwrap_or(stack_tree::OUT_OF_STACKS) };
        } else {
            self.node = Some(interned.node);
        }
        self.len += 1;
    }

    /// The node of the whole stack.
    pub(super) fn end(self) -> u32 {
        match self.node {
            Some(node) => {
                self.path.len = self.len;
                node
            }
            None => stack_tree::OUT_OF_STACKS,
        }
    }
}
