//! Leases of controllers: what they want to be recorded, and whether they still run.
//!
//! A controller that is killed cannot give up its lease, and no other process may be there to do
//! it. So the probe itself compares heartbeats with a coarse clock: at most twice a second, on slow
//! paths, and only while there is a lease. It never writes to a slot: a lease whose holder has
//! ended is ignored until its slot changes or its heartbeat goes on.

use heapwise_format::segment::{Control, ControlWord, Controller, Demand, Lease, LeaseWord, leases};

use crate::atomics::{AtomicU64, Ordering};
use crate::segment::Segment;
use crate::session::Session;
use crate::{clock, process};

/// The leases of a session, as far as they are private. Zeroed memory is valid: none.
pub(crate) struct Leases {
    /// When the heartbeats are compared next; [`NEVER`] without a lease.
    next_check_ns: AtomicU64,
    /// One bit per slot whose holder has ended.
    ended: AtomicU64,
}

const NEVER: u64 = 0;
const AT_ONCE: u64 = 1;
const PERIOD_NS: u64 = 500_000_000;

/// Puts the lease of the process that started this one into the first slot of a fresh segment.
pub(super) fn begin(segment: &Segment, launcher: Option<Lease>) {
    if let Some(lease) = launcher {
        let lease = Lease { heartbeat_ns: clock::coarse_ns(), ..lease };
        for part in LeaseWord::ALL {
            segment.control_at(part.index(0)).store(lease.word(part), Ordering::Relaxed);
        }
    }
    let bits = u64::from(launcher.is_some());
    segment.control(ControlWord::Leases).store(bits, Ordering::Relaxed);
}

/// The lease that a forked child inherits: other controllers do not know of the child.
pub(super) fn launcher(session: &Session) -> Option<Lease> {
    let bits = session.segment.control(ControlWord::Leases).load(Ordering::Relaxed);
    let held = bits & !session.leases.ended.load(Ordering::Relaxed);
    leases(held, word(session)).map(|(_, lease)| lease).find(|lease| lease.controller == Controller::Run)
}

/// What is to be recorded now, by the process's own mode and the leases.
pub(super) fn demand(session: &Session, wanted: &Control) -> Demand {
    let ended = if wanted.leases == 0 { 0 } else { ended(session, wanted.leases, clock::coarse_ns()) };
    session.leases.ended.store(ended, Ordering::Relaxed);
    let next = if wanted.leases == 0 { NEVER } else { AT_ONCE };
    session.leases.next_check_ns.store(next, Ordering::Relaxed);
    leases(wanted.leases & !ended, word(session))
        .fold(wanted.own_demand(), |most, (_, lease)| most.strongest(lease.demand))
}

/// Whether a holder has ended, or is back, since the demand was determined. One load without a
/// lease.
#[inline]
pub(super) fn have_changed(session: &Session) -> bool {
    session.leases.next_check_ns.load(Ordering::Relaxed) != NEVER && check(session)
}

#[cold]
fn check(session: &Session) -> bool {
    let next_check = &session.leases.next_check_ns;
    let now = clock::coarse_ns();
    let due = next_check.load(Ordering::Relaxed);
    let next = now.saturating_add(PERIOD_NS);
    // The thread that moves the time on does the work.
    if now < due || next_check.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false;
    }
    let bits = session.segment.control(ControlWord::Leases).load(Ordering::Relaxed);
    ended(session, bits, now) != session.leases.ended.load(Ordering::Relaxed)
}

fn ended(session: &Session, bits: u64, now_ns: u64) -> u64 {
    let dead = leases(bits, word(session)).filter(|(_, lease)| has_ended(lease, now_ns));
    dead.fold(0, |bits, (slot, _)| bits | 1 << slot)
}

/// A holder that was stopped writes no heartbeat but still runs.
fn has_ended(lease: &Lease, now_ns: u64) -> bool {
    let silence = lease.silence_ns(now_ns);
    silence > Lease::SILENCE_NS
        && !process::runs(lease.holder).unwrap_or(silence <= Lease::LONGEST_SILENCE_NS)
}

fn word(session: &Session) -> impl Fn(usize) -> u64 {
    |index| session.segment.control_at(index).load(Ordering::Relaxed)
}
