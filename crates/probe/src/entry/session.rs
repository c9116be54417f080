//! The session: all state of the process, behind one pointer.
//!
//! Every room has its part here. Zeroed memory is valid for each of them, so a session is a fresh
//! mapping in which [`Session::begin`] describes empty tables. A forked child gets a session of its
//! own; the parent's is released as a whole.
//!
//! The pointer is private to this room. Other code gets a `&Session` from an entrance only
//! ([`super::inside`]), so a `&Session` proves that the thread entered.
#![allow(unsafe_code)]

use core::ptr::null_mut;

use heapwise_format::segment::{AllocatorKind, Counter, SectionKind, State};

use super::allocator::Answers;
use super::declared_frames::ProviderSlot;
use super::fork::ForkPage;
use crate::atomics::{AtomicPtr, Ordering};
use crate::config::Config;
use crate::control::Settings;
use crate::hooks::entry_points;
use crate::jemalloc::{dump, mallctl, prof, recent};
use crate::leases::Leases;
use crate::live::LiveIndex;
use crate::log::Log;
use crate::record::peak::Peak;
use crate::record::sizes::Histogram;
use crate::record::usable::Slack;
use crate::runtimes::{self, Runtimes};
use crate::segment::Segment;
use crate::sites::stack_tree::StackTree;
use crate::sites::strings::Strings;
use crate::sites::tallies::Tallies;
use crate::sites::{rates, stack_tree, strings, tallies};
use crate::threads::{self, Registry};
use crate::unwind::Unwind;
use crate::{control, injected, live, process, sys};

/// State of the process. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Session {
    /// First, because it is a page of its own.
    pub(crate) fork: ForkPage,
    pub(crate) peak: Peak,
    pub(crate) segment: Segment,
    pub(crate) control: Settings,
    pub(crate) leases: Leases,
    pub(crate) tallies: Tallies,
    pub(crate) stack_tree: StackTree,
    pub(crate) prof: prof::Switches,
    pub(crate) recent: recent::Recent,
    pub(crate) provider: ProviderSlot,
    pub(crate) allocator: Answers,
    pub(crate) mallctl: mallctl::Epoch,
    pub(crate) log: Log,
    pub(crate) threads: Registry,
    pub(crate) slack: Slack,
    /// Counts what no record has room for; its content is never read.
    pub(crate) unread: Histogram,
    pub(crate) unwind: Unwind,
    pub(crate) live: LiveIndex,
    pub(crate) strings: Strings,
    pub(crate) dump: dump::Dump,
    pub(crate) runtimes: Runtimes,
}

/// The session of the process; null before the first one.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());

/// The session in force.
#[inline(always)]
pub(super) fn current() -> Option<&'static Session> {
    // SAFETY: published by `publish`, and unmapped in a forked child only, by its only thread,
    // after another one was published.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Makes a session the one in force.
pub(super) fn publish(session: &'static Session) {
    CURRENT.store((&raw const *session).cast_mut(), Ordering::Release);
}

impl Session {
    /// A session without a segment, and whether the kernel wipes its first page in a forked child;
    /// `None` without memory.
    pub(super) fn create() -> Option<(&'static Session, bool)> {
        let memory = sys::map_private(size_of::<Session>()).ok()?;
        // SAFETY: zeroed memory of that size, aligned to a page, which is a valid session.
        let session: &'static Session = unsafe { &*memory.cast() };
        session.segment.start_empty();
        Some((session, session.fork.begin()))
    }

    /// Takes over the options of the start.
    pub(super) fn take_options(&self) {
        self.prof.begin(self);
        self.recent.begin(self);
        self.dump.begin();
    }

    /// Takes over what the program set in the parent of a forked child.
    pub(super) fn inherit(&self, parent: &Session) {
        self.prof.inherit(&parent.prof);
        self.recent.inherit(self, &parent.recent);
        self.dump.inherit(&parent.dump);
        self.provider.inherit(&parent.provider);
        self.segment.inherit(&parent.segment);
    }

    /// Gives a new session its segment, with empty tables, and puts a configuration in force.
    /// Readers and controllers that find the segment ready find all of that.
    ///
    /// `inherited`: live bytes of the parent of a forked child.
    pub(super) fn begin(&self, config: &Config, allocator: AllocatorKind, inherited: u64) {
        if !self.segment.create(allocator, config.tables) {
            return control::stand_aside(self);
        }
        if self.describe_tables(allocator) {
            self.allocator.begin();
            runtimes::describe(self);
            self.segment.counter(Counter::InheritedBytes).store(inherited, Ordering::Relaxed);
            control::begin(self, config);
            self.segment.set_state(State::Ready);
        } else {
            control::stand_aside(self);
            self.segment.stand_aside();
        }
    }

    /// Writes what readers expect of empty tables; false without memory.
    fn describe_tables(&self, allocator: AllocatorKind) -> bool {
        if injected::is_injected() {
            self.segment.counter(Counter::AgeAtAttach).store(process::age_ns(), Ordering::Relaxed);
        }
        self.segment.counter(Counter::EntryHooks).store(entry_points::hooked(), Ordering::Relaxed);
        self.slack.begin(allocator);
        let has_one = !entry_points::has_foreign_blocks();
        live::describe(self, if has_one { allocator } else { AllocatorKind::Other });
        rates::describe(&self.segment);
        strings::describe(self);
        stack_tree::describe(self);
        let threads = self.segment.section(SectionKind::Threads).capacity;
        self.threads.live_bytes.map(threads) && tallies::reserve_overflow(self)
    }

    /// Unmaps everything that the session mapped. No thread may use it afterwards. The segment goes
    /// first: in a forked child it is the parent's, whose counters do not change any more.
    pub(super) fn release(&self) {
        self.segment.release();
        threads::release_pool(self);
        self.threads.live_bytes.release();
        self.recent.release();
        self.unwind.release();
        self.stack_tree.release();
        self.strings.release();
        self.tallies.release();
        self.live.release();
    }

    /// Unmaps the session itself, after [`Session::release`].
    ///
    /// # Safety
    /// No reference to it is used any more.
    pub(super) unsafe fn unmap(&'static self) {
        let memory = (&raw const *self).cast_mut().cast();
        // SAFETY: mapped by `create` with this size; the caller's promise.
        unsafe { sys::unmap(memory, size_of::<Session>()) };
    }
}

/// A session for tests and benchmarks, which is never released; `None` without memory.
impl Session {
    pub(crate) fn for_tests() -> Option<&'static Session> {
        let (session, _) = Session::create()?;
        session.begin(&Config::new(), AllocatorKind::Other, 0);
        Some(session)
    }
}

/// A session of a unit test, without a file.
#[cfg(test)]
pub(crate) struct TestSession(&'static Session);

#[cfg(test)]
impl TestSession {
    pub(crate) fn new() -> TestSession {
        let session = Session::for_tests().expect("memory for a session");
        session.segment.remove_name();
        TestSession(session)
    }

    /// A session that is never released, for models.
    #[cfg(loom)]
    pub(crate) fn leak(self) -> &'static Session {
        let session = self.0;
        core::mem::forget(self);
        session
    }
}

#[cfg(test)]
impl core::ops::Deref for TestSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.0
    }
}

#[cfg(test)]
impl Drop for TestSession {
    fn drop(&mut self) {
        self.0.release();
        // SAFETY: what was borrowed from the test's session has ended before it.
        unsafe { self.0.unmap() };
    }
}
