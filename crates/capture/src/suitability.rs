//! Whether a program can carry the probe, checked before it starts.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use heapwise_format::bytes::{u16_at, u32_at, u64_at};
use memchr::memmem;

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
pub fn obstacle(program: &Path) -> Option<Obstacle> {
    let metadata = fs::metadata(program).ok()?;
    let mut head = vec![0; 64 * 1024];
    let mut file = File::open(program).ok()?;
    let length = file.read(&mut head).ok()?;
    head.truncate(length);
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let own_machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let machine = u16_at(&head, 18)?;
    if machine != own_machine {
        return Some(Obstacle::Machine(machine));
    }
    match interpreter(&head) {
        None => return Some(Obstacle::Static),
        Some(loader) if loader.contains("musl") => return Some(Obstacle::Musl(loader)),
        Some(_) => {}
    }
    if let Some(runtime) = sanitizer(&head, &file) {
        return Some(Obstacle::Sanitizer(runtime));
    }
    let privileged =
        metadata.permissions().mode() & 0o6000 != 0 && metadata.uid() != super::process::own_uid();
    privileged.then_some(Obstacle::Secure)
}

/// The sanitizer runtime a program needs: a library or function in its dynamic string table. The
/// same names elsewhere in a file mean nothing: a compiler has them in its messages.
fn sanitizer(elf: &[u8], file: &File) -> Option<&'static str> {
    const RUNTIMES: [&str; 4] = ["libasan.so", "libtsan.so", "libhwasan.so", "__asan_init"];
    let strings = dynamic_strings(elf, file)?;
    let is_name = |at: usize| at.checked_sub(1).is_some_and(|before| strings[before] == 0);
    let is_there = |runtime: &&str| memmem::find_iter(&strings, runtime.as_bytes()).any(is_name);
    RUNTIMES.into_iter().find(is_there)
}

/// The dynamic string table: names of needed libraries and of dynamic symbols.
fn dynamic_strings(elf: &[u8], file: &File) -> Option<Vec<u8>> {
    /// Bytes read of a table at most.
    const MOST_BYTES: u64 = 64 << 20;
    const STRTAB: u64 = 5;
    const STRSZ: u64 = 10;
    let read = |at: u64, bytes: u64| {
        let mut content = vec![0; usize::try_from(bytes.min(MOST_BYTES)).ok()?];
        file.read_exact_at(&mut content, at).ok()?;
        Some(content)
    };
    let dynamic = segments(elf).find(|segment| segment.kind == PT_DYNAMIC)?;
    let dynamic = read(dynamic.offset, dynamic.bytes)?;
    let value = |tag: u64| {
        let mut entries = (0..dynamic.len() / 16).map(|row| row * 16);
        let entry = entries.find(|entry| u64_at(&dynamic, *entry) == Some(tag))?;
        u64_at(&dynamic, entry + 8)
    };
    let (address, bytes) = (value(STRTAB)?, value(STRSZ)?);
    let is_there = |segment: &ElfSegment| {
        segment.kind == PT_LOAD
            && (segment.address..segment.address.saturating_add(segment.bytes)).contains(&address)
    };
    let segment = segments(elf).find(is_there)?;
    read(segment.offset.checked_add(address - segment.address)?, bytes)
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;

/// A row of the program header table.
struct ElfSegment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

/// The program headers in the first bytes of an ELF file.
fn segments(elf: &[u8]) -> impl Iterator<Item = ElfSegment> {
    let table = u64_at(elf, 32).and_then(|table| usize::try_from(table).ok()).unwrap_or(usize::MAX);
    let (size, count) = (u16_at(elf, 54).unwrap_or(0), u16_at(elf, 56).unwrap_or(0));
    (0..usize::from(count)).map_while(move |row| {
        let entry = row.checked_mul(size.into())?.checked_add(table)?;
        let long = |at: usize| u64_at(elf, entry.checked_add(at)?);
        Some(ElfSegment { kind: u32_at(elf, entry)?, offset: long(8)?, address: long(16)?, bytes: long(32)? })
    })
}

/// The loader that an ELF file names.
fn interpreter(elf: &[u8]) -> Option<String> {
    let segment = segments(elf).find(|segment| segment.kind == PT_INTERP)?;
    let (at, len) = (usize::try_from(segment.offset).ok()?, usize::try_from(segment.bytes).ok()?);
    let bytes = heapwise_format::bytes::text(elf.get(at..at.checked_add(len)?)?);
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Whether a command is a shell or a script for one: the program that a user means is what it
/// starts.
pub fn is_shell(command: &str) -> bool {
    const SHELLS: [&str; 6] = ["sh", "dash", "bash", "ash", "ksh", "zsh"];
    let Some(path) = find_program(command) else { return false };
    let mut head = [0; 128];
    let len = File::open(&path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    let line = head[..len].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    // `#!/bin/sh -e`, `#!/usr/bin/env bash`
    let mut words: Vec<&str> = line.strip_prefix("#!").unwrap_or_default().split_whitespace().collect();
    words.truncate(2);
    let name = path.to_string_lossy();
    let mut names = words.into_iter().chain([&*name]).filter_map(|word| word.rsplit('/').next());
    names.any(|name| SHELLS.contains(&name))
}

/// Finds a command the way `execvp` would.
pub fn find_program(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|directory| directory.join(command)).find(|candidate| {
        fs::metadata(candidate).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}
