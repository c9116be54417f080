//! ptrace, typed. Every request is made by the thread that started the tracing.
#![allow(unsafe_code)]

use std::io::{self, Error};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_int, c_uint, c_void, iovec, pid_t, user_regs_struct};

/// Registers of a stopped thread.
pub(crate) type Registers = user_regs_struct;

/// Why a thread was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The thread is gone.
    Ended,
    /// A signal is about to be delivered.
    Signal(c_int),
    /// Entry or exit of a system call.
    SystemCall,
    /// Another event, such as [`libc::PTRACE_EVENT_STOP`] after [`interrupt`].
    Event(c_int),
}

fn request(request: c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers pass what the request takes: numbers, or pointers to live values.
    let result = unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Lets the program that `command` starts stop after its `exec`, traced by the calling thread.
pub(crate) fn trace_from_start(command: &mut Command) {
    let trace_me = || request(libc::PTRACE_TRACEME, 0, 0, 0);
    // SAFETY: one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(trace_me) };
}

/// Traces a running thread. A thread behind a seccomp filter is taken with the filter suspended,
/// where the caller may do that: the dynamic linker's system calls could end the process.
pub(crate) fn seize(tid: pid_t) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD as usize;
    seize_unfiltered(tid).or_else(|_| request(libc::PTRACE_SEIZE, tid, 0, options))
}

/// Traces a running thread, with its seccomp filter suspended.
pub(crate) fn seize_unfiltered(tid: pid_t) -> io::Result<()> {
    const SUSPEND_SECCOMP: usize = 1 << 21;
    let options = libc::PTRACE_O_TRACESYSGOOD as usize;
    request(libc::PTRACE_SEIZE, tid, 0, options | SUSPEND_SECCOMP)
}

/// Requests that a traced thread stops.
pub(crate) fn interrupt(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a thread run to its next system call.
pub(crate) fn resume_to_system_call(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0)
}

/// Waits until a traced thread stops.
pub(crate) fn wait(tid: pid_t) -> io::Result<Stop> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is ours.
        match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) } {
            -1 if Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(Error::last_os_error()),
            _ => return Ok(stop_of(status)),
        }
    }
}

fn stop_of(status: c_int) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    match (status >> 16, libc::WSTOPSIG(status)) {
        (0, signal) if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
        (0, signal) => Stop::Signal(signal),
        (event, _) => Stop::Event(event),
    }
}

/// Lets a thread run on; a signal is delivered if it is not 0.
pub(crate) fn resume(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Lets a thread execute one instruction.
pub(crate) fn step(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

/// Ends the tracing of a stopped thread; a signal is delivered if it is not 0.
pub(crate) fn detach(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// Reads the registers of a stopped thread.
pub(crate) fn registers(tid: pid_t) -> io::Result<Registers> {
    let mut registers = MaybeUninit::<Registers>::zeroed();
    let mut buffer = iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<Registers>() };
    request(libc::PTRACE_GETREGSET, tid, libc::NT_PRSTATUS as usize, &raw mut buffer as usize)?;
    // SAFETY: zeroes are valid, and the kernel wrote the rest.
    Ok(unsafe { registers.assume_init() })
}

/// Changes the registers of a stopped thread.
pub(crate) fn set_registers(tid: pid_t, registers: &Registers) -> io::Result<()> {
    let from: *const Registers = registers;
    let buffer = iovec { iov_base: from.cast_mut().cast(), iov_len: size_of::<Registers>() };
    request(libc::PTRACE_SETREGSET, tid, libc::NT_PRSTATUS as usize, &raw const buffer as usize)
}

/// Reads one of the kernel's sets of registers of a stopped thread; its length.
pub(crate) fn register_set(tid: pid_t, kind: u32, into: &mut [u8]) -> io::Result<usize> {
    let mut buffer = iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    request(libc::PTRACE_GETREGSET, tid, kind as usize, &raw mut buffer as usize)?;
    Ok(buffer.iov_len)
}

/// Changes one of the kernel's sets of registers of a stopped thread.
pub(crate) fn set_register_set(tid: pid_t, kind: u32, state: &[u8]) -> io::Result<()> {
    let buffer = iovec { iov_base: state.as_ptr().cast_mut().cast(), iov_len: state.len() };
    request(libc::PTRACE_SETREGSET, tid, kind as usize, &raw const buffer as usize)
}

/// Changes a word of the kernel's description of a stopped thread.
#[cfg(target_arch = "x86_64")]
pub(crate) fn poke_user(tid: pid_t, offset: usize, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEUSER, tid, offset, word as usize)
}

/// Signals that a stopped thread blocks.
pub(crate) fn signal_mask(tid: pid_t) -> io::Result<u64> {
    const GETSIGMASK: c_uint = 0x420a;
    let mut mask = 0_u64;
    request(GETSIGMASK, tid, size_of::<u64>(), &raw mut mask as usize).map(|()| mask)
}

/// Changes the signals that a stopped thread blocks.
pub(crate) fn set_signal_mask(tid: pid_t, mask: u64) -> io::Result<()> {
    const SETSIGMASK: c_uint = 0x420b;
    request(SETSIGMASK, tid, size_of::<u64>(), &raw const mask as usize)
}

/// Whether a stopped thread has reached its breakpoint and the signal of that is still to be
/// delivered: a stop by [`interrupt`] comes before it.
pub(crate) fn is_trap_pending(tid: pid_t) -> bool {
    const PEEKSIGINFO: c_uint = 0x4209;
    const MOST: usize = 64;
    /// `struct ptrace_peeksiginfo_args` of the kernel.
    #[repr(C)]
    struct Arguments {
        offset: u64,
        flags: u32,
        count: i32,
    }
    let arguments = Arguments { offset: 0, flags: 0, count: MOST as i32 };
    // SAFETY: zeroes are valid.
    let mut signals: [libc::siginfo_t; MOST] = unsafe { std::mem::zeroed() };
    let (from, into) = (&raw const arguments as usize, signals.as_mut_ptr() as usize);
    let is_trap =
        |signal: &libc::siginfo_t| signal.si_signo == libc::SIGTRAP && signal.si_code == libc::TRAP_HWBKPT;
    // The kernel writes those that there are; the number of a signal is not 0.
    request(PEEKSIGINFO, tid, from, into).is_ok() && signals.iter().any(is_trap)
}

/// The stop of a traced thread, if it has stopped.
pub(crate) fn try_wait(tid: pid_t) -> io::Result<Option<Stop>> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        -1 => Err(Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(stop_of(status))),
    }
}

/// While it exists, the calling thread is scheduled before ordinary threads, where that is allowed:
/// other threads are stopped for as short as possible.
pub(crate) struct Urgent;

impl Urgent {
    pub(crate) fn new() -> Self {
        schedule(libc::SCHED_FIFO, 1);
        Urgent
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        schedule(libc::SCHED_OTHER, 0);
    }
}

fn schedule(policy: c_int, priority: c_int) {
    // SAFETY: zeroes are valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the calling thread; `parameters` is ours. Without the right nothing changes.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
}
