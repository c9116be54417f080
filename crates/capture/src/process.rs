//! Facts about processes from `/proc`.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// User id of heapwise itself.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Owner of a process; `None` when there is none.
pub fn uid(pid: u32) -> Option<u32> {
    Status::of(pid).map(|status| status.uid)
}

/// Parts of `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// User that started it.
    pub real_uid: u32,
    /// User whose rights it has.
    pub uid: u32,
    /// Its number in its own pid namespace.
    pub inner_pid: u32,
}

impl Status {
    /// That of a process; `None` when there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&read(&format!("/proc/{pid}/status"))?)
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()
        };
        let (users, pid) = (numbers("Uid:")?, numbers("Pid:")?);
        // Kernels without pid namespaces do not have the line.
        let inner_pid = *numbers("NSpid:").unwrap_or(pid).last()?;
        Some(Self { real_uid: *users.first()?, uid: *users.get(1)?, inner_pid })
    }
}

/// Whether a process has another root directory than this one, as in a container.
pub fn has_other_root(pid: u32) -> bool {
    let root = |who: &str| fs::metadata(format!("/proc/{who}/root")).map(|data| (data.dev(), data.ino()));
    let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    let pid = pid.to_string();
    let is_other = |other, own| matches!((other, own), (Ok(other), Ok(own)) if other != own);
    is_other(root(&pid), root("self"))
        || namespace(&pid).is_some_and(|other| Some(other) != namespace("self"))
}

/// All processes.
pub fn list() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Start time in clock ticks since boot (field 22 of `stat`); `None` when there is no such process
/// or it is a zombie. Read through `task/..` as the probe does: under qemu-user `/proc/PID/stat` of
/// the caller is emulated and has the start of the calling thread.
pub fn starttime(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/task/../stat"))?;
    // The second field is the name in parentheses and may hold anything, parentheses included.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Program name: last component of the executable's path.
pub fn name(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default()
}

/// The name it was started by, which differs from the program's for a link (`redis-server` links to
/// `redis-check-rdb`); cut at 15 bytes by the kernel.
fn called(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// Whether a user may call the process `name`.
pub(crate) fn is_called(pid: u32, name: &str) -> bool {
    self::name(pid) == name || called(pid).is_some_and(|called| called == name)
}

/// The usual name of a process: of its program, or of the link that it was started by.
pub fn usual_name(pid: u32) -> String {
    let program = name(pid);
    called(pid).filter(|called| !program.starts_with(&**called)).unwrap_or(program)
}

/// The command line of a process, on one line and cut to fit a message.
pub fn command_line(pid: u32) -> Option<String> {
    const MOST: usize = 80;
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(&bytes)).into_owned();
    let line: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    (!line.is_empty()).then(|| if text.chars().nth(MOST).is_some() { line + "…" } else { line })
}

/// Resident bytes of a process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The text of `/proc/PID/maps`; `None` when it cannot be read.
pub(crate) fn memory_map(pid: u32) -> Option<String> {
    read(&format!("/proc/{pid}/maps"))
}

/// Whether the preload library is part of the process's memory.
pub fn has_probe(pid: u32) -> bool {
    memory_map(pid).is_some_and(|maps| maps.contains("libheapwise"))
}

/// Reads a file of `/proc`: it has no length, and `fs::read_to_string` would start with a small
/// buffer.
fn read(path: &str) -> Option<String> {
    let mut text = String::with_capacity(8 << 10);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn the_last_number_is_that_of_the_innermost_namespace() {
        let text = "Name:\ta Uid: 7\nPid:\t40\nUid:\t1\t2\t3\t4\nNSpid:\t40\t9\t1\n";
        assert_eq!(Status::parse(text), Some(Status { real_uid: 1, uid: 2, inner_pid: 1 }));
        let without = "Pid:\t40\nUid:\t1\t2\t3\t4\n";
        assert_eq!(Status::parse(without).map(|status| status.inner_pid), Some(40));
        assert_eq!(Status::parse("Pid: x\n"), None);
    }
}
