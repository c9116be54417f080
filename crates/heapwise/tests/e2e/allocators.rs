//! Allocators that the dynamic linker does not lead to: found, named, and left alone where they
//! write files of their own.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Scratch, victims};

/// Dumps in jemalloc's format in a scratch directory, with their text.
fn dumps(scratch: &Scratch) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(scratch.path("")).expect("a directory").flatten();
    let mut dumps: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "heap"))
        .collect();
    dumps.sort();
    dumps.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("text"))).collect()
}

/// Whether a dump is jemalloc's and has live blocks: the first line with numbers is their sum.
fn has_blocks(dump: &str) -> bool {
    let sum = dump.lines().find_map(|line| line.trim().strip_prefix("t*: "));
    sum.is_some_and(|sum| !sum.starts_with("0:"))
}

/// `doctor` on a victim: its output, and whether every allocator is seen.
fn doctor(scratch: &Scratch, victim: &str) -> (String, bool) {
    let mut doctor = scratch.heapwise(&["doctor"]);
    let output = doctor.arg(victims().join(victim)).output().expect("heapwise starts");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.success())
}

#[test]
fn allocators_of_programs_are_named() {
    let scratch = Scratch::new();
    let (text, is_healthy) = doctor(&scratch, "leaky");
    assert!(is_healthy && text.contains("libc"), "{text}");
    let (text, is_healthy) = doctor(&scratch, "own_allocator");
    assert!(!is_healthy && text.contains("jemalloc") && text.contains("je_malloc"), "{text}");
    let (text, is_healthy) = doctor(&scratch, "static_program");
    assert!(!is_healthy && text.contains("statically linked"), "{text}");
}

/// A process has the libraries that its program needs, too.
#[test]
fn allocators_of_processes_are_named() {
    let scratch = Scratch::new();
    let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let text = loop {
        let output = scratch.heapwise(&["doctor", &sleeper.id().to_string()]).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        // Until the loader has mapped libc.
        if text.contains("libc.so") {
            break text;
        }
    };
    sleeper.kill().expect("killed");
    sleeper.wait().expect("waited");
    assert!(text.contains("seen: calls go through the dynamic linker"), "{text}");
}

#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn static_allocators_are_named() {
    let scratch = Scratch::new();
    for (victim, allocator) in
        [("static_jemalloc", "jemalloc"), ("static_tcmalloc", "tcmalloc"), ("hidden_jemalloc", "jemalloc")]
    {
        let (text, _) = doctor(&scratch, victim);
        assert!(text.contains(allocator) && text.contains("malloc and"), "{victim}: {text}");
        let stripped = scratch.path(&format!("{victim}.stripped"));
        let mut strip = Command::new("strip");
        let status = strip.arg("-o").arg(&stripped).arg(victims().join(victim)).status();
        assert!(status.expect("strip runs").success());
        let output = scratch.heapwise(&["doctor"]).arg(&stripped).output().expect("heapwise starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.contains(allocator), "{victim}, stripped: {text}");
        assert_eq!(text.contains("symbols were stripped"), victim == "hidden_jemalloc", "{text}");
    }
}

/// A jemalloc in the program obeys `MALLOC_CONF` itself: its dump is not replaced by one of the
/// probe, which saw none of its blocks.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn dumps_of_a_static_jemalloc_stay() {
    for victim in ["static_jemalloc", "hidden_jemalloc"] {
        let scratch = Scratch::new();
        let library = scratch.output_of(&["preload"]);
        let mut program = scratch.command(victims().join(victim));
        program.args(["1", "2000"]).env("LD_PRELOAD", library.trim());
        let status = program.env("MALLOC_CONF", "prof:true,prof_final:true,lg_prof_sample:10").status();
        assert!(status.expect("the program runs").success());
        let dumps = dumps(&scratch);
        let of_jemalloc: Vec<_> = dumps.iter().filter(|(_, text)| has_blocks(text)).collect();
        assert_eq!(of_jemalloc.len(), 1, "{victim}: {dumps:?}");
        if victim == "static_jemalloc" {
            assert_eq!(dumps.len(), 1, "{victim}: the probe leaves MALLOC_CONF to jemalloc");
        }
    }
}
