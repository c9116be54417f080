//! Calling a function in a stopped thread so that the thread survives the end of this process.
//!
//! The call returns into code that makes the system call `rt_sigreturn`, with a complete signal
//! frame on the stack: without this process the thread restores itself. With it, the system call is
//! caught and the registers are restored by ptrace, which also restarts an interrupted system call
//! correctly.

use std::io;

use super::machine::{self, Saved};
use super::memory::ProcessMemory;
use super::ptrace::{self, Stop};
use super::threads::Free;
use crate::failure::{Failure, Outcome};

/// Bytes below the stack pointer that stay as they are: the red zone, and some room.
const KEPT: u64 = 128 + 16384;
/// Room for texts between the frame and what is kept.
const TEXT: u64 = 8192;

/// A stopped thread that calls functions for us.
pub(crate) struct Borrowed<'a> {
    saved: Saved,
    memory: &'a ProcessMemory,
    sigreturn: u64,
}

fn trouble(error: io::Error) -> Failure {
    Failure::new(format!("a call in the process: {error}"))
}

impl<'a> Borrowed<'a> {
    /// Borrows a stopped thread; `sigreturn` is code that calls `rt_sigreturn`.
    pub(crate) fn new(
        Free { tid, interrupted, .. }: &Free,
        memory: &'a ProcessMemory,
        sigreturn: u64,
    ) -> Outcome<Self> {
        const MOST_BYTES: usize = 16384;
        let (tid, interrupted) = (*tid, *interrupted);
        let registers = ptrace::registers(tid).map_err(trouble)?;
        let mut vectors = vec![0; MOST_BYTES];
        let len = ptrace::register_set(tid, machine::VECTORS, &mut vectors).map_err(trouble)?;
        vectors.truncate(len);
        let mask = ptrace::signal_mask(tid).map_err(trouble)?;
        // No handler of the program runs on top of the call.
        ptrace::set_signal_mask(tid, u64::MAX).map_err(trouble)?;
        Ok(Self { saved: Saved { tid, registers, vectors, mask, interrupted }, memory, sigreturn })
    }

    fn top(&self) -> u64 {
        (machine::stack_pointer(&self.saved.registers) - KEPT) & !15
    }

    /// Puts a text into the thread's stack, where calls leave it; its address.
    pub(crate) fn put_text(&self, text: &[u8]) -> Outcome<u64> {
        let address = self.top() + TEXT;
        self.memory.write(address, text).map_err(trouble)?;
        self.memory.write(address + text.len() as u64, &[0]).map_err(trouble)?;
        Ok(address)
    }

    /// Calls a function; the result of its last system call, which is the function's own for simple
    /// functions of libc.
    pub(crate) fn call(&mut self, function: u64, arguments: [u64; 6]) -> Outcome<u64> {
        let (slot, bytes) = machine::frame(&self.saved, self.top(), self.sigreturn);
        self.memory.write(slot, &bytes).map_err(trouble)?;
        let mut registers = self.saved.registers;
        machine::set_call(&mut registers, function, arguments, slot, self.sigreturn);
        ptrace::set_registers(self.saved.tid, &registers).map_err(trouble)?;
        self.run_to_return(machine::after_return(slot))
    }

    /// Runs the call to its `rt_sigreturn`, with that stack pointer.
    fn run_to_return(&mut self, end: u64) -> Outcome<u64> {
        let tid = self.saved.tid;
        let mut result = 0;
        loop {
            ptrace::resume_to_system_call(tid).map_err(trouble)?;
            match ptrace::wait(tid).map_err(trouble)? {
                Stop::Ended => return Err(Failure::new("the process ended")),
                Stop::SystemCall => {
                    let now = ptrace::registers(tid).map_err(trouble)?;
                    let number = machine::system_call(tid, &now);
                    if number == libc::SYS_rt_sigreturn && machine::stack_pointer(&now) == end {
                        machine::skip_sigreturn(&self.saved, now).map_err(trouble)?;
                        self.put_back()?;
                        return Ok(result);
                    }
                    result = machine::result(&now);
                }
                Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)) => {
                    self.put_back()?;
                    return Err(Failure::new(format!("signal {signal} in a call in the process")));
                }
                Stop::Signal(_) | Stop::Event(_) => {}
            }
        }
    }

    fn put_back(&self) -> Outcome {
        let Saved { tid, registers, vectors, .. } = &self.saved;
        ptrace::set_register_set(*tid, machine::VECTORS, vectors).map_err(trouble)?;
        ptrace::set_registers(*tid, registers).map_err(trouble)
    }

    /// Gives the thread its registers and signals back; it stays stopped.
    pub(crate) fn give_back(self) -> Outcome {
        self.put_back()?;
        ptrace::set_signal_mask(self.saved.tid, self.saved.mask).map_err(trouble)
    }
}
