//! Calling a function in a stopped thread so that the thread survives the end of this process.
//!
//! The call returns into libc's `rt_sigreturn` with a complete signal frame on the stack: without
//! this process the thread restores itself. With it, the system call is caught and the registers
//! are restored by ptrace, which also restarts an interrupted system call correctly.

use std::io;

use super::memory::ProcessMemory;
use super::ptrace::{self, Registers, Stop};
use crate::failure::{Failure, Outcome};

/// Bytes below the stack pointer that stay as they are: the red zone, and some room.
const KEPT: u64 = 128 + 16384;
/// Room for texts between the frame and what is kept.
const TEXT: u64 = 8192;

/// A stopped thread that calls functions for us.
pub(crate) struct Borrowed<'a> {
    tid: libc::pid_t,
    memory: &'a ProcessMemory,
    registers: Registers,
    vectors: Vec<u8>,
    mask: u64,
    sigreturn: u64,
}

fn trouble(error: io::Error) -> Failure {
    Failure::new(format!("a call in the process: {error}"))
}

impl<'a> Borrowed<'a> {
    /// Borrows a stopped thread; `sigreturn` is libc's code that calls `rt_sigreturn`.
    pub(crate) fn new(tid: libc::pid_t, memory: &'a ProcessMemory, sigreturn: u64) -> Outcome<Self> {
        let registers = ptrace::registers(tid).map_err(trouble)?;
        let vectors = ptrace::vector_state(tid).map_err(trouble)?;
        let mask = ptrace::signal_mask(tid).map_err(trouble)?;
        // No handler of the program runs on top of the call.
        ptrace::set_signal_mask(tid, u64::MAX).map_err(trouble)?;
        Ok(Self { tid, memory, registers, vectors, mask, sigreturn })
    }

    fn top(&self) -> u64 {
        (self.registers.rsp - KEPT) & !15
    }

    /// Puts a text into the thread's stack, where calls leave it; its address.
    pub(crate) fn put_text(&self, text: &[u8]) -> Outcome<u64> {
        let address = self.top() + TEXT;
        self.memory.write(address, text).map_err(trouble)?;
        self.memory.write(address + text.len() as u64, &[0]).map_err(trouble)?;
        Ok(address)
    }

    /// The signal frame below [`Borrowed::top`]: address of the return slot, and the bytes from
    /// there on (`struct rt_sigframe` of the kernel).
    fn frame(&self) -> (u64, Vec<u8>) {
        const UC_FP_XSTATE_AND_SS: u64 = 7;
        /// The alternate stack stays as it is: these flags are not valid.
        const NO_CHANGE: u64 = 0xff;
        const XSTATE_START: u32 = 0x4650_5853;
        const XSTATE_END: u32 = 0x4650_5845;
        let mut r = self.registers;
        // An interrupted system call is made again.
        if r.orig_rax as i64 >= 0 {
            match r.rax as i64 {
                -514..=-512 => (r.rax, r.rip) = (r.orig_rax, r.rip - 2),
                -516 => (r.rax, r.rip) = (libc::SYS_restart_syscall as u64, r.rip - 2),
                _ => {}
            }
        }
        let len = self.vectors.len();
        let state = (self.top() - len as u64 - 64) & !63;
        let context = (state - 512) & !15;
        let slot = context - 8;
        let mut bytes = vec![0; (state - slot) as usize + len + 4];
        let mut put = |at: u64, value: &[u8]| {
            let from = (at - slot) as usize;
            bytes[from..from + value.len()].copy_from_slice(value);
        };
        put(slot, &self.sigreturn.to_le_bytes());
        put(context, &UC_FP_XSTATE_AND_SS.to_le_bytes());
        put(context + 24, &NO_CHANGE.to_le_bytes());
        let saved = [
            r.r8,
            r.r9,
            r.r10,
            r.r11,
            r.r12,
            r.r13,
            r.r14,
            r.r15,
            r.rdi,
            r.rsi,
            r.rbp,
            r.rbx,
            r.rdx,
            r.rax,
            r.rcx,
            r.rsp,
            r.rip,
            r.eflags,
            r.cs | r.ss << 48,
            0,
            0,
            self.mask,
            0,
            state,
        ];
        for (row, word) in saved.iter().enumerate() {
            put(context + 40 + 8 * row as u64, &word.to_le_bytes());
        }
        put(context + 40 + 256, &self.mask.to_le_bytes());
        put(state, &self.vectors);
        // The kernel's own words in the legacy area: magic, sizes, features (xcr0).
        let features: Vec<u8> = self.vectors.get(464..472).unwrap_or(&[0; 8]).to_vec();
        put(state + 464, &XSTATE_START.to_le_bytes());
        put(state + 468, &(len as u32 + 4).to_le_bytes());
        put(state + 472, &features);
        put(state + 480, &(len as u32).to_le_bytes());
        put(state + len as u64, &XSTATE_END.to_le_bytes());
        (slot, bytes)
    }

