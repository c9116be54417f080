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
