//! Frames that a script engine declares: they continue the native stack with functions and lines of the
//! script.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};

use heapwise_format::segment::{Counter, NodePlace};

use crate::atomics::{AtomicPtr, Ordering};
use crate::segment;
use crate::sites::{stack_tree, strings};

/// Deepest script stack that is recorded; of deeper ones the outermost frames.
const DEPTH: usize = 64;

/// `struct heapwise_frame`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct NamedFrame {
    function: *const c_char,
    file: *const c_char,
    line: c_int,
}

/// `heapwise_provider`.
pub(crate) type Provider = unsafe extern "C" fn(*mut c_void, *mut NamedFrame, c_int) -> c_int;

static PROVIDER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

pub(crate) fn set_provider(provider: Option<Provider>) {
    let address = provider.map_or(core::ptr::null_mut(), |provider| provider as *mut ());
    PROVIDER.store(address, Ordering::Release);
}

#[derive(Clone, Copy)]
struct Frame {
    string: u32,
    line: u32,
}

/// What a thread's script engine told. Zeroed memory is valid: nothing.
pub(crate) struct Script {
    /// Frames entered and not left; those beyond [`DEPTH`] are only counted.
    depth: u32,
    frames: [Frame; DEPTH],
    /// What the provider is asked about; null: not to be asked.
    coroutine: *mut c_void,
}

impl Script {
    pub(crate) fn enter(&mut self, file: &CStr, function: &CStr, line: u32) {
        if let Some(frame) = self.frames.get_mut(self.depth as usize) {
            let string = intern(function, file);
            *frame = Frame { string, line };
        }
        self.depth = self.depth.saturating_add(1);
    }

    pub(crate) fn set_line(&mut self, line: u32) {
        let innermost = (self.depth as usize).checked_sub(1);
        if let Some(frame) = innermost.and_then(|index| self.frames.get_mut(index)) {
            frame.line = line;
        }
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    pub(crate) fn switch(&mut self, coroutine: *mut c_void) {
        self.coroutine = coroutine;
    }

    /// The node of the whole stack, when `native` is the node of its native part.
    #[inline(always)]
    pub(crate) fn above(&self, native: u32) -> u32 {
        if self.declares() { self.declared_above(native) } else { native }
    }

    /// Whether there may be frames above the native ones.
    #[inline(always)]
    pub(crate) fn declares(&self) -> bool {
        u64::from(self.depth) | self.coroutine as u64 != 0
    }

    #[cold]
    fn declared_above(&self, native: u32) -> u32 {
        let declared = self.frames.iter().take(self.depth as usize);
        let node = declared.fold(native, |node, frame| child(node, *frame));
        self.provided_above(node)
    }

    fn provided_above(&self, node: u32) -> u32 {
        let provider = PROVIDER.load(Ordering::Acquire);
        if self.coroutine.is_null() || provider.is_null() {
            return node;
        }
        // SAFETY: stored by `set_provider`.
        let provider: Provider = unsafe { core::mem::transmute(provider) };
        let nothing = NamedFrame { function: core::ptr::null(), file: core::ptr::null(), line: 0 };
        let mut frames = [nothing; DEPTH];
        // SAFETY: the contract of heapwise.h: at most `DEPTH` frames are written.
        let count = unsafe { provider(self.coroutine, frames.as_mut_ptr(), DEPTH as c_int) };
        let frames = frames.iter().take(usize::try_from(count).unwrap_or(0)).rev();
        frames.fold(node, |node, named| {
            let string = intern(text(&named.function), text(&named.file));
            child(node, Frame { string, line: u32::try_from(named.line).unwrap_or(0) })
        })
    }
}

/// A null string is an empty one.
pub(crate) fn text(string: &*const c_char) -> &CStr {
    // SAFETY: strings of heapwise.h are NUL-terminated and live until the call returns.
    if string.is_null() { c"" } else { unsafe { CStr::from_ptr(*string) } }
}

fn intern(function: &CStr, file: &CStr) -> u32 {
    strings::intern(function.to_bytes(), file.to_bytes()).unwrap_or_else(|| {
        segment::count(Counter::LostStrings);
        strings::OUT_OF_LABELS
    })
}

fn child(parent: u32, frame: Frame) -> u32 {
    let place = NodePlace::Declared { string: frame.string, line: frame.line };
    stack_tree::child(parent, place.encode(), 0).unwrap_or(stack_tree::OUT_OF_STACKS)
}
