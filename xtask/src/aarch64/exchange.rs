//! Profiles that change sides: taken on one architecture, read on the other. The program is gone
//! from where it ran, another one is in its place, and names come from a folder of debug files, by
//! build-id.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::kernel::Starter;
use super::{METRICS, total_of, witness};
use crate::runner;
use heapwise_testkit::failure::Failure;

/// A machine: its heapwise, a folder of victims compiled for it, and how its programs are started.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) heapwise: PathBuf,
    pub(super) victims: PathBuf,
    pub(super) starter: Starter,
}

/// What is taken.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// By `heapwise run --exact`.
    Profile,
    /// By `heapwise run --log`.
    Recording,
    /// jemalloc's format, written by the probe itself.
    HeapV2,
    /// A copy of shared memory while the program runs.
    LiveSegment,
}

const KINDS: [Kind; 4] = [Kind::Profile, Kind::Recording, Kind::HeapV2, Kind::LiveSegment];

/// A profile and what the program printed.
struct Taken {
    file: PathBuf,
    account: String,
}

/// Takes every kind on `taker`, reads it on `reader`; `scratch` is a folder of its own. The kinds,
/// for people.
pub(super) fn check(taker: &Machine, reader: &Machine, scratch: &Path) -> Result<String, Failure> {
    for kind in KINDS {
        let _ = fs::remove_dir_all(scratch);
        let at = |error| Failure::at(scratch, error);
        let segments = scratch.join("segments");
        fs::create_dir_all(&segments).map_err(at)?;
        fs::set_permissions(&segments, PermissionsExt::from_mode(0o700)).map_err(at)?;
        let program = scratch.join("program");
        let victim = if matches!(kind, Kind::LiveSegment) { "live_switch" } else { "plain" };
        fs::copy(taker.victims.join(victim), &program).map_err(at)?;
        let taken = taker.take(kind, &program, scratch)?;
        hide(&program, &taker.victims.join("steps"), &scratch.join("debug"))?;
        for (metric, name) in METRICS {
            let own = witness(&taken.account, name);
            let read = reader.total(metric, &taken.file, &scratch.join("debug"))?;
            if own.is_none() || read != own {
                return Err(Failure::new(format!(
                    "{kind:?} of {} on {}: {metric}: {read:?}, the program {own:?}",
                    taker.name, reader.name
                )));
            }
        }
    }
    Ok(format!("{KINDS:?}"))
}

/// Moves the program to where its build-id says, and puts `other` in its place.
fn hide(program: &Path, other: &Path, debug: &Path) -> Result<(), Failure> {
    let notes = runner::output(Command::new("readelf").arg("-n").arg(program))?;
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let id = notes.split_once("Build ID: ").and_then(|(_, rest)| rest.split_whitespace().next());
    let (first, rest) = id
        .and_then(|id| id.split_at_checked(2))
        .ok_or_else(|| Failure::new(format!("{} has no build-id", program.display())))?;
    let folder = debug.join(".build-id").join(first);
    fs::create_dir_all(&folder)
        .and_then(|()| fs::rename(program, folder.join(format!("{rest}.debug"))))
        .and_then(|()| fs::copy(other, program).map(drop))
        .map_err(|e| Failure::at(program, e))
}

impl Machine {
    fn take(&self, kind: Kind, program: &Path, scratch: &Path) -> Result<Taken, Failure> {
        match kind {
            Kind::Profile => self.run("--exact", "exchanged.hwp", program, scratch),
            Kind::Recording => self.run("--log", "exchanged.hwr", program, scratch),
            Kind::HeapV2 => {
                let mut command = self.preloaded(program, scratch)?;
                let conf = "prof:true,lg_prof_sample:0,prof_accum:true,prof_final:true,prof_prefix:exchanged";
                let output = runner::output(command.args(["20000", "7"]).env("MALLOC_CONF", conf))?;
                let account = String::from_utf8_lossy(&output.stdout).into_owned();
                Ok(Taken { file: only_file(scratch, ".heap")?, account })
            }
            Kind::LiveSegment => self.copy_live(program, scratch),
        }
    }

    fn run(&self, mode: &str, file: &str, program: &Path, scratch: &Path) -> Result<Taken, Failure> {
        let file = scratch.join(file);
        let mut run = self.starter.command(&self.heapwise);
        run.env("HEAPWISE_DIR", scratch.join("segments")).args(["run", "-q", mode, "-o"]).arg(&file);
        let output = runner::output(run.arg("--").arg(program).args(["20000", "7"]))?;
        Ok(Taken { file, account: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// The program with the probe and without a controller.
    fn preloaded(&self, program: &Path, scratch: &Path) -> Result<Command, Failure> {
        let library = runner::output(self.starter.command(&self.heapwise).arg("preload"))?;
        let library = String::from_utf8_lossy(&library.stdout).trim().to_owned();
        let mut command = self.starter.command("env");
        command
            .arg(format!("LD_PRELOAD={library}"))
            .arg(program)
            .current_dir(scratch)
            .env("HEAPWISE_DIR", scratch.join("segments"));
        Ok(command)
    }

    /// Copies the segment at a quiet moment of the program.
    fn copy_live(&self, program: &Path, scratch: &Path) -> Result<Taken, Failure> {
        let at = |error| Failure::at(program, error);
        let mut command = self.preloaded(program, scratch)?;
        command.env("HEAPWISE_CONF", "mode:exact").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(at)?;
        let (Some(mut orders), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("no pipes"));
        };
        orders.write_all(b"pause\n").map_err(at)?;
        let mut account = String::new();
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            let is_last = line.starts_with("witness inuse_bytes ");
            account = account + &line + "\n";
            if is_last {
                break;
            }
        }
        let file = scratch.join("copied.seg");
        // A segment is gigabytes of holes.
        let copied = only_file(&scratch.join("segments"), ".seg").and_then(|segment| {
            runner::output(Command::new("cp").arg("--sparse=always").args([&segment, &file]))
        });
        drop(orders);
        child.wait().map_err(at)?;
        copied.map(|_| Taken { file, account })
    }

    /// What this machine finds under the victim's own functions, by name.
    fn total(&self, metric: &str, profile: &Path, debug: &Path) -> Result<Option<i64>, Failure> {
        let mut top = self.starter.command(&self.heapwise);
        top.args(["top", "--json", "--no-cache", &format!("--{metric}"), "--focus", "^w_", "--debug-path"]);
        let output = runner::output(top.arg(debug).arg(profile))?;
        Ok(total_of(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The one file of a folder with such a name.
fn only_file(folder: &Path, suffix: &str) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| Failure::at(folder, e))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    files
        .find(|path| path.to_string_lossy().ends_with(suffix))
        .ok_or_else(|| Failure::new(format!("no file {suffix} in {}", folder.display())))
}
