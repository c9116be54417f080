//! The entrance: how a thread of the program gets to the probe's state.
//!
//! * [`enter`] marks the thread as inside the probe, re-initializes a forked child and applies
//!   pending control changes. While the [`Inside`] lives, the thread may use its own state and the
//!   session.
//! * [`nested`] is for an event in a signal handler that interrupted the probe on the same thread:
//!   it lends the session, but not the thread's state, which is in use.
//! * [`fast`] is for an event of the fast path: the thread has a state, and the generation that it
//!   has validated is in force, so there is nothing to apply.
//!
//! All three lend a `&Session`, which every function that touches segment, tables, control or
//! dumps takes.
#![allow(unsafe_code)]

use core::ops::Deref;

use super::session::{self, Session};
use super::{fork, start};
use crate::arch::words;
use crate::control;
use crate::threads::{State, ThreadWords};
use crate::unwind::OwnStack;

/// While it exists, the thread is inside the probe.
pub(crate) struct Inside {
    words: &'static ThreadWords,
    session: &'static Session,
}

/// Enters the probe. `None` when the thread is inside already (a signal handler interrupted the
/// probe), while the probe starts, and without memory for a session.
#[inline]
pub(crate) fn enter() -> Option<Inside> {
    let words = words();
    if !words.mark_inside() {
        return None;
    }
    // After the mark: a forked child replaces its session only while its thread is marked.
    let session = session::current().or_else(start::begin_session);
    let Some(session) = session else {
        words.unmark();
        return None;
    };
    let mut inside = Inside { words, session };
    if control::is_pending(session) && !inside.apply() {
        return None;
    }
    Some(inside)
}

impl Inside {
    /// Applies pending control changes, in a forked child to a session of its own; false without
    /// memory for one.
    #[cold]
    #[inline(never)]
    fn apply(&mut self) -> bool {
        if self.session.fork.is_wiped() {
            match fork::reinit_in_child(self.words, self.session) {
                Some(session) => self.session = session,
                None => return false,
            }
        }
        control::apply(self.session);
        true
    }

    /// The thread's words.
    pub(crate) fn words(&self) -> &ThreadWords {
        self.words
    }

    /// The session, and the thread's state, created on first use; `None` after the thread's end or
    /// without memory.
    #[inline(always)]
    pub(crate) fn with_state(&mut self) -> (&Session, Option<&mut State>) {
        // SAFETY: this thread's own, and borrowing the one `Inside` makes it the only use.
        (self.session, self.words.state(self.session).map(|state| unsafe { &mut *state }))
    }

    /// The session, and the thread's state, if it has one.
    #[inline(always)]
    pub(crate) fn with_existing_state(&mut self) -> (&Session, Option<&mut State>) {
        // SAFETY: as `with_state`.
        (self.session, self.words.existing_state().map(|state| unsafe { &mut *state }))
    }

    /// The session, and cached bounds of this thread's stack.
    pub(crate) fn with_own_stack(&mut self) -> (&Session, &mut OwnStack) {
        // SAFETY: as `with_state`.
        (self.session, unsafe { &mut *self.words.own_stack() })
    }

    /// Detaches the state of a thread that ends; later events of the thread are shared.
    pub(crate) fn end_thread(&mut self) -> Option<*mut State> {
        self.words.set_ended();
        self.words.take_state()
    }

    /// Calls a function of the program, which may allocate, outside of the probe. No reference into
    /// the session outlives the call: the program may fork in it.
    pub(crate) fn outside<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.words.unmark();
        let result = call();
        self.words.mark_inside();
        if let Some(session) = session::current() {
            self.session = session;
        }
        if control::is_pending(self.session) {
            self.apply();
        }
        result
    }
}

impl Deref for Inside {
    type Target = Session;

    #[inline(always)]
    fn deref(&self) -> &Session {
        self.session
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        self.words.unmark();
    }
}

/// The proof of the fast path. What it does must not flush or poll, because that could drop the
/// state.
pub(crate) struct Fast<'a> {
    pub(crate) session: &'a Session,
    pub(crate) state: &'a mut State,
}

/// Enters the probe for an event of the fast path; `None` when the thread has no state, is inside
/// already, or must validate a generation first.
#[inline(always)]
pub(crate) fn fast<T>(act: impl FnOnce(Fast<'_>) -> Option<T>) -> Option<T> {
    words().with_state_outside(|state| {
        // Not by way of the state: the load does not wait for those of the thread's words.
        let session = session::current()?;
        if state.is_fast(session) { act(Fast { session, state }) } else { None }
    })
}

/// As [`fast`], while samples are recorded.
#[inline(always)]
pub(crate) fn fast_for_samples<T>(act: impl FnOnce(Fast<'_>) -> Option<T>) -> Option<T> {
    words().with_state_outside(|state| {
        let session = session::current()?;
        if state.is_fast_for_samples(session) { act(Fast { session, state }) } else { None }
    })
}

/// An event in a signal handler that interrupted the probe.
pub(crate) struct Nested(&'static Session);

/// The session for an event that [`enter`] refused; `None` in a forked child that has no session of
/// its own yet: the parent's is not the child's to change.
#[cold]
pub(crate) fn nested() -> Option<Nested> {
    session::current().filter(|session| !session.fork.is_wiped()).map(Nested)
}

impl Deref for Nested {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.0
    }
}
