//! Frames that a script engine declares: they continue the native stack with functions and lines of
//! the script.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};

use heapwise_format::segment::{Counter, NodePlace};

use crate::atomics::{AtomicPtr, Ordering};
use crate::session::Session;
use crate::sites::{stack_tree, strings};
use crate::sys::Mapping;

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

/// The program's provider. Zeroed memory is valid: none.
pub(crate) struct ProviderSlot(AtomicPtr<()>);

impl ProviderSlot {
    pub(crate) fn set(&self, provider: Option<Provider>) {
        let address = provider.map_or(core::ptr::null_mut(), |provider| provider as *mut ());
        self.0.store(address, Ordering::Release);
    }

    fn get(&self) -> Option<Provider> {
        let provider = self.0.load(Ordering::Acquire);
        // SAFETY: null, or stored by `set`: an option of a function is as large as a pointer.
        unsafe { core::mem::transmute(provider) }
    }

    /// Whether the program declares frames by a provider.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes over the provider of a forked child's parent.
    pub(crate) fn inherit(&self, parent: &ProviderSlot) {
        self.set(parent.get());
    }
}

#[derive(Clone, Copy)]
struct Frame {
    string: u32,
    line: u32,
}

/// Frames that a thread's script engine declared. Zeroed memory is valid: no frames.
#[derive(Clone, Copy)]
pub(crate) struct DeclaredFrames {
    /// Frames entered and not left; those beyond [`DEPTH`] are only counted.
    depth: u32,
    frames: [Frame; DEPTH],
    /// Argument of the provider; null: the provider is not called.
    coroutine: *mut c_void,
}

impl DeclaredFrames {
    pub(crate) fn enter(&mut self, session: &Session, file: &CStr, function: &CStr, line: u32) {
        if let Some(frame) = self.frames.get_mut(self.depth as usize) {
            let string = intern(session, function, file);
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
    pub(crate) fn above(&self, session: &Session, native: u32) -> u32 {
        if self.declares() { self.declared_above(session, native) } else { native }
    }

    /// Whether there may be frames above the native ones.
    #[inline(always)]
    pub(crate) fn declares(&self) -> bool {
        u64::from(self.depth) | self.coroutine as u64 != 0
    }

    #[cold]
    fn declared_above(&self, session: &Session, native: u32) -> u32 {
        let declared = self.frames.iter().take(self.depth as usize);
        let node = declared.fold(native, |node, frame| child(session, node, *frame));
        self.provided_above(session, node)
    }

    fn provided_above(&self, session: &Session, node: u32) -> u32 {
        let Some(provider) = session.provider.get().filter(|_| !self.coroutine.is_null()) else {
            return node;
        };
        let nothing = NamedFrame { function: core::ptr::null(), file: core::ptr::null(), line: 0 };
        let mut frames = [nothing; DEPTH];
        // SAFETY: the contract of heapwise.h: at most `DEPTH` frames are written.
        let count = unsafe { provider(self.coroutine, frames.as_mut_ptr(), DEPTH as c_int) };
        let frames = frames.iter().take(usize::try_from(count).unwrap_or(0)).rev();
        frames.fold(node, |node, named| {
            let string = intern(session, text(&named.function), text(&named.file));
            child(session, node, Frame { string, line: u32::try_from(named.line).unwrap_or(0) })
        })
    }
}

/// The declared frames of a forked child's thread on their way from the parent's segment to the
/// child's: a frame names its string by the place in the segment.
pub(crate) struct Inherited {
    script: DeclaredFrames,
    /// The string of each frame, [`PLACE_BYTES`] apart, after its length.
    names: Mapping,
}

/// Bytes of a length and a string.
const PLACE_BYTES: usize = strings::NAME_BYTES + 2;

impl Inherited {
    /// Copies what `script` declares out of the parent's segment; `None` when it declares nothing,
    /// or without memory.
    pub(crate) fn of(parent: &Session, script: &DeclaredFrames) -> Option<Self> {
        if !script.declares() {
            return None;
        }
        let mut names = Mapping::new(DEPTH * PLACE_BYTES)?;
        let frames = script.frames.iter().take(script.depth as usize);
        for (frame, place) in frames.zip(names.bytes_mut().chunks_exact_mut(PLACE_BYTES)) {
            if let Some((len, name)) = place.split_first_chunk_mut() {
                *len = (strings::copy(parent, frame.string, name).len() as u16).to_le_bytes();
            }
        }
        Some(Self { script: *script, names })
    }

    /// These frames with their names in the child's segment.
    pub(crate) fn renew(self, session: &Session) -> DeclaredFrames {
        let Self { mut script, names } = self;
        let frames = script.frames.iter_mut().take(script.depth as usize);
        for (frame, place) in frames.zip(names.bytes().chunks_exact(PLACE_BYTES)) {
            let Some((len, name)) = place.split_first_chunk() else { continue };
            let name = name.get(..usize::from(u16::from_le_bytes(*len))).unwrap_or(&[]);
            let mut parts = name.splitn(2, |byte| *byte == 0);
            let (function, file) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
            frame.string = intern_bytes(session, function, file);
        }
        script
    }
}

/// A null string is an empty one.
pub(crate) fn text(string: &*const c_char) -> &CStr {
    // SAFETY: strings of heapwise.h are NUL-terminated and live until the call returns.
    if string.is_null() { c"" } else { unsafe { CStr::from_ptr(*string) } }
}

fn intern(session: &Session, function: &CStr, file: &CStr) -> u32 {
    intern_bytes(session, function.to_bytes(), file.to_bytes())
}

/// The place of `function` and `file` in the segment.
pub(crate) fn intern_bytes(session: &Session, function: &[u8], file: &[u8]) -> u32 {
    strings::intern(session, function, file).unwrap_or_else(|| {
        session.segment.count(Counter::LostStrings);
        strings::OUT_OF_LABELS
    })
}

fn child(session: &Session, parent: u32, frame: Frame) -> u32 {
    let place = NodePlace::Declared { string: frame.string, line: frame.line };
    stack_tree::child(session, parent, place.encode(), 0).unwrap_or(stack_tree::OUT_OF_STACKS)
}
