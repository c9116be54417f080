//! Attaching to a running process, and detaching.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heapwise_format::entry_hooks::{Patch, StateWord};
use heapwise_format::paths::DIRECTORY_VARIABLE;
use heapwise_hooks::binary::Binary;
use heapwise_hooks::family::{Family, Place, Reach, families};
use heapwise_hooks::function::Allocator;
use heapwise_hooks::island;
use heapwise_hooks::maps::Maps;
use heapwise_hooks::plan::Plan;

use super::Attached;
use super::inject::{self, Libc};
use super::install::{self, Installer, Prepared};
use super::memory::ProcessMemory;
use super::probe_image::{ProbeFile, ProbeImage};
use super::ptrace::Urgent;
use super::remote_call::Borrowed;
use super::start::read_maps;
use super::threads::{self, Locked, Stopped};
use crate::failure::{Failure, Outcome};
use crate::process_files::{self, Readable};
use crate::{preload, process};

/// Functions that are hooked besides allocations: mappings, limits, threads, the end. Not `sbrk`:
/// libc's allocator is its usual caller.
const OTHERS: [&str; 17] = [
    "dlclose",
    "exit",
    "pthread_create",
    "thrd_create",
    "setrlimit",
    "setrlimit64",
    "prlimit",
    "prlimit64",
    "mlockall",
    "syscall",
    "prctl",
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "shmat",
    "shmdt",
];

/// A binary of the process with an allocator.
struct Module {
    /// Path in the process's map.
    mapped: PathBuf,
    file: Readable,
    binary: Binary,
    families: Vec<Family>,
}

/// A process to attach to.
struct Process {
    pid: u32,
    memory: ProcessMemory,
    maps: Maps,
}

impl Process {
    fn open(pid: u32) -> Outcome<Self> {
        if pid == std::process::id() {
            return Err(Failure::new("heapwise does not attach to itself"));
        }
        let uid = process::uid(pid).ok_or_else(|| Failure::new(format!("no process {pid}")))?;
        let memory = ProcessMemory::open(pid).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied if uid != process::own_uid() => Failure::new(format!(
                "process {pid} belongs to user {uid}; run heapwise as that user, or as root"
            )),
            std::io::ErrorKind::PermissionDenied => Failure::new(format!(
                "process {pid}: tracing it is not permitted (with Yama it needs root or CAP_SYS_PTRACE)"
            )),
            _ => Failure::new(format!("process {pid}: {error}")),
        })?;
        Ok(Self { pid, memory, maps: read_maps(pid)? })
    }

    /// Binaries whose functions are to be hooked. libc's allocator is not, where a library replaces
    /// it.
    fn modules(&self) -> Vec<Module> {
        let executable = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let is_own = |file: &Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.contains("libheapwise") || name.starts_with("ld-linux")
        };
        let mut found = Vec::new();
        for mapped in self.maps.code_files().into_iter().filter(|file| !is_own(file)) {
            let is_executable = mapped == executable;
            let Some(file) = inject::open(self.pid, &self.maps, &mapped) else { continue };
            let folder = process_files::folder_of(self.pid, &mapped);
            let Some(binary) = Binary::read_in(&file.path, &folder, &root) else { continue };
            let place = if is_executable { Place::Executable } else { Place::Library };
            let mut families = families(&binary, place);
            families.retain(|family| !matches!(family.reach, Reach::None(_)));
            if !families.is_empty() {
                found.push(Module { mapped, file, binary, families });
            }
        }
        let is_replacement =
            |family: &Family| family.reach == Reach::Linker && family.allocator != Allocator::Libc;
        if found.iter().flat_map(|module| &module.families).any(is_replacement) {
            for module in &mut found {
                module.families.retain(|family| family.allocator != Allocator::Libc);
            }
        }
        found
    }

    fn image<'a>(&'a self, mapped: &Path, file: &'a ProbeFile) -> Outcome<ProbeImage<'a>> {
        let found = ProbeImage::find(&self.memory, &self.maps, mapped, file)?;
        found.ok_or_else(|| Failure::new("the probe in the process is not ready"))
    }

    fn plans(&self, modules: &[Module]) -> Vec<(PathBuf, Plan)> {
        let mut plans = Vec::new();
        for Module { mapped, file, binary, families } in modules {
            let Some(bias) = self.maps.bias(mapped, binary) else { continue };
            let file = &file.path;
            let mut plan = Plan::new(file, binary, &families.iter().collect::<Vec<_>>(), bias);
            if binary.find("__libc_malloc").is_some() {
                plan.add_jumps(file, binary, &OTHERS, bias);
            }
            plans.push((mapped.clone(), plan));
        }
        plans
    }
}

