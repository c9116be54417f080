//! The unwinder seen from outside, for `tests/` and `benches/unwind`: a segment of this process's
//! own, an entry point that hands over the registers as a hook's stub does, and the stacks read
//! back.
#![allow(unsafe_code)]

use core::arch::naked_asm;
use core::ffi::c_void;

use heapwise_format::segment::{Counter, Module, NodePlace, SectionKind};

use crate::atomics::Ordering::Relaxed;
use crate::session::Session;
use crate::sites::stack_tree;
use crate::unwind::{CachedStack, NativeFrames, NativeStack};
use crate::{config, modules, unwind};

/// The caller's registers at the entry of [`hook`].
#[derive(Debug, Clone, Copy)]
pub struct Entry(unwind::Entry);

/// A captured stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// Its node.
    pub node: u32,
    /// Cut at the depth limit.
    pub truncated: bool,
    /// Ends in, or passed through, code without unwind information.
    pub broken: bool,
}

impl Captured {
    fn new<Name>(captured: unwind::Captured<Name>, node: u32) -> Self {
        Self { node, truncated: captured.truncated, broken: captured.broken }
    }
}

/// Reads options as at the start, both grammars, and discards them; for `fuzz/`.
pub fn read_options(text: &[u8]) {
    config::rehearse(text);
}

/// A session of its own, with a segment in memory; it is never released.
#[derive(Clone, Copy)]
pub struct TestProbe(&'static Session);

/// The function that [`hook`] calls.
pub type Body = unsafe extern "C" fn(context: *mut c_void, entry: &Entry) -> i64;

/// Calls `body` as a hook would be: with the registers of the caller, from a frame that is not
/// there.
///
/// # Safety
/// `body` may be called with `context`.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn hook(context: *mut c_void, body: Body) -> i64 {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 40",
        ".cfi_adjust_cfa_offset 40",
        "mov rax, [rsp + 40]",
        "mov [rsp], rax",
        "lea rax, [rsp + 48]",
        "mov [rsp + 8], rax",
        "mov [rsp + 16], rbp",
        "mov rax, rsi",
        "mov rsi, rsp",
        "call rax",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls `body` as a hook would be: with the registers of the caller, from a frame that is not
/// there.
///
/// # Safety
/// `body` may be called with `context`.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn hook(context: *mut c_void, body: Body) -> i64 {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset 29, -48",
        ".cfi_offset 30, -40",
        "add x9, sp, #48",
        "stp x30, x9, [sp, #16]",
        "str x29, [sp, #32]",
        "mov x9, x1",
        "add x1, sp, #16",
        "blr x9",
        "ldp x29, x30, [sp], #48",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore 29",
        ".cfi_restore 30",
        "ret",
        ".cfi_endproc",
    )
}

impl TestProbe {
    /// `None` without memory.
    #[must_use]
    pub fn start() -> Option<TestProbe> {
        modules::find_loader();
        Session::for_tests().map(TestProbe)
    }

    /// Captures by a full walk.
    #[must_use]
    pub fn capture_plain(self, own: &mut OwnStack, entry: &Entry, max_depth: u32) -> Captured {
        let captured = unwind::capture_plain(self.0, &mut own.0, &entry.0, max_depth);
        Captured::new(captured, captured.name)
    }

    /// Captures through a memo.
    #[inline(always)]
    #[must_use]
    pub fn capture(self, memo: &mut Memo, entry: &Entry, max_depth: u32) -> Captured {
        let generation = self.0.fork.generation();
        if memo.generation != generation {
            memo.generation = generation;
            memo.cache.clear();
        }
        let cached = unwind::find_cached(self.0, &mut memo.cache, &mut memo.stack, entry.0, max_depth);
        let cached = cached.map(CachedStack::id);
        let captured = match cached {
            Some(name) => unwind::Captured { name, truncated: false, broken: false },
            None => unwind::capture(self.0, &mut memo.stack, &entry.0, max_depth),
        };
        if cached.is_none() && !captured.truncated {
            unwind::cache_last(self.0, &mut memo.cache, &mut memo.stack, captured.name, None);
        }
        let id = captured.name;
        let is_captured = cached.is_none();
        let mut stack = NativeStack { entry: &entry.0, id, memo: Some(&mut memo.stack), is_captured };
        let node = stack.node(self.0);
        if self.0.unwind.names_by_hash() {
            stack.update(self.0, &mut memo.frames);
        }
        Captured::new(captured, node)
    }

    /// Names stacks by their hashes from now on, as beside CPython.
    pub fn name_by_hash(self) {
        self.0.unwind.name_by_hash();
    }

    /// Compares every memoised stack with a full walk; aborts on a difference.
    pub fn set_paranoid(self, paranoid: bool) {
        self.0.unwind.set_paranoid(paranoid);
        self.0.fork.change_generation();
    }

    /// The places of a stack from the youngest on.
    pub fn places(self, node: u32) -> impl Iterator<Item = NodePlace> {
        let read = move |id| stack_tree::node(self.0, id);
        let nodes = core::iter::successors(read(node), move |node| read(node.parent));
        nodes.map(|node| NodePlace::decode(node.place))
    }

    /// The module of a stack's youngest frame.
    #[must_use]
    pub fn module_of(self, node: u32) -> Option<Module> {
        let index = stack_tree::node(self.0, node)?.module.checked_sub(1)?;
        self.0.segment.read(SectionKind::Modules, u64::from(index))
    }

    /// A counter of the segment.
    #[must_use]
    pub fn counter(self, counter: Counter) -> u64 {
        self.0.segment.counter(counter).load(Relaxed)
    }

    /// Effect of the `dlclose` hook after the real call.
    pub fn closed(self) {
        modules::generation_changed(self.0);
    }
}

/// A thread's last stack and its stack cache. Zeroed memory is valid.
pub struct Memo {
    stack: unwind::Memo,
    cache: unwind::StackCache,
    /// The native frames of the last stack, where stacks are named by their hashes.
    frames: NativeFrames,
    /// Under which they were filled.
    generation: u64,
}

impl Memo {
    /// As after a stack that cannot be memoised.
    pub fn pause(&mut self) {
        self.stack.pause();
    }

    /// The places of the last stack from the youngest on, where stacks are named by their hashes.
    pub fn places(&self) -> impl Iterator<Item = NodePlace> {
        self.frames.get().iter().rev().map(|frame| NodePlace::decode(frame.place))
    }
}

/// Cached bounds of a thread's own stack.
#[derive(Debug, Default)]
pub struct OwnStack(unwind::OwnStack);
