//! The calls by which a program maps memory itself. Each is recorded, in every mode that records:
//! they are rare beside allocations.
//!
//! A range is removed before the system call that unmaps it and inserted after the call that
//! made it, because another thread may get the same addresses in between. Calls of the allocator
//! whose blocks are recorded make its capacity; they have no stack.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};

use heapwise_format::segment::{Mapping, Purpose};

use super::resolve::real;
use super::{Hook, memory_calls};
use crate::control::Activity;
use crate::inside::{Inside, enter, nested};
use crate::live::mappings;
use crate::runtimes::{self, python};
use crate::unwind::Entry;
use crate::{hooks, record, sys};

type Pointer = *mut c_void;
type Mmap = unsafe extern "C" fn(Pointer, usize, c_int, c_int, c_int, i64) -> Pointer;

/// End of a range of so many bytes: the kernel maps whole pages.
pub(super) fn end_of(start: u64, bytes: u64) -> u64 {
    let page = sys::page_bytes();
    start.saturating_add(bytes.saturating_add(page - 1) / page * page)
}

/// Records a new range.
fn mapped(start: u64, bytes: u64, purpose: Purpose, entry: &Entry) {
    let end = end_of(start, bytes);
    let Some(mut inside) = enter_or_lose() else { return };
    if inside.control.activity() == Activity::Idle {
        return mappings::remove(&inside, start, end);
    }
    let is_allocator = purpose == Purpose::Allocator || hooks::is_nested_call(entry.pc);
    let (purpose, node) = if is_allocator {
        (Purpose::Allocator, 0)
    } else {
        (purpose, record::capture_shared(&mut inside, entry).name)
    };
    let time_ms = inside.segment.age_ms();
    mappings::insert(&inside, Mapping { start, end, node, purpose: purpose as u32, count: 1, time_ms });
}

/// Enters; in a signal handler that interrupted the probe the change is dropped and counted.
fn enter_or_lose() -> Option<Inside> {
    let inside = enter();
    if inside.is_none()
        && let Some(session) = nested()
    {
        mappings::lose(&session);
    }
    inside
}

/// Before a range is unmapped.
fn unmapping(start: u64, bytes: u64) {
    if let Some(inside) = enter_or_lose() {
        mappings::remove(&inside, start, end_of(start, bytes));
    }
    runtimes::unmapping(start, bytes);
}

fn map(hook: Hook, arguments: (Pointer, usize, c_int, c_int, c_int, i64), entry: &Entry) -> Pointer {
    let (address, bytes, protection, flags, file, offset) = arguments;
    // SAFETY: the signature of mmap and mmap64; the arguments are the program's.
    let result = unsafe { real::<Mmap>(hook)(address, bytes, protection, flags, file, offset) };
    if result != libc::MAP_FAILED {
        let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
        let purpose = match purpose_of(flags) {
            Purpose::Program if is_anonymous && python::is_arena(result as u64, bytes as u64, entry.pc) => {
                Purpose::Allocator
            }
            purpose => purpose,
        };
        mapped(result as u64, bytes as u64, purpose, entry);
        if purpose == Purpose::Allocator && !runtimes::records_objects() {
            record::allocated_in_arena(result, bytes, entry);
        }
    }
    result
}

/// What the flags of `mmap` say.
fn purpose_of(flags: c_int) -> Purpose {
    let is_stack = flags & (libc::MAP_STACK | libc::MAP_GROWSDOWN) != 0;
    if is_stack { Purpose::Stack } else { Purpose::Program }
}

pub(super) unsafe extern "C" fn mmap(
    address: Pointer,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    entry: &Entry,
) -> Pointer {
    map(Hook::Mmap, (address, bytes, protection, flags, file, offset), entry)
}

pub(super) unsafe extern "C" fn mmap64(
    address: Pointer,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    entry: &Entry,
) -> Pointer {
    map(Hook::Mmap64, (address, bytes, protection, flags, file, offset), entry)
}

pub(super) unsafe extern "C" fn munmap(address: Pointer, bytes: usize, entry: &Entry) -> c_int {
    if !runtimes::records_objects() && python::arenas::hold(address as u64) {
        record::releasing_in_arena(address, entry.pc);
    }
    unmapping(address as u64, bytes as u64);
    // SAFETY: the signature of munmap.
    unsafe { real::<unsafe extern "C" fn(_, _) -> c_int>(Hook::Munmap)(address, bytes) }
}

pub(super) unsafe extern "C" fn mremap(
    old: Pointer,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    wanted: Pointer,
    entry: &Entry,
) -> Pointer {
    type Mremap = unsafe extern "C" fn(Pointer, usize, usize, c_int, Pointer) -> Pointer;
    // SAFETY: the signature of mremap, whose last argument is used with MREMAP_FIXED only.
    resized(old, old_bytes, bytes, entry, || unsafe {
        real::<Mremap>(Hook::Mremap)(old, old_bytes, bytes, flags, wanted)
    })
}

