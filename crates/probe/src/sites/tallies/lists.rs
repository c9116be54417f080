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

/// Bits of a site's thread and rate, kept beside the number of a node's first tally: they spare
/// most other threads the access to its record.
#[inline(always)]
fn owner_bits(site: SiteKey) -> u32 {
    u32::from(site.rate() ^ site.thread()) << 24
}

/// The first tally of a node, if it is that of this site, of this period.
#[inline(always)]
pub(crate) fn first(session: &Session, head: &AtomicU32, site: SiteKey) -> Option<TallyRef> {
    let number = head.load(Ordering::Acquire) ^ owner_bits(site);
    if number == 0 || number > chain::NUMBER {
        return None;
    }
    let counts = get(session, number)?;
    let is_it = counts.site() == site && counts.is_of_period(&session.peak);
    is_it.then_some(TallyRef { number, counts })
}

/// Makes a tally the first one of its node; false when there is one of this period.
pub(crate) fn claim(session: &Session, head: &AtomicU32, tally: TallyRef) -> bool {
    let before = head.load(Ordering::Acquire);
    let word = owner_bits(tally.counts.site()) | tally.number;
    has_no_first(session, before)
        && head.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Whether a node's list of tallies, which starts with `head`, is empty or of another period.
fn has_no_first(session: &Session, head: u32) -> bool {
    let first = get(session, head & chain::NUMBER).filter(|_| head & chain::NUMBER != 0);
    first.is_none_or(|counts| !counts.is_of_period(&session.peak))
}

/// The tally of a stack that all threads share, made when there is none; `None` when the table is
/// full.
pub(crate) fn shared(session: &Session, node: u32, rate: u16) -> Option<TallyRef> {
    let site = SiteKey::new(node, rate, NO_THREAD);
    let is_it = |number| {
        get(session, number).is_some_and(|counts| counts.site() == site && counts.is_of_period(&session.peak))
    };
    let next = |number| Some(&session.tallies.links.get(number)?.next);
    let head = session.stack_tree.first_tally(node)?;
    let mut made = None;
    loop {
        let end = match chain::search(head, next, is_it) {
            End::Found(number) => return Some(TallyRef { number, counts: get(session, number)? }),
            End::Open(end) => Some(end),
            // One sampling distance after another: a list of that many is not searched further.
            End::Long => None,
        };
        let is_free = has_no_first(session, head.load(Ordering::Acquire));
        if end.is_none() && !is_free {
            return None;
        }
        let new = match made {
            Some(new) => new,
            None => *made.insert(describe(session, take_numbers(session, 1)?, site)?),
        };
        let is_added = match end {
            Some(end) if !is_free => chain::append(end, new.number),
            _ => claim(session, head, new),
        };
        if is_added {
            return made;
        }
        // Another thread was faster. If it made this tally, the number stays unused.
    }
}

/// Whether a tally counts the frees of another one.
pub(super) fn is_remote(session: &Session, number: u32) -> bool {
    session.tallies.links.get(number).is_some_and(|links| links.of.load(Ordering::Relaxed) != 0)
}