/// A seccomp filter may forbid system calls of the dynamic linker, so it is suspended while the
/// probe is loaded. The probe makes none afterwards.
fn refuse_unsuspended_filter(pid: u32) -> Outcome {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    if mode.is_none_or(|mode| mode.trim() == "0") {
        return Ok(());
    }
    Stopped::one_unfiltered(pid as libc::pid_t).map(drop).map_err(|failure| {
        Failure::new(format!(
            "process {pid} is behind a seccomp filter, which only root can suspend while the probe is loaded \
             ({failure}); or start it with `heapwise run`"
        ))
    })
}

/// The probe's file in a memory map: loaded by an attach, or preloaded.
fn probe(maps: &Maps) -> Option<(PathBuf, bool)> {
    let files = maps.code_files();
    let find = |part: &str| files.iter().find(|file| file.to_string_lossy().contains(part)).cloned();
    let injected = find(&format!("memfd:{}", inject::NAME)).map(|file| (file, true));
    injected.or_else(|| find("/libheapwise").map(|file| (file, false)))
}

/// Whether a process carries the probe: from its start, or attached and not detached since.
pub fn is_hooked(pid: u32) -> bool {
    let hooked = || {
        let process = Process::open(pid).ok()?;
        let (mapped, is_injected) = probe(&process.maps)?;
        let file = ProbeFile::read(&preload::path().ok()?, &[]).ok()?;
        Some(!is_injected || !process.image(&mapped, &file).ok()?.patches().ok()?.is_empty())
    };
    hooked().unwrap_or(false)
}

/// Brings the probe into a process and hooks its allocators; `conf` are the probe's options.
pub fn attach(pid: u32, conf: &str) -> Outcome<Attached> {
    let process = Process::open(pid)?;
    let library = preload::path()?;
    let file = ProbeFile::read(&library, &OTHERS)?;
    let before = probe(&process.maps);
    match &before {
        Some((_, false)) => {
            return Err(Failure::new(format!(
                "process {pid} was started with the probe; `heapwise start {pid}` switches it on"
            )));
        }
        // What a controller left that was killed, or hooks of now: begin from the original code.
        Some((mapped, true)) => drop(restore(&process, mapped, &file)?),
        None => {}
    }
    let libc = Libc::find(pid, &process.maps, &process.memory)?;
    let modules = process.modules();
    let mut plans = process.plans(&modules);
    plans.iter_mut().for_each(|(_, plan)| install::check(&process.memory, plan));
    plans.retain(|(_, plan)| !plan.hooks.is_empty() || !plan.refused.is_empty());
    let ranges: Vec<(u64, u64)> = plans.iter().flat_map(|(_, plan)| plan.ranges.clone()).collect();
    let is_foreign = |family: &Family| family.reach != Reach::Linker;
    let is_foreign = modules.iter().flat_map(|module| &module.families).any(is_foreign);
    // Another user cannot use a directory of this one, and in another root it is not there.
    let is_near = process::uid(pid) == Some(process::own_uid()) && !process::has_other_root(pid);
    let directory = std::env::var(DIRECTORY_VARIABLE).ok().filter(|_| is_near).unwrap_or_default();
    let bytes = inject::image(&library, &format!("{conf},foreign_blocks:{is_foreign}"), &directory)?;
    let loading = Loading { process: &process, file: &file, libc, bytes: before.is_none().then_some(bytes) };
    let locked = Locked { maps: &process.maps, allocators: &ranges };
    let (Loaded { process, mapped, places }, time) = loading.run(&locked, &plans)?;
    let image = process.image(&mapped, &file)?;
    let installer = Installer { memory: &process.memory, image: &image };
    let mut all = Prepared::default();
    for ((_, plan), (start, is_new)) in plans.into_iter().zip(places) {
        installer.prepare(plan, start, is_new, &mut all)?;
    }
    installer.announce(&all)?;
    let (threads, stopped) = replace(pid, &installer, &all)?;
    Ok(Attached {
        functions: all.patches.len(),
        threads,
        stopped,
        loading: time,
        refused: all.refused.into_iter().map(|(name, why)| (name, why.to_string())).collect(),
    })
}

/// A process with the probe, and memory for islands.
struct Loaded {
    /// As it is now.
    process: Process,
    /// Path of the probe in its map.
    mapped: PathBuf,
    /// Address of each plan's island, and whether it is new.
    places: Vec<(u64, bool)>,
}

/// The part of an attach that one thread of the process does.
struct Loading<'a> {
    process: &'a Process,
    file: &'a ProbeFile,
    libc: Libc,
    /// The library, unless the process has it already.
    bytes: Option<Vec<u8>>,
}

