//! `torture`: programs and recorders killed at random moments; every recording must open, and hold
//! what it must.
//!
//! The victim keeps its own account in a mapped file that outlives it. When the program is killed,
//! every allocation it had finished is in the recording, and none it had not begun. When the
//! recorder is killed, the program goes on, and the recording holds no more than was begun.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::account;
use crate::failure::Failure;
use crate::random::Random;

/// What a torture needs.
pub struct Torture {
    /// The heapwise executable.
    pub heapwise: PathBuf,
    /// The compiled `tortured`.
    pub victim: PathBuf,
    /// A directory of its own.
    pub scratch: PathBuf,
}

/// The process that is killed in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// The recorded program.
    Program,
    /// heapwise.
    Recorder,
}

/// The victim's account: allocations begun and done.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    pid: u64,
    begun: u64,
    done: u64,
}

impl Torture {
    /// Runs `rounds` rounds; which dies and when follows from `seed`.
    pub fn run(&self, rounds: u32, seed: u64) -> Result<(), Failure> {
        fs::create_dir_all(&self.scratch).map_err(|error| Failure::new(format!("scratch: {error}")))?;
        let mut random = Random::new(seed);
        for round in 0..rounds {
            let killed = if random.below(2) == 0 { Killed::Program } else { Killed::Recorder };
            let after = random.moment(700);
            self.round(killed, after).map_err(|problem| {
                Failure::new(format!("round {round}, {killed:?} killed after {after:?}: {problem}"))
            })?;
        }
        Ok(())
    }

    /// One round.
    pub fn round(&self, killed: Killed, after: Duration) -> Result<(), String> {
        let (recording, account) = (self.scratch.join("tortured.hwr"), self.scratch.join("account"));
        let _ = fs::remove_file(&account);
        let _ = fs::remove_file(&recording);
        // The log of a program that went on alone is full: a thousand of them would fill a disk.
        let _ = fs::remove_dir_all(self.scratch.join("segments"));
        let mut recorder = self.start(&recording, &account)?;
        let victim = Victim::await_start(&account)?;
        std::thread::sleep(after);
        match killed {
            Killed::Program => {
                victim.kill()?;
                recorder.wait().map_err(|error| error.to_string())?;
                let (own, recorded) = (read_account(&account), self.recorded(&recording)?);
                // On a machine that does not let the recorder run for a second, events are dropped
                // and counted.
                let lost = account::lost(self.command(), &recording)?;
                if recorded + lost < own.done || recorded > own.begun {
                    let (done, begun) = (own.done, own.begun);
                    return Err(format!("{recorded} recorded, {lost} lost, {done} done, {begun} begun"));
                }
            }
            Killed::Recorder => {
                recorder.kill().and_then(|()| recorder.wait()).map_err(|error| error.to_string())?;
                goes_on(&account)?;
                victim.kill()?;
                // Killed before its first flush, a recorder leaves a file without content.
                let flushed = fs::metadata(&recording).is_ok_and(|data| data.len() > 64);
                let recorded = if flushed { self.recorded(&recording)? } else { 0 };
                let own = read_account(&account);
                if recorded > own.begun {
                    return Err(format!("{recorded} recorded, {} begun", own.begun));
                }
            }
        }
        Ok(())
    }

    fn start(&self, recording: &Path, account: &Path) -> Result<Child, String> {
        self.command()
            .args(["run", "--log", "-q", "-f", "-o"])
            .arg(recording)
            .arg("--")
            .arg(&self.victim)
            .arg(account)
            .args(["60000", "2"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("heapwise does not start: {error}"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.heapwise);
        command.env("HEAPWISE_DIR", self.scratch.join("segments")).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Allocations by the victim that a recording holds.
    fn recorded(&self, recording: &Path) -> Result<u64, String> {
        account::total(self.command(), recording, "alloc_objects", "^w_malloc$")
    }
}

/// A running victim, killed when dropped.
struct Victim(u64);

impl Victim {
    fn await_start(account: &Path) -> Result<Self, String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let own = read_account(account);
            if own.begun > 0 {
                return Ok(Self(own.pid));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err("the victim did not start".into())
    }

    fn kill(&self) -> Result<(), String> {
        let status = Command::new("kill").args(["-9", &self.0.to_string()]).stderr(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("the victim {} cannot be killed: {other:?}", self.0)),
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Whether the program still allocates after its recorder died.
fn goes_on(account: &Path) -> Result<(), String> {
    let before = read_account(account).done;
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if read_account(account).done > before + 10_000 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the program stands still after {before} allocations"))
}

fn read_account(path: &Path) -> Account {
    let (begun, done) = account::begun_and_done(path);
    Account { pid: account::pid(path), begun, done }
}
