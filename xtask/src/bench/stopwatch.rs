//! What a run cost: wall time, processor time, peak memory of the program and its children.
//!
//! The accounting is done by `benches/programs/stopwatch.c`: the usage of one particular child is
//! reported by wait4(2), which std does not offer.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use heapwise_testkit::failure::Failure;

/// What one run cost. Seconds and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub wall: f64,
    /// User and system time of the process and of the children it waited for: a wrapper's is
    /// included.
    pub cpu: f64,
    /// The largest resident set of any process of the run.
    pub peak_rss: u64,
    pub status: ExitStatus,
}

/// The compiled stopwatch, and the file it writes to.
pub(crate) struct Stopwatch {
    program: PathBuf,
    file: PathBuf,
}

impl Stopwatch {
    pub(crate) fn new(program: PathBuf, scratch: &Path) -> Stopwatch {
        Stopwatch { program, file: scratch.join("usage") }
    }

    /// `command` under the stopwatch, ended after `limit` (whole seconds). Streams are set on the
    /// result.
    pub(crate) fn wrap(&self, command: &Command, limit: Duration) -> Command {
        let mut wrapped = Command::new(&self.program);
        wrapped.arg(&self.file).arg(limit.as_secs().max(1).to_string());
        for (name, value) in command.get_envs() {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value.unwrap_or_default());
            wrapped.arg(setting);
        }
        wrapped.arg("--").arg(command.get_program()).args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        wrapped
    }

    /// Starts a wrapped command.
    pub(crate) fn start(&self, wrapped: &mut Command) -> Result<Child, Failure> {
        wrapped.spawn().map_err(|e| Failure::at(&self.program, e))
    }

    /// Waits for a started one.
    pub(crate) fn finish(&self, child: &mut Child) -> Result<Usage, Failure> {
        child.wait().map_err(|e| Failure::at(&self.program, e))?;
        let line = fs::read_to_string(&self.file).map_err(|e| Failure::at(&self.file, e))?;
        parse(&line)
            .ok_or_else(|| Failure::new(format!("{} could not account for a run", self.program.display())))
    }

    /// Runs a wrapped command to its end.
    pub(crate) fn run(&self, wrapped: &mut Command) -> Result<Usage, Failure> {
        let mut child = self.start(wrapped)?;
        self.finish(&mut child)
    }
}

fn parse(line: &str) -> Option<Usage> {
    let mut words = line.split_whitespace();
    let wall = words.next()?.parse().ok()?;
    let cpu = words.next()?.parse().ok()?;
    let peak_rss = words.next()?.parse().ok()?;
    let status = ExitStatus::from_raw(words.next()?.parse().ok()?);
    Some(Usage { wall, cpu, peak_rss, status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_and_half_of_one_refused() {
        let usage = parse("1.5 0.25 4096 768\n").unwrap();
        assert_eq!((usage.wall, usage.cpu, usage.peak_rss), (1.5, 0.25, 4096));
        assert_eq!(usage.status.code(), Some(3));
        assert!(parse("1.5 0.25").is_none());
    }

    #[test]
    fn settings_reach_the_program_and_not_the_stopwatch() {
        let watch = Stopwatch::new("watch".into(), Path::new("/scratch"));
        let wrapped =
            watch.wrap(Command::new("prog").arg("x").env("LD_PRELOAD", "lib.so"), Duration::from_secs(9));
        let args: Vec<_> = wrapped.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(args, ["/scratch/usage", "9", "LD_PRELOAD=lib.so", "--", "prog", "x"]);
        assert_eq!(wrapped.get_envs().count(), 0);
    }
}
