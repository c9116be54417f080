//! Running a program with the probe inside.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{preload, process, suitability};
use crate::failure::{Failure, Outcome};

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
}

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its exit status as a shell reports it: 128 + n for signal n.
    pub code: u8,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Wall-clock time it ran.
    pub ran: Duration,
}

/// Starts `command` with the probe preloaded and the options `conf` (`key:value,…`).
pub fn start(command: &[OsString], conf: &str) -> Outcome<Running> {
    let [program, arguments @ ..] = command else {
        return Err(Failure::new("no program given; try `heapwise run -- PROGRAM ARGS…`"));
    };
    let name = program.to_string_lossy();
    let path = suitability::find_program(&name)
        .ok_or_else(|| Failure::new(format!("{name}: no such program in PATH")))?;
    if let Some(obstacle) = suitability::obstacle(&path) {
        return Err(Failure::new(format!("{name} cannot be profiled: {obstacle}")));
    }
    let mut command = Command::new(&path);
    // The segment is read when the program has ended, and then removed.
    let own = std::process::id();
    let starttime = process::starttime(own).unwrap_or(0);
    let conf = format!("{conf},keep_segment:true,launcher:{own}-{starttime}");
    command.args(arguments).env("LD_PRELOAD", preload_list()?).env("HEAPWISE_CONF", conf);
    // heapwise_gs.h runs this executable, of the same version as the probe, for reports.
    if let Ok(own) = std::env::current_exe() {
        command.env("HEAPWISE_EXE", own);
    }
    let child = command.spawn().map_err(|error| Failure::new(format!("{name}: cannot start: {error}")))?;
    Ok(Running { child, started: Instant::now() })
}

/// Puts the probe first, so that its hooks are found before an allocator that the user preloads.
fn preload_list() -> Outcome<OsString> {
    let mut list = preload::path()?.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end. Signals meant to end the program reach the program, not its profile:
    /// a terminal's Ctrl-C goes to both already, a `kill` of heapwise is passed on.
    pub fn wait(mut self) -> Outcome<Ended> {
        let pid = self.pid();
        if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]) {
            std::thread::spawn(move || {
                for signal in signals.forever().filter(|signal| matches!(*signal, SIGTERM | SIGHUP)) {
                    forward(pid, signal);
                }
            });
        }
        let status = self.child.wait().map_err(|error| Failure::new(format!("wait: {error}")))?;
        Ok(self.ended(status))
    }

    fn ended(&self, status: ExitStatus) -> Ended {
        let signal = status.signal();
        let code = status.code().unwrap_or(128 + signal.unwrap_or(0));
        Ended { code: code as u8, signal, ran: self.started.elapsed() }
    }
}

fn forward(pid: u32, signal: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid as i32), Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}
