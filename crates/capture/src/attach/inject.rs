//! Bringing the probe into a running process: through the process's own `dlopen`, from a file in
//! memory.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use heapwise_format::entry_hooks::{INJECTED_MAGIC, INJECTED_TEXT};
use heapwise_hooks::binary::{self, Binary};
use heapwise_hooks::maps::Maps;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use super::machine;
use super::memory::ProcessMemory;
use super::remote_call::Borrowed;
use crate::failure::{Failure, Outcome};
use crate::process_files::{MappedFile, Readable};

/// Functions of the process's libc.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Libc {
    pub(crate) malloc: u64,
    pub(crate) mmap: u64,
    pub(crate) mprotect: u64,
    dlopen: u64,
    memfd_create: u64,
    close: u64,
    /// Code that calls `rt_sigreturn`.
    pub(crate) sigreturn: u64,
}

impl Libc {
    /// Finds them; why not, for a process without glibc.
    pub(crate) fn find(pid: u32, maps: &Maps, memory: &ProcessMemory) -> Outcome<Self> {
        let files = maps.code_files();
        let is_named = |file: &Path, name: &str| {
            file.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name))
        };
        let Some(path) = files.iter().find(|file| is_named(file, "libc.so.6") || is_named(file, "libc-2."))
        else {
            // glibc's has a number behind that name.
            let is_musl = |file: &PathBuf| {
                is_named(file, "ld-musl") || is_named(file, "libc.musl") || file.ends_with("libc.so")
            };
            let is_musl = files.iter().any(is_musl);
            return Err(Failure::new(match is_musl {
                true => "it uses musl; heapwise's probe needs glibc",
                false => "it is statically linked: there is no dynamic linker to load the probe with",
            }));
        };
        let unreadable = || Failure::new("its libc cannot be read");
        let opened = open(pid, maps, path).ok_or_else(unreadable)?;
        let file = &opened.path;
        let code = Binary::read(file, Path::new("/")).ok_or_else(unreadable)?;
        let bias = maps.bias(path, &code).ok_or_else(|| Failure::new("its libc is not mapped"))?;
        let names = ["malloc", "mmap", "mprotect", "dlopen", "memfd_create", "close", "__libc_dlopen_mode"];
        let [malloc, mmap, mprotect, dlopen, memfd_create, close, old_dlopen] =
            binary::addresses(file, names);
        let found = |address: Option<u64>, name: &str| {
            let missing = || Failure::new(format!("its libc has no {name}"));
            address.map(|address| bias.wrapping_add(address)).ok_or_else(missing)
        };
        Ok(Self {
            malloc: found(malloc, "malloc")?,
            mmap: found(mmap, "mmap")?,
            mprotect: found(mprotect, "mprotect")?,
            dlopen: found(dlopen.or(old_dlopen), "dlopen")?,
            memfd_create: found(memfd_create, "memfd_create")?,
            close: found(close, "close")?,
            sigreturn: sigreturn(path, maps, memory)?,
        })
    }
}

/// Opens a file that the process has mapped: its path may name another file here.
pub(crate) fn open(pid: u32, maps: &Maps, path: &Path) -> Option<Readable> {
    let mapping = maps.0.iter().find(|mapping| Path::new(&mapping.path) == path)?;
    let (start, end) = (mapping.start, mapping.end);
    Readable::of(&MappedFile { pid, start, end, path: path.to_owned(), inode: None }).ok()
}

/// Code that calls `rt_sigreturn`: in libc, or in the kernel's vDSO.
fn sigreturn(libc: &Path, maps: &Maps, memory: &ProcessMemory) -> Outcome<u64> {
    let is_one = |path: &str| Path::new(path) == libc || path == "[vdso]";
    for mapping in maps.0.iter().filter(|mapping| mapping.is_code && is_one(&mapping.path)) {
        let code = memory.read(mapping.start, (mapping.end - mapping.start) as usize);
        let code = code.map_err(|error| Failure::new(format!("its libc: {error}")))?;
        let found = machine::SIGRETURN.iter().find_map(|form| memchr::memmem::find(&code, form));
        if let Some(at) = found {
            return Ok(mapping.start + at as u64);
        }
    }
    Err(Failure::new("its libc has no rt_sigreturn"))
}

/// Name of the file in memory; `/proc/PID/maps` shows it.
pub(crate) const NAME: &str = "libheapwise.so";

/// The bytes of the probe with settings.
pub(crate) fn image(library: &Path, conf: &str, directory: &str) -> Outcome<Vec<u8>> {
    let mut bytes = fs::read(library).map_err(|error| Failure::file(library, error))?;
    let at = memchr::memmem::find(&bytes, &INJECTED_MAGIC);
    let at = at.ok_or_else(|| Failure::file(library, "has no settings"))? + INJECTED_MAGIC.len();
    let path = library.to_str().unwrap_or_default();
    for (row, text) in [conf, directory, path].iter().enumerate() {
        let from = at + row * INJECTED_TEXT;
        let place = bytes.get_mut(from..from + text.len()).filter(|_| text.len() < INJECTED_TEXT);
        place.ok_or_else(|| Failure::new("the settings are too long"))?.copy_from_slice(text.as_bytes());
    }
    Ok(bytes)
}

/// Loads the probe by a borrowed thread.
pub(crate) fn load(pid: u32, thread: &mut Borrowed<'_>, libc: &Libc, image: &[u8]) -> Outcome {
    const CLOSE_ON_EXEC: u64 = 1;
    const RTLD_NOW: u64 = 2;
    let name = thread.put_text(NAME.as_bytes())?;
    let file = thread.call(libc.memfd_create, [name, CLOSE_ON_EXEC, 0, 0, 0, 0])?;
    if file as i64 >= 0 && (file as i64) < 1 << 20 {
        let written = write_memory_file(pid, file, image);
        let path = thread.put_text(format!("/proc/self/fd/{file}").as_bytes())?;
        let loaded = match written {
            Ok(()) => thread.call(libc.dlopen, [path, RTLD_NOW, 0, 0, 0, 0]).map(drop),
            Err(error) => Err(Failure::new(format!("the probe cannot be written: {error}"))),
        };
        thread.call(libc.close, [file, 0, 0, 0, 0, 0])?;
        return loaded;
    }
    Err(Failure::new(format!(
        "the process cannot create a file in memory: {}",
        std::io::Error::from_raw_os_error(-(file as i64) as i32)
    )))
}

/// Writes a file in the process's memory through its own descriptor. The process could put another
/// file in that place: with its descriptor nothing can be written that it cannot write itself, and
/// the file is checked.
fn write_memory_file(pid: u32, descriptor: u64, content: &[u8]) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let file = rustix::process::pidfd_getfd(process, descriptor as i32, PidfdGetfdFlags::empty())?;
    let opened = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let is_named = opened == Path::new(&format!("/memfd:{NAME} (deleted)"));
    if !is_named || rustix::fs::fstat(&file)?.st_nlink != 0 {
        return Err(io::Error::other("the process replaced its file in memory"));
    }
    File::from(file).write_all_at(content, 0)
}