impl Loading<'_> {
    /// Loads the probe and maps an island for each plan; also the time that the thread took.
    fn run(&self, locked: &Locked<'_>, plans: &[(PathBuf, Plan)]) -> Outcome<(Loaded, Option<Duration>)> {
        let Process { pid, memory, .. } = self.process;
        if let Some(loaded) = self.find_islands(plans)? {
            return Ok((loaded, None));
        }
        refuse_unsuspended_filter(*pid)?;
        let free = threads::find_free(*pid, memory, locked, self.libc.malloc)?;
        let started = Instant::now();
        let mut thread = Borrowed::new(&free, memory, self.libc.sigreturn)?;
        let loaded = match &self.bytes {
            Some(bytes) => inject::load(*pid, &mut thread, &self.libc, bytes),
            None => Ok(()),
        };
        let mapped = loaded.and_then(|()| self.map_islands(&mut thread, plans));
        thread.give_back()?;
        drop(free);
        Ok((mapped?, Some(started.elapsed())))
    }

    /// As [`Loading::run`], where an earlier attach has left everything.
    fn find_islands(&self, plans: &[(PathBuf, Plan)]) -> Outcome<Option<Loaded>> {
        let process = Process::open(self.process.pid)?;
        let Some((mapped, true)) = probe(&process.maps) else { return Ok(None) };
        let image = process.image(&mapped, self.file)?;
        let installer = Installer { memory: &process.memory, image: &image };
        let known = plans.iter().map(|(_, plan)| Some((installer.find_island(plan)?, false)));
        let known: Option<Vec<(u64, bool)>> = known.collect();
        Ok(known.map(|places| Loaded { process, mapped, places }))
    }

    fn map_islands(&self, thread: &mut Borrowed<'_>, plans: &[(PathBuf, Plan)]) -> Outcome<Loaded> {
        let process = Process::open(self.process.pid)?;
        let (mapped, _) = probe(&process.maps).ok_or_else(|| {
            Failure::new("its dynamic linker did not load the probe (no room for thread-local storage?)")
        })?;
        let mut places = Vec::new();
        for (module, plan) in plans {
            let image = process.image(&mapped, self.file)?;
            let known = Installer { memory: &process.memory, image: &image }.find_island(plan);
            places.push(match known {
                Some(start) => (start, false),
                None => {
                    let len = island::bytes(plan.hooks.len());
                    let near = process.maps.room_near(process.maps.span(module).unwrap_or_default(), len);
                    (map_island(thread, &self.libc, &near, len)?, true)
                }
            });
        }
        Ok(Loaded { process, mapped, places })
    }
}

/// Maps memory at one of `places`: a page of data, the rest code.
fn map_island(thread: &mut Borrowed<'_>, libc: &Libc, places: &[u64], len: u64) -> Outcome<u64> {
    let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let data = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    for place in places {
        if thread.call(libc.mmap, [*place, len, code, flags, u64::MAX, 0])? == *place {
            thread.call(libc.mprotect, [*place, island::DATA, data, 0, 0, 0])?;
            return Ok(*place);
        }
    }
    Err(Failure::new("no free memory near the code of an allocator"))
}

/// Stops every thread, moves those that are inside replaced instructions, and writes the jumps.
fn replace(pid: u32, installer: &Installer<'_>, all: &Prepared) -> Outcome<(usize, Duration)> {
    let urgent = Urgent::new();
    let stopped = Stopped::all(pid)?;
    let since = stopped.since;
    // First the threads: without this process they would go on in either code.
    stopped.relocate(&all.moves)?;
    installer.apply(&all.patches)?;
    let threads = stopped.len();
    drop(stopped);
    let time = since.elapsed();
    drop(urgent);
    Ok((threads, time))
}

/// Restores the code of an attached process; the patches that there were.
fn restore(process: &Process, mapped: &Path, file: &ProbeFile) -> Outcome<(Vec<Patch>, usize, Duration)> {
    let image = process.image(mapped, file)?;
    let installer = Installer { memory: &process.memory, image: &image };
    let patches = image.patches()?;
    let (mut threads, mut time) = (0, Duration::ZERO);
    if !patches.is_empty() {
        let urgent = Urgent::new();
        let stopped = Stopped::all(process.pid)?;
        let since = stopped.since;
        installer.restore(&patches)?;
        threads = stopped.len();
        drop(stopped);
        time = since.elapsed();
        drop(urgent);
    }
    image.set_state(StateWord::Hooked, 0)?;
    image.set_patches(&[])?;
    Ok((patches, threads, time))
}

/// Restores every byte of a process's code. The probe stays loaded, and idle.
pub fn detach(pid: u32) -> Outcome<Attached> {
    let process = Process::open(pid)?;
    let not_attached = || Failure::new(format!("process {pid} is not attached"));
    let (mapped, _) =
        probe(&process.maps).filter(|(_, is_injected)| *is_injected).ok_or_else(not_attached)?;
    let (patches, threads, stopped) = restore(&process, &mapped, &ProbeFile::read(&preload::path()?, &[])?)?;
    if patches.is_empty() {
        return Err(not_attached());
    }
    Ok(Attached { functions: patches.len(), threads, stopped, loading: None, refused: Vec::new() })
}
