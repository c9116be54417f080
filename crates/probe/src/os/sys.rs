//! System calls, raw: they never touch libc's `errno`, never allocate, and cannot be interposed by
//! the program (an allocator that hooks `mmap` must not see ours).
#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::arch;
use crate::atomics::{AtomicBool, Ordering};

/// A negated result of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

type Result<T> = core::result::Result<T, Errno>;

/// Set when a system call would kill the program.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Makes no system call from now on: all fail.
pub(crate) fn disable_syscalls() {
    QUIET.store(true, Ordering::Relaxed);
}

pub(crate) fn are_syscalls_disabled() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// # Safety
/// As [`arch::syscall`].
unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    // Miri has no kernel.
    if are_syscalls_disabled() || cfg!(miri) {
        return -(libc::EPERM as isize);
    }
    // SAFETY: the caller's promise.
    unsafe { arch::syscall(number, arguments) }
}

fn checked(result: isize) -> Result<usize> {
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// A file descriptor that closes itself.
#[derive(Debug)]
pub(crate) struct File(usize);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and used nowhere else.
        unsafe { syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Result of [`File::status`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
}

/// Result of [`File::room`]: zeroes for a file system without a size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) free_bytes: u64,
}

/// Memory that is unmapped on drop.
pub(crate) struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Zeroed memory; `None` when there is none.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        map_private(bytes).ok().map(|start| Self { start, bytes })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped while `self` lives.
        unsafe { core::slice::from_raw_parts(self.start, self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped while `self` lives, and exclusive to it.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what was borrowed from it is gone.
        unsafe { unmap(self.start, self.bytes) };
    }
}

/// Whether there is a file of this name that was changed after the wall-clock time `ns`.
pub(crate) fn is_changed_since(path: &CStr, ns: u64) -> bool {
    let mut data = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let arguments = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        data.as_mut_ptr() as usize,
        libc::AT_SYMLINK_NOFOLLOW as usize,
        0,
        0,
    ];
    // SAFETY: `path` is NUL-terminated, and the kernel fills `data`.
    if checked(unsafe { syscall(libc::SYS_newfstatat, arguments) }).is_err() {
        return false;
    }
    // SAFETY: zeroes are valid, and the kernel wrote the rest.
    let data = unsafe { data.assume_init() };
    let changed =
        (data.st_ctime as u64).saturating_mul(1_000_000_000).saturating_add(data.st_ctime_nsec as u64);
    changed > ns
}

impl File {
    fn open_with(path: &CStr, flags: i32, mode: usize) -> Result<Self> {
        Self::open_from(libc::AT_FDCWD as usize, path, flags, mode)
    }

    fn open_from(directory: usize, path: &CStr, flags: i32, mode: usize) -> Result<Self> {
        let flags = (flags | libc::O_CLOEXEC) as usize;
        let arguments = [directory, path.as_ptr() as usize, flags, mode, 0, 0];
        // SAFETY: `path` is NUL-terminated and outlives the call.
        checked(unsafe { syscall(libc::SYS_openat, arguments) }).map(Self)
    }

    /// Opens a file of the probe's with `flags`, never through a link; a created one gets
    /// mode 0600.
    pub(crate) fn open(path: &CStr, flags: i32) -> Result<Self> {
        Self::open_with(path, flags | libc::O_NOFOLLOW, 0o600)
    }

    /// Opens a file that the user named, to be read by the user, mode 0644, with nothing in it.
    pub(crate) fn create(path: &CStr) -> Result<Self> {
        Self::open_with(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, 0o644)
    }

    /// As [`Self::create`], but not through a link: the probe chose the name, so other users can
    /// guess it and create a link there.
    pub(crate) fn create_unlinked(path: &CStr) -> Result<Self> {
        Self::open_with(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NOFOLLOW, 0o644)
    }

    /// Opens a file of the user's to read, through links.
    pub(crate) fn open_plain(path: &CStr) -> Result<Self> {
        Self::open_with(path, libc::O_RDONLY, 0)
    }

