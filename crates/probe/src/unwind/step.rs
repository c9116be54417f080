//! One step: from a frame to its caller.
#![allow(unsafe_code)]

use super::machine::{self, strip};
use super::rule::{Kind, Rule};
use super::stack::{Window, read_anywhere};

/// The registers of a frame, as far as they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Return address as found in memory (on aarch64 it may carry an authentication code), or the
    /// interrupted instruction.
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) fp: u64,
    /// 0, or where a signal frame saved the registers: then `pc` was interrupted, not called from.
    pub(super) context: u64,
}

impl State {
    /// A copy made word by word (see `memo::Fresh::read`).
    #[inline(always)]
    pub(super) fn read(&self) -> State {
        // SAFETY: references can be read.
        unsafe {
            State {
                pc: (&raw const self.pc).read_volatile(),
                sp: (&raw const self.sp).read_volatile(),
                fp: (&raw const self.fp).read_volatile(),
                context: (&raw const self.context).read_volatile(),
            }
        }
    }

    /// The counterpart of [`State::read`].
    #[inline(always)]
    pub(super) fn write(&mut self, from: &State) {
        // SAFETY: references can be written.
        unsafe {
            (&raw mut self.pc).write_volatile(from.pc);
            (&raw mut self.sp).write_volatile(from.sp);
            (&raw mut self.fp).write_volatile(from.fp);
            (&raw mut self.context).write_volatile(from.context);
        }
    }

    /// Is this the outermost frame, though its code has no unwind information? The ABI marks it
    /// with a zero frame pointer; the loader's start code, in which constructors run, relies on
    /// that alone. The outermost return address of a fiber was written by the library that made the
    /// fiber: no call instruction precedes it.
    pub(super) fn marks_end(&self, rule: Rule) -> bool {
        let is_outermost =
            || self.fp == 0 || self.context == 0 && call_precedes(strip(self.pc)) == Some(false);
        rule.kind() == Kind::Unknown && rule.module() != 0 && is_outermost()
    }

    /// The address whose rule applies: a return address belongs to the call before it.
    #[inline(always)]
    pub(super) fn code(&self) -> u64 {
        let pc = strip(self.pc);
        if self.context == 0 { pc.wrapping_sub(1) } else { pc }
    }
}

/// The frame pointer of a caller whose callee lost it: no step can use it.
const LOST_FP: u64 = 1;

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// To the caller; a zero `pc` means that this was the outermost frame.
    Caller(State),
    /// The rule marks this as the outermost frame.
    End,
    /// There is a caller, but it cannot be found with certainty.
    Broken,
}

/// Applies `rule`, the rule of `state.code()`.
#[inline(always)]
pub(super) fn step(state: &State, rule: Rule, stack: &mut Window) -> Step {
    if !rule.is_plain() {
        let (next, window) = unusual_step(*state, rule, *stack);
        *stack = window;
        return next;
    }
    let base = if rule.is_fp_based() { state.fp } else { state.sp };
    let cfa = base.wrapping_add(rule.cfa_bytes());
    if cfa <= state.sp {
        return Step::Broken;
    }
    let Some(pc) = stack.read(cfa.wrapping_sub(rule.ra_bytes())) else { return Step::Broken };
    let mut fp = state.fp;
    if rule.fp_words() != 0 {
        fp = if rule.loses_fp() {
            LOST_FP
        } else {
            match stack.read(cfa.wrapping_sub(rule.fp_bytes())) {
                Some(word) => word,
                None => return Step::Broken,
            }
        };
    }
    Step::Caller(State { pc, sp: cfa, fp, context: 0 })
}

#[cold]
#[inline(never)]
fn unusual_step(state: State, rule: Rule, mut stack: Window) -> (Step, Window) {
    let next = match rule.kind() {
        Kind::End => return (Step::End, stack),
        Kind::Realigned => realigned(&state, rule, &mut stack),
        Kind::Signal => signal(&state, rule, &mut stack),
        Kind::Leaf => leaf(&state, rule, &mut stack),
        Kind::Go if state.fp == 0 => return (Step::End, stack),
        Kind::Go => go(&state, &mut stack),
        Kind::Unknown if state.marks_end(rule) => return (Step::End, stack),
        Kind::Unknown | Kind::Sp | Kind::Fp => by_frame_pointer(&state, &mut stack),
    };
    (next.map_or(Step::Broken, Step::Caller), stack)
}

