//! Lists of tallies that several threads use: those that all threads update atomically, and the
//! lists in which a reader finds the tallies that count the frees of another thread's blocks.

use heapwise_format::segment::NO_THREAD;

use super::counts::{SiteKey, Writer};
use super::{Reserve, TallyRef, describe, get, take_numbers};
use crate::atomics::{AtomicU32, Ordering};
use crate::session::Session;
use crate::sites::chain::{self, End};

/// Data of a tally besides its record. Zeroed memory is valid.
pub(super) struct Links {
    /// First of the tallies in which other threads count the frees of its blocks.
    remote: AtomicU32,
    /// Next in the list that this tally is in.
    next: AtomicU32,
    /// The tally whose frees it counts; 0 when it is not remote.
    of: AtomicU32,
    /// Of a remote tally: 1 when all threads may write it.
    is_shared: AtomicU32,
}

/// Makes a tally in which the calling thread counts the frees of another thread's blocks, of this
/// period.
pub(crate) fn make_remote(session: &Session, reserve: &mut Reserve, of: TallyRef) -> Option<TallyRef> {
    let made = describe(session, reserve.take(session)?, of.counts.site())?;
    link_remote(session, made, of, Writer::Own)
}

/// The tally in which threads without a state count the frees of a thread's blocks.
pub(crate) fn shared_remote(session: &Session, of: TallyRef) -> Option<TallyRef> {
    let links = &session.tallies.links;
    let is_shared =
        |number: &u32| links.get(*number).is_some_and(|links| links.is_shared.load(Ordering::Relaxed) != 0);
    if let Some(number) = remote(session, of.number).find(is_shared) {
        return Some(TallyRef { number, counts: get(session, number)? });
    }
    let made = describe(session, take_numbers(session, 1)?, of.counts.site())?;
    link_remote(session, made, of, Writer::Shared)
}

/// Puts a tally into the list of those that count the frees of another one.
fn link_remote(session: &Session, made: TallyRef, of: TallyRef, writer: Writer) -> Option<TallyRef> {
    let all = &session.tallies.links;
    let links = all.get(made.number)?;
    links.of.store(of.number, Ordering::Relaxed);
    links.is_shared.store(u32::from(writer == Writer::Shared), Ordering::Relaxed);
    let first = &all.get(of.number)?.remote;
    let mut head = first.load(Ordering::Acquire);
    loop {
        links.next.store(head, Ordering::Relaxed);
        match first.compare_exchange(head, made.number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(made),
            Err(other) => head = other,
        }
    }
}

/// The tallies that count the frees of another one.
pub(super) fn remote(session: &Session, of: u32) -> impl Iterator<Item = u32> {
    let links = &session.tallies.links;
    let first = links.get(of).map_or(0, |links| links.remote.load(Ordering::Acquire));
    let next =
        |number: &u32| Some(links.get(*number)?.next.load(Ordering::Relaxed)).filter(|next| *next != 0);
    core::iter::successors(Some(first).filter(|first| *first != 0), next)
}

/// The tally of a stack that all threads share, made when there is none; `None` when the table is
/// full.
pub(crate) fn shared(session: &Session, node: u32, rate: u16) -> Option<TallyRef> {
    let site = SiteKey::new(node, rate, NO_THREAD);
    let period = session.peak.period();
    let is_it = |number| {
        get(session, number).is_some_and(|counts| counts.site() == site && counts.period() == period)
    };
    let next = |number| Some(&session.tallies.links.get(number)?.next);
    let mut link = session.stack_tree.shared_tally(node)?;
    loop {
        match chain::search(link, next, is_it) {
            End::Found(number) => return Some(TallyRef { number, counts: get(session, number)? }),
            End::Open(end) => {
                let made = describe(session, take_numbers(session, 1)?, site)?;
                if chain::append(end, made.number) {
                    return Some(made);
                }
                // Another thread appended first. The number stays unused.
                link = end;
            }
            // One sampling distance after another: a list of that many is not searched further.
            End::Long => return None,
        }
    }
}

/// Whether a tally counts the frees of another one.
pub(super) fn is_remote(session: &Session, number: u32) -> bool {
    session.tallies.links.get(number).is_some_and(|links| links.of.load(Ordering::Relaxed) != 0)
}
