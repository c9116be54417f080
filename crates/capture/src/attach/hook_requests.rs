//! Hooks for programs that a launched program starts by `exec`: their probe requests them here and
//! waits (`crates/probe/src/entry/hook_request.rs`). No tracing is needed: the program does nothing
//! else meanwhile, and maps the memory for its island itself.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heapwise_format::entry_hooks::{REQUEST_SOCKET, REQUEST_TIMEOUT_MS};
use heapwise_hooks::island;

use super::install::Installer;
use super::memory::ProcessMemory;
use super::own_allocators::{Hooked, OwnAllocators};
use super::probe_image::{ProbeFile, ProbeImage};
use super::start::read_maps;
use crate::carriers;
use crate::failure::{Failure, Outcome};

/// Answers requests until this process ends.
pub(crate) struct HookRequests {
    listener: UnixListener,
}

impl HookRequests {
    /// Listens, so that a program may be started that requests hooks; `None` where that cannot be.
    pub(crate) fn listen() -> Option<Self> {
        let name = carriers::launcher_key().replace("launcher:", REQUEST_SOCKET);
        let address = SocketAddr::from_abstract_name(name).ok()?;
        Some(Self { listener: UnixListener::bind_addr(&address).ok()? })
    }

    /// Answers requests in a thread. `plain` is an executable without an allocator inside. For
    /// programs that have one, the callback gets the pid and the result.
    pub(crate) fn answer(
        self,
        probe: PathBuf,
        plain: Option<&Path>,
        tell: impl Fn(u32, Outcome<Hooked>) + Send + 'static,
    ) {
        let mut plain: BTreeSet<(u64, u64)> = plain.and_then(identity).into_iter().collect();
        std::thread::spawn(move || {
            for program in self.listener.incoming().flatten() {
                let Ok(peer) = rustix::net::sockopt::socket_peercred(&program) else { continue };
                let pid = peer.pid.as_raw_nonzero().get() as u32;
                // Any user can connect: only programs of this launcher are looked at.
                if !carriers::carries(pid, &carriers::launcher_key()) || is_plain(pid, &plain) {
                    continue;
                }
                match OwnAllocators::of_process(pid) {
                    Some(allocators) => tell(pid, hook(pid, &allocators, &probe, program)),
                    None => plain.extend(executable(pid)),
                }
            }
        });
    }
}

/// Device and number of a process's executable.
fn executable(pid: u32) -> Option<(u64, u64)> {
    identity(Path::new(&format!("/proc/{pid}/exe")))
}

/// Device and number of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let data = path.metadata().ok()?;
    Some((data.dev(), data.ino()))
}

/// Whether the executable is known to have no allocator inside.
fn is_plain(pid: u32, plain: &BTreeSet<(u64, u64)>) -> bool {
    executable(pid).is_some_and(|executable| plain.contains(&executable))
}

/// Hooks a program that waits for it; it runs on when its connection is dropped.
fn hook(pid: u32, allocators: &OwnAllocators, probe: &Path, mut program: UnixStream) -> Outcome<Hooked> {
    let timeout = Duration::from_millis(REQUEST_TIMEOUT_MS.into());
    let trouble = |error: std::io::Error| Failure::new(format!("its request: {error}"));
    program.set_read_timeout(Some(timeout)).map_err(trouble)?;
    let memory = ProcessMemory::open(pid).map_err(|error| Failure::new(format!("its memory: {error}")))?;
    let maps = read_maps(pid)?;
    let file = ProbeFile::read(probe, &[])?;
    let files = maps.code_files();
    let mapped = files.iter().find(|mapped| mapped.file_name() == probe.file_name());
    let image = mapped.map(|mapped| ProbeImage::find(&memory, &maps, mapped, &file)).transpose()?.flatten();
    let image = image.ok_or_else(|| Failure::new("the probe in the program is not ready"))?;
    let installer = Installer { memory: &memory, image: &image };
    let map = |place: u64, len: u64| {
        let started = Instant::now();
        let message: Vec<u8> =
            [place, len, island::DATA].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut got = [0; 8];
        program.write_all(&message).and_then(|()| program.read_exact(&mut got)).map_err(trouble)?;
        // After an answer the program waits for the same time again.
        match started.elapsed() < timeout {
            true => Ok(u64::from_le_bytes(got) == place),
            false => Err(Failure::new("it did not answer in time")),
        }
    };
    allocators.install(&installer, &maps, map)
}