fn realigned(state: &State, rule: Rule, stack: &mut Window) -> Option<State> {
    let sp = stack.read(state.fp.wrapping_add(rule.cfa_bytes()))?;
    if sp <= state.sp {
        return None;
    }
    let fp = stack.read(state.fp)?;
    Some(State { pc: stack.read(sp.wrapping_sub(rule.ra_bytes()))?, sp, fp, context: 0 })
}

/// The interrupted frame may be on another stack, anywhere.
fn signal(state: &State, rule: Rule, stack: &mut Window) -> Option<State> {
    let sp = stack.read(state.sp.wrapping_add(rule.cfa_bytes()))?;
    let fp = stack.read(state.sp.wrapping_add(rule.fp_bytes()))?;
    let pc = stack.read(state.sp.wrapping_add(rule.ra_bytes()))?;
    Some(State { pc, sp, fp, context: state.sp })
}

fn leaf(state: &State, rule: Rule, stack: &mut Window) -> Option<State> {
    if state.context == 0 || rule.fp_words() != 0 {
        return None;
    }
    let sp = state.sp.wrapping_add(rule.cfa_bytes());
    let pc = stack.read(state.context.wrapping_add(machine::SIGNAL_LINK_WORD * 8))?;
    (sp >= state.sp).then_some(State { pc, sp, fp: state.fp, context: 0 })
}

/// Code without unwind information (a just-in-time compiler, assembly) that keeps frame pointers.
/// It is followed only into code right behind a call instruction, and the stack still counts as
/// broken, since frames that keep none may have been passed over.
fn by_frame_pointer(state: &State, stack: &mut Window) -> Option<State> {
    if !state.fp.is_multiple_of(8) || state.fp < state.sp {
        return None;
    }
    let fp = stack.read(state.fp)?;
    let pc = stack.read(state.fp.wrapping_add(8))?;
    let plausible = pc == 0 || (fp == 0 || fp > state.fp) && follows_call(strip(pc));
    plausible.then_some(State { pc, sp: state.fp.wrapping_add(16), fp, context: 0 })
}

/// Bytes that two stacks of Go are apart at least: goroutines are in Go's heap, threads are not.
const GO_STACKS_APART: u64 = 1 << 32;

/// A function of Go. `runtime.asmcgocall` leaves the frame pointer of its caller, which is on the
/// goroutine's stack, in the register; `runtime.cgocallback` that of its own frame, on the thread's
/// stack. `crosscall2` has two frame records, one right above the other. The outermost return
/// address of a goroutine is that of `runtime.goexit` plus one instruction, and its frame pointer
/// is 0.
fn go(state: &State, stack: &mut Window) -> Option<State> {
    let mut frame = state.fp;
    // A frame record is above the stack pointer, or on another stack.
    if frame < state.sp && state.sp.wrapping_sub(frame) <= GO_STACKS_APART {
        return None;
    }
    let mut fp = stack.read(frame)?;
    if fp == frame.wrapping_add(8) {
        (frame, fp) = (fp, stack.read(fp)?);
    }
    let pc = stack.read(frame.wrapping_add(8))?;
    // The frame pointer of a caller in C may be any number.
    let plausible = follows_call(pc) || fp == 0 && is_at_call(pc);
    plausible.then_some(State { pc, sp: frame.wrapping_add(16), fp, context: 0 })
}

/// The address is a guess, and code need not be readable: a system call checks that the bytes can
/// be read.
fn follows_call(pc: u64) -> bool {
    call_precedes(pc) == Some(true)
}

/// Whether a call instruction precedes `pc`; `None` when the code cannot be read.
fn call_precedes(pc: u64) -> Option<bool> {
    let start = pc.wrapping_sub(machine::CALL_BYTES);
    read_anywhere(start)?.to_le_bytes().first_chunk().copied().map(machine::follows_call)
}

/// Whether the instruction at `pc` calls a function, as the second one of `runtime.goexit` does.
fn is_at_call(pc: u64) -> bool {
    let next = pc.wrapping_add(machine::DIRECT_CALL_BYTES);
    follows_call(next)
}
