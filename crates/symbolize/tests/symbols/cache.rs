//! The second look opens no binary, and trusts no damaged file.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

use heapwise_profile::Profile;
use heapwise_symbolize::{Detail, Options, Problem, symbolize};

use crate::{program::Program, witness};

fn cached_in(program: &Program) -> (Options, PathBuf) {
    let directory = program.path("cache/symbols");
    let file = directory.join(format!("{}.symbols", program.build_id()));
    (Options { cache_dir: Some(directory), ..Options::default() }, file)
}

#[test]
fn answers_outlive_the_binary() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let empty = program.profile(&addresses);
    let (options, file) = cached_in(&program);
    let (mut cold, mut warm) = (empty.clone(), empty.clone());
    // Half the addresses first, so that the second run adds to what is there.
    let mut half = empty.clone();
    half.locations.truncate(addresses.len() / 2);
    symbolize(&mut half, &options);
    let report = symbolize(&mut cold, &options);
    assert_eq!(report.modules[0].cached, addresses.len() / 2);
    fs::remove_file(&program.binary).unwrap();
    let report = symbolize(&mut warm, &options);
    assert_eq!(report.modules[0].cached, addresses.len());
    assert_eq!(report.modules[0].detail, Detail::Lines);
    assert_eq!(report.modules[0].image, None);
    for (cold_at, warm_at) in cold.locations.iter().zip(&warm.locations) {
        assert_eq!(witness::frames(&cold, cold_at), witness::frames(&warm, warm_at));
    }
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_damaged_or_planted_cache_is_ignored() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let (options, file) = cached_in(&program);
    let empty = program.profile(&addresses);
    symbolize(&mut empty.clone(), &options);
    let good = fs::read(&file).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    for content in [&damaged[..], &good[..good.len() - 1], b"", b"hwsymbol"] {
        fs::write(&file, content).unwrap();
        let report = symbolize(&mut empty.clone(), &options);
        assert_eq!((report.modules[0].cached, report.resolved), (0, addresses.len()));
        assert_eq!(fs::read(&file).unwrap().len(), good.len(), "and replaced");
    }
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(symbolize(&mut empty.clone(), &options).modules[0].cached, 0);
}

#[test]
fn debug_information_that_turns_up_later_is_used() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let (options, _) = cached_in(&program);
    program.run(&["objcopy", "--only-keep-debug", "shop", "later"]);
    program.run(&["strip", "--strip-debug", "shop"]);
    let empty = program.profile(&addresses);
    let detail = || symbolize(&mut empty.clone(), &options).modules[0].detail;
    assert_eq!(detail(), Detail::Names);
    assert_eq!(detail(), Detail::Names);
    fs::rename(program.path("later"), program.path("shop.debug")).unwrap();
    assert_eq!(detail(), Detail::Lines);
    fs::remove_file(program.path("shop.debug")).unwrap();
    assert_eq!(detail(), Detail::Lines);
}

/// Split units that are missing today may be there tomorrow.
#[test]
fn what_was_only_half_found_is_not_remembered() {
    let program = Program::cpp(&["-g", "-O2", "-gsplit-dwarf"]);
    let addresses = witness::addresses(&program);
    let (options, file) = cached_in(&program);
    let unit = program.path(program.run(&["find", ".", "-name", "*.dwo"]).trim());
    fs::rename(&unit, program.path("hidden")).unwrap();
    let empty = program.profile(&addresses);
    symbolize(&mut empty.clone(), &options);
    assert!(!file.exists());
    fs::rename(program.path("hidden"), &unit).unwrap();
    let mut profile = empty;
    symbolize(&mut profile, &options);
    assert!(file.exists());
    assert!(profile.locations.iter().any(|location| location.lines.len() > 1));
}

/// The names of the functions of a profile, in order.
fn names(profile: &Profile) -> Vec<&str> {
    let mut names: Vec<&str> = profile.functions.iter().map(|function| function.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// An option of the linker can give two binaries one build-id.
#[test]
fn two_binaries_with_one_build_id_keep_their_own_names() {
    let flags = ["-g", "-O2", "-Wl,--build-id=0x0123456789abcdef"];
    let (one, other) = (Program::cpp(&flags), Program::cpp(&flags));
    // Same code at the same addresses, another name.
    let source = fs::read_to_string(other.path("shop.cc")).unwrap();
    fs::write(other.path("shop.cc"), source.replace("label", "price")).unwrap();
    let command = [&["g++"][..], &flags, &["-o", "shop", "shop.cc"]].concat();
    other.run(&command);
    let (options, _) = cached_in(&one);
    let own = |program: &Program, options: &Options| {
        let mut profile = program.profile(&witness::addresses(program));
        symbolize(&mut profile, options);
        names(&profile).join("\n")
    };
    let (first, second) = (own(&one, &Options::default()), own(&other, &Options::default()));
    assert!(first != second && second.contains("price"), "{second}");
    for _ in 0..2 {
        assert_eq!(own(&one, &options), first);
        assert_eq!(own(&other, &options), second);
    }
}

#[test]
fn the_whole_binary_in_place_of_a_stripped_one_is_read() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let empty = program.profile(&addresses);
    let (options, _) = cached_in(&program);
    program.run(&["cp", "shop", "whole"]);
    program.run(&["strip", "--strip-all", "shop"]);
    let detail = |options: &Options| symbolize(&mut empty.clone(), options).modules[0].detail;
    assert_eq!(detail(&options), Detail::None);
    assert_eq!(detail(&options), Detail::None);
    // Elsewhere, under the same name.
    fs::create_dir(program.path("unstripped")).unwrap();
    program.run(&["cp", "whole", "unstripped/shop"]);
    let elsewhere = Options { debug_paths: vec![program.path("unstripped")], ..options.clone() };
    assert_eq!(detail(&elsewhere), Detail::Lines);
    // In its place.
    let (options, _) = (Options { cache_dir: Some(program.path("cache2/symbols")), ..options }, ());
    assert_eq!(detail(&options), Detail::None);
    fs::rename(program.path("whole"), &program.binary).unwrap();
    assert_eq!(detail(&options), Detail::Lines);
}

/// Without a build-id only the time distinguishes a rebuilt binary from the recorded one.
#[test]
fn a_file_newer_than_the_profile_is_not_used_without_a_build_id() {
    let program = Program::cpp(&["-g", "-O2", "-Wl,--build-id=none"]);
    let mut profile = program.profile(&witness::addresses(&program));
    let modified = fs::metadata(&program.binary).unwrap().modified().unwrap();
    let ns = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    for (time, problems) in [
        (Some(ns - 1), vec![Problem::Newer { path: program.binary.clone() }]),
        (Some(ns), vec![]),
        (None, vec![]),
    ] {
        profile.meta.time_unix_ns = time;
        let mut named = profile.clone();
        let report = symbolize(&mut named, &Options::default());
        assert_eq!(report.modules[0].problems, problems);
        assert_eq!(named.functions.is_empty(), !problems.is_empty());
        assert_eq!(named.symbol_problems.is_empty(), problems.is_empty());
    }
    profile.meta.time_unix_ns = Some(ns - 1);
    let named = Options { main_program: Some(program.binary.clone()), ..Options::default() };
    assert!(symbolize(&mut profile, &named).resolved > 0, "the user's word counts");
}
