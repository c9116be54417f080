//! Programs of the target that start others: the kernel must know that qemu runs them
//! (`binfmt_misc`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::runner;
use heapwise_testkit::failure::Failure;

const FOLDER: &str = "/proc/sys/fs/binfmt_misc";
const RULE: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";

/// How a program of the target is started.
#[derive(Clone, Default)]
pub(super) struct Starter {
    /// What comes before it.
    before: Vec<String>,
}

impl Starter {
    /// The kernel is configured, as root until the next boot. Others do so in a namespace of their
    /// own (Linux 6.7), in which every program of the target is then started.
    pub(super) fn new() -> Result<Starter, Failure> {
        if Path::new(FOLDER).join("qemu-aarch64").exists() {
            return Ok(Starter::default());
        }
        let data = fs::metadata("/proc/self").map_err(|e| Failure::at(Path::new("/proc/self"), e))?;
        if data.uid() == 0 {
            return register().map(|()| Starter::default());
        }
        let inside = format!(
            "mount -t binfmt_misc none {FOLDER} && cat {RULE} >{FOLDER}/register && exec unshare -U --map-user={} --map-group={} \"$@\"",
            data.uid(),
            data.gid()
        );
        let before = ["unshare", "-rm", "sh", "-c", &inside, "sh"].map(str::to_owned).to_vec();
        let starter = Starter { before };
        match starter.command("true").status() {
            Ok(status) if status.success() => Ok(starter),
            _ => Err(Failure::new(format!(
                "aarch64 was not tested: the kernel must start its programs through qemu. As root, once: cat {RULE} >{FOLDER}/register"
            ))),
        }
    }

    /// A command that starts `program`.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words = self.before.iter();
        let Some(first) = words.next() else { return Command::new(program) };
        let mut command = Command::new(first);
        command.args(words).arg(program);
        command
    }
}

fn register() -> Result<(), Failure> {
    let register = Path::new(FOLDER).join("register");
    if !register.exists() {
        runner::run(Command::new("mount").args(["-t", "binfmt_misc", "none", FOLDER]))?;
    }
    let rule = fs::read(RULE).map_err(|e| Failure::at(Path::new(RULE), e))?;
    fs::write(&register, rule).map_err(|e| Failure::at(&register, e))
}
