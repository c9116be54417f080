//! AArch64. A stop inside a system call shows the call as if it had not been made: the program
//! counter is at it, and the kernel has forgotten its result. A call in the thread must not lose
//! that result, because a wait would start from its beginning: see [`interrupted`].

use std::io;

use super::{Saved, Writer};
use crate::attach::ptrace::{self, Registers, Stop};

/// Machine code of a breakpoint.
pub(crate) const BREAKPOINT: &[u8] = &[0x00, 0x00, 0x20, 0xd4];
/// Distance of the program counter from a breakpoint that was hit.
pub(crate) const BEHIND_BREAKPOINT: u64 = 0;
/// Machine code of a system call.
pub(crate) const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
/// `mov x8, #139; svc #0`, which the kernel's vDSO has for signal handlers.
pub(crate) const SIGRETURN: [&[u8]; 1] = [&[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]];
/// The kernel's set of vector registers.
pub(crate) const VECTORS: u32 = 2;
/// The kernel's sets of hardware breakpoints and of the system call's number.
const BREAKPOINTS: u32 = 0x402;
const SYSTEM_CALL_NUMBER: u32 = 0x404;
/// The kernel restarts a system call that has one of these results; the last one goes on with its
/// remaining time.
const RESTARTED: [i64; 4] = [-512, -513, -514, RESTARTED_WITH_REST];
const RESTARTED_WITH_REST: i64 = -516;
/// Bytes of an instruction.
const INSTRUCTION: u64 = 4;

/// System calls in which a thread waits for the outside world.
pub(crate) const WAITING: [i64; 12] = [
    libc::SYS_read,
    libc::SYS_nanosleep,
    libc::SYS_accept,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_wait4,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_restart_syscall,
    libc::SYS_clock_nanosleep,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
];

pub(crate) fn pc(registers: &Registers) -> u64 {
    registers.pc
}

pub(crate) fn set_pc(registers: &mut Registers, pc: u64) {
    registers.pc = pc;
}

pub(crate) fn stack_pointer(registers: &Registers) -> u64 {
    registers.sp
}

pub(crate) fn result(registers: &Registers) -> u64 {
    registers.regs[0]
}

/// Prepares a system call at the program counter.
pub(crate) fn set_system_call(registers: &mut Registers, number: u64, arguments: [u64; 6]) {
    registers.regs[..6].copy_from_slice(&arguments);
    registers.regs[8] = number;
}

/// Number of the system call that a thread makes; negative when it makes none.
pub(crate) fn system_call(tid: libc::pid_t, _registers: &Registers) -> i64 {
    let mut number = [0; 4];
    let read = ptrace::register_set(tid, SYSTEM_CALL_NUMBER, &mut number);
    read.map_or(-1, |_| i64::from(i32::from_le_bytes(number)))
}

fn set_system_call_number(tid: libc::pid_t, number: i64) -> io::Result<()> {
    ptrace::set_register_set(tid, SYSTEM_CALL_NUMBER, &(number as i32).to_le_bytes())
}

/// Number of the system call that a stopped thread waits in; negative when it waits in none. `code`
/// reads an instruction.
pub(crate) fn waits_in(registers: &Registers, code: impl Fn(u64) -> Option<u32>) -> i64 {
    let is_at_call = code(registers.pc).is_some_and(|word| word.to_le_bytes() == SYSTEM_CALL);
    if is_at_call { registers.regs[8] as i64 } else { -1 }
}

/// A system call that a stop interrupted.
#[derive(Clone, Copy)]
pub(crate) struct Interrupted {
    /// Its number; negative when there is none to restart.
    number: i64,
    /// Its result.
    result: i64,
}

/// Of a thread that makes no system call.
pub(crate) const NOT_INTERRUPTED: Interrupted = Interrupted { number: -1, result: 0 };

/// Finds out how a thread that waits was interrupted: it makes its system call again, and is
/// interrupted again, this time with a stop at its end.
///
/// # Errors
/// The signal to deliver, or 0, when the thread did something else.
pub(crate) fn interrupted(tid: libc::pid_t) -> Result<Interrupted, i32> {
    let next = |wanted: Stop| match ptrace::wait(tid) {
        Ok(stop) if stop == wanted => Ok(()),
        Ok(Stop::Signal(signal)) => Err(signal),
        _ => Err(0),
    };
    let registers = || ptrace::registers(tid).map_err(|_| 0);
    ptrace::resume_to_system_call(tid).map_err(|_| 0)?;
    next(Stop::SystemCall)?;
    let number = system_call(tid, &registers()?);
    ptrace::interrupt(tid).and_then(|()| ptrace::resume_to_system_call(tid)).map_err(|_| 0)?;
    next(Stop::SystemCall)?;
    let result = result(&registers()?) as i64;
    // In a stop at a system call the kernel shows another value for x7.
    ptrace::interrupt(tid).and_then(|()| ptrace::resume(tid, 0)).map_err(|_| 0)?;
    next(Stop::Event(libc::PTRACE_EVENT_STOP))?;
    Ok(if RESTARTED.contains(&result) { Interrupted { number, result } } else { NOT_INTERRUPTED })
}

