//! Orders, and what comes into force with them.
#![allow(unsafe_code)]

use std::boxed::Box;

use heapwise_format::segment::{CallKind, ControlWord, Mode, Update, give_order};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::{AtomicU64, Ordering};
use crate::control::{self, Activity};
use crate::tallies::Slab;
use crate::thread::{Quick, State};
use crate::{buckets, family, index, rates};

fn order(mode: Mode, bytes: u64, depth: u64) -> u64 {
    let words = [
        (ControlWord::Mode, Update::Set(mode as u64)),
        (ControlWord::SampleBytes, Update::Set(bytes)),
        (ControlWord::MaxDepth, Update::Set(depth)),
    ];
    give_order(&Outside, &words).expect("writable")
}

/// An order is in force before the model begins.
fn obeyed(mode: Mode, bytes: u64, depth: u64) {
    order(mode, bytes, depth);
    control::poll();
    assert_eq!(control::depth(), depth as u32);
}

/// What a controller writes is applied as a whole or not at all.
///
/// For the fence of `Outside::write_at` (release) and the one in `control::apply` (acquire).
#[test]
fn an_order_is_applied_whole() {
    // One order is given, so that a thread begins to apply it; the next comes in between.
    let prepare = || {
        obeyed(Mode::Sampled, 1000, 100);
        order(Mode::Sampled, 2000, 200);
    };
    check(prepare, || {
        together(|| order(Mode::Sampled, 3000, 300), control::poll);
        let in_force = (control::sampling_distance(), control::depth());
        assert!([(1000, 100), (2000, 200), (3000, 300)].contains(&in_force), "{in_force:?}");
        control::poll();
        assert_eq!((control::sampling_distance(), control::depth()), (3000, 300));
    });
}

/// One thread at a time applies orders: the table of rates is written without further ado.
///
/// For `family::take_turn` (acquire) and the end of a turn (release).
#[test]
fn threads_apply_orders_in_turn() {
    let prepare = || {
        obeyed(Mode::Sampled, 1000, 100);
        order(Mode::Sampled, 4000, 100);
    };
    check(prepare, || {
        let apply_and_order = || {
            control::poll();
            order(Mode::Sampled, 5000, 100);
        };
        together(apply_and_order, control::poll);
        control::poll();
        assert_eq!((control::sampling_distance(), rates::of(control::rate())), (5000, 5000));
    });
}

/// Who sees a new epoch draws distances from the rate that goes with it.
///
/// For `EPOCH` (release in `enforce`, acquire in `epoch`).
#[test]
fn no_distance_is_drawn_from_a_rate_that_was() {
    check(
        || obeyed(Mode::Sampled, 1000, 100),
        || {
            let before = control::epoch();
            order(Mode::Sampled, 2000, 100);
            together(control::poll, move || {
                if control::epoch() != before {
                    assert_eq!((control::sampling_distance(), rates::of(control::rate())), (2000, 2000));
                }
            });
        },
    );
}

/// A block that is counted is found by whoever frees it, though the mode began a moment ago.
///
/// For `ACTIVITY` (release in `set_activity`, acquire in `activity`).
#[test]
fn a_block_counted_is_a_block_found() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let address = 0x7300_0000_0010;
    let bucket = || {
        let key = buckets::Key { size: 24, node: 13, rate: 0, kind: CallKind::Malloc, period: 1, owner: 0 };
        buckets::find(&key, || 0).expect("room")
    };
    let prepare = move || {
        obeyed(Mode::Off, 1000, 100);
        let bucket = bucket();
        assert_eq!(crate::shadow::insert(address, bucket), crate::shadow::Insertion::Done);
        assert_eq!(crate::shadow::remove(address), Some(bucket));
        order(Mode::Exact, 1000, 100);
    };
    check(prepare, move || {
        let allocates = loom::thread::spawn(move || {
            if control::activity() == Activity::Exact {
                assert!(index::insert(address, 24, bucket(), 0, 0));
                HAND.store(1, Ordering::Release);
            }
        });
        together(control::poll, move || {
            if HAND.load(Ordering::Acquire) == 1 {
                assert!(index::may_hold(address));
                assert_eq!(index::remove(address).map(|(found, _)| found), Some(bucket()));
            }
        });
        allocates.join().expect("no panic");
    });
}

/// A thread as it is on its first event, with tallies of its own.
fn newcomer() -> Box<State> {
    // SAFETY: zeroed memory is valid.
    let mut state = unsafe { Box::<State>::new_zeroed().assume_init() };
    state.slab = Slab::numbered(1);
    state
}

/// Who agrees to new terms has seen what they stand for: nothing is counted the quick way once the mode is over.
///
/// For the terms (release in `change_terms`, acquire in `terms`), and for their being read before the rest in `State::agree`.
#[test]
fn no_quick_way_by_terms_that_were() {
    let prepare = || {
        obeyed(Mode::Exact, 1000, 100);
        let mut state = newcomer();
        state.tick();
        assert!(state.may_count(), "the quick way is open");
        order(Mode::Off, 1000, 100);
    };
    check(prepare, || {
        let ((), state) = together(control::poll, || {
            let mut state = newcomer();
            state.tick();
            state
        });
        assert!(!state.may_count() && state.quick() != Quick::Count);
        assert_eq!(control::activity(), Activity::Idle);
        assert_ne!(family::applied(), 0);
    });
}
