//! Puts frames of a runtime between the native frames that run them, by addresses on the C stack.

use heapwise_format::segment::{Node, NodePlace};

use super::woven::{self, Frame, Woven};
use crate::hooks;
use crate::session::Session;
use crate::sites::stack_tree;
use crate::unwind::{NativeFrame, NativeId, NativeStack};

/// A frame of a runtime.
#[derive(Clone, Copy)]
pub(super) struct Marked {
    /// An encoded [`NodePlace`].
    pub(super) place: u64,
    /// The frame is put inside of the native frame that has this address.
    pub(super) mark: u64,
}

/// A stack into which the frames of runtimes are put, one runtime after the other.
pub(super) struct Weaving<'a, 's> {
    pub(super) session: &'a Session,
    pub(super) stack: &'a mut NativeStack<'s>,
    pub(super) woven: &'a mut Woven,
    /// The node of the stack, with the frames that were put into it already.
    pub(super) node: u32,
}

impl Weaving<'_, '_> {
    /// Puts the frames of a runtime into the stack. `hash` is that of the frames, `None` when there
    /// are none; `frames` returns them, the outermost first, where the result is not cached.
    pub(super) fn put<Frames>(&mut self, hash: Option<u64>, frames: impl FnOnce(&mut Self) -> Frames)
    where
        Frames: DoubleEndedIterator<Item = Marked>,
    {
        let key = woven::key(hash, NativeId::of_node(self.node));
        if let Some(node) = self.woven.find(key) {
            self.node = node;
            return;
        }
        if hash.is_some() {
            let frames = frames(self);
            self.node = self.collect(frames);
        }
        self.woven.insert(key, self.node);
    }

    /// The node of the stack with the frames of a runtime.
    fn collect(&mut self, frames: impl DoubleEndedIterator<Item = Marked>) -> u32 {
        let Weaving { session, stack, woven, node } = self;
        woven.clear();
        let mut weaver = Weaver { session, woven, frames: frames.rev().peekable(), base: *node };
        let mut pending: Option<NativeFrame> = None;
        stack.visit(session, &mut |frame| {
            if let Some(inner) = pending.replace(frame) {
                weaver.put(inner, frame.sp);
            }
        });
        if let Some(outermost) = pending {
            weaver.put(outermost, u64::MAX);
        }
        weaver.put_declared();
        woven.intern(session)
    }
}

/// Frames that are not put yet: the outermost ones.
struct Weaver<'a, Frames: Iterator<Item = Marked>> {
    session: &'a Session,
    woven: &'a mut Woven,
    frames: core::iter::Peekable<Frames>,
    /// The stack that may have frames of another runtime.
    base: u32,
}

impl<Frames: Iterator<Item = Marked>> Weaver<'_, Frames> {
    /// Puts a native frame, whose part of the stack ends at `end`, after the frames inside of it.
    fn put(&mut self, native: NativeFrame, end: u64) {
        while let Some(frame) = self.frames.next_if(|frame| frame.mark < end) {
            self.woven.put(Frame { place: frame.place, module: 0 });
        }
        self.put_declared();
        let frame = Frame { place: native.place, module: native.module };
        self.next_if(|base| base == frame);
        if !hooks::is_own_code(native.code) {
            self.woven.put(frame);
        }
    }

    /// Puts the next frames of other runtimes.
    fn put_declared(&mut self) {
        let is_declared = |frame: Frame| matches!(NodePlace::decode(frame.place), NodePlace::Declared { .. });
        while let Some(frame) = self.next_if(is_declared) {
            self.woven.put(frame);
        }
    }

    /// Takes the next frame of the other stack if it is wanted.
    fn next_if(&mut self, is_wanted: impl Fn(Frame) -> bool) -> Option<Frame> {
        let Node { place, module, parent } = stack_tree::node(self.session, self.base)?;
        let frame = Some(Frame { place, module }).filter(|frame| is_wanted(*frame))?;
        // A parent precedes its children, unless another process has overwritten it.
        self.base = if parent < self.base { parent } else { stack_tree::ROOT };
        Some(frame)
    }
}
