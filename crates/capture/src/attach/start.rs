//! Hooks at the start of a program: the program stops when the dynamic linker has loaded and
//! relocated everything, before any constructor runs.

use std::fs;
use std::io;
use std::path::Path;

use heapwise_hooks::binary;
use heapwise_hooks::island;
use heapwise_hooks::maps::Maps;

use super::install::Installer;
use super::machine::{self, BEHIND_BREAKPOINT, BREAKPOINT, SYSTEM_CALL};
use super::memory::ProcessMemory;
use super::own_allocators::{Hooked, OwnAllocators};
use super::probe_image::{ProbeFile, ProbeImage};
use super::ptrace::{self, Stop};
use crate::failure::{Failure, Outcome};

/// Hooks a program that has just been started by [`ptrace::trace_from_start`] and lets it run. It
/// runs in any case; without hooks when this fails.
pub(crate) fn hook(pid: u32, allocators: &OwnAllocators, probe: &Path) -> Outcome<Hooked> {
    let tid = pid as libc::pid_t;
    let result = hook_stopped(pid, tid, allocators, probe);
    // After a failure the thread may be stopped or gone.
    let _ = ptrace::detach(tid, 0);
    result
}

fn hook_stopped(pid: u32, tid: libc::pid_t, allocators: &OwnAllocators, probe: &Path) -> Outcome<Hooked> {
    expect_stop(tid, |stop| stop == Stop::Signal(libc::SIGTRAP))?;
    let memory = ProcessMemory::open(pid).map_err(|error| failure("its memory", &error))?;
    let loader = Loader::find(pid, &memory)?;
    let file = ProbeFile::read(probe, &[])?;
    loop {
        loader.run_to_notifier(tid, &memory)?;
        let maps = read_maps(pid)?;
        let is_loaded = maps.code_files().iter().any(|file| file == probe);
        if let Some(image) =
            is_loaded.then(|| ProbeImage::find(&memory, &maps, probe, &file)).transpose()?.flatten()
        {
            let target = Target { tid, memory: &memory, maps: &maps };
            let installer = Installer { memory: &memory, image: &image };
            return allocators.install(&installer, &maps, |place, len| target.map_island(place, len));
        }
        Loader::step_over(tid)?;
    }
}

/// Reads `/proc/PID/maps`.
pub(super) fn read_maps(pid: u32) -> Outcome<Maps> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps"));
    Ok(Maps::parse(&text.map_err(|error| failure("its memory map", &error))?))
}

fn failure(what: &str, error: &io::Error) -> Failure {
    Failure::new(format!("{what}: {error}"))
}

/// Waits for a stop; other signals are delivered.
fn expect_stop(tid: libc::pid_t, is_wanted: impl Fn(Stop) -> bool) -> Outcome {
    loop {
        match ptrace::wait(tid).map_err(|error| failure("wait", &error))? {
            Stop::Ended => return Err(Failure::new("the program ended")),
            stop if is_wanted(stop) => return Ok(()),
            Stop::Signal(signal) => ptrace::resume(tid, signal).map_err(|error| failure("resume", &error))?,
            Stop::SystemCall | Stop::Event(_) => {
                ptrace::resume(tid, 0).map_err(|error| failure("resume", &error))?;
            }
        }
    }
}

/// The dynamic linker of a program that is about to start.
struct Loader {
    /// Its function that does nothing, for debuggers: called when the list of objects has changed.
    notifier: u64,
    /// Its first bytes.
    original: Vec<u8>,
}

