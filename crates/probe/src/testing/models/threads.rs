//! State that threads hand over to each other.
#![allow(unsafe_code)]

use heapwise_format::segment::NO_THREAD;

use super::{check_of, together};
use crate::record::sampler::Sampled;
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::{self, Amount, TallyRef, Writer};
use crate::threads::{acquire_state, release_state};

const NODE: u32 = 17;
/// A node that there is, whose tallies are in a list.
const SHARED: u32 = stack_tree::OUT_OF_STACKS;

/// A thread that lives for one allocation.
fn count(session: &Session) {
    let state = acquire_state(session).expect("memory");
    // SAFETY: acquired by this thread alone.
    let tally = unsafe { &mut *state }.tally(session, NODE, 0).expect("room");
    tally.count_alloc(session, Writer::Own, Amount { size: 8, slack: 0 }, 0, Sampled::EXACT);
    release_state(session, state);
}

/// Allocations counted at the node, by all threads.
fn counted(session: &Session) -> u64 {
    let mut allocs = 0;
    tallies::each_sum(session, |sum| {
        if sum.site.node() == NODE {
            allocs += sum.allocs;
        }
    });
    allocs
}

/// A thread that continues with the state of an ended thread continues from its counts, although
/// neither adds atomically.
///
/// For a slot of the pool (release in `put`, acquire in `take`).
#[test]
fn nothing_is_lost_when_a_state_changes_hands() {
    check_of(320, count, |session| {
        together(move || count(session), move || count(session));
        assert_eq!(counted(session), 3);
    });
}

/// Threads that share a tally count every event.
///
/// For the additions of `Writer::Shared`.
#[test]
fn threads_that_share_a_tally_count_every_event() {
    let count = |session: &Session| {
        let tally: TallyRef = tallies::shared(session, SHARED, 0).expect("room");
        assert_eq!(tally.counts.site().thread(), NO_THREAD);
        tally.count_alloc(session, Writer::Shared, Amount { size: 8, slack: 0 }, 0, Sampled::EXACT);
    };
    check_of(320, count, move |session| {
        together(move || count(session), move || count(session));
        let mut allocs = 0;
        tallies::each_sum(session, |sum| allocs += if sum.site.node() == SHARED { sum.allocs } else { 0 });
        assert_eq!(allocs, 3);
    });
}
