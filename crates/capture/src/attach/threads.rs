//! The threads of a process: stopping all of them, and finding one that can make a call.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use heapwise_hooks::maps::Maps;

use super::machine::{self, Interrupted, NOT_INTERRUPTED, WAITING};
use super::memory::ProcessMemory;
use super::ptrace::{self, Stop};
use crate::failure::{Failure, Outcome};

fn threads(pid: u32) -> Vec<libc::pid_t> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Stopped threads, which run on when this is dropped. A signal that stopped one is delivered then.
pub(crate) struct Stopped {
    signals: BTreeMap<libc::pid_t, i32>,
    /// Before the first of them stopped.
    pub(crate) since: Instant,
}

impl Stopped {
    fn none() -> Self {
        Self { signals: BTreeMap::new(), since: Instant::now() }
    }

    /// Stops a thread.
    pub(crate) fn one(tid: libc::pid_t) -> Outcome<Self> {
        Self::seized(tid, ptrace::seize(tid))
    }

    /// Stops a thread with its seccomp filter suspended.
    pub(crate) fn one_unfiltered(tid: libc::pid_t) -> Outcome<Self> {
        Self::seized(tid, ptrace::seize_unfiltered(tid))
    }

    fn seized(tid: libc::pid_t, result: io::Result<()>) -> Outcome<Self> {
        let mut stopped = Self::none();
        result.map_err(|error| Failure::new(format!("cannot trace the process: {error}")))?;
        stopped.stop(&[tid])?;
        Ok(stopped)
    }

    /// Stops every thread of a process. Tried again when one does not stop in time.
    pub(crate) fn all(pid: u32) -> Outcome<Self> {
        const TRIES: usize = 5;
        const PAUSE: Duration = Duration::from_millis(200);
        for _ in 1..TRIES {
            if let Ok(stopped) = Self::all_at_once(pid) {
                return Ok(stopped);
            }
            std::thread::sleep(PAUSE);
        }
        Self::all_at_once(pid)
    }

    /// Until no new thread appears.
    fn all_at_once(pid: u32) -> Outcome<Self> {
        let mut stopped = Self::none();
        loop {
            let new: Vec<libc::pid_t> =
                threads(pid).into_iter().filter(|tid| !stopped.signals.contains_key(tid)).collect();
            if new.is_empty() {
                return Ok(stopped);
            }
            // A thread that cannot be traced has ended, and is not listed next time.
            let seized: Vec<libc::pid_t> =
                new.into_iter().filter(|tid| ptrace::seize(*tid).is_ok()).collect();
            if seized.is_empty() && stopped.signals.is_empty() {
                return Err(Failure::new(
                    "cannot trace the process: not permitted, or another tracer has it",
                ));
            }
            stopped.stop(&seized)?;
        }
    }

