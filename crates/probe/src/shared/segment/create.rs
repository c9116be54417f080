//! Creates the segment of a process: the file, its size, its header.
//!
//! A segment outlives its process, so that the last state of a killed program can be read. The
//! command line removes what is too old (`capture/src/stale_segments.rs`). Where it has not run for
//! a long time, a simple cap keeps programs that start all day from filling the machine's memory:
//! in a crowded directory a program that exits removes its own name, and in a full one it gets no
//! file at all.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::CStr;

use heapwise_format::paths::{DIRECTORIES, DIRECTORY_VARIABLE, ProcessId, SUFFIX};
use heapwise_format::segment::{
    AllocatorKind, Architecture, COUNTERS_OFFSET, Counter, Header, Layout, PAGE_BYTES, State, Tier,
};

use super::{Segment, truncation};
use crate::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::fixed_text::FixedText;
use crate::jemalloc::options::options;
use crate::sys::{self, Errno, File};
use crate::{clock, environment, process};

/// The pages that every access takes for granted.
const LEADING_BYTES: u64 = (COUNTERS_OFFSET + PAGE_BYTES) as u64;

/// A path of a segment: a directory, a slash, two numbers.
type Path = FixedText<512>;

/// The name of the segment's file. Zeroed memory is valid: none.
pub(super) struct Name {
    path: UnsafeCell<Path>,
    /// The segment is memory of this process only: no directory would take a file.
    private: AtomicBool,
    /// The process that removes the name when it exits; 0: the name stays.
    remover: AtomicU32,
}

// SAFETY: the path is written while the segment is created, by one thread.
unsafe impl Sync for Name {}

impl Name {
    /// Whether the segment is memory of this process only.
    pub(super) fn is_private(&self) -> bool {
        self.private.load(Ordering::Relaxed)
    }

    /// Removes the name of the segment.
    pub(super) fn remove(&self) {
        // SAFETY: see `Name`.
        let path = unsafe { &*self.path.get() };
        path.as_c_str().filter(|path| !path.is_empty()).into_iter().for_each(sys::unlink);
    }
}

/// Names in a directory from which on a segment goes with its process: several times as many as the
/// command line keeps of ended processes, so that there is room for running ones.
const CROWDED: usize = 256;
/// Names from which on another segment gets no file.
const MOST_NAMES: usize = 1024;
/// Names from which on a file system that fills up is our doing.
const MANY_NAMES: usize = 128;
/// The part of it (one in so many bytes) that must then be free for another segment.
const RESERVE: u64 = 16;
/// Bytes that must be free in the file system of a directory if another one has them.
const LEAST_FREE: u64 = 8 << 20;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Architecture = Architecture::X86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Architecture = Architecture::Aarch64;

impl Segment {
    /// Removes the name of a test's segment.
    #[cfg(test)]
    pub(crate) fn remove_name(&self) {
        self.name.remove();
    }

    /// The process exits: its segment goes with it where there are too many.
    pub(crate) fn end(&self) {
        // A child that shares memory (`vfork`) is another process.
        if self.name.remover.load(Ordering::Relaxed) == sys::pid() {
            self.name.remove();
        }
    }

