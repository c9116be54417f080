//! What the stubs of the wrapped domains read while samples are counted down: an event that is not
//! a sample costs a countdown or a filter look-up, and a jump to the interpreter's own function.
//!
//! A stub counts a size before it is known who serves it. That is right where all small requests
//! are served by arenas: a request that reaches `malloc` would be counted twice. So the first small
//! blocks are looked at, and stubs count from then on, until one is found elsewhere (another
//! allocator, `PYTHONMALLOC=malloc`, debug hooks that add bytes).

use crate::atomics::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

/// The largest request that arenas serve (`SMALL_REQUEST_THRESHOLD` of CPython 3.8 to 3.15).
pub(crate) const MOST_IN_ARENA: u64 = 512;

/// What serves small requests.
#[repr(u8)]
pub(crate) enum Service {
    Unknown = 0,
    Arenas = 1,
    /// Some reach `malloc`.
    Mixed = 2,
}

/// The [`Service`] of this process.
pub(crate) static SERVICE: AtomicU8 = AtomicU8::new(Service::Unknown as u8);

static ALWAYS: AtomicU64 = AtomicU64::new(1);

/// Points to a word that is 0 where frees need no look at the interpreter's phase: the one that
/// CPython sets for its finalization, or [`ALWAYS`].
pub(crate) static ENDING: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const ALWAYS).cast_mut());

/// A block of `size` bytes was allocated, and is in an arena or is not.
pub(crate) fn note_service(size: usize, is_in_arena: bool) {
    if size == 0 || size as u64 > MOST_IN_ARENA {
        return;
    }
    let (from, to) = match is_in_arena {
        true if SERVICE.load(Ordering::Relaxed) != Service::Unknown as u8 => return,
        true => (Service::Unknown, Service::Arenas),
        false => return SERVICE.store(Service::Mixed as u8, Ordering::Relaxed),
    };
    let _ = SERVICE.compare_exchange(from as u8, to as u8, Ordering::Relaxed, Ordering::Relaxed);
}

/// Has the stubs of frees look at the word at `address`; `None`: they take the long way.
pub(super) fn watch_ending(address: Option<u64>) {
    let word = address.map_or((&raw const ALWAYS).cast_mut(), |address| {
        core::ptr::with_exposed_provenance_mut(address as usize)
    });
    ENDING.store(word, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_outside_of_arenas_are_never_forgotten() {
        let service = || SERVICE.load(Ordering::Relaxed);
        for size in [0, 513] {
            note_service(size, false);
        }
        assert_eq!(service(), Service::Unknown as u8);
        note_service(512, true);
        assert_eq!(service(), Service::Arenas as u8);
        note_service(1, false);
        note_service(1, true);
        assert_eq!(service(), Service::Mixed as u8);
    }
}
