//! Binaries and debug files are found by identity, wherever they lie.

use std::fs;

use heapwise_profile::{BuildId, Location, Module, ModuleId, Profile};
use heapwise_symbolize::{Detail, Options, Problem, Report, symbolize};
use object::{Object, ObjectSymbol};

use crate::{
    program::{Program, looking_in},
    witness,
};

/// Results for the program before a file is moved.
fn expected(program: &Program) -> (Vec<u64>, Vec<witness::Frames>) {
    let addresses = witness::addresses(program);
    let frames = witness::addr2line(program, &addresses);
    (addresses, frames)
}

fn check(mut profile: Profile, expected: &[witness::Frames], options: &Options) -> Report {
    let report = symbolize(&mut profile, options);
    for (location, expected) in profile.locations.iter().zip(expected) {
        assert_eq!(witness::frames(&profile, location), *expected, "{report:?}");
    }
    report
}

/// Moves the debug information out, as distributions do.
fn separate(program: &Program, debug: &str) {
    program.run(&["objcopy", "--only-keep-debug", "shop", debug]);
    program.run(&["strip", "--strip-all", "shop"]);
}

fn build_id_path(directory: &str, id: &BuildId) -> String {
    let hex = id.to_string();
    format!("{directory}/.build-id/{}/{}.debug", &hex[..2], &hex[2..])
}

#[test]
fn a_debug_file_is_found_by_build_id_even_without_the_binary() {
    let program = Program::cpp(&["-g", "-O2"]);
    let (addresses, frames) = expected(&program);
    let profile = program.profile(&addresses);
    let debug = build_id_path("symbols", &program.build_id());
    fs::create_dir_all(program.path(&debug).parent().unwrap()).unwrap();
    separate(&program, &debug);
    let options = looking_in(&program.path("symbols"));
    let report = check(profile.clone(), &frames, &options);
    assert_eq!(report.modules[0].debug_file, Some(program.path(&debug)));

    fs::remove_file(&program.binary).unwrap();
    let mut profile = profile;
    // Recorded as the kernel maps it: the executable segment alone, from its page.
    let headers = program.run(&["readelf", "-lW", &debug]);
    let load = headers.lines().find(|line| line.contains("LOAD") && line.contains(" R E ")).unwrap();
    let address = load.split_whitespace().nth(2).unwrap().trim_start_matches("0x");
    let segment = u64::from_str_radix(address, 16).unwrap() & !0xfff;
    profile.modules[0].start += segment;
    profile.modules[0].file_offset = segment;
    check(profile, &frames, &options);
}

#[test]
fn a_debug_link_is_followed_and_its_checksum_holds() {
    let program = Program::cpp(&["-g", "-O2", "-Wl,--build-id=none"]);
    let (addresses, frames) = expected(&program);
    separate(&program, "linked.dbg");
    program.run(&["objcopy", "--add-gnu-debuglink=linked.dbg", "shop"]);
    fs::create_dir(program.path(".debug")).unwrap();
    fs::rename(program.path("linked.dbg"), program.path(".debug/linked.dbg")).unwrap();
    check(program.profile(&addresses), &frames, &Options::default());

    let mut damaged = fs::read(program.path(".debug/linked.dbg")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(program.path(".debug/linked.dbg"), damaged).unwrap();
    let mut profile = program.profile(&addresses);
    let report = symbolize(&mut profile, &Options::default());
    assert_eq!(report.modules[0].detail, Detail::None);
    assert_eq!(report.resolved, 0);
}

#[test]
fn a_moved_binary_is_found_by_build_id() {
    let program = Program::cpp(&["-g", "-O2"]);
    let (addresses, frames) = expected(&program);
    let profile = program.profile(&addresses);
    fs::create_dir(program.path("elsewhere")).unwrap();
    fs::rename(&program.binary, program.path("elsewhere/shop")).unwrap();
    check(profile.clone(), &frames, &looking_in(&program.path("elsewhere")));
    fs::rename(program.path("elsewhere/shop"), program.path("other-name")).unwrap();
    let named = Options { main_program: Some(program.path("other-name")), ..Options::default() };
    check(profile.clone(), &frames, &named);
    let recorded = program.binary.strip_prefix("/").unwrap().to_owned();
    let in_root = program.path("root").join(recorded);
    fs::create_dir_all(in_root.parent().unwrap()).unwrap();
    fs::rename(program.path("other-name"), &in_root).unwrap();
    let sysroot = Options { sysroot: Some(program.path("root")), ..Options::default() };
    check(profile, &frames, &sysroot);
}

#[test]
fn another_build_at_the_recorded_path_names_nothing() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let mut profile = program.profile(&addresses);
    program.run(&["g++", "-g", "-O0", "-o", "shop", "shop.cc"]);
    let report = symbolize(&mut profile, &Options::default());
    assert_eq!(report.resolved, 0);
    assert!(profile.functions.is_empty());
    let found = program.build_id();
    let path = program.binary.clone();
    assert_eq!(report.modules[0].problems, [Problem::BuildIdMismatch { path, found }]);
}

#[test]
fn a_program_named_by_the_user_stands_for_the_recorded_one_without_build_id() {
    let program = Program::cpp(&["-g", "-O2", "-Wl,--build-id=none"]);
    let (addresses, frames) = expected(&program);
    let mut profile = program.profile(&addresses);
    profile.modules[0].path = "/nowhere/bin/shop".to_owned();
    let report = symbolize(&mut profile.clone(), &Options::default());
    assert_eq!(report.modules[0].problems, [Problem::NotFound]);
    let named = Options { main_program: Some(program.binary.clone()), ..Options::default() };
    check(profile, &frames, &named);
}

#[test]
fn recorded_paths_that_are_no_files_are_not_opened() {
    for path in ["/dev/zero", "/dev/stdin", "/", "[heap]", "//anon", "", "/proc/self/mem"] {
        let mut profile = Profile {
            modules: vec![Module { path: path.into(), end: 1 << 20, ..Module::default() }],
            locations: vec![Location { address: 64, module: Some(ModuleId(0)), ..Location::default() }],
            ..Profile::default()
        };
        let report = symbolize(&mut profile, &Options::default());
        assert_eq!(report.resolved, 0, "{path}");
    }
}

#[test]
fn the_vdso_of_this_kernel_has_names() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let (start, end) = (hex(start), hex(end));
    let mut bytes = vec![0; (end - start) as usize];
    let memory = fs::File::open("/proc/self/mem").unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let build_id = BuildId(elf.build_id().unwrap().unwrap().to_vec());
    let symbol = elf.dynamic_symbols().find(|it| it.name() == Ok("__vdso_clock_gettime")).unwrap();
    let module = Module { path: "[vdso]".into(), build_id, start, end, file_offset: 0 };
    let address = start + symbol.address() + 1;
    let mut profile = Profile {
        modules: vec![module],
        locations: vec![Location { address, module: Some(ModuleId(0)), ..Location::default() }],
        ..Profile::default()
    };
    symbolize(&mut profile, &Options::default());
    let name = &profile.functions[0].name;
    assert!(name.ends_with("clock_gettime"), "{name}");
    profile.modules[0].build_id = BuildId(vec![7; 20]);
    profile.locations[0].lines.clear();
    assert_eq!(symbolize(&mut profile, &Options::default()).resolved, 0);
}