/// The mapping belongs to the last call that resized it, like a block to `realloc`.
fn resized(
    old: Pointer,
    old_bytes: usize,
    bytes: usize,
    entry: &Entry,
    call: impl FnOnce() -> Pointer,
) -> Pointer {
    let before = enter().and_then(|inside| mappings::get(&inside, old as u64));
    unmapping(old as u64, old_bytes as u64);
    let result = call();
    if result != libc::MAP_FAILED {
        let is_stack = before.is_some_and(|before| before.purpose == Purpose::Stack as u32);
        let purpose = if is_stack { Purpose::Stack } else { Purpose::Program };
        mapped(result as u64, bytes as u64, purpose, entry);
    } else if let (Some(before), Some(inside)) = (before, enter()) {
        let (start, end) = (old as u64, end_of(old as u64, old_bytes as u64));
        mappings::insert(&inside, Mapping { start, end, ..before });
    }
    result
}

/// The end of the program's data changed.
fn moved_break(before: u64, after: u64, entry: &Entry) {
    if after > before {
        mapped(before, after - before, Purpose::Program, entry);
    } else {
        unmapping(end_of(0, after), before.saturating_sub(after));
    }
}

pub(super) unsafe extern "C" fn sbrk(increment: isize, entry: &Entry) -> Pointer {
    // SAFETY: the signature of sbrk.
    let before = unsafe { real::<unsafe extern "C" fn(_) -> Pointer>(Hook::Sbrk)(increment) };
    if before as isize != -1 && increment != 0 {
        moved_break(before as u64, (before as u64).wrapping_add_signed(increment as i64), entry);
    }
    before
}

pub(super) unsafe extern "C" fn brk(address: Pointer, entry: &Entry) -> c_int {
    // SAFETY: the signature of sbrk; an increment of 0 changes nothing.
    let before = unsafe { real::<unsafe extern "C" fn(isize) -> Pointer>(Hook::Sbrk)(0) };
    // SAFETY: the signature of brk.
    let result = unsafe { real::<unsafe extern "C" fn(_) -> c_int>(Hook::Brk)(address) };
    if result == 0 && before as isize != -1 && before != address {
        moved_break(before as u64, address as u64, entry);
    }
    result
}

pub(super) unsafe extern "C" fn shmat(id: c_int, wanted: Pointer, flags: c_int, entry: &Entry) -> Pointer {
    // SAFETY: the signature of shmat.
    let result = unsafe { real::<unsafe extern "C" fn(_, _, _) -> Pointer>(Hook::Shmat)(id, wanted, flags) };
    if result as isize != -1
        && let Some(bytes) = sys::shared_memory_bytes(id)
    {
        mapped(result as u64, bytes, Purpose::Attached, entry);
    }
    result
}

pub(super) unsafe extern "C" fn shmdt(address: Pointer, _: &Entry) -> c_int {
    let range = enter().and_then(|inside| mappings::get(&inside, address as u64));
    if let Some(range) = range.filter(|range| range.purpose == Purpose::Attached as u32) {
        unmapping(range.start, range.end - range.start);
    }
    // SAFETY: the signature of shmdt.
    unsafe { real::<unsafe extern "C" fn(_) -> c_int>(Hook::Shmdt)(address) }
}

/// The calls above and those of [`memory_calls`], made by `syscall`: the stub for [`direct`] when
/// `number` is one of them.
pub(super) fn direct_stub(number: usize) -> Option<*mut ()> {
    let is_recorded = matches!(
        number as c_long,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_brk
            | libc::SYS_madvise
            | libc::SYS_memfd_create
    );
    is_recorded.then_some(direct_call::trace as *mut ())
}

mod direct_call {
    use crate::arch;
    arch::replace_7!(super::direct);
}

/// `syscall` with the number of a call that is recorded.
unsafe extern "C" fn direct(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    entry: &Entry,
) -> c_long {
    type Call = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    // SAFETY: the signature of syscall; unused arguments are passed on as they came.
    let call = || unsafe { real::<Call>(Hook::Syscall)(number, a, b, c, d, e, f) };
    match number {
        libc::SYS_munmap => {
            unmapping(a as u64, b as u64);
            call()
        }
        libc::SYS_mremap => resized(a as Pointer, b, c, entry, || call() as Pointer) as c_long,
        libc::SYS_brk => {
            // SAFETY: as above; an address of 0 changes nothing.
            let before = unsafe { real::<Call>(Hook::Syscall)(number, 0, 0, 0, 0, 0, 0) };
            let after = call();
            if after != before {
                moved_break(before as u64, after as u64, entry);
            }
            after
        }
        _ => {
            let result = call();
            match number {
                libc::SYS_madvise if result == 0 => memory_calls::advised(b, c as c_int, entry),
                libc::SYS_memfd_create if result >= 0 => memory_calls::created(result as c_int, entry),
                libc::SYS_mmap if result != -1 => {
                    mapped(result as u64, b as u64, purpose_of(d as c_int), entry);
                }
                _ => {}
            }
            result
        }
    }
}
