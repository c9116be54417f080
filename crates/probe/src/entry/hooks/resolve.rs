//! Finding the real functions, on the first call of each.
#![allow(unsafe_code)]

use heapwise_format::segment::AllocatorKind;

use super::{DESCRIPTIONS, Fallback, Family, Hook, SLOTS, nested_calls, slot};
use crate::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::symbols::{self, find_next};

/// Bit set of the C++ operators that the allocator itself defines.
static OWN_OPERATORS: AtomicU64 = AtomicU64::new(0);
const _: () = assert!(SLOTS.len() <= 64, "one bit each in OWN_OPERATORS");
/// The object that defines `malloc`.
static ALLOCATOR: AtomicUsize = AtomicUsize::new(0);

/// Whether a hook only jumps on: a C++ operator that calls `malloc` or `free`, or another operator.
pub(super) fn passes(index: usize) -> bool {
    let is_operator = DESCRIPTIONS.get(index).is_some_and(|description| description.family == Family::Cxx);
    is_operator && OWN_OPERATORS.load(Ordering::Relaxed) >> index & 1 == 0
}

/// Whether a hook makes blocks and frees none.
pub(super) fn allocates(index: usize) -> bool {
    const MALLOC: usize = Hook::Malloc as usize;
    const CALLOC: usize = Hook::Calloc as usize;
    const FIRST_NEW: usize = Hook::New as usize;
    const LAST_NEW: usize = Hook::NewArrayAlignedNothrow as usize;
    matches!(index, MALLOC | CALLOC | FIRST_NEW..=LAST_NEW)
}

/// Whether some libc builds the function from other hooked ones (musl does).
fn may_be_composed(index: usize) -> bool {
    const COMPOSED: [Hook; 8] = [
        Hook::Calloc,
        Hook::Realloc,
        Hook::Reallocarray,
        Hook::PosixMemalign,
        Hook::AlignedAlloc,
        Hook::Memalign,
        Hook::Valloc,
        Hook::Pvalloc,
    ];
    COMPOSED.iter().any(|hook| *hook as usize == index)
}

/// Called by the `boot` stubs: the function to jump to.
pub(crate) extern "C" fn resolve(index: usize) -> *mut () {
    crate::start::ensure();
    find(index)
}

/// Finds every real function. Those that no object of the start defines are withdrawn: callers that
/// are already bound to them get the fallback, and plugins get their own definition.
pub(crate) fn resolve_all() {
    if let Some(malloc) = find_next(c"malloc") {
        ALLOCATOR.store(malloc.object as usize, Ordering::Relaxed);
        nested_calls::register(&malloc);
    }
    for index in 0..SLOTS.len() {
        find(index);
    }
    symbols::withdraw(DESCRIPTIONS.iter().map(|description| description.symbol));
}

fn find(index: usize) -> *mut () {
    let (Some(description), Some(slot_)) = (DESCRIPTIONS.get(index), SLOTS.get(index)) else {
        return core::ptr::null_mut();
    };
    let known = slot_.real();
    if known != description.boot as *mut () {
        return known;
    }
    if let Some(found) = find_next(description.symbol) {
        slot_.real.store(found.address, Ordering::Release);
        let of_runtime = description.family == Family::CxxAligned;
        if of_runtime || may_be_composed(index) {
            nested_calls::register_function(&found, of_runtime);
        }
        if found.object as usize == ALLOCATOR.load(Ordering::Relaxed) {
            OWN_OPERATORS.fetch_or(1 << index, Ordering::Relaxed);
        }
        if passes(index) {
            slot_.vector.store(found.address, Ordering::Release);
        }
        return found.address;
    }
    let fallback = match description.fallback {
        Fallback::Function(function) => function as *mut (),
        Fallback::Hook(hook) if hook as usize != index => find(hook as usize),
        Fallback::Hook(_) => return core::ptr::null_mut(),
    };
    slot_.real.store(fallback, Ordering::Release);
    fallback
}

/// The real function of `hook` as `F`, a function pointer of its signature.
///
/// # Safety
/// `F` is that signature.
#[inline(always)]
pub(super) unsafe fn real<F: Copy>(hook: Hook) -> F {
    let address = slot(hook).real();
    // SAFETY: the caller's promise; a slot is never empty.
    unsafe { core::mem::transmute_copy(&address) }
}

/// Which allocator is underneath, by the functions only it has.
pub(crate) fn allocator_kind() -> AllocatorKind {
    let allocator = ALLOCATOR.load(Ordering::Relaxed);
    let has = |name| find_next(name).is_some_and(|found| found.object as usize == allocator);
    if has(c"mallocx") || has(c"mallctl") {
        AllocatorKind::Jemalloc
    } else if has(c"mi_malloc") {
        AllocatorKind::Mimalloc
    } else if has(c"tc_malloc") || has(c"MallocExtension_Internal_GetNumericProperty") {
        AllocatorKind::Tcmalloc
    } else if has(c"gnu_get_libc_version") {
        AllocatorKind::Glibc
    } else if has(c"__musl_libc_start_main") || has(c"__libc_start_main") {
        AllocatorKind::Musl
    } else {
        AllocatorKind::Other
    }
}

/// Whether a jemalloc other than the allocator underneath may be in the process: an object exports
/// `mallctl`, or the executable has a `malloc` of its own, which bypasses the hooks.
pub(crate) fn has_other_jemalloc() -> bool {
    find_next(c"mallctl").is_some() || symbols::is_in_executable(c"malloc")
}
