//! The systems compared: how each wraps a program, and which plain run it is a ratio of.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools;
use super::workload::Workload;
use heapwise_testkit::failure::Failure;

/// How a system gets at the program.
#[derive(Clone, Copy)]
enum Entry {
    /// Not at all.
    Plain,
    /// `heapwise run -q OPTIONS -o FILE -- PROG`.
    Heapwise(&'static [&'static str]),
    /// An allocator with a profiler inside, preloaded; `{out}` in a value is the output folder.
    Preload(&'static str, &'static [(&'static str, &'static str)]),
    /// The same, above another allocator.
    HeapwiseOver(&'static str, &'static [&'static str]),
    /// `heaptrack OPTIONS -o FILE PROG`.
    Heaptrack(&'static [&'static str]),
    /// `valgrind --tool=dhat`.
    Dhat,
    /// `python3 -m memray run`.
    Memray,
}

/// One column of the comparison.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub name: &'static str,
    /// The system this one is a ratio of: the same allocator, unprofiled.
    pub baseline: &'static str,
    /// The workloads that it is for; all when empty.
    pub only: &'static [&'static str],
    /// Omitted from a quick run unless named.
    slow: bool,
    entry: Entry,
}

const JEMALLOC: &str = "libjemalloc.so.2";
const TCMALLOC: &str = "libtcmalloc.so.4";
const MIMALLOC: &str = "libmimalloc.so.2.0";
/// jemalloc's options but for the mean distance between samples, given as a power of two.
macro_rules! je_conf {
    ($lg_sample:literal) => {
        &[(
            "MALLOC_CONF",
            concat!("prof:true,prof_final:true,prof_prefix:{out}/je,lg_prof_sample:", $lg_sample),
        )]
    };
}
/// HEAPPROFILE otherwise dumps every gigabyte allocated, which would measure the dumps.
const ONE_DUMP: (&str, &str) = ("HEAP_PROFILE_ALLOCATION_INTERVAL", "1099511627776");
const NO_GROWTH_DUMP: (&str, &str) = ("HEAP_PROFILE_INUSE_INTERVAL", "1099511627776");

const fn system(name: &'static str, baseline: &'static str, entry: Entry) -> System {
    System { name, baseline, only: &[], slow: false, entry }
}

const fn slow(system: System) -> System {
    System { slow: true, ..system }
}

/// Workloads of CPython's own allocator.
const PYTHON: &[&str] = &["python-json", "python-objects"];

const SYSTEMS: [System; 21] = [
    system("none", "none", Entry::Plain),
    system("heapwise-off", "none", Entry::Heapwise(&["--off"])),
    system("heapwise-512K", "none", Entry::Heapwise(&["-c", "512K"])),
    system("heapwise-1K", "none", Entry::Heapwise(&["-c", "1K"])),
    system("heapwise-exact-hash", "none", Entry::Heapwise(&["--exact", "--index", "hash"])),
    system("heapwise-exact-shadow", "none", Entry::Heapwise(&["--exact", "--index", "shadow"])),
    // What heaptrack records of them.
    System {
        only: PYTHON,
        ..system("heapwise-exact-no-objects", "none", Entry::Heapwise(&["--exact", "--no-objects"]))
    },
    system("heapwise-log", "none", Entry::Heapwise(&["--log"])),
    slow(system("heaptrack-raw", "none", Entry::Heaptrack(&["--raw"]))),
    system("heaptrack", "none", Entry::Heaptrack(&[])),
    system("jemalloc", "jemalloc", Entry::Preload(JEMALLOC, &[])),
    system("jemalloc-512K", "jemalloc", Entry::Preload(JEMALLOC, je_conf!(19))),
    system("jemalloc-1K", "jemalloc", Entry::Preload(JEMALLOC, je_conf!(10))),
    slow(system("jemalloc-every", "jemalloc", Entry::Preload(JEMALLOC, je_conf!(0)))),
    system("tcmalloc", "tcmalloc", Entry::Preload(TCMALLOC, &[])),
    system("tcmalloc-512K", "tcmalloc", Entry::Preload(TCMALLOC, &[("TCMALLOC_SAMPLE_PARAMETER", "524288")])),
    slow(system(
        "tcmalloc-HEAPPROFILE",
        "tcmalloc",
        Entry::Preload(TCMALLOC, &[("HEAPPROFILE", "{out}/tc"), ONE_DUMP, NO_GROWTH_DUMP]),
    )),
    slow(system("mimalloc", "mimalloc", Entry::Preload(MIMALLOC, &[]))),
    slow(system("mimalloc-heapwise-exact", "mimalloc", Entry::HeapwiseOver(MIMALLOC, &["--exact"]))),
    System { only: &["python-json"], ..slow(system("memray", "none", Entry::Memray)) },
    System { only: &["sqlite"], ..slow(system("dhat", "none", Entry::Dhat)) },
];