    /// Writes everything.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> Result<()> {
        write_all(self.0, bytes)
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> Result<usize> {
        // SAFETY: the kernel writes at most `into.len()` bytes there.
        checked(unsafe { syscall(libc::SYS_read, [self.0, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) })
    }

    /// Reads until `into` is full or the file ends; the part filled.
    pub(crate) fn read_up_to<'a>(&self, into: &'a mut [u8]) -> &'a [u8] {
        let mut len = 0;
        while let Some(rest) = into.get_mut(len..) {
            match self.read(rest) {
                Ok(0) | Err(_) => break,
                Ok(count) => len += count,
            }
        }
        into.get(..len).unwrap_or(&[])
    }

    /// Fills `into` from the bytes at `offset` on; an error when the file ends before.
    pub(crate) fn read_exact_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let mut len = 0;
        while let Some(rest) = into.get_mut(len..).filter(|rest| !rest.is_empty()) {
            let arguments =
                [self.0, rest.as_mut_ptr() as usize, rest.len(), (offset as usize).wrapping_add(len), 0, 0];
            // SAFETY: the kernel writes at most `rest.len()` bytes there.
            match checked(unsafe { syscall(libc::SYS_pread64, arguments) }) {
                Ok(0) => return Err(Errno(libc::EIO)),
                Ok(count) => len += count,
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        let arguments = [self.0, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
        // SAFETY: the kernel reads `bytes.len()` bytes there.
        checked(unsafe { syscall(libc::SYS_pwrite64, arguments) })
    }

    pub(crate) fn truncate(&self, bytes: u64) -> Result<()> {
        // SAFETY: no pointers.
        checked(unsafe { syscall(libc::SYS_ftruncate, [self.0, bytes as usize, 0, 0, 0, 0]) }).map(drop)
    }

    pub(crate) fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        let arguments = [self.0, 0, offset as usize, bytes as usize, 0, 0];
        // SAFETY: no pointers.
        checked(unsafe { syscall(libc::SYS_fallocate, arguments) }).map(drop)
    }

    pub(crate) fn set_mode(&self, mode: u32) {
        // SAFETY: no pointers.
        unsafe { syscall(libc::SYS_fchmod, [self.0, mode as usize, 0, 0, 0, 0]) };
    }

    pub(crate) fn status(&self) -> Result<Status> {
        // SAFETY: zero is a valid `stat`, and the kernel fills it.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: `stat` is large enough.
        checked(unsafe { syscall(libc::SYS_fstat, [self.0, &raw mut stat as usize, 0, 0, 0, 0]) })?;
        Ok(Status { mode: stat.st_mode, uid: stat.st_uid })
    }

    /// The next entries of this directory, as `getdents64` has them; none at its end.
    pub(crate) fn entries<'a>(&self, into: &'a mut [u8]) -> &'a [u8] {
        let arguments = [self.0, into.as_mut_ptr() as usize, into.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most `into.len()` bytes there.
        let len = checked(unsafe { syscall(libc::SYS_getdents64, arguments) }).unwrap_or(0);
        into.get(..len).unwrap_or(&[])
    }

    /// The file system that this file is on.
    pub(crate) fn room(&self) -> Room {
        // SAFETY: zero is a valid `statfs`, and the kernel fills it.
        let mut all: libc::statfs = unsafe { core::mem::zeroed() };
        // SAFETY: `all` is large enough.
        unsafe { syscall(libc::SYS_fstatfs, [self.0, &raw mut all as usize, 0, 0, 0, 0]) };
        let bytes = |blocks: u64| blocks.saturating_mul(all.f_bsize as u64);
        Room { bytes: bytes(all.f_blocks), free_bytes: bytes(all.f_bavail) }
    }

    /// Maps the whole file shared, sparse pages not reserved.
    pub(crate) fn map_shared(&self, bytes: u64) -> Result<*mut u8> {
        map(0, bytes as usize, libc::MAP_SHARED | libc::MAP_NORESERVE, self.0)
    }
}

/// A connection to another process.
pub(crate) struct Socket(File);