    /// Interrupts all threads before it waits for one: they stop at the same time. One that does
    /// not stop soon (it waits for a disk, or for a processor) does not hold up the others: they
    /// run on, and this fails.
    fn stop(&mut self, tids: &[libc::pid_t]) -> Outcome {
        for tid in tids {
            let _ = ptrace::interrupt(*tid);
        }
        let started = Instant::now();
        let mut left = tids.to_vec();
        while started.elapsed() < LONGEST_STOP {
            left.retain(|tid| match ptrace::try_wait(*tid) {
                Ok(None) => true,
                stop => {
                    self.note(*tid, stop.map(|stop| stop.unwrap_or(Stop::Ended)));
                    false
                }
            });
            if left.is_empty() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        self.release();
        self.wait_for(&left);
        Err(Failure::new(format!("{} threads did not stop within {LONGEST_STOP:?}; try again", left.len())))
    }

    /// Waits until threads stop, for any time.
    fn wait_for(&mut self, tids: &[libc::pid_t]) {
        tids.iter().for_each(|tid| self.note(*tid, ptrace::wait(*tid)));
    }

    fn note(&mut self, tid: libc::pid_t, stop: io::Result<Stop>) {
        match stop {
            Ok(Stop::Signal(signal)) => drop(self.signals.insert(tid, signal)),
            Ok(Stop::Event(_) | Stop::SystemCall) => drop(self.signals.insert(tid, 0)),
            Ok(Stop::Ended) | Err(_) => {}
        }
    }

    /// Lets all run on.
    fn release(&mut self) {
        for (tid, signal) in std::mem::take(&mut self.signals) {
            let _ = ptrace::detach(tid, signal);
        }
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.signals.len()
    }

    /// Moves threads that are inside replaced instructions to the moved ones; how many.
    pub(crate) fn relocate(&self, moves: &BTreeMap<u64, u64>) -> Outcome<usize> {
        let mut moved = 0;
        for tid in self.signals.keys() {
            let Ok(mut state) = ptrace::registers(*tid) else { continue };
            if let Some(to) = moves.get(&machine::pc(&state)) {
                machine::set_pc(&mut state, *to);
                ptrace::set_registers(*tid, &state)
                    .map_err(|error| Failure::new(format!("registers of thread {tid}: {error}")))?;
                moved += 1;
            }
        }
        Ok(moved)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release();
    }
}

/// A stopped thread that holds no lock of the allocator or of the dynamic linker.
pub(crate) struct Free {
    pub(crate) tid: libc::pid_t,
    /// The system call that it waits in.
    pub(crate) interrupted: Interrupted,
    /// Lets it run on when dropped.
    _stopped: Stopped,
}

/// How long a process is stopped at most while its threads stop.
const LONGEST_STOP: Duration = Duration::from_secs(1);
/// Time between two looks at threads that are to stop.
const POLL: Duration = Duration::from_micros(20);
/// How long a waiting thread is looked for before one is caught.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a thread is given to call `malloc`.
const CATCH: Duration = Duration::from_secs(5);

/// Code in which a thread may hold a lock that a call needs.
pub(crate) struct Locked<'a> {
    pub(crate) maps: &'a Maps,
    /// Ranges of allocators' code.
    pub(crate) allocators: &'a [(u64, u64)],
}

impl Locked<'_> {
    fn is_allocator(&self, address: u64) -> bool {
        self.allocators.iter().any(|(start, len)| address.wrapping_sub(*start) < *len)
    }

    fn is_loader(&self, address: u64) -> bool {
        let mut here = self.maps.0.iter().filter(|mapping| (mapping.start..mapping.end).contains(&address));
        here.any(|mapping| mapping.is_code && mapping.path.contains("/ld-"))
    }

    /// Whether the innermost frames of a waiting thread have a return address there. Outer frames
    /// are not looked at: unused parts of them have addresses of earlier calls. A thread that waits
    /// for the outside world may do so for the dynamic linker, but not for an allocator.
    fn is_on_stack(&self, memory: &ProcessMemory, sp: u64, is_futex: bool) -> bool {
        let bytes = if is_futex { 512 } else { 256 };
        let Ok(bytes) = memory.read(sp, bytes) else { return true };
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        words.any(|word| self.is_loader(word) || is_futex && self.is_allocator(word))
    }
}

