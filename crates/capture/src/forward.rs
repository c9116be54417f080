//! Passes the signals that this process gets on to a program that it started.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;

use signal_hook::consts::{SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM};
use signal_hook::consts::{SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU};
use signal_hook::iterator::{Handle, Signals};

/// Signals that are passed on, but for the real-time ones. Not among them: those of job control,
/// which the terminal sends to the program too, of faults of this process, and of its own files.
const FORWARDED: [c_int; 15] = [
    SIGABRT,
    SIGALRM,
    SIGHUP,
    SIGINT,
    SIGIO,
    libc::SIGPWR,
    SIGPROF,
    SIGQUIT,
    libc::SIGSTKFLT,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGWINCH,
    SIGXCPU,
];

/// Signals caught for a program that is about to be started.
#[derive(Debug)]
pub(crate) struct Forwarder {
    signals: Signals,
}

impl Forwarder {
    /// Catches the signals from now on. Those that this process ignores (`nohup`) stay ignored,
    /// for the program too: a caught signal would have its default action there.
    pub(crate) fn new() -> io::Result<Self> {
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        let all = FORWARDED.into_iter().chain(real_time);
        Ok(Self { signals: Signals::new(all.filter(|signal| !is_ignored(*signal)))? })
    }

    /// Passes on what was caught, and what comes, to the process `pid`.
    pub(crate) fn start(mut self, pid: u32) -> Forwarding {
        let handle = self.signals.handle();
        std::thread::spawn(move || {
            for signal in self.signals.forever() {
                // The terminal sends these to the program itself.
                let is_of_terminal = matches!(signal, SIGINT | SIGQUIT | SIGWINCH);
                if !(is_of_terminal && is_in_foreground()) {
                    send(pid, signal);
                }
            }
        });
        Forwarding { handle }
    }
}

/// Signals that are being passed on.
#[derive(Debug)]
pub(crate) struct Forwarding {
    handle: Handle,
}

impl Forwarding {
    /// Passes on no more: the process has ended, and its number may be another's soon.
    pub(crate) fn end(&self) {
        self.handle.close();
    }
}

fn is_ignored(signal: c_int) -> bool {
    // SAFETY: plain data, for which zeroes are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action, it writes the present one to `action`.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Whether this process belongs to the foreground group of its terminal.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let group = terminal.ok().and_then(|terminal| rustix::termios::tcgetpgrp(&terminal).ok());
    group == Some(rustix::process::getpgrp())
}

fn send(pid: u32, signal: c_int) {
    // SAFETY: `kill` with integers; rustix does not send real-time signals.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}
