//! Identity and size of this process.

use heapwise_format::paths::ProcessId;

use crate::clock;
use crate::fixed_text::FixedText;
use crate::sys::{self, Errno, File};

/// Start time of the process in clock ticks since boot; 0 without `/proc`.
///
/// The path is one that qemu-user does not recognise: for `/proc/self/stat` it generates a line
/// with a start time that differs from the one other processes read.
pub(crate) fn start_time() -> u64 {
    let mut buffer = [0; 1024];
    File::open(c"/proc/self/task/../stat", libc::O_RDONLY)
        .ok()
        .and_then(|file| start_time_in(file.read_up_to(&mut buffer)))
        .unwrap_or(0)
}

/// Nanoseconds since the process started.
pub(crate) fn age_ns() -> u64 {
    // The kernel shows clock ticks of 1/100 s on both architectures.
    const TICK_NS: u64 = 10_000_000;
    clock::boot_ns().saturating_sub(start_time().saturating_mul(TICK_NS)).max(1)
}

/// Whether another process runs; `None` when that cannot be found out.
pub(crate) fn runs(process: ProcessId) -> Option<bool> {
    if sys::are_syscalls_disabled() {
        return None;
    }
    let mut path = FixedText::<64>::new();
    path.push(b"/proc/").push_decimal(u64::from(process.pid)).push(b"/task/../stat");
    let mut buffer = [0; 1024];
    match File::open(path.as_c_str()?, libc::O_RDONLY) {
        Ok(file) => {
            let stat = file.read_up_to(&mut buffer);
            let ended = matches!(field(stat, 3), None | Some(b"Z" | b"X"));
            Some(!ended && start_time_in(stat) == Some(process.starttime))
        }
        Err(Errno(libc::ENOENT | libc::ESRCH)) => Some(false),
        Err(_) => None,
    }
}

/// Bytes of the whole process in memory; the maximum when `/proc` cannot be read.
pub(crate) fn resident_bytes() -> u64 {
    let mut buffer = [0; 256];
    let pages = File::open(c"/proc/self/statm", libc::O_RDONLY).ok().and_then(|file| {
        let field = file.read_up_to(&mut buffer).split(|byte| *byte == b' ').nth(1)?;
        core::str::from_utf8(field).ok()?.parse::<u64>().ok()
    });
    pages.map_or(u64::MAX, |pages| pages.saturating_mul(sys::page_bytes()))
}

/// Most bytes that the process ever had in memory, since it was started by `exec`. (`getrusage`
/// also counts those before.) `None` when `/proc` cannot be read.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    if sys::are_syscalls_disabled() {
        return None;
    }
    let mut buffer = [0; 4096];
    let file = File::open(c"/proc/self/status", libc::O_RDONLY).ok()?;
    peak_in(file.read_up_to(&mut buffer))
}

/// `VmHWM:   1234 kB` in a `status` file.
fn peak_in(status: &[u8]) -> Option<u64> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"VmHWM:"))?;
    let number = line.strip_suffix(b" kB")?.trim_ascii_start();
    core::str::from_utf8(number).ok()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn start_time_in(stat: &[u8]) -> Option<u64> {
    core::str::from_utf8(field(stat, 22)?).ok()?.parse().ok()
}

/// A field of a `stat` line, from the third on. The second, the name, may contain anything: count
/// from its last `)`.
fn field(stat: &[u8], number: usize) -> Option<&[u8]> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2..)?.split(|byte| *byte == b' ').nth(number.checked_sub(3)?)
}

#[cfg(test)]
mod tests {
    use super::{peak_in, start_time_in};

    #[test]
    fn the_peak_is_a_line_of_the_status() {
        assert_eq!(peak_in(b"VmPeak:\t 9 kB\nVmHWM:\t   12 kB\nVmRSS:\t 7 kB\n"), Some(12 << 10));
        assert_eq!(peak_in(b"VmRSS:\t 7 kB\n"), None);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let tail = (3..=30).map(|n| if n == 3 { "S".into() } else { n.to_string() });
        let line = format!("1 (a) 5 (b) {}", tail.collect::<Vec<_>>().join(" "));
        assert_eq!(start_time_in(line.as_bytes()), Some(22));
        assert_eq!(start_time_in(b"1 (short) S 2 3"), None);
    }
}
