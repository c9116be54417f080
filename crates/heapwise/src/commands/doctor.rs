//! `doctor`: what works on this machine, and why not.

use std::fs;
use std::process::{Command, ExitCode};

use crate::failure::Outcome;
use heapwise_capture::{preload, process, segments};

/// One check: what was looked at, and what was found.
struct Check {
    name: &'static str,
    result: Result<String, String>,
}

/// Runs every check; exit status 1 when one fails.
pub(crate) fn run() -> Outcome<ExitCode> {
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
    let _ = fs::remove_file(&found.path);
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
