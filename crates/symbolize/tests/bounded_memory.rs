//! A single thread has one binary open at a time: eight large binaries take the memory of one.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use heapwise_profile::{Location, Module, ModuleId, Profile};
use heapwise_symbolize::{Options, symbolize};

/// Functions of a binary. Their symbols take about 5 MiB of the file, and more when they are read.
const FUNCTIONS: usize = 60_000;
const BINARIES: usize = 8;

/// Highest resident memory of this process so far, in bytes.
fn highest_resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Libraries with the same functions, removed when dropped.
struct Libraries(PathBuf);

impl Libraries {
    fn build() -> Self {
        let libraries = Self(env::temp_dir().join(format!("heapwise-bounded-memory-{}", process::id())));
        fs::create_dir_all(&libraries.0).unwrap();
        // Written as it is made: the source in memory would be part of the peak.
        let mut source = BufWriter::new(File::create(libraries.0.join("many.s")).unwrap());
        writeln!(source, ".text").unwrap();
        for number in 0..FUNCTIONS {
            let name = format!("function_with_a_name_of_usual_length_{number:06}");
            writeln!(source, ".type {name}, @function\n{name}: ret\n.size {name}, . - {name}").unwrap();
        }
        source.into_inner().unwrap();
        let first = libraries.path(0);
        let options = ["-shared", "-nostdlib", "-Wl,--build-id=none", "many.s", "-o"];
        let built = Command::new("gcc").args(options).arg(&first).current_dir(&libraries.0).status();
        assert!(built.unwrap().success());
        for number in 1..BINARIES {
            fs::copy(&first, libraries.path(number)).unwrap();
        }
        libraries
    }

    fn path(&self, number: usize) -> PathBuf {
        self.0.join(format!("lib{number}.so"))
    }
}

impl Drop for Libraries {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// File offset of `.text` according to readelf.
fn text_offset(library: &Path) -> u64 {
    let output = Command::new("readelf").arg("-SW").arg(library).output().unwrap();
    let sections = String::from_utf8(output.stdout).unwrap();
    let line = sections.lines().find(|line| line.contains(" .text ")).unwrap();
    let fields: Vec<&str> = line.split_once(".text").unwrap().1.split_whitespace().collect();
    u64::from_str_radix(fields[2], 16).unwrap()
}

/// A profile with the first function of each library.
fn profile(libraries: &[PathBuf], offset: u64) -> Profile {
    let start = |number: usize| 0x7f00_0000_0000 + ((number as u64) << 32);
    let module = |(number, path): (usize, &PathBuf)| Module {
        path: path.to_str().unwrap().to_owned(),
        start: start(number),
        end: start(number) + (1 << 30),
        ..Module::default()
    };
    let location = |number: usize| Location {
        address: start(number) + offset,
        module: Some(ModuleId::new(number)),
        ..Location::default()
    };
    Profile {
        modules: libraries.iter().enumerate().map(module).collect(),
        locations: (0..libraries.len()).map(location).collect(),
        ..Profile::default()
    }
}

fn assert_named(profile: &Profile) {
    for location in &profile.locations {
        let function = &profile.functions[location.lines[0].function.index()];
        assert_eq!(function.name, "function_with_a_name_of_usual_length_000000");
    }
}

#[test]
fn eight_binaries_take_the_memory_of_one() {
    let libraries = Libraries::build();
    let offset = text_offset(&libraries.path(0));
    let paths: Vec<PathBuf> = (0..BINARIES).map(|number| libraries.path(number)).collect();
    let options = Options { jobs: 1, ..Options::default() };
    let before = highest_resident_bytes();
    let mut one = profile(&paths[..1], offset);
    symbolize(&mut one, &options);
    let with_one = highest_resident_bytes();
    let mut all = profile(&paths, offset);
    symbolize(&mut all, &options);
    let with_all = highest_resident_bytes();
    assert_named(&one);
    assert_named(&all);
    let (first, others) = (with_one - before, with_all - with_one);
    assert!(first > 4 << 20, "{first} bytes");
    assert!(others < first / 2, "{first} bytes for one, {others} more for {BINARIES}");
}