impl Loader {
    /// Its base address is in the auxiliary vector, its path in the memory map.
    fn find(pid: u32, memory: &ProcessMemory) -> Outcome<Loader> {
        const AT_BASE: u64 = 7;
        let vector = fs::read(format!("/proc/{pid}/auxv")).map_err(|error| failure("auxv", &error))?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let mut pairs = vector.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
        let base = pairs.find(|(key, _)| *key == AT_BASE).map_or(0, |(_, value)| value);
        let maps = read_maps(pid)?;
        let path =
            maps.0.iter().find(|mapping| mapping.start == base && base != 0).map(|mapping| &mapping.path);
        let path = path.ok_or_else(|| Failure::new("no dynamic linker"))?;
        let [notifier] = binary::addresses(Path::new(path), ["_dl_debug_state"]);
        let notifier = notifier.ok_or_else(|| Failure::new(format!("{path}: not glibc's dynamic linker")))?;
        let notifier = base + notifier;
        let original = memory.read(notifier, BREAKPOINT.len()).map_err(|error| failure("read", &error))?;
        Ok(Loader { notifier, original })
    }

    /// Lets the program run until the dynamic linker calls the function.
    fn run_to_notifier(&self, tid: libc::pid_t, memory: &ProcessMemory) -> Outcome {
        memory.write(self.notifier, BREAKPOINT).map_err(|error| failure("write", &error))?;
        ptrace::resume(tid, 0).map_err(|error| failure("resume", &error))?;
        expect_stop(tid, |stop| stop == Stop::Signal(libc::SIGTRAP))?;
        memory.write(self.notifier, &self.original).map_err(|error| failure("write", &error))?;
        let mut registers = ptrace::registers(tid).map_err(|error| failure("registers", &error))?;
        if machine::pc(&registers) != self.notifier + BEHIND_BREAKPOINT {
            return Err(Failure::new("it stopped at an unexpected place"));
        }
        machine::set_pc(&mut registers, self.notifier);
        ptrace::set_registers(tid, &registers).map_err(|error| failure("registers", &error))
    }

    /// Lets it execute the first instruction of the function.
    fn step_over(tid: libc::pid_t) -> Outcome {
        ptrace::step(tid).map_err(|error| failure("step", &error))?;
        expect_stop(tid, |stop| stop == Stop::Signal(libc::SIGTRAP))
    }
}

/// A stopped program.
struct Target<'a> {
    tid: libc::pid_t,
    memory: &'a ProcessMemory,
    maps: &'a Maps,
}

impl Target<'_> {
    /// Maps memory at `place`: a page of data, the rest code; false when something is there.
    fn map_island(&self, place: u64, len: u64) -> Outcome<bool> {
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        if self.system_call(libc::SYS_mmap, [place, len, code, flags, u64::MAX, 0])? != place {
            return Ok(false);
        }
        let data = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        self.system_call(libc::SYS_mprotect, [place, island::DATA, data, 0, 0, 0])?;
        Ok(true)
    }

    /// Has the stopped thread make a system call; its result.
    fn system_call(&self, number: i64, arguments: [u64; 6]) -> Outcome<u64> {
        let trouble = |error: io::Error| failure("a system call in the program", &error);
        let before = ptrace::registers(self.tid).map_err(trouble)?;
        let mut registers = before;
        machine::set_system_call(&mut registers, number as u64, arguments);
        machine::set_pc(&mut registers, self.find_system_call()?);
        ptrace::set_registers(self.tid, &registers).map_err(trouble)?;
        Loader::step_over(self.tid)?;
        let after = ptrace::registers(self.tid).map_err(trouble)?;
        ptrace::set_registers(self.tid, &before).map_err(trouble)?;
        Ok(machine::result(&after))
    }

    /// An instruction that makes a system call, in the code that the thread is in.
    fn find_system_call(&self) -> Outcome<u64> {
        let registers = ptrace::registers(self.tid).map_err(|error| failure("registers", &error))?;
        let pc = machine::pc(&registers);
        let here = self.maps.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&pc));
        let here = here.ok_or_else(|| Failure::new("the dynamic linker is not mapped"))?;
        let code = self.memory.read(here.start, (here.end - here.start) as usize);
        let code = code.map_err(|error| failure("the dynamic linker", &error))?;
        let at = memchr::memmem::find(&code, SYSTEM_CALL);
        at.map(|at| here.start + at as u64)
            .ok_or_else(|| Failure::new("no system call in the dynamic linker"))
    }
}
