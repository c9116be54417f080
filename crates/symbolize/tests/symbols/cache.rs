//! The second look opens no binary, and trusts no damaged file.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

use heapwise_symbolize::{Detail, Options, symbolize};

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
