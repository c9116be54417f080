//! A binary with many constants is searched in bounded memory.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

use heapwise_hooks::binary::Binary;
use heapwise_hooks::function::Allocator;

/// Bytes of constants.
const CONSTANTS: u64 = 48 << 20;
/// Most bytes that reading the binary may take.
const MOST_BYTES: u64 = 8 << 20;

/// Highest resident memory of this process so far, in bytes.
fn highest_resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// A library with these constants, and a text of jemalloc after them; removed when dropped.
struct Library(PathBuf);

impl Library {
    fn build() -> Self {
        let folder = env::temp_dir().join(format!("heapwise-constants-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let library = Self(folder);
        let source = format!(".section .rodata\n.zero {CONSTANTS}\n.string \"<jemalloc>: error\"\n");
        fs::write(library.0.join("constants.s"), source).unwrap();
        let options = ["-shared", "-nostdlib", "constants.s", "-o", "constants.so"];
        let built = Command::new("gcc").args(options).current_dir(&library.0).status();
        assert!(built.unwrap().success());
        library
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn constants_are_searched_in_bounded_memory() {
    let library = Library::build();
    let before = highest_resident_bytes();
    let binary = Binary::read(&library.0.join("constants.so"), &library.0).unwrap();
    let more = highest_resident_bytes() - before;
    assert_eq!(binary.texts, [Allocator::Jemalloc]);
    assert!(more < MOST_BYTES, "{more} bytes more");
}
