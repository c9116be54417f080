//! Results equal those of `addr2line -Cfi` for every address of every function, for all kinds of
//! builds.

use std::fs;

use heapwise_profile::name::jeprof_short;
use heapwise_symbolize::{Detail, Options, demangle, symbolize};

use crate::{program::Program, witness};

/// addr2line's output for every address of the program's functions.
struct Expected {
    addresses: Vec<u64>,
    frames: Vec<witness::Frames>,
}

impl Expected {
    fn of(program: &Program) -> Self {
        let addresses = witness::addresses(program);
        let frames = witness::addr2line(program, &addresses);
        let inlined = frames.iter().filter(|frames| frames.len() > 1).count();
        assert!(inlined > 10, "the program has inlined functions: {inlined}");
        Self { addresses, frames }
    }

    fn check(&self, program: &Program) {
        let mut profile = program.profile(&self.addresses);
        let report = symbolize(&mut profile, &Options::default());
        assert_eq!(report.modules[0].detail, Detail::Lines, "{report:?}");
        assert_eq!(report.resolved, self.addresses.len(), "{report:?}");
        for (at, location) in profile.locations.iter().enumerate() {
            let found = witness::frames(&profile, location);
            assert_eq!(found, self.frames[at], "{:#x}", self.addresses[at]);
        }
    }
}

#[test]
fn dwarf_4_and_5_position_independent_or_not() {
    for flags in [
        ["-g", "-O2", "-gdwarf-5", "-pie"],
        ["-g", "-O2", "-gdwarf-4", "-pie"],
        ["-g", "-O2", "-gdwarf-5", "-no-pie"],
        ["-g", "-O1", "-gdwarf-5", "-Wl,-z,noseparate-code"],
    ] {
        let program = Program::cpp(&flags);
        Expected::of(&program).check(&program);
    }
}

#[test]
fn compressed_sections() {
    let program = Program::cpp(&["-g", "-O2"]);
    let expected = Expected::of(&program);
    for format in ["zlib", "zlib-gnu", "zstd"] {
        program.run(&["g++", "-g", "-O2", "-o", "shop", "shop.cc"]);
        program.run(&["objcopy", &format!("--compress-debug-sections={format}"), "shop"]);
        let listing = program.run(&["readelf", "-SW", "shop"]);
        assert!(listing.contains(".zdebug_info") || listing.contains(" C "), "{listing}");
        expected.check(&program);
    }
}

/// binutils do not read `.dwo` files, so the witness is the same program built without them: the
/// code is the same byte for byte. Their `dwp` supports DWARF 4 only.
#[test]
fn split_units_beside_the_objects_and_in_a_package() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = Program::cpp(&["-g", "-O2", version]);
        let expected = Expected::of(&program);
        program.run(&["g++", "-g", "-O2", version, "-gsplit-dwarf", "-o", "shop", "shop.cc"]);
        expected.check(&program);
        if version == "-gdwarf-4" {
            program.run(&["dwp", "-e", "shop", "-o", "shop.dwp"]);
            let unit = program.run(&["find", ".", "-name", "*.dwo"]);
            fs::remove_file(program.path(unit.trim())).unwrap();
            expected.check(&program);
        }
    }
}

#[test]
fn without_inlines_only_the_physical_function_is_left() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let mut profile = program.profile(&addresses);
    symbolize(&mut profile, &Options { inlines: false, ..Options::default() });
    let functions = witness::functions(&program);
    for (address, location) in addresses.iter().zip(&profile.locations) {
        let frames = witness::frames(&profile, location);
        let holds = |start: u64, size: u64| (start..start + size).contains(address);
        let (.., name) = functions.iter().find(|(start, size, _)| holds(*start, *size)).unwrap();
        let plain = |name: &str| name.split(" [clone").next().unwrap().to_owned();
        assert_eq!(frames.len(), 1);
        assert_eq!(plain(&frames[0].0), plain(name));
    }
}

#[test]
fn rust_names_are_plain_paths() {
    let source = "pub mod shop { #[inline(never)] pub fn open(n: usize) -> Vec<u8> { \
                  std::hint::black_box(vec![1; n]) } } \
                  fn main() { std::process::exit(shop::open(3).len() as i32); }";
    for flag in ["-Cdebuginfo=2", "-Csymbol-mangling-version=v0"] {
        let program = Program::build("true", "shop.rs", source, &[]);
        program.run(&["rustc", "-g", "-O", flag, "-o", "shop", "shop.rs"]);
        let listing = program.run(&["nm", "shop"]);
        let line = listing.lines().find(|line| line.contains("shop4open")).unwrap();
        let start = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        let mut profile = program.profile(&[start]);
        symbolize(&mut profile, &Options::default());
        let frames = witness::frames(&profile, &profile.locations[0]);
        let (name, file, _) = frames.last().unwrap();
        assert_eq!((name.as_str(), file.as_str()), ("shop::shop::open", "shop.rs"));
    }
}

/// Every function of the C++ library, by the short name that reports print. `nm` demangles with the
/// same rules as addr2line.
#[test]
fn short_names_of_the_cpp_library_are_those_of_nm() {
    let program = Program::build("gcc", "shop.c", "int main() { return 0; }", &[]);
    let library = program.run(&["g++", "-print-file-name=libstdc++.so.6"]);
    let names = |flags: &str| -> Vec<String> {
        let listing = program.run(&["nm", flags, "--defined-only", library.trim()]);
        let name = |line: &str| {
            let (_, name) = line.split_once(" T ").or_else(|| line.split_once(" W "))?;
            Some(name.split_once('@').map_or(name, |(name, _)| name).to_owned())
        };
        listing.lines().filter_map(name).collect()
    };
    let (mangled, expected) = (names("-Dp"), names("-DpC"));
    assert_eq!(mangled.len(), expected.len());
    assert!(mangled.len() > 3000);
    for (name, expected) in mangled.iter().zip(&expected) {
        assert_eq!(jeprof_short(&demangle(name)), jeprof_short(expected), "{name}");
    }
}

/// A large library is shared out among threads.
#[test]
fn the_number_of_threads_changes_nothing() {
    let program = Program::build("gcc", "shop.c", "int main() { return 0; }", &[]);
    let library = program.run(&["g++", "-print-file-name=libstdc++.so.6"]);
    fs::copy(library.trim(), &program.binary).unwrap();
    let listing = program.run(&["nm", "-D", "--defined-only", "shop"]);
    let code = listing.lines().filter(|line| line.contains(" T ") || line.contains(" W "));
    let mut addresses: Vec<_> = code.map(|line| u64::from_str_radix(&line[..16], 16).unwrap()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() > 3000);
    let resolved = |jobs: usize| {
        let mut profile = program.profile(&addresses);
        let report = symbolize(&mut profile, &Options { jobs, ..Options::default() });
        assert_eq!(report.resolved, addresses.len());
        let frames = profile.locations.iter().map(|location| witness::frames(&profile, location));
        frames.collect::<Vec<_>>()
    };
    assert_eq!(resolved(1), resolved(3));
}
