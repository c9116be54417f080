//! Running a program with the probe inside.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::attach::hook_requests::HookRequests;
use super::attach::own_allocators::OwnAllocators;
use super::attach::{ptrace, start};
use super::carriers::{self, Carriers};
use super::forward::{Forwarder, Forwarding};
use super::process_tree::ProcessTree;
use super::{preload, suitability};
use crate::failure::{Failure, Outcome};
use crate::input_error;

pub use super::attach::own_allocators::Hooked;

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    forwarding: Forwarding,
    started: Instant,
    carriers: Carriers,
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

/// Which programs are recorded, and get entry hooks for the allocators inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The program that is started, and those that take its place by `exec`.
    Child,
    /// Those of all its descendants, too.
    Tree,
}

impl Scope {
    /// Its name in `HEAPWISE_CONF`.
    fn name(self) -> &'static str {
        match self {
            Scope::Child => "child",
            Scope::Tree => "tree",
        }
    }
}

/// Starts `command` with the probe preloaded and the options `conf` (`key:value,…`). `tell` is
/// called, perhaps from another thread, with the pid and the result for every program that has an
/// allocator inside.
pub fn start(
    command: &[OsString],
    conf: &str,
    scope: Scope,
    tell: impl Fn(u32, Outcome<Hooked>) + Clone + Send + 'static,
) -> Outcome<Running> {
    let [program, arguments @ ..] = command else {
        return Err(input_error!("no program given; try `heapwise run -- PROGRAM ARGS…`"));
    };
    let name = program.to_string_lossy();
    let path =
        suitability::find_program(&name).ok_or_else(|| input_error!("{}: no such program in PATH", name))?;
    if let Some(obstacle) = suitability::obstacle(&path) {
        return Err(input_error!("{} cannot be profiled: {}", name, obstacle));
    }
    let library = preload::path()?;
    let mut command = Command::new(&path);
    // The segment is read when the program has ended, and then removed.
    let mut conf = format!("{conf},keep_segment:true,{},scope:{}", carriers::launcher_key(), scope.name());
    let allocators = OwnAllocators::of(&path);
    if let Some(requests) = HookRequests::listen() {
        conf.push_str(",hooks:true");
        let plain = allocators.is_none().then_some(&*path);
        requests.answer(library.clone(), plain, tell.clone());
    }
    command.args(arguments).env("LD_PRELOAD", preload_list(&library)).env("HEAPWISE_CONF", conf);
    // heapwise_gs.h runs this executable, of the same version as the probe, for reports.
    if let Ok(own) = std::env::current_exe() {
        command.env("HEAPWISE_EXE", own);
    }
    // As a shell does: the name, not the path that it was found at.
    command.arg0(program);
    // Before the program starts: a signal in between would end this process and not the program.
    let forwarder =
        Forwarder::new().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let carriers = Carriers::before_start();
    if allocators.is_some() {
        ptrace::trace_from_start(&mut command);
    }
    let child = command.spawn().map_err(|error| input_error!("{}: cannot start: {}", name, error))?;
    let forwarding = forwarder.start(child.id());
    if let Some(allocators) = allocators {
        tell(child.id(), start::hook(child.id(), &allocators, &library));
    }
    Ok(Running { child, forwarding, started: Instant::now(), carriers })
}

/// Puts the probe first, so that its hooks are found before an allocator that the user preloads.
fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// It and its descendants.
    pub fn tree(&self) -> ProcessTree {
        ProcessTree::of(self.pid(), self.carriers.clone())
    }

    /// Waits for its end. Signals reach the program, not its profile (see [`Forwarder`]).
    pub fn wait(mut self) -> Outcome<Ended> {
        let status = self.child.wait().map_err(|error| Failure::new(format!("wait: {error}")))?;
        self.forwarding.end();
        Ok(self.ended(status))
    }

    fn ended(&self, status: ExitStatus) -> Ended {
        let signal = status.signal();
        let code = status.code().unwrap_or(128 + signal.unwrap_or(0));
        Ended { code: code as u8, signal, ran: self.started.elapsed() }
    }
}
