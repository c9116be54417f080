//! x86-64.

use std::io;

use super::{Saved, Writer};
use crate::attach::ptrace::{self, Registers, Stop};

/// Machine code of a breakpoint.
pub(crate) const BREAKPOINT: &[u8] = &[0xcc];
/// Distance of the program counter from a breakpoint that was hit.
pub(crate) const BEHIND_BREAKPOINT: u64 = 1;
/// Machine code of a system call.
pub(crate) const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];
/// `mov rax, 15; syscall`, which every libc has for its signal handlers.
pub(crate) const SIGRETURN: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
/// The kernel's set of vector registers, as `xsave` stores them.
pub(crate) const VECTORS: u32 = 0x202;

/// System calls in which a thread waits for the outside world.
pub(crate) const WAITING: [i64; 17] = [
    libc::SYS_read,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pause,
    libc::SYS_nanosleep,
    libc::SYS_accept,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_wait4,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_restart_syscall,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_wait,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_accept4,
];

pub(crate) fn pc(registers: &Registers) -> u64 {
    registers.rip
}

pub(crate) fn set_pc(registers: &mut Registers, pc: u64) {
    registers.rip = pc;
}

pub(crate) fn stack_pointer(registers: &Registers) -> u64 {
    registers.rsp
}

pub(crate) fn result(registers: &Registers) -> u64 {
    registers.rax
}

/// Prepares a system call at the program counter.
pub(crate) fn set_system_call(registers: &mut Registers, number: u64, arguments: [u64; 6]) {
    let [a, b, c, d, e, f] = arguments;
    (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
    (registers.r10, registers.r8, registers.r9) = (d, e, f);
    registers.rax = number;
    // Not in a system call: none is restarted.
    registers.orig_rax = u64::MAX;
}

/// Number of the system call that a thread makes; negative when it makes none.
pub(crate) fn system_call(_tid: libc::pid_t, registers: &Registers) -> i64 {
    registers.orig_rax as i64
}

/// Number of the system call that a stopped thread waits in; negative when it waits in none.
pub(crate) fn waits_in(registers: &Registers, _code: impl Fn(u64) -> Option<u32>) -> i64 {
    registers.orig_rax as i64
}

/// Nothing: the registers say everything.
#[derive(Clone, Copy)]
pub(crate) struct Interrupted;

/// Of a thread that makes no system call.
pub(crate) const NOT_INTERRUPTED: Interrupted = Interrupted;

/// Finds out how a thread that waits was interrupted.
pub(crate) fn interrupted(_tid: libc::pid_t) -> Result<Interrupted, i32> {
    Ok(Interrupted)
}

/// The signal frame of a call below `top`: address of the return slot, and the bytes from there on
/// (`struct rt_sigframe` of the kernel).
pub(crate) fn frame(saved: &Saved, top: u64, sigreturn: u64) -> (u64, Vec<u8>) {
    const UC_FP_XSTATE_AND_SS: u64 = 7;
    /// The alternate stack stays as it is: these flags are not valid.
    const NO_CHANGE: u64 = 0xff;
    const XSTATE_START: u32 = 0x4650_5853;
    const XSTATE_END: u32 = 0x4650_5845;
    let mut r = saved.registers;
    // An interrupted system call is made again.
    if r.orig_rax as i64 >= 0 {
        match r.rax as i64 {
            -514..=-512 => (r.rax, r.rip) = (r.orig_rax, r.rip - 2),
            -516 => (r.rax, r.rip) = (libc::SYS_restart_syscall as u64, r.rip - 2),
            _ => {}
        }
    }
    let vectors = &saved.vectors;
    let len = vectors.len() as u64;
    let state = (top - len - 64) & !63;
    let context = (state - 512) & !15;
    let slot = context - 8;
    let mut writer = Writer::new(slot, state + len + 4);
    writer.put_words(slot, &[sigreturn, UC_FP_XSTATE_AND_SS, 0, 0, NO_CHANGE]);
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx,
    ];
    writer.put_words(context + 40, &general);
    let segments = r.cs | r.ss << 48;
    let others = [r.rsp, r.rip, r.eflags, segments, 0, 0, saved.mask, 0, state];
    writer.put_words(context + 40 + 8 * general.len() as u64, &others);
    writer.put_words(context + 40 + 256, &[saved.mask]);
    writer.put(state, vectors);
    // The kernel's own words in the legacy area: magic, sizes, features (xcr0).
    let features: Vec<u8> = vectors.get(464..472).unwrap_or(&[0; 8]).to_vec();
    writer.put(state + 464, &XSTATE_START.to_le_bytes());
    writer.put(state + 468, &(len as u32 + 4).to_le_bytes());
    writer.put(state + 472, &features);
    writer.put(state + 480, &(len as u32).to_le_bytes());
    writer.put(state + len, &XSTATE_END.to_le_bytes());
    (slot, writer.bytes)
}

/// Registers at the beginning of a call that returns into the frame at `slot`.
pub(crate) fn set_call(registers: &mut Registers, function: u64, arguments: [u64; 6], slot: u64, _to: u64) {
    const DIRECTION_FLAG: u64 = 0x400;
    let [a, b, c, d, e, f] = arguments;
    (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
    (registers.rcx, registers.r8, registers.r9) = (d, e, f);
    (registers.rip, registers.rsp, registers.rax, registers.orig_rax) = (function, slot, 0, u64::MAX);
    registers.eflags &= !DIRECTION_FLAG;
}

/// The stack pointer where the code behind a call to the frame at `slot` makes `rt_sigreturn`.
pub(crate) fn after_return(slot: u64) -> u64 {
    slot + 8
}

/// From the entry of `rt_sigreturn` to a stop in which the kernel restarts an interrupted system
/// call when the registers say so.
pub(crate) fn skip_sigreturn(saved: &Saved, mut now: Registers) -> io::Result<()> {
    let tid = saved.tid;
    now.orig_rax = u64::MAX;
    ptrace::set_registers(tid, &now)?;
    ptrace::resume_to_system_call(tid)?;
    ptrace::wait(tid)?;
    ptrace::interrupt(tid)?;
    ptrace::resume(tid, 0)?;
    while ptrace::wait(tid)? != Stop::Event(libc::PTRACE_EVENT_STOP) {
        ptrace::resume(tid, 0)?;
    }
    Ok(())
}

/// Sets or clears a breakpoint of a stopped thread's processor at an address.
pub(crate) fn set_breakpoint(tid: libc::pid_t, address: Option<u64>) -> io::Result<()> {
    let register = |number: usize| std::mem::offset_of!(libc::user, u_debugreg) + 8 * number;
    if let Some(address) = address {
        ptrace::poke_user(tid, register(0), address)?;
    }
    ptrace::poke_user(tid, register(7), u64::from(address.is_some()))
}
