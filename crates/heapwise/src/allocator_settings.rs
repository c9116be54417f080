//! Settings of glibc's allocator for commands that run for long.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// With one arena per thread and its growing thresholds, glibc keeps two to three times the memory
/// in use.
const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "1048576"), ("MALLOC_TRIM_THRESHOLD_", "4194304")];

/// Starts this program again with [`SETTINGS`], which glibc reads only at the start of a process.
/// Returns where they are set already, or where that fails: the command then works with more
/// memory.
pub(crate) fn restart_with_them() {
    if std::env::var_os(SETTINGS[0].0).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let _ = command.args(arguments).envs(SETTINGS).exec();
}