impl Socket {
    /// Connects to a socket by its abstract name.
    pub(crate) fn connect(name: &[u8]) -> Result<Self> {
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
        // SAFETY: no pointers.
        let socket = unsafe { syscall(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0]) };
        let socket = File(checked(socket)?);
        let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
        // Behind a zero byte, which makes the name an abstract one.
        address.sun_path.iter_mut().skip(1).zip(name).for_each(|(to, from)| *to = *from as _);
        let len = core::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        // SAFETY: the kernel reads `len` bytes of `address`, or refuses a longer name.
        checked(unsafe {
            syscall(libc::SYS_connect, [socket.0, &raw const address as usize, len, 0, 0, 0])
        })?;
        Ok(Self(socket))
    }

    /// Waits for a message; false when none comes in this time, or the other side has ended.
    pub(crate) fn receive(&self, into: &mut [u8], milliseconds: u32) -> bool {
        let mut waited = libc::pollfd { fd: self.0.0 as i32, events: libc::POLLIN, revents: 0 };
        let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
        let mut time = libc::timespec { tv_sec: seconds.into(), tv_nsec: i64::from(rest) * 1_000_000 };
        loop {
            let arguments = [&raw mut waited as usize, 1, &raw mut time as usize, 0, 0, 0];
            // SAFETY: the kernel writes the events and the remaining time.
            match checked(unsafe { syscall(libc::SYS_ppoll, arguments) }) {
                Ok(0) => return false,
                Ok(_) => return self.0.read(into) == Ok(into.len()),
                Err(Errno(libc::EINTR)) => {}
                Err(_) => return false,
            }
        }
    }

    /// Sends a short message; whether it was sent.
    pub(crate) fn send(&self, message: &[u8]) -> bool {
        let flags = libc::MSG_NOSIGNAL as usize;
        let arguments = [self.0.0, message.as_ptr() as usize, message.len(), flags, 0, 0];
        // SAFETY: the kernel reads `message.len()` bytes there.
        checked(unsafe { syscall(libc::SYS_sendto, arguments) }) == Ok(message.len())
    }
}

/// Whether the process is behind a seccomp filter.
pub(crate) fn is_filtered() -> bool {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) != 0 }
}

/// Maps memory at an address where nothing is: `data` bytes, then code; its address.
pub(crate) fn map_island(address: usize, bytes: usize, data: usize) -> Result<usize> {
    let code = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    // SAFETY: nothing is replaced.
    let mapped = unsafe { syscall(libc::SYS_mmap, [address, bytes, code, flags, usize::MAX, 0]) };
    let mapped = checked(mapped)?;
    protect(mapped, data.min(bytes), libc::PROT_READ | libc::PROT_WRITE)?;
    Ok(mapped)
}

fn write_all(file: usize, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let arguments = [file, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the kernel reads `bytes.len()` bytes there.
        match checked(unsafe { syscall(libc::SYS_write, arguments) }) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or(&[]),
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes to standard error.
pub(crate) fn write_error(bytes: &[u8]) {
    let _ = write_all(libc::STDERR_FILENO as usize, bytes);
}

fn map(address: usize, bytes: usize, flags: i32, file: usize) -> Result<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: without MAP_FIXED the kernel chooses unused addresses; with it, the promise of
    // `replace`.
    checked(unsafe { syscall(libc::SYS_mmap, [address, bytes, protection, flags as usize, file, 0]) })
        .map(|address| address as *mut u8)
}

/// Memory for the interpreter that detects races (`cargo xtask miri`).
#[cfg(miri)]
pub(crate) fn map_private(bytes: usize) -> Result<*mut u8> {
    let layout = std::alloc::Layout::from_size_align(bytes, 64 * 1024).map_err(|_| Errno(libc::ENOMEM))?;
    // SAFETY: `bytes` is never zero.
    Ok(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Zeroed private memory that appears in no core dump of the program.
#[cfg(not(miri))]
pub(crate) fn map_private(bytes: usize) -> Result<*mut u8> {
    let memory = map(0, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, usize::MAX)?;
    advise(memory as usize, bytes, libc::MADV_DONTDUMP)?;
    #[cfg(all(test, loom))]
    crate::atomics::mapped(memory, bytes);
    Ok(memory)
}

/// Bytes of a System V shared memory segment.
pub(crate) fn shared_memory_bytes(id: i32) -> Option<u64> {
    let mut description = core::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
    let arguments = [id as usize, libc::IPC_STAT as usize, description.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes a description to where one has room.
    checked(unsafe { syscall(libc::SYS_shmctl, arguments) }).ok()?;
    // SAFETY: zeroes are a valid description.
    Some(unsafe { description.assume_init() }.shm_segsz as u64)
}

/// Inode of an open file.
pub(crate) fn inode(file: i32) -> Option<u64> {
    // SAFETY: zero is a valid `stat`, and the kernel fills it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is large enough.
    checked(unsafe { syscall(libc::SYS_fstat, [file as usize, &raw mut stat as usize, 0, 0, 0, 0]) }).ok()?;
    Some(stat.st_ino)
}

/// Puts zeroed private memory in the place of other memory of the probe's.
///
/// # Safety
/// Zeroes are valid for everything that refers to that memory, and no other mapping of the process
/// is there.
pub(crate) unsafe fn replace(memory: *mut u8, bytes: usize) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    map(memory as usize, bytes, flags, usize::MAX).map(drop)
}

/// Unmaps memory of [`map_private`] or [`File::map_shared`].
///
/// # Safety
/// Nothing refers to it any more.
pub(crate) unsafe fn unmap(memory: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall(libc::SYS_munmap, [memory as usize, bytes, 0, 0, 0, 0]) };
}

/// Populates pages of a mapping (Linux 5.14).
pub(crate) fn populate(address: usize, bytes: usize) -> Result<()> {
    const MADV_POPULATE_WRITE: i32 = 23;
    advise(address, bytes, MADV_POPULATE_WRITE)
}

/// Populates the page of a word, on any kernel and without a file: failure is an error here, not a
/// signal. The word keeps its value, also under concurrent stores.
pub(crate) fn touch(address: usize) -> Result<()> {
    /// The operation on the second address: `|= 0`; then wake the waiters if it was 0. There are
    /// never waiters.
    const OR_ZERO: usize = 2 << 28;
    let wake = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the kernel checks both addresses; the word keeps its value.
    checked(unsafe { syscall(libc::SYS_futex, [address, wake, 0, 0, address, OR_ZERO]) }).map(drop)
}

/// Whether advice on these pages has an effect: an emulator may accept any advice.
pub(crate) fn heeds_advice(address: usize, bytes: usize) -> bool {
    const NO_SUCH_ADVICE: i32 = -1;
    advise(address, bytes, NO_SUCH_ADVICE).is_err()
}

/// Changes the protection of pages.
pub(crate) fn protect(address: usize, bytes: usize, protection: i32) -> Result<()> {
    // SAFETY: the callers change their own pages, and take no right away that they had.
    checked(unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection as usize, 0, 0, 0]) }).map(drop)
}