    /// Calls a function; the result of its last system call, which is the function's own for simple
    /// functions of libc.
    pub(crate) fn call(&mut self, function: u64, arguments: [u64; 6]) -> Outcome<u64> {
        let (slot, bytes) = self.frame();
        self.memory.write(slot, &bytes).map_err(trouble)?;
        let mut registers = self.registers;
        let [a, b, c, d, e, f] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
        (registers.rcx, registers.r8, registers.r9) = (d, e, f);
        (registers.rip, registers.rsp, registers.rax, registers.orig_rax) = (function, slot, 0, u64::MAX);
        const DIRECTION_FLAG: u64 = 0x400;
        registers.eflags &= !DIRECTION_FLAG;
        ptrace::set_registers(self.tid, &registers).map_err(trouble)?;
        self.run_to_return(slot)
    }

    /// Runs the call to its `rt_sigreturn`.
    fn run_to_return(&mut self, slot: u64) -> Outcome<u64> {
        let mut result = 0;
        loop {
            ptrace::resume_to_system_call(self.tid).map_err(trouble)?;
            match ptrace::wait(self.tid).map_err(trouble)? {
                Stop::Ended => return Err(Failure::new("the process ended")),
                Stop::SystemCall => {
                    let now = ptrace::registers(self.tid).map_err(trouble)?;
                    if now.orig_rax == libc::SYS_rt_sigreturn as u64 && now.rsp == slot + 8 {
                        self.skip_sigreturn(now)?;
                        return Ok(result);
                    }
                    result = now.rax;
                }
                Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)) => {
                    self.put_back()?;
                    return Err(Failure::new(format!("signal {signal} in a call in the process")));
                }
                Stop::Signal(_) | Stop::Event(_) => {}
            }
        }
    }

    /// From the entry of `rt_sigreturn` to a stop in which the kernel restarts an interrupted
    /// system call when the registers say so.
    fn skip_sigreturn(&self, mut now: Registers) -> Outcome {
        now.orig_rax = u64::MAX;
        ptrace::set_registers(self.tid, &now).map_err(trouble)?;
        ptrace::resume_to_system_call(self.tid).map_err(trouble)?;
        ptrace::wait(self.tid).map_err(trouble)?;
        ptrace::interrupt(self.tid).map_err(trouble)?;
        ptrace::resume(self.tid, 0).map_err(trouble)?;
        while ptrace::wait(self.tid).map_err(trouble)? != Stop::Event(libc::PTRACE_EVENT_STOP) {
            ptrace::resume(self.tid, 0).map_err(trouble)?;
        }
        self.put_back()
    }

    fn put_back(&self) -> Outcome {
        ptrace::set_vector_state(self.tid, &self.vectors).map_err(trouble)?;
        ptrace::set_registers(self.tid, &self.registers).map_err(trouble)
    }

    /// Gives the thread its registers and signals back; it stays stopped.
    pub(crate) fn give_back(self) -> Outcome {
        self.put_back()?;
        ptrace::set_signal_mask(self.tid, self.mask).map_err(trouble)
    }
}
