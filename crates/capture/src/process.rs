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
    fs::metadata(format!("/proc/{pid}")).ok().map(|data| data.uid())
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

/// Whether a file of this name is mapped by the process; true when `/proc` is unreadable.
pub fn maps(pid: u32, file_name: &str) -> bool {
    let Some(maps) = read(&format!("/proc/{pid}/maps")) else { return true };
    maps.lines().any(|line| line.trim_end_matches(" (deleted)").ends_with(file_name))
}

/// Whether the preload library is part of the process's memory.
pub(crate) fn has_probe(pid: u32) -> bool {
    read(&format!("/proc/{pid}/maps")).is_some_and(|maps| maps.contains("libheapwise"))
}

/// Reads a file of `/proc`: it has no length, and `fs::read_to_string` would start with a small
/// buffer.
fn read(path: &str) -> Option<String> {
    let mut text = String::with_capacity(8 << 10);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}