/// The signal frame of a call below `top`: its address and bytes (`struct rt_sigframe` of the
/// kernel).
pub(crate) fn frame(saved: &Saved, top: u64, _sigreturn: u64) -> (u64, Vec<u8>) {
    const CONTEXT: u64 = 128;
    const MACHINE: u64 = CONTEXT + 176;
    const RECORDS: u64 = MACHINE + 288;
    const BYTES: u64 = RECORDS + 4096;
    const VECTORS_MAGIC: u32 = 0x4650_8001;
    const VECTOR_BYTES: usize = 512;
    /// The alternate stack stays as it is: these flags are not valid.
    const NO_CHANGE: u64 = 0xff;
    let mut r = saved.registers;
    // Without this process the thread does not know the remaining time: the call is interrupted.
    if saved.interrupted.result == RESTARTED_WITH_REST {
        r.regs[8] = libc::SYS_restart_syscall as u64;
    }
    let start = (top - BYTES) & !15;
    let mut writer = Writer::new(start, start + BYTES);
    writer.put_words(start + CONTEXT + 24, &[NO_CHANGE, 0, saved.mask]);
    writer.put_words(start + MACHINE + 8, &r.regs);
    writer.put_words(start + MACHINE + 8 + 8 * r.regs.len() as u64, &[r.sp, r.pc, r.pstate]);
    // The register set has the vectors first and the two status words behind them; the frame has
    // them the other way round.
    let (vectors, status) = saved.vectors.split_at(VECTOR_BYTES.min(saved.vectors.len()));
    let record = start + RECORDS;
    writer.put(record, &VECTORS_MAGIC.to_le_bytes());
    writer.put(record + 4, &(16 + VECTOR_BYTES as u32).to_le_bytes());
    writer.put(record + 8, status.get(..8).unwrap_or_default());
    writer.put(record + 16, vectors);
    (start, writer.bytes)
}

/// Registers at the beginning of a call that returns to `to`, with the frame at `slot`.
pub(crate) fn set_call(registers: &mut Registers, function: u64, arguments: [u64; 6], slot: u64, to: u64) {
    /// A branch that must meet a landing pad.
    const BRANCH_TYPE: u64 = 3 << 10;
    registers.regs[..6].copy_from_slice(&arguments);
    registers.regs[30] = to;
    (registers.pc, registers.sp) = (function, slot);
    registers.pstate &= !BRANCH_TYPE;
}

/// The stack pointer where the code behind a call to the frame at `slot` makes `rt_sigreturn`.
pub(crate) fn after_return(slot: u64) -> u64 {
    slot
}

/// From the entry of `rt_sigreturn` to a stop in which the kernel restarts an interrupted system
/// call. That is done by a second call, which is not made either: the kernel keeps the first
/// argument of a call, and restores it.
pub(crate) fn skip_sigreturn(saved: &Saved, now: Registers) -> io::Result<()> {
    let Saved { tid, registers, interrupted, .. } = saved;
    let to_next_stop = || {
        ptrace::resume_to_system_call(*tid)?;
        while ptrace::wait(*tid)? != Stop::SystemCall {
            ptrace::resume_to_system_call(*tid)?;
        }
        Ok::<(), io::Error>(())
    };
    set_system_call_number(*tid, -1)?;
    to_next_stop()?;
    if interrupted.number >= 0 {
        ptrace::set_registers(*tid, &Registers { pc: now.pc - INSTRUCTION, ..*registers })?;
        to_next_stop()?;
        set_system_call_number(*tid, -1)?;
        to_next_stop()?;
        let mut ended = *registers;
        ended.regs[0] = interrupted.result as u64;
        ended.pc += INSTRUCTION;
        ptrace::set_registers(*tid, &ended)?;
        set_system_call_number(*tid, interrupted.number)?;
    }
    ptrace::interrupt(*tid)?;
    ptrace::resume(*tid, 0)?;
    while ptrace::wait(*tid)? != Stop::Event(libc::PTRACE_EVENT_STOP) {
        ptrace::resume(*tid, 0)?;
    }
    Ok(())
}

/// Sets or clears a breakpoint of a stopped thread's processor at an address.
pub(crate) fn set_breakpoint(tid: libc::pid_t, address: Option<u64>) -> io::Result<()> {
    /// All four bytes of an instruction, in user mode, enabled.
    const CONTROL: u64 = 0xf << 5 | 2 << 1 | 1;
    let mut writer = Writer::new(0, 24);
    if let Some(address) = address {
        writer.put_words(8, &[address, CONTROL]);
    }
    ptrace::set_register_set(tid, BREAKPOINTS, &writer.bytes)
}