/// The systems called by one of `wanted`, or by longer names if none is called that (all when
/// empty, without the slow ones in a quick run), with their baselines, that this machine can run.
pub(crate) fn select(wanted: &[String], quick: bool) -> Result<Vec<System>, Failure> {
    if let Some(unknown) = wanted.iter().find(|w| !SYSTEMS.iter().any(|s| s.name.starts_with(w.as_str()))) {
        let names: Vec<&str> = SYSTEMS.iter().map(|s| s.name).collect();
        return Err(Failure::new(format!("no system is called {unknown}; there are {}", names.join(", "))));
    }
    // `heaptrack` is not `heaptrack-raw` too.
    let is_name = |w: &str| SYSTEMS.iter().any(|s| s.name == w);
    let means = |s: &System, w: &str| if is_name(w) { s.name == w } else { s.name.starts_with(w) };
    let named = |s: &System| wanted.iter().any(|w| means(s, w));
    let asked = |s: &System| if wanted.is_empty() { !(quick && s.slow) } else { named(s) };
    let needed: Vec<&str> = SYSTEMS.iter().filter(|s| asked(s)).flat_map(|s| [s.name, s.baseline]).collect();
    let selected = |s: &&System| (s.name == "none" || needed.contains(&s.name)) && s.is_available();
    Ok(SYSTEMS.iter().filter(selected).copied().collect())
}

impl System {
    fn is_available(&self) -> bool {
        match self.entry {
            Entry::Plain | Entry::Heapwise(_) => true,
            Entry::Preload(library, _) | Entry::HeapwiseOver(library, _) => tools::has_library(library),
            Entry::Heaptrack(_) => tools::has("heaptrack"),
            Entry::Dhat => tools::has("valgrind"),
            Entry::Memray => tools::has_module("memray"),
        }
    }

    /// Whether this is heapwise in one of its modes.
    pub(crate) fn is_heapwise(&self) -> bool {
        matches!(self.entry, Entry::Heapwise(_) | Entry::HeapwiseOver(..))
    }

    /// The command that runs `workload` under this system, its files going to `out`.
    pub(crate) fn command(&self, heapwise: &Path, workload: &Workload, out: &Path) -> Command {
        let mut words: Vec<PathBuf> = Vec::new();
        match self.entry {
            Entry::Plain | Entry::Preload(..) => {}
            Entry::Heapwise(options) | Entry::HeapwiseOver(_, options) => {
                words.push(heapwise.to_path_buf());
                words.push("run".into());
                // Findings are a report, which is measured apart.
                words.push("-q".into());
                words.extend(options.iter().map(PathBuf::from));
                words.extend(["-o".into(), out.join("heapwise.profile"), "--".into()]);
            }
            Entry::Heaptrack(options) => {
                words.push("heaptrack".into());
                words.extend(options.iter().map(PathBuf::from));
                words.extend(["-o".into(), out.join("heaptrack")]);
            }
            Entry::Dhat => {
                words.extend(["valgrind".into(), "--tool=dhat".into()]);
                words.push(format!("--dhat-out-file={}", out.join("dhat.json").display()).into());
            }
            // The interpreter is memray's own: what follows is the script.
            Entry::Memray => {
                words.extend(
                    ["python3", "-m", "memray", "run", "--quiet", "--native", "-o"].map(PathBuf::from),
                );
                words.push(out.join("memray.bin"));
            }
        }
        if !matches!(self.entry, Entry::Memray) {
            words.push(workload.program.clone());
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(&workload.args).envs(workload.env.iter().copied());
        if let Entry::HeapwiseOver(library, _) = self.entry {
            command.env("LD_PRELOAD", library);
        }
        if let Entry::Preload(library, env) = self.entry {
            command.env("LD_PRELOAD", library);
            command.envs(
                env.iter().map(|(name, value)| (*name, value.replace("{out}", &out.to_string_lossy()))),
            );
        }
        command
    }

    /// The command that answers the first question from what a run left in `out`: text, most
    /// expensive first. None when the system leaves nothing to look at.
    pub(crate) fn report(&self, heapwise: &Path, workload: &Workload, out: &Path) -> Option<Command> {
        let files: Vec<PathBuf> = std::fs::read_dir(out).ok()?.flatten().map(|entry| entry.path()).collect();
        let file = files.iter().max_by_key(|path| path.metadata().map_or(0, |m| m.len()))?;
        let mut command = match self.entry {
            Entry::Heapwise(_) | Entry::HeapwiseOver(..) => Command::new(heapwise),
            Entry::Heaptrack(_) => Command::new("heaptrack_print"),
            Entry::Preload(JEMALLOC, _) => Command::new("jeprof"),
            Entry::Preload(TCMALLOC, _) => Command::new("google-pprof"),
            Entry::Memray => Command::new("python3"),
            Entry::Plain | Entry::Preload(..) | Entry::Dhat => return None,
        };
        match self.entry {
            Entry::Heapwise(_) | Entry::HeapwiseOver(..) => command.arg("top").arg(file),
            Entry::Memray => command.args(["-m", "memray", "summary"]).arg(file),
            Entry::Heaptrack(_) => command.arg(file),
            _ => command.arg("--text").arg(tools::path_of(&workload.program)).arg(file),
        };
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_always_finds_its_baseline() {
        for system in SYSTEMS {
            assert!(SYSTEMS.iter().any(|s| s.name == system.baseline), "{}", system.name);
        }
    }
}
