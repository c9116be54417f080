//! Finds CPython in the process by the symbols that it exports.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};

use heapwise_format::segment::{Runtime, RuntimeLanguage, RuntimeSupport};

use super::layout::{Layout, Unsupported};
use super::{Interpreter, Start, domains};
use crate::atomics::{AtomicBool, AtomicU64};
use crate::modules::Image;
use crate::runtimes;
use crate::runtimes::memory::word;
use crate::symbols::{self, Symbol};

/// Reads `_PyRuntime` up to here.
const RUNTIME_WORDS: usize = 128;

/// A CPython, and whether its stacks can be read.
pub(super) struct Python {
    pub(super) runtime: Runtime,
    pub(super) interpreter: Option<Interpreter>,
}

/// The CPython among the objects of the start.
pub(super) fn at_start() -> Option<Python> {
    symbols::find_next(c"PyMem_SetAllocator").and_then(|found| describe(&found, false))
}

/// The CPython that has the code at `address`, loaded later.
pub(super) fn at(address: u64) -> Option<Python> {
    let object = Image::find(address)?.link_map()?;
    describe(&symbols::find_in(object, c"PyMem_SetAllocator")?, true)
}

fn describe(set_allocator: &Symbol, is_late: bool) -> Option<Python> {
    let find = |name: &CStr| symbols::find_in(set_allocator.object, name);
    let runtime_address = find(c"_PyRuntime")?.address as u64;
    let (major, minor) = version(&find)?;
    let of = |support| Runtime { language: RuntimeLanguage::Python, major, minor, support };
    let runtime_word = |index: usize| match index < RUNTIME_WORDS {
        // SAFETY: `_PyRuntime` is larger than that in every version that describes itself.
        true => unsafe { word(runtime_address + index as u64 * 8) },
        false => u64::MAX,
    };
    let layout = match Layout::of(minor, runtime_word) {
        Ok(layout) if major == 3 => layout,
        Err(Unsupported::FreeThreaded) => {
            return Some(Python { runtime: of(RuntimeSupport::FreeThreaded), interpreter: None });
        }
        _ => return Some(Python { runtime: of(RuntimeSupport::UnknownVersion), interpreter: None }),
    };
    let code = Image::find(set_allocator.address as u64)?.code_segment(set_allocator.address as u64)?;
    let function = |name: &CStr| find(name).map(|found| found.address);
    let unchecked =
        function(c"PyThreadState_GetUnchecked").or_else(|| function(c"_PyThreadState_UncheckedGet"));
    let eval = find(c"_PyEval_EvalFrameDefault").filter(|_| minor < 10);
    // SAFETY: the signatures of these functions in CPython's headers.
    let interpreter = unsafe {
        Interpreter {
            layout,
            runtime: runtime_address,
            unchecked: core::mem::transmute::<*mut (), super::Getter>(unchecked?),
            this: core::mem::transmute::<*mut (), super::Getter>(function(c"PyGILState_GetThisThreadState")?),
            get_allocator: core::mem::transmute::<*mut (), domains::Access>(function(c"PyMem_GetAllocator")?),
            set_allocator: core::mem::transmute::<*mut (), domains::Access>(set_allocator.address),
            eval_loop: eval.map(|found| found.address as u64..found.address as u64 + found.len),
            code: code.start..code.end,
            start: Start { is_late, is_running: is_late || is_initialized(&find) },
            originals: domains::Originals::new(),
            hooked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            ending_thread: AtomicU64::new(0),
        }
    };
    let support = match runtimes::records_objects() {
        true => RuntimeSupport::Followed,
        false => RuntimeSupport::LinesOnly,
    };
    Some(Python { runtime: of(support), interpreter: Some(interpreter) })
}

/// Whether the interpreter runs already: the probe was loaded into a running process.
fn is_initialized(find: &impl Fn(&CStr) -> Option<Symbol>) -> bool {
    find(c"Py_IsInitialized").is_none_or(|found| {
        // SAFETY: its signature; it reads a word of the runtime.
        let function: unsafe extern "C" fn() -> c_int = unsafe { core::mem::transmute(found.address) };
        // SAFETY: it may be called at any time.
        unsafe { function() != 0 }
    })
}

/// Major and minor version.
fn version(find: &impl Fn(&CStr) -> Option<Symbol>) -> Option<(u8, u8)> {
    if let Some(number) = find(c"Py_Version") {
        // SAFETY: a constant of 32 bits.
        let number = unsafe { *number.address.cast::<u32>() };
        return Some(((number >> 24) as u8, (number >> 16) as u8));
    }
    let function = find(c"Py_GetVersion")?.address.cast::<c_void>();
    // SAFETY: its signature; it may be called before the interpreter is initialized.
    let function: unsafe extern "C" fn() -> *const c_char = unsafe { core::mem::transmute(function) };
    // SAFETY: it returns a string of static storage.
    let text = unsafe { CStr::from_ptr(function()) }.to_bytes();
    let mut parts = text.split(|byte| !byte.is_ascii_digit());
    let mut number = || {
        let digits = parts.next()?;
        digits.iter().try_fold(0_u8, |value, digit| value.checked_mul(10)?.checked_add(digit - b'0'))
    };
    Some((number()?, number()?))
}