/// `madvise` with an advice that loses no data.
pub(crate) fn advise(address: usize, bytes: usize, advice: i32) -> Result<()> {
    if cfg!(miri) {
        return Ok(());
    }
    // SAFETY: DONTDUMP, WIPEONFORK, POPULATE_WRITE, HUGEPAGE change no content in this process.
    checked(unsafe { syscall(libc::SYS_madvise, [address, bytes, advice as usize, 0, 0, 0]) }).map(drop)
}

pub(crate) fn make_directory(path: &CStr) -> Result<()> {
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0o700, 0, 0, 0];
    // SAFETY: `path` is NUL-terminated.
    checked(unsafe { syscall(libc::SYS_mkdirat, arguments) }).map(drop)
}

pub(crate) fn unlink(path: &CStr) {
    // SAFETY: `path` is NUL-terminated.
    unsafe { syscall(libc::SYS_unlinkat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// The target of a symbolic link, as much as fits.
pub(crate) fn read_link<'a>(path: &CStr, into: &'a mut [u8]) -> &'a [u8] {
    let arguments =
        [libc::AT_FDCWD as usize, path.as_ptr() as usize, into.as_mut_ptr() as usize, into.len(), 0, 0];
    // SAFETY: the kernel writes at most `into.len()` bytes.
    let len = checked(unsafe { syscall(libc::SYS_readlinkat, arguments) }).unwrap_or(0);
    into.get(..len).unwrap_or(&[])
}

/// The soft limit of a resource; the maximum when it is unlimited or unknown.
pub(crate) fn limit(resource: u32) -> u64 {
    if cfg!(miri) {
        // Leaves room for the smallest segment that has a log.
        return 128 << 20;
    }
    let mut both = libc::rlimit64 { rlim_cur: u64::MAX, rlim_max: u64::MAX };
    // SAFETY: `both` is large enough; no new limit is set.
    unsafe {
        syscall(libc::SYS_prlimit64, [0, resource as usize, 0, &raw mut both as usize, 0, 0]);
    }
    both.rlim_cur
}

/// An entry of the auxiliary vector; 0 when the kernel gave none: libc then sets `errno`, which is
/// the program's.
pub(crate) fn auxiliary(kind: u64) -> u64 {
    // SAFETY: both functions are always callable; the place of `errno` is this thread's.
    unsafe {
        let place = libc::__errno_location();
        let errno = *place;
        let value = libc::getauxval(kind);
        *place = errno;
        value
    }
}

/// Bytes of a page.
pub(crate) fn page_bytes() -> u64 {
    auxiliary(libc::AT_PAGESZ).max(4096)
}

/// Sleeps; less when a signal comes.
pub(crate) fn sleep(nanoseconds: u64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as i64 };
    // SAFETY: `time` outlives the call.
    unsafe { syscall(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

fn number(call: i64) -> u32 {
    // SAFETY: identity calls take no arguments and cannot fail.
    unsafe { syscall(call, [0; 6]) as u32 }
}

pub(crate) fn pid() -> u32 {
    number(libc::SYS_getpid)
}

pub(crate) fn parent_pid() -> u32 {
    number(libc::SYS_getppid)
}

pub(crate) fn tid() -> u32 {
    number(libc::SYS_gettid)
}

pub(crate) fn effective_uid() -> u32 {
    number(libc::SYS_geteuid)
}

/// The calling thread's name.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe {
        syscall(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0]);
    }
    name
}

