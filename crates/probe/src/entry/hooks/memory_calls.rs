//! `madvise` with an advice that returns memory, and `memfd_create`: each call that succeeds is
//! recorded, in every mode that records. Calls of the allocator whose blocks are recorded have no
//! stack.
//!
//! `posix_madvise` is not hooked: glibc ignores `POSIX_MADV_DONTNEED`.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_uint, c_void};

use heapwise_format::segment::{CallKind, Memfd};

use super::Hook;
use super::mappings::end_of;
use super::resolve::real;
use crate::control::Activity;
use crate::inside::{Inside, enter, nested};
use crate::live::memory_calls;
use crate::unwind::Entry;
use crate::{hooks, record, sys};

/// `MADV_DONTNEED` for locked pages too (Linux 5.18).
const DONTNEED_LOCKED: c_int = 24;

/// The kind of a call with this advice; `None` for an advice that returns no memory.
fn kind_of(advice: c_int) -> Option<CallKind> {
    match advice {
        libc::MADV_DONTNEED | DONTNEED_LOCKED => Some(CallKind::DontNeed),
        libc::MADV_FREE => Some(CallKind::Free),
        libc::MADV_REMOVE => Some(CallKind::Remove),
        _ => None,
    }
}

/// Enters while the probe records; a call in a signal handler that interrupted the probe is
/// counted as lost.
fn enter_to_record() -> Option<Inside> {
    let inside = enter();
    if inside.is_none()
        && let Some(session) = nested()
    {
        memory_calls::lose(&session);
    }
    inside.filter(|inside| inside.control.activity() != Activity::Idle)
}

/// The stack of a call; 0 for the allocator.
fn node_of(inside: &mut Inside, entry: &Entry) -> u32 {
    if hooks::is_nested_call(entry.pc) { 0 } else { record::capture_shared(inside, entry).name }
}

/// Records a call of `madvise` that succeeded.
pub(super) fn advised(bytes: usize, advice: c_int, entry: &Entry) {
    let Some(kind) = kind_of(advice) else { return };
    let Some(mut inside) = enter_to_record() else { return };
    let node = node_of(&mut inside, entry);
    memory_calls::add(&inside, kind, node, end_of(0, bytes as u64), inside.segment.age_ms());
}

/// Records a memfd.
pub(super) fn created(file: c_int, entry: &Entry) {
    let Some(mut inside) = enter_to_record() else { return };
    let node = node_of(&mut inside, entry);
    let time_ms = inside.segment.age_ms();
    memory_calls::add(&inside, CallKind::MemfdCreate, node, 0, time_ms);
    if let Some(inode) = sys::inode(file) {
        memory_calls::note_memfd(&inside, Memfd { inode, node, time_ms });
    }
}

pub(super) unsafe extern "C" fn madvise(
    address: *mut c_void,
    bytes: usize,
    advice: c_int,
    entry: &Entry,
) -> c_int {
    type Madvise = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
    // SAFETY: the signature of madvise; the arguments are the program's.
    let result = unsafe { real::<Madvise>(Hook::Madvise)(address, bytes, advice) };
    if result == 0 {
        advised(bytes, advice, entry);
    }
    result
}

pub(super) unsafe extern "C" fn memfd_create(name: *const c_char, flags: c_uint, entry: &Entry) -> c_int {
    type MemfdCreate = unsafe extern "C" fn(*const c_char, c_uint) -> c_int;
    // SAFETY: the signature of memfd_create; the arguments are the program's.
    let result = unsafe { real::<MemfdCreate>(Hook::MemfdCreate)(name, flags) };
    if result >= 0 {
        created(result, entry);
    }
    result
}
