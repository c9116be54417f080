//! Noticing that a thread ends: a pthread key's destructor.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint, c_void};

use super::registry;
use crate::atomics::{AtomicPtr, AtomicU32, Ordering};
use crate::inside::enter;
use crate::symbols::find_next;

type Create = unsafe extern "C" fn(*mut c_uint, unsafe extern "C" fn(*mut c_void)) -> c_int;
type Set = unsafe extern "C" fn(c_uint, *const c_void) -> c_int;

/// The key plus one; 0 when there is none.
static KEY: AtomicU32 = AtomicU32::new(0);
static SET: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// glibc keeps the values of the first keys in the thread itself; for later ones
/// `pthread_setspecific` calls the allocator.
const KEYS_WITHOUT_ALLOCATION: c_uint = 32;

/// Creates the key; from the probe's constructor, when libc is ready.
pub(crate) fn create_key() {
    let (Some(create), Some(set)) = (find_next(c"pthread_key_create"), find_next(c"pthread_setspecific"))
    else {
        return;
    };
    // SAFETY: the signature of pthread_key_create.
    let create: Create = unsafe { core::mem::transmute(create.address) };
    let mut key = 0;
    // SAFETY: `key` is a valid place, and the destructor is never unloaded (nodelete).
    if unsafe { create(&raw mut key, thread_ends) } == 0 && key < KEYS_WITHOUT_ALLOCATION {
        SET.store(set.address, Ordering::Relaxed);
        KEY.store(key + 1, Ordering::Release);
    }
}

/// POSIX runs destructors in at least this many rounds, as long as some key has a value again.
const ROUNDS: usize = 4;

/// Registers the destructor of the calling thread.
pub(super) fn watch() {
    set_round(1);
}

/// Makes `round` the value of the key: not null, so the destructor is called with it.
fn set_round(round: usize) {
    let key = KEY.load(Ordering::Acquire);
    if key == 0 {
        return;
    }
    // SAFETY: the signature of pthread_setspecific, stored before the key.
    let set: Set = unsafe { core::mem::transmute(SET.load(Ordering::Relaxed)) };
    // SAFETY: a key that this module created; the value is a number, never dereferenced.
    unsafe { set(key - 1, core::ptr::without_provenance(round)) };
}

/// Destructors of the program allocate and free too, so this one waits for the last round. What
/// runs even later finds no state and uses the shared slab.
unsafe extern "C" fn thread_ends(round: *mut c_void) {
    if round.addr() < ROUNDS {
        return set_round(round.addr() + 1);
    }
    if let Some(mut inside) = enter()
        && let Some(state) = inside.end_thread()
    {
        registry::release(&inside, state);
    }
}