    /// Creates this process's segment, as large as an eighth of its address space allows; false
    /// without memory even for a private one. No tables are larger than those of `largest`.
    pub(crate) fn create(&self, allocator: AllocatorKind, largest: Tier) -> bool {
        let process = ProcessId { pid: sys::pid(), starttime: process::start_time() };
        let mut refusal = Errno(0);
        for tier in Tier::ALL.into_iter().skip_while(|tier| *tier != largest) {
            let layout = Layout::new(tier);
            if layout.file_bytes() > sys::limit(libc::RLIMIT_AS) / 8 {
                continue;
            }
            let (memory, private) = match in_file(&self.name, process, layout.file_bytes()) {
                Ok(memory) => (Ok(memory), false),
                Err(error) => {
                    refusal = error;
                    (sys::map_private(layout.file_bytes() as usize), true)
                }
            };
            let Ok(memory) = memory else { continue };
            self.name.private.store(private, Ordering::Relaxed);
            if !self.map(memory, layout) {
                self.release();
                self.name.remove();
                continue;
            }
            self.describe(process, allocator, layout);
            self.counter(Counter::Errno).store(refusal.0 as u64, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Uses `memory` as the segment; false when its first pages cannot be populated.
    fn map(&self, memory: *mut u8, layout: Layout) -> bool {
        let _ = sys::advise(memory as usize, layout.file_bytes() as usize, libc::MADV_DONTDUMP);
        self.publish(memory, layout.sections());
        self.bytes.store(layout.file_bytes(), Ordering::Relaxed);
        if !self.name.is_private() {
            truncation::watch(self);
        }
        self.ensure_populated(0, LEADING_BYTES)
    }

    fn describe(&self, process: ProcessId, allocator: AllocatorKind, layout: Layout) {
        let mut header = Header::new(process, ARCHITECTURE, layout);
        header.parent_pid = sys::parent_pid();
        header.uid = sys::effective_uid();
        header.allocator = allocator;
        header.start_monotonic_ns = clock::monotonic_ns();
        header.start_realtime_ns = clock::realtime_ns();
        let exe = header.exe.split_last_mut().map_or(&mut [][..], |(_, exe)| exe);
        let _ = sys::read_link(c"/proc/self/exe", exe);
        if let Ok(file) = File::open(c"/proc/self/cmdline", libc::O_RDONLY) {
            let _ = file.read_up_to(header.cmdline.split_last_mut().map_or(&mut [], |(_, line)| line));
        }
        // SAFETY: page 0 is mapped and populated, and no other thread writes it.
        header.encode(unsafe { &mut *self.base().cast::<[u8; PAGE_BYTES]>() });
        self.start_ns.store(header.start_monotonic_ns, Ordering::Relaxed);
        self.set_state(State::Starting);
    }
}

fn in_file(segment: &Name, process: ProcessId, bytes: u64) -> Result<*mut u8, Errno> {
    // Checked first: the attempt would be a signal to the program.
    if bytes > sys::limit(libc::RLIMIT_FSIZE) {
        return Err(Errno(libc::EFBIG));
    }
    if let Some(directory) = environment::variable::<256>(DIRECTORY_VARIABLE.as_bytes()) {
        let directory = directory.as_c_str().ok_or(Errno(libc::ENAMETOOLONG))?;
        return in_directory(segment, directory, process, bytes, 0);
    }
    let mut refusal = Errno(libc::ENOENT);
    // Where no file system has enough space, the tables get what there is.
    for (least, pattern) in
        [LEAST_FREE, 0].into_iter().flat_map(|least| DIRECTORIES.map(|pattern| (least, pattern)))
    {
        let mut directory = FixedText::<256>::new();
        for (part, text) in pattern.split("%u").enumerate() {
            if part > 0 {
                directory.push_decimal(u64::from(sys::effective_uid()));
            }
            directory.push(text.as_bytes());
        }
        let Some(directory) = directory.as_c_str() else { continue };
        match in_directory(segment, directory, process, bytes, least) {
            Ok(memory) => return Ok(memory),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// One descriptor at a time: a program may have a single one left.
fn in_directory(
    segment: &Name,
    directory: &CStr,
    process: ProcessId,
    bytes: u64,
    least_free: u64,
) -> Result<*mut u8, Errno> {
    match sys::make_directory(directory) {
        Ok(()) | Err(Errno(libc::EEXIST)) => {}
        Err(error) => return Err(error),
    }
    let opened = File::open(directory, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let status = opened.status()?;
    if status.uid != sys::effective_uid() || status.mode & 0o077 != 0 {
        return Err(Errno(libc::EPERM));
    }
    let names = count_names(&opened);
    let room = opened.room();
    let fills_up = names >= MANY_NAMES && room.free_bytes < room.bytes / RESERVE;
    let is_small = room.bytes != 0 && room.free_bytes < least_free;
    if names >= MOST_NAMES || fills_up || is_small {
        return Err(Errno(libc::ENOSPC));
    }
    drop(opened);
    let goes = names >= CROWDED && !options().keep_segment;
    segment.remover.store(if goes { process.pid } else { 0 }, Ordering::Relaxed);
    let mut path = Path::new();
    path.push(directory.to_bytes()).push(b"/").push_decimal(u64::from(process.pid)).push(b"-");
    path.push_decimal(process.starttime).push(SUFFIX.as_bytes());
    let name = path.as_c_str().ok_or(Errno(libc::ENAMETOOLONG))?;
    let file = new_file(name)?;
    file.set_mode(0o600);
    let memory = file.truncate(bytes).and_then(|()| has_room(&file)).and_then(|()| file.map_shared(bytes));
    if memory.is_err() {
        sys::unlink(name);
    }
    // SAFETY: see `Name`.
    unsafe { *segment.path.get() = path };
    memory
}

/// Names in a directory, as far as they are counted.
fn count_names(directory: &File) -> usize {
    let mut piece = [0; 2048];
    let mut count = 0;
    while count < MOST_NAMES {
        let mut entries = directory.entries(&mut piece);
        if entries.is_empty() {
            break;
        }
        // An entry has its own length in bytes 16 and 17, and its name from byte 19 on.
        while let Some(&[low, high, _, first]) = entries.get(16..20).and_then(|bytes| bytes.first_chunk()) {
            entries = entries.get(usize::from(u16::from_ne_bytes([low, high])).max(1)..).unwrap_or(&[]);
            count += usize::from(first != b'.');
        }
    }
    count
}

/// A full file system is noticed here, where another one can still be tried.
fn has_room(file: &File) -> Result<(), Errno> {
    match file.allocate(0, LEADING_BYTES) {
        // A kind of file system that does not support it.
        Err(Errno(libc::EOPNOTSUPP)) => Ok(()),
        other => other,
    }
}

/// An existing file of this name was written by this process before it called `exec`, which keeps
/// pid and start time. Its state becomes `Replaced`, for processes that have it open.
fn new_file(name: &CStr) -> Result<File, Errno> {
    let create = || File::open(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
    match create() {
        Err(Errno(libc::EEXIST)) => {
            if let Ok(old) = File::open(name, libc::O_RDWR) {
                let at = (COUNTERS_OFFSET + Counter::State as usize * 8) as u64;
                let _ = old.write_at(&(State::Replaced as u64).to_le_bytes(), at);
            }
            sys::unlink(name);
            create()
        }
        other => other,
    }
}
