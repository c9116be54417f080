//! Detects calls from inside another hooked call by their return address, so that a block counts
//! once.
//!
//! A flag per thread would not do: it would also hide what a signal handler allocates while it
//! interrupts a hooked call.

use super::entry_points;
use crate::arch::words;
use crate::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::modules::Image;
use crate::symbols::{Symbol, find_next};

/// First address and length of a piece of code.
#[repr(C)]
pub(super) struct Code {
    start: AtomicU64,
    len: AtomicU64,
}

impl Code {
    pub(super) const fn none() -> Self {
        Self { start: AtomicU64::new(0), len: AtomicU64::new(0) }
    }

    fn set(&self, start: u64, len: u64) {
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.start.load(Ordering::Relaxed)) < self.len.load(Ordering::Relaxed)
    }

    /// Grows to hold `len` bytes at `start` too.
    fn extend(&self, start: u64, len: u64) {
        let (old, old_len) = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        if old_len == 0 {
            return self.set(start, len);
        }
        let first = old.min(start);
        self.set(first, (old + old_len).max(start + len) - first);
    }
}

/// Compared with every caller that is not in the stack cache, so in one cache line.
#[repr(align(64))]
struct Modules {
    /// The probe itself: a real function that a stub called ended in a jump to another hooked
    /// function.
    own: Code,
    /// An allocator that is a library of its own: some are built from their own exported functions.
    allocator: Code,
    /// Around the functions of libc and of the C++ runtime that may be built from other hooked
    /// ones. What other functions of theirs allocate counts.
    libc: Code,
    runtime: Code,
}

static MODULES: Modules =
    Modules { own: Code::none(), allocator: Code::none(), libc: Code::none(), runtime: Code::none() };
const MOST_FUNCTIONS: usize = 16;
static REGISTERED: AtomicUsize = AtomicUsize::new(0);
static FUNCTIONS_OF_LIBRARIES: [Code; MOST_FUNCTIONS] = [const { Code::none() }; MOST_FUNCTIONS];

/// Registers the code of the probe and of the allocator.
pub(super) fn register(malloc: &Symbol) {
    let own: extern "C" fn(usize) -> *mut () = super::resolve;
    register_module(&MODULES.own, own as usize as u64);
    if find_next(c"strdup").is_none_or(|found| found.object != malloc.object) {
        register_module(&MODULES.allocator, malloc.address as u64);
    }
}

fn register_module(code: &Code, address: u64) {
    if let Some(segment) = Image::find(address).and_then(|image| image.code_segment(address)) {
        code.set(segment.start, segment.end - segment.start);
    }
}

/// Registers a function that may be built from other hooked ones.
pub(super) fn register_function(function: &Symbol, of_runtime: bool) {
    let (start, len) = (function.address as u64, function.len);
    if let Some(code) = FUNCTIONS_OF_LIBRARIES.get(REGISTERED.fetch_add(1, Ordering::Relaxed)) {
        code.set(start, len);
        if of_runtime { &MODULES.runtime } else { &MODULES.libc }.extend(start, len);
    }
}

/// Whether a call that returns to `caller` is part of another one.
#[inline(always)]
pub(crate) fn is_nested_call(caller: u64) -> bool {
    MODULES.own.holds(caller) && !is_in_domain()
        || MODULES.allocator.holds(caller)
        || (MODULES.libc.holds(caller) || MODULES.runtime.holds(caller)) && is_registered(caller)
        || entry_points::is_allocator(caller)
}

/// Whether code is the probe's.
pub(crate) fn is_own_code(address: u64) -> bool {
    MODULES.own.holds(address)
}

/// Whether the call is one of a language runtime's allocator, which the probe called for the
/// runtime: a jump to a hooked function leaves the probe as its caller.
fn is_in_domain() -> bool {
    words().in_domain.load(Ordering::Relaxed) != 0
}

#[cold]
fn is_registered(caller: u64) -> bool {
    FUNCTIONS_OF_LIBRARIES.iter().any(|code| code.holds(caller))
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn code_grows_both_ways() {
        let code = Code::none();
        assert!(!code.holds(0) && !code.holds(100));
        code.extend(100, 10);
        code.extend(50, 5);
        code.extend(120, 1);
        assert!(code.holds(50) && code.holds(120) && !code.holds(49) && !code.holds(121));
    }
}