/// Finds a thread for a call: one that waits for the outside world, else the first that calls
/// `malloc`.
pub(crate) fn find_free(pid: u32, memory: &ProcessMemory, locked: &Locked<'_>, malloc: u64) -> Outcome<Free> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        for (is_futex, tid) in waiting(pid) {
            // Threads end; what does not permit tracing is reported by `catch`.
            let Ok(mut stopped) = Stopped::one(tid) else { continue };
            // It may have gone on since: into an allocator, whose lock it then holds.
            let is_free = ptrace::registers(tid).is_ok_and(|state| {
                let call = machine::waits_in(&state, |at| memory.read_instruction(at));
                let is_waiting = if is_futex { call == libc::SYS_futex } else { WAITING.contains(&call) };
                is_waiting && !locked.is_on_stack(memory, machine::stack_pointer(&state), is_futex)
            });
            if !is_free || stopped.len() != 1 {
                continue;
            }
            match machine::interrupted(tid) {
                Ok(interrupted) => return Ok(Free { tid, interrupted, _stopped: stopped }),
                Err(signal) => drop(stopped.signals.insert(tid, signal)),
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    catch(pid, malloc)
}

/// Threads that wait, those in futexes last.
fn waiting(pid: u32) -> Vec<(bool, libc::pid_t)> {
    let mut found: Vec<(bool, libc::pid_t)> = threads(pid)
        .into_iter()
        .filter_map(|tid| {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
            let number: i64 = text.split(' ').next()?.trim().parse().ok()?;
            let is_futex = number == libc::SYS_futex;
            (is_futex || WAITING.contains(&number)).then_some((is_futex, tid))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Stops the first thread that calls `malloc`, at its first instruction.
fn catch(pid: u32, malloc: u64) -> Outcome<Free> {
    let all = Stopped::all(pid)?;
    let tids: Vec<libc::pid_t> = all.signals.keys().copied().collect();
    for (tid, signal) in &all.signals {
        let _ = machine::set_breakpoint(*tid, Some(malloc));
        let _ = ptrace::resume(*tid, *signal);
    }
    // From here on threads run, and are stopped again below.
    std::mem::forget(all);
    let started = Instant::now();
    let mut caught = None;
    while caught.is_none() && started.elapsed() < CATCH {
        let stopped = |tid: &libc::pid_t| Some((*tid, ptrace::try_wait(*tid).ok()??));
        let Some((tid, stop)) = tids.iter().find_map(stopped) else {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        };
        let is_there = ptrace::registers(tid).is_ok_and(|state| machine::pc(&state) == malloc);
        match stop {
            Stop::Signal(libc::SIGTRAP) if is_there => caught = Some(tid),
            Stop::Signal(signal) => drop(ptrace::resume(tid, signal)),
            Stop::Event(_) | Stop::SystemCall => drop(ptrace::resume(tid, 0)),
            Stop::Ended => {}
        }
    }
    let mut others = Stopped::none();
    let rest: Vec<libc::pid_t> = tids.into_iter().filter(|tid| Some(*tid) != caught).collect();
    // Their breakpoints must be cleared, so each is waited for.
    rest.iter().for_each(|tid| drop(ptrace::interrupt(*tid)));
    others.wait_for(&rest);
    for (tid, signal) in &mut others.signals {
        let _ = machine::set_breakpoint(*tid, None);
        discard_trap(*tid, signal, malloc);
    }
    drop(others);
    let tid = caught.ok_or_else(|| Failure::new("no thread waits, and none calls malloc; try again"))?;
    let stopped = Stopped { signals: BTreeMap::from([(tid, 0)]), ..Stopped::none() };
    let _ = machine::set_breakpoint(tid, None);
    leave_signal(tid)?;
    Ok(Free { tid, interrupted: NOT_INTERRUPTED, _stopped: stopped })
}

/// A thread that has reached the breakpoint too runs on: that signal is ours. Delivered, it would
/// end the process. It may be pending only, where the thread was interrupted at that moment.
fn discard_trap(tid: libc::pid_t, signal: &mut i32, malloc: u64) {
    let is_at_malloc = || ptrace::registers(tid).is_ok_and(|state| machine::pc(&state) == malloc);
    while ptrace::is_trap_pending(tid) {
        // Synchronous signals come first, so this runs no instruction of the program.
        let stop = ptrace::resume(tid, *signal).and_then(|()| ptrace::wait(tid));
        *signal = match stop {
            Ok(Stop::Signal(signal)) => signal,
            Ok(Stop::Event(_) | Stop::SystemCall) => 0,
            Ok(Stop::Ended) | Err(_) => return,
        };
    }
    if *signal == libc::SIGTRAP && is_at_malloc() {
        *signal = 0;
    }
}

/// Exchanges the stop at a signal for one without: the signal would be delivered if this process
/// were killed.
fn leave_signal(tid: libc::pid_t) -> Outcome {
    let left = ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0)).and_then(|()| ptrace::wait(tid));
    match left {
        Ok(Stop::Event(libc::PTRACE_EVENT_STOP)) => Ok(()),
        Ok(_) => Err(Failure::new("the thread that was stopped for a call did not stay; try again")),
        Err(error) => Err(Failure::new(format!("the thread that was stopped for a call: {error}"))),
    }
}
