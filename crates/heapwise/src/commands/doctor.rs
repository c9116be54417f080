//! `doctor`: what works on this machine, and why not; which allocators a program or process has.

use std::fs;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::failure::Outcome;
use crate::{file_error, input_error};
use heapwise_capture::allocators::{self, AllocatorFound};
use heapwise_capture::attach;
use heapwise_capture::{preload, process, segments, suitability};
use heapwise_hooks::family::{Obstacle, Reach};

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Program file or process id whose allocators are shown
    #[arg(value_name = "PROGRAM|PID")]
    target: Option<String>,
}

/// One check: what was looked at, and what was found.
struct Check {
    name: &'static str,
    result: Result<String, String>,
}

/// Runs every check; exit status 1 when one fails, or when an allocator cannot be seen.
pub(crate) fn run(args: &DoctorArgs) -> Outcome<ExitCode> {
    match &args.target {
        None => check_machine(),
        Some(target) => show_allocators(target),
    }
}

/// The allocators of a program or a process.
fn show_allocators(target: &str) -> Outcome<ExitCode> {
    let (found, needed) = match target.parse() {
        Ok(pid) if process::uid(pid).is_none() => {
            return Err(input_error!("no process {}", pid));
        }
        Ok(pid) => (allocators::of_process(pid), Vec::new()),
        Err(_) => {
            let path = suitability::find_program(target)
                .ok_or_else(|| input_error!("{}: no such program in PATH", target))?;
            if let Some(obstacle) = suitability::obstacle(&path) {
                say!("FAIL  program              {obstacle}");
                return Ok(ExitCode::FAILURE);
            }
            let found = allocators::of_program(&path);
            found.ok_or_else(|| file_error!(&path, "not a 64-bit ELF program"))?
        }
    };
    for library in needed {
        say!("ok    {:<20} seen: calls go through the dynamic linker", library);
    }
    let mut healthy = true;
    for AllocatorFound { module, family } in &found {
        let name = family.allocator.name();
        let file = module.file_name().unwrap_or(module.as_os_str()).to_string_lossy();
        let functions = format!("{} and {} more functions", family, family.functions.len().max(1) - 1);
        let (verdict, text) = match family.reach {
            Reach::Linker => ("ok   ", format!("{file}: seen: calls go through the dynamic linker")),
            Reach::Entry => {
                ("ok   ", format!("{file}: {functions}; `run` and `attach` hook them at their entry"))
            }
            Reach::None(Obstacle::Stripped) => {
                ("FAIL ", format!("{file}: not seen: its symbols were stripped; install its debug file"))
            }
            Reach::None(Obstacle::Inlined) => {
                ("FAIL ", format!("{file}: not seen: its functions were inlined into their callers"))
            }
        };
        healthy &= !matches!(family.reach, Reach::None(_));
        say!("{verdict} {name:<20} {text}");
    }
    if found.is_empty() {
        say!("ok    libc                 seen: calls go through the dynamic linker");
    }
    if let Some(pid) = target.parse().ok().filter(|pid| !attach::is_hooked(*pid)) {
        say!("-     probe                not in the process; `heapwise attach {pid}` brings it in");
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_machine() -> Outcome<ExitCode> {
    let checks = [
        Check { name: "preload library", result: preload_library() },
        Check { name: "segment directory", result: segment_directory() },
        Check { name: "probe in a program", result: probe_in_a_program() },
        Check { name: "C library", result: c_library() },
        Check { name: "kernel", result: kernel() },
    ];
    let mut healthy = true;
    for check in &checks {
        match &check.result {
            Ok(detail) => say!("ok    {:<20} {detail}", check.name),
            Err(problem) => {
                healthy = false;
                say!("FAIL  {:<20} {problem}", check.name);
            }
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn preload_library() -> Result<String, String> {
    preload::path().map(|path| path.display().to_string()).map_err(|failure| failure.to_string())
}

fn segment_directory() -> Result<String, String> {
    let mut problems = Vec::new();
    for directory in segments::directories() {
        let parent = directory.parent().unwrap_or(&directory).to_owned();
        match rustix::fs::statvfs(&parent) {
            Ok(info) if info.f_bavail > 0 => {
                let free = heapwise_profile::quantity::bytes(info.f_bavail as f64 * info.f_frsize as f64);
                return Ok(format!("{} ({free} free)", directory.display()));
            }
            Ok(_) => problems.push(format!("{} is full", parent.display())),
            Err(error) => problems.push(format!("{}: {error}", parent.display())),
        }
    }
    Err(format!("{}; set HEAPWISE_DIR to a directory of yours", problems.join("; ")))
}

fn probe_in_a_program() -> Result<String, String> {
    let library = preload::path().map_err(|failure| failure.to_string())?;
    let child = Command::new("/bin/sh")
        .args(["-c", "exec sleep 0.3"])
        .env("LD_PRELOAD", library)
        .env("HEAPWISE_CONF", "mode:sampled,rate:1")
        .spawn()
        .map_err(|error| format!("/bin/sh: {error}"))?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let pid = child.id();
    let seen = segments::of_child(pid);
    let _ = child.wait_with_output();
    let found = seen.map_err(|failure| failure.to_string())?;
    let _ = found.remove();
    Ok("loads and keeps its segment".into())
}

fn c_library() -> Result<String, String> {
    let output = Command::new("ldd").arg("--version").output().map_err(|error| format!("ldd: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.lines().next().unwrap_or_default();
    if first.is_empty() { Err("not glibc; the probe needs glibc".into()) } else { Ok(first.to_owned()) }
}

fn kernel() -> Result<String, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    Ok(format!("{} (user {})", release.trim(), process::own_uid()))
}
