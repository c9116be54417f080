//! The hooks that are more than a stub: `realloc` and its kin, the aligned family, jemalloc's own
//! calls.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::Hook;
use super::entry_points::alignment_of_flags;
use super::resolve::real;
use crate::inside::enter;
use crate::record::usable::Family;
use crate::record::{self, Resizing};
use crate::unwind::Entry;
use crate::{arena, dump, modules};

type Pointer = *mut c_void;

/// No block exceeds the range that these bits address: a call for a larger size fails and changes
/// nothing.
const ADDRESS_BITS: u32 = 48;

/// Removes the old block from the index before the real call, because during the call another
/// thread may already get its address; inserts it again when the call failed.
fn resized(old: Pointer, size: usize, entry: &Entry, call: impl FnOnce() -> Pointer) -> Pointer {
    if size >> ADDRESS_BITS != 0 {
        return call();
    }
    if old.is_null() {
        return record::allocated(call(), size, entry);
    }
    let resizing = Resizing::start(old, entry.pc, Family::LINKED);
    let new = call();
    if !new.is_null() {
        record::resized(resizing, new, size, entry);
    } else if size == 0 {
        resizing.freed();
    } else {
        resizing.undo();
    }
    new
}

pub(super) unsafe extern "C" fn realloc(old: Pointer, size: usize, entry: &Entry) -> Pointer {
    if arena::holds(old) {
        return arena::moved(old, size);
    }
    // SAFETY: the signature of realloc; the arguments are the program's.
    resized(old, size, entry, || unsafe {
        real::<unsafe extern "C" fn(_, _) -> Pointer>(Hook::Realloc)(old, size)
    })
}

pub(super) unsafe extern "C" fn reallocarray(
    old: Pointer,
    count: usize,
    size: usize,
    entry: &Entry,
) -> Pointer {
    let bytes = count.checked_mul(size);
    if arena::holds(old) {
        return bytes.map_or(core::ptr::null_mut(), |bytes| arena::moved(old, bytes));
    }
    // SAFETY: the signature of reallocarray.
    resized(old, bytes.unwrap_or(usize::MAX), entry, || unsafe {
        real::<unsafe extern "C" fn(_, _, _) -> Pointer>(Hook::Reallocarray)(old, count, size)
    })
}

pub(super) unsafe extern "C" fn posix_memalign(
    out: *mut Pointer,
    alignment: usize,
    size: usize,
    entry: &Entry,
) -> c_int {
    // SAFETY: the signature of posix_memalign.
    let result =
        unsafe { real::<unsafe extern "C" fn(_, _, _) -> c_int>(Hook::PosixMemalign)(out, alignment, size) };
    if result == 0 {
        // SAFETY: on success the allocator stored the block there.
        record::allocated_aligned(unsafe { *out }, size, entry);
    }
    result
}

fn aligned(hook: Hook, alignment: usize, size: usize, entry: &Entry) -> Pointer {
    // SAFETY: the signature of memalign and aligned_alloc.
    let block = unsafe { real::<unsafe extern "C" fn(_, _) -> Pointer>(hook)(alignment, size) };
    record::allocated_aligned(block, size, entry)
}

pub(super) unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize, entry: &Entry) -> Pointer {
    aligned(Hook::AlignedAlloc, alignment, size, entry)
}

pub(super) unsafe extern "C" fn memalign(alignment: usize, size: usize, entry: &Entry) -> Pointer {
    aligned(Hook::Memalign, alignment, size, entry)
}

fn paged(hook: Hook, size: usize, entry: &Entry) -> Pointer {
    // SAFETY: the signature of valloc and pvalloc.
    let block = unsafe { real::<unsafe extern "C" fn(_) -> Pointer>(hook)(size) };
    record::allocated_aligned(block, size, entry)
}

pub(super) unsafe extern "C" fn valloc(size: usize, entry: &Entry) -> Pointer {
    paged(Hook::Valloc, size, entry)
}

pub(super) unsafe extern "C" fn pvalloc(size: usize, entry: &Entry) -> Pointer {
    paged(Hook::Pvalloc, size, entry)
}

pub(super) unsafe extern "C" fn malloc_usable_size(block: Pointer, _entry: &Entry) -> usize {
    if arena::holds(block) {
        return arena::size_of(block);
    }
    // SAFETY: the signature of malloc_usable_size.
    unsafe { real::<unsafe extern "C" fn(_) -> usize>(Hook::MallocUsableSize)(block) }
}

pub(super) unsafe extern "C" fn mallocx(size: usize, flags: c_int, entry: &Entry) -> Pointer {
    // SAFETY: the signature of mallocx.
    let block = unsafe { real::<unsafe extern "C" fn(_, _) -> Pointer>(Hook::Mallocx)(size, flags) };
    match alignment_of_flags(flags as usize) {
        0 => record::allocated(block, size, entry),
        _ => record::allocated_aligned(block, size, entry),
    }
}

pub(super) unsafe extern "C" fn rallocx(old: Pointer, size: usize, flags: c_int, entry: &Entry) -> Pointer {
    // SAFETY: the signature of rallocx.
    resized(old, size, entry, || unsafe {
        real::<unsafe extern "C" fn(_, _, _) -> Pointer>(Hook::Rallocx)(old, size, flags)
    })
}

/// Resizes in place, if at all: the result is the usable size afterwards.
pub(super) unsafe extern "C" fn xallocx(
    block: Pointer,
    size: usize,
    extra: usize,
    flags: c_int,
    entry: &Entry,
) -> usize {
    let resizing = Resizing::start(block, entry.pc, Family::LINKED);
    // SAFETY: the signature of xallocx.
    let usable = unsafe {
        real::<unsafe extern "C" fn(_, _, _, _) -> usize>(Hook::Xallocx)(block, size, extra, flags)
    };
    if usable < size {
        resizing.undo();
        return usable;
    }
    let asked = usable.min(size.saturating_add(extra));
    record::resized(resizing, block, asked, entry);
    usable
}

pub(super) unsafe extern "C" fn dlclose(handle: Pointer, _entry: &Entry) -> c_int {
    // SAFETY: the signature of dlclose.
    let result = unsafe { real::<unsafe extern "C" fn(_) -> c_int>(Hook::Dlclose)(handle) };
    if let Some(inside) = enter() {
        modules::generation_changed(&inside);
    }
    result
}

/// libcs before 2.41 let two threads end the process at once, and the second truncates the first
/// one's output.
pub(super) unsafe extern "C" fn exit(status: c_int, _entry: &Entry) {
    dump::before_exit();
    // SAFETY: the signature of exit, which does not return.
    unsafe { real::<unsafe extern "C" fn(c_int)>(Hook::Exit)(status) };
}

/// A forked child gets its own segment while it has a single thread: several threads would find the
/// parent's segment at once, and one of them would unmap it while the others use it.
pub(super) extern "C" fn before_thread(hook: usize) -> *mut () {
    let real = super::resolve(hook);
    drop(enter());
    real
}

/// Bytes the allocator reserved for `block`.
pub(crate) fn usable_size(block: Pointer) -> usize {
    // SAFETY: `block` is a live block of the allocator underneath.
    unsafe { real::<unsafe extern "C" fn(_) -> usize>(Hook::MallocUsableSize)(block) }
}
