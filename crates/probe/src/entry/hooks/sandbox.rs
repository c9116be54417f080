//! Calls by which a program limits itself: its address space, locked memory, system calls. The
//! probe's own use would count against the limit, so the probe freezes its segment first.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_ulong};

use heapwise_format::segment::{FrozenBy, SectionKind};

use super::Hook;
use super::resolve::real;
use crate::control::Activity;
use crate::inside::enter;
use crate::sites::tallies;
use crate::unwind::Entry;
use crate::{log, modules, sys};

/// Bytes by which a section may still grow under a limit on addresses.
const ROOM_UNDER_LIMIT: u64 = 64 * 1024;
/// Bytes by which a section may still grow where only system calls or locked pages are limited.
const ROOM: u64 = 1024 * 1024;

/// A 64-bit `struct rlimit`, which is also `struct rlimit64`.
#[repr(C)]
pub(super) struct Limit {
    soft: u64,
    hard: u64,
}

fn before_limit(process: c_int, resource: c_int, limit: *const Limit) {
    let own = process == 0 || process as u32 == sys::pid();
    // SAFETY: the program's argument; the kernel would read it next.
    let limited = unsafe { limit.as_ref() }.is_some_and(|limit| limit.soft != u64::MAX);
    if own && limited && resource == libc::RLIMIT_AS as c_int {
        freeze(ROOM_UNDER_LIMIT, true, FrozenBy::AddressLimit);
    }
}

/// Makes room for what comes, then stops the segment from growing.
fn freeze(room: u64, give_back: bool, by: FrozenBy) {
    let Some(mut inside) = enter() else { return };
    if inside.control.activity() != Activity::Idle {
        let _ = inside.with_state();
    }
    tallies::reserve_details(&inside);
    inside.segment.freeze(room, give_back, by);
    if inside.control.activity() == Activity::Log {
        // As much of the heap as the shadow index has room for: a word of four bytes per 32.
        log::reserve(&inside, 8 * room);
    }
}

/// The program has had a seccomp filter since before the probe was brought in. The controller has
/// suspended the filter until the caller returns.
pub(crate) fn obey_filter() {
    /// Half a million live blocks.
    const LIVE_ROOM: u64 = 16 << 20;
    if let Some(inside) = enter() {
        modules::describe_all(&inside);
        inside.segment.reserve(SectionKind::Live, LIVE_ROOM);
    }
    freeze(ROOM, false, FrozenBy::Seccomp);
    sys::disable_syscalls();
}

pub(super) unsafe extern "C" fn setrlimit(resource: c_int, limit: *const Limit, _: &Entry) -> c_int {
    before_limit(0, resource, limit);
    // SAFETY: the signature of setrlimit.
    unsafe { real::<unsafe extern "C" fn(_, _) -> c_int>(Hook::Setrlimit)(resource, limit) }
}

pub(super) unsafe extern "C" fn setrlimit64(resource: c_int, limit: *const Limit, _: &Entry) -> c_int {
    before_limit(0, resource, limit);
    // SAFETY: the signature of setrlimit64.
    unsafe { real::<unsafe extern "C" fn(_, _) -> c_int>(Hook::Setrlimit64)(resource, limit) }
}

type Prlimit = unsafe extern "C" fn(c_int, c_int, *const Limit, *mut Limit) -> c_int;

pub(super) unsafe extern "C" fn prlimit(
    process: c_int,
    resource: c_int,
    new: *const Limit,
    old: *mut Limit,
    _: &Entry,
) -> c_int {
    before_limit(process, resource, new);
    // SAFETY: the signature of prlimit.
    unsafe { real::<Prlimit>(Hook::Prlimit)(process, resource, new, old) }
}

pub(super) unsafe extern "C" fn prlimit64(
    process: c_int,
    resource: c_int,
    new: *const Limit,
    old: *mut Limit,
    _: &Entry,
) -> c_int {
    before_limit(process, resource, new);
    // SAFETY: the signature of prlimit64.
    unsafe { real::<Prlimit>(Hook::Prlimit64)(process, resource, new, old) }
}

/// The kernel populates every mapped page, also those of a sparse segment.
pub(super) unsafe extern "C" fn mlockall(flags: c_int, _: &Entry) -> c_int {
    freeze(ROOM, true, FrozenBy::LockedMemory);
    // SAFETY: the signature of mlockall.
    unsafe { real::<unsafe extern "C" fn(_) -> c_int>(Hook::Mlockall)(flags) }
}

/// After seccomp a system call may kill the process. The effect of the program's filter on the
/// probe's calls is unknown, so the probe makes none.
pub(super) unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    _: &Entry,
) -> c_int {
    type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    let strict = a == c_ulong::from(libc::SECCOMP_MODE_STRICT);
    let filter = a == c_ulong::from(libc::SECCOMP_MODE_FILTER) && b != 0;
    let forbids = option == libc::PR_SET_SECCOMP && (strict || filter);
    if forbids {
        freeze(ROOM, false, FrozenBy::Seccomp);
    }
    // SAFETY: the signature of prctl; unused arguments are passed on as they came.
    let result = unsafe { real::<Prctl>(Hook::Prctl)(option, a, b, c, d) };
    if forbids && result == 0 {
        sys::disable_syscalls();
    }
    result
}

/// Before `syscall`, by which `seccomp` is called: libc has no function of that name. A call
/// without a filter installs nothing. Calls that map memory go to a stub of their own.
pub(super) extern "C" fn before_system_call(hook: usize, arguments: &[usize; 4]) -> *mut () {
    let [number, operation, _, filter] = *arguments;
    let strict = operation == libc::SECCOMP_SET_MODE_STRICT as usize;
    let filtering = operation == libc::SECCOMP_SET_MODE_FILTER as usize && filter != 0;
    if number == libc::SYS_seccomp as usize && (strict || filtering) {
        freeze(ROOM, false, FrozenBy::Seccomp);
        sys::disable_syscalls();
    }
    super::mappings::direct_stub(number).unwrap_or_else(|| super::resolve(hook))
}
