//! Control words, and what comes into force with them.
#![allow(unsafe_code)]

use std::boxed::Box;

use heapwise_format::segment::{ControlWord, Mode, Update, write_control};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::{AtomicU64, Ordering};
use crate::control::{self, Activity};
use crate::fork;
use crate::live::{self, Inserted, Live, shadow};
use crate::sites::rates;
use crate::threads::State;

fn order(mode: Mode, bytes: u64, depth: u64) -> u64 {
    let words = [
        (ControlWord::Mode, Update::Set(mode as u64)),
        (ControlWord::SampleBytes, Update::Set(bytes)),
        (ControlWord::MaxDepth, Update::Set(depth)),
    ];
    write_control(&Outside, &words, &[]).expect("writable")
}

/// Applies a control write before the model begins.
fn obeyed(mode: Mode, bytes: u64, depth: u64) {
    order(mode, bytes, depth);
    control::poll();
    assert_eq!(control::depth(), depth as u32);
}

/// A controller's write is applied completely or not at all.
///
/// For the fence of `Outside::write_at` (release) and the one in `control::apply` (acquire).
#[test]
fn an_order_is_applied_whole() {
    // One control write is pending, so that a thread starts to apply it; the next one comes in
    // between.
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

/// One thread at a time applies orders: the table of rates is written without other
/// synchronization.
///
/// For `fork::take_turn` (acquire) and the end of a turn (release).
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

/// A thread that sees a new epoch draws distances from that epoch's rate.
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

/// A block that is counted is found by the thread that frees it, even right after the mode began.
///
/// For `ACTIVITY` (release in `set_activity`, acquire in `activity`).
#[test]
fn a_block_counted_is_a_block_found() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let address = 0x7300_0000_0010;
    let block = Live { tally: 7, size: 24 };
    let prepare = move || {
        obeyed(Mode::Off, 1000, 100);
        assert_eq!(shadow::insert(address, block), shadow::Insertion::Done);
        assert_eq!(shadow::remove(address), Some(block));
        order(Mode::Exact, 1000, 100);
    };
    check(prepare, move || {
        let allocates = loom::thread::spawn(move || {
            if control::activity() == Activity::Exact {
                assert!(matches!(live::insert(address, block), Inserted::Yes));
                HAND.store(1, Ordering::Release);
            }
        });
        together(control::poll, move || {
            if HAND.load(Ordering::Acquire) == 1 {
                let removed = live::remove(address, |_| false);
                assert_eq!(removed.map(|removed| removed.block), Some(block));
            }
        });
        allocates.join().expect("no panic");
    });
}

/// The state of a thread on its first event, with its own record.
fn newcomer() -> Box<State> {
    // SAFETY: zeroed memory is valid.
    let mut state = unsafe { Box::<State>::new_zeroed().assume_init() };
    state.set_record(1);
    state
}

/// A thread that has validated a generation has read that generation's settings: no event takes the
/// fast path once the mode has ended.
///
/// For the generation (release in `change_generation`, acquire in `terms`), and for its being read
/// before the rest in `State::revalidate`.
#[test]
fn no_fast_path_under_an_old_generation() {
    let prepare = || {
        obeyed(Mode::Exact, 1000, 100);
        let mut state = newcomer();
        state.begin_event();
        assert!(state.is_fast(), "the fast path is open");
        order(Mode::Off, 1000, 100);
    };
    check(prepare, || {
        let ((), state) = together(control::poll, || {
            let mut state = newcomer();
            state.begin_event();
            state
        });
        assert!(!state.is_fast());
        assert_eq!(control::activity(), Activity::Idle);
        assert_ne!(fork::applied(), 0);
    });
}
