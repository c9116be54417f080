//! Control words, and what comes into force with them.
#![allow(unsafe_code)]

use std::boxed::Box;

use heapwise_format::segment::{ControlWord, Mode, Update, write_control};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::{AtomicU64, Ordering};
use crate::control::{self, Activity};
use crate::live::{self, Inserted, Live, shadow};
use crate::session::Session;
use crate::sites::rates;
use crate::threads::State;

fn request(session: &'static Session, mode: Mode, bytes: u64, depth: u64) -> u64 {
    let words = [
        (ControlWord::Mode, Update::Set(mode as u64)),
        (ControlWord::SampleBytes, Update::Set(bytes)),
        (ControlWord::MaxDepth, Update::Set(depth)),
    ];
    write_control(&Outside(session), &words, &[]).expect("writable")
}

/// Applies a control write before the model begins.
fn apply(session: &'static Session, mode: Mode, bytes: u64, depth: u64) {
    request(session, mode, bytes, depth);
    control::poll(session);
    assert_eq!(session.control.depth(), depth as u32);
}

fn rate_of(session: &Session) -> u64 {
    rates::of(&session.segment, session.control.rate().number())
}

/// A controller's write is applied completely or not at all.
///
/// For the fence of `Outside::write_at` (release) and the one in `control::apply` (acquire).
#[test]
fn a_change_is_applied_whole() {
    // One control write is pending, so that a thread starts to apply it; the next one comes in
    // between.
    let prepare = |session| {
        apply(session, Mode::Sampled, 1000, 100);
        request(session, Mode::Sampled, 2000, 200);
    };
    check(prepare, |session| {
        together(move || request(session, Mode::Sampled, 3000, 300), move || control::poll(session));
        let in_force = (session.control.sampling_distance(), session.control.depth());
        assert!([(1000, 100), (2000, 200), (3000, 300)].contains(&in_force), "{in_force:?}");
        control::poll(session);
        assert_eq!((session.control.sampling_distance(), session.control.depth()), (3000, 300));
    });
}

/// One thread at a time applies changes: the table of rates is written without other
/// synchronization.
///
/// For `fork::take_turn` (acquire) and the end of a turn (release).
#[test]
fn threads_apply_changes_in_turn() {
    let prepare = |session| {
        apply(session, Mode::Sampled, 1000, 100);
        request(session, Mode::Sampled, 4000, 100);
    };
    check(prepare, |session| {
        let apply_and_request = move || {
            control::poll(session);
            request(session, Mode::Sampled, 5000, 100);
        };
        together(apply_and_request, move || control::poll(session));
        control::poll(session);
        assert_eq!((session.control.sampling_distance(), rate_of(session)), (5000, 5000));
    });
}

/// A thread that sees a new rate finds its distance in the table.
///
/// For `Settings::rate` (release in `enforce`, acquire in `rate`).
#[test]
fn no_distance_is_drawn_from_a_rate_that_was() {
    check(
        |session| apply(session, Mode::Sampled, 1000, 100),
        |session| {
            let before = session.control.rate();
            request(session, Mode::Sampled, 2000, 100);
            together(
                move || control::poll(session),
                move || {
                    let rate = session.control.rate();
                    if rate != before {
                        let in_table = rates::of(&session.segment, rate.number());
                        assert_eq!((rate.distance(), in_table), (2000, 2000));
                    }
                },
            );
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
    let prepare = move |session| {
        apply(session, Mode::Off, 1000, 100);
        assert_eq!(shadow::insert(session, address, block), shadow::Insertion::Done);
        assert_eq!(shadow::remove(session, address), Some(block));
        request(session, Mode::Exact, 1000, 100);
    };
    check(prepare, move |session| {
        let allocates = loom::thread::spawn(move || {
            if session.control.activity() == Activity::Exact {
                assert!(matches!(live::insert(session, address, block, true), Inserted::Yes));
                HAND.store(1, Ordering::Release);
            }
        });
        together(
            move || control::poll(session),
            move || {
                if HAND.load(Ordering::Acquire) == 1 {
                    let removed = live::remove(session, address, |_| false);
                    assert_eq!(removed.map(|removed| removed.block), Some(block));
                }
            },
        );
        allocates.join().expect("no panic");
    });
}

/// The state of a thread on its first event, with its own record.
fn newcomer(session: &Session) -> Box<State> {
    // SAFETY: zeroed memory is valid.
    let mut state = unsafe { Box::<State>::new_zeroed().assume_init() };
    state.set_record(session, 1);
    state
}

/// A thread that has validated a generation has read that generation's settings: no event takes the
/// fast path once the mode has ended.
///
/// For the generation (release in `change_generation`, acquire in `terms`), and for its being read
/// before the rest in `State::revalidate`.
#[test]
fn no_fast_path_under_an_old_generation() {
    let prepare = |session| {
        apply(session, Mode::Exact, 1000, 100);
        let mut state = newcomer(session);
        state.begin_event(session);
        assert!(state.is_fast(session), "the fast path is open");
        request(session, Mode::Off, 1000, 100);
    };
    check(prepare, |session| {
        let ((), state) = together(
            move || control::poll(session),
            move || {
                let mut state = newcomer(session);
                state.begin_event(session);
                state
            },
        );
        assert!(!state.is_fast(session));
        assert_eq!(session.control.activity(), Activity::Idle);
        assert_ne!(session.fork.applied(), 0);
    });
}