/// An unpredictable seed; from a clock where the kernel provides none.
pub(crate) fn random() -> u64 {
    let mut seed = 0_u64;
    // SAFETY: the kernel writes 8 bytes.
    let result = unsafe { syscall(libc::SYS_getrandom, [&raw mut seed as usize, 8, 1, 0, 0, 0]) };
    if result == 8 { seed } else { crate::clock::monotonic_ns() ^ u64::from(tid()) << 32 }
}

/// Ends the process at once.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: no pointers; does not return.
        unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The signals that a thread had blocked; `None`: nothing was changed.
#[derive(Clone, Copy)]
pub(crate) struct SignalMask(Option<u64>);

/// Blocks all signals of the calling thread but those of its own faults; the mask before.
pub(crate) fn block_signals() -> SignalMask {
    const FAULTS: [i32; 5] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    let others = FAULTS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
    let mut before = 0_u64;
    let arguments = [libc::SIG_BLOCK as usize, &raw const others as usize, &raw mut before as usize, 8, 0, 0];
    // SAFETY: the kernel reads and writes 8 bytes.
    let changed = checked(unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) }).is_ok();
    SignalMask(changed.then_some(before))
}

/// Restores what [`block_signals`] found.
pub(crate) fn restore_signals(mask: SignalMask) {
    let Some(mask) = mask.0 else { return };
    let arguments = [libc::SIG_SETMASK as usize, &raw const mask as usize, 0, 8, 0, 0];
    // SAFETY: the kernel reads 8 bytes.
    unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
}

/// Sends a signal to the calling thread.
pub(crate) fn raise(signal: i32) {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_tgkill, [pid() as usize, tid() as usize, signal as usize, 0, 0, 0]) };
}

/// Ends the process the way `abort` does, without libc.
pub(crate) fn abort() -> ! {
    loop {
        // SAFETY: sends a signal to ourselves.
        unsafe {
            syscall(libc::SYS_tgkill, [pid() as usize, tid() as usize, libc::SIGABRT as usize, 0, 0, 0]);
            syscall(libc::SYS_exit_group, [127, 0, 0, 0, 0, 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beyond the end of a file, as on a full file system, a store into a mapping is a `SIGBUS`.
    #[test]
    #[cfg_attr(miri, ignore = "a system call of the kernel's own")]
    fn a_page_that_cannot_be_real_is_an_error() {
        let file = File::open(c"/tmp", libc::O_TMPFILE | libc::O_RDWR).expect("a file");
        file.truncate(4096).expect("a page");
        let memory = file.map_shared(8192).expect("two pages of addresses");
        file.write_at(&[7; 4], 0).expect("written");
        assert_eq!(touch(memory as usize), Ok(()));
        assert_eq!(touch(memory as usize + 4096), Err(Errno(libc::EFAULT)));
        // SAFETY: the first page is mapped, and no other code uses it.
        assert_eq!(unsafe { memory.cast::<u32>().read() }, 0x0707_0707);
        // SAFETY: nothing refers to it any more.
        unsafe { unmap(memory, 8192) };
    }
}
