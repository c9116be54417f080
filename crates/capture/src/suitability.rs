//! Whether a program can carry the probe, checked before it starts.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use heapwise_format::bytes::{u16_at, u32_at, u64_at};

/// Why a program will ignore a preloaded library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// No dynamic loader.
    Static,
    /// musl's loader: the probe is built for glibc.
    Musl(String),
    /// Set-user-ID, set-group-ID: the loader ignores `LD_PRELOAD`.
    Secure,
    /// Another instruction set.
    Machine(u16),
    /// Built with a sanitizer, whose runtime replaces the allocator and insists on coming first.
    Sanitizer(&'static str),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Obstacle::Static => {
                write!(out, "it is statically linked, so no library can be preloaded; link it dynamically")
            }
            Obstacle::Musl(loader) => {
                write!(out, "it uses musl ({loader}); heapwise's probe needs glibc")
            }
            Obstacle::Secure => write!(
                out,
                "it is set-user-ID or set-group-ID, so the loader ignores LD_PRELOAD; run a copy without that bit"
            ),
            Obstacle::Sanitizer(runtime) => write!(
                out,
                "it is built with a sanitizer ({runtime}), which replaces the allocator itself; build it without"
            ),
            Obstacle::Machine(machine) => {
                write!(out, "it is built for another machine (ELF machine {machine})")
            }
        }
    }
}

/// Finds an obstacle; `None` also when the file is a script or cannot be read.
pub(crate) fn obstacle(program: &Path) -> Option<Obstacle> {
    let metadata = fs::metadata(program).ok()?;
    let mut head = vec![0; 64 * 1024];
    let length = File::open(program).ok()?.read(&mut head).ok()?;
    head.truncate(length);
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let own_machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let machine = u16_at(&head, 18)?;
    if machine != own_machine {
        return Some(Obstacle::Machine(machine));
    }
    match interpreter(&head)? {
        None => return Some(Obstacle::Static),
        Some(loader) if loader.contains("musl") => return Some(Obstacle::Musl(loader)),
        Some(_) => {}
    }
    if let Some(runtime) = sanitizer(program) {
        return Some(Obstacle::Sanitizer(runtime));
    }
    let privileged =
        metadata.permissions().mode() & 0o6000 != 0 && metadata.uid() != super::process::own_uid();
    privileged.then_some(Obstacle::Secure)
}

/// The sanitizer runtime a program needs: named in its dynamic string table, or linked in.
fn sanitizer(program: &Path) -> Option<&'static str> {
    /// Programs larger than this are not searched: sanitized ones are test builds.
    const MOST_BYTES: u64 = 64 << 20;
    const RUNTIMES: [&str; 4] = ["libasan.so", "libtsan.so", "libhwasan.so", "__asan_init"];
    let bytes = fs::metadata(program)
        .ok()
        .filter(|data| data.len() <= MOST_BYTES)
        .and_then(|_| fs::read(program).ok())?;
    RUNTIMES.into_iter().find(|runtime| memchr::memmem::find(&bytes, runtime.as_bytes()).is_some())
}

/// The loader that an ELF file names (`PT_INTERP`); outer `None` when the file is malformed.
fn interpreter(elf: &[u8]) -> Option<Option<String>> {
    let table = usize::try_from(u64_at(elf, 32)?).ok()?;
    let (size, count) = (usize::from(u16_at(elf, 54)?), usize::from(u16_at(elf, 56)?));
    for entry in (0..count).map(|row| table + row * size) {
        if u32_at(elf, entry)? == 3 {
            let at = usize::try_from(u64_at(elf, entry + 8)?).ok()?;
            let len = usize::try_from(u64_at(elf, entry + 32)?).ok()?;
            let bytes = heapwise_format::bytes::text(elf.get(at..at.checked_add(len)?)?);
            return Some(Some(String::from_utf8_lossy(bytes).into_owned()));
        }
    }
    Some(None)
}

/// Finds a command the way `execvp` would.
pub(crate) fn find_program(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|directory| directory.join(command)).find(|candidate| {
        fs::metadata(candidate).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}
