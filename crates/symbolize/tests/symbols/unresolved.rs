//! Stripped programs: remaining symbols are used, other addresses stay without a name.

use std::fs;

use heapwise_symbolize::{Detail, Options, Problem, Resolver, Svma, symbolize};

use crate::{program::Program, witness};

#[test]
fn the_symbol_table_names_what_debug_information_no_longer_does() {
    let program = Program::cpp(&["-O2"]);
    let functions = witness::functions(&program);
    let addresses: Vec<_> = functions.iter().map(|(start, size, _)| start + size - 1).collect();
    let mut profile = program.profile(&addresses);
    let report = symbolize(&mut profile, &Options::default());
    assert_eq!(report.modules[0].detail, Detail::Names);
    assert_eq!(report.modules[0].problems, [Problem::NoDebugInfo]);
    for (location, (.., name)) in profile.locations.iter().zip(&functions) {
        assert_eq!(witness::frames(&profile, location), [(name.clone(), String::new(), 0)]);
    }
}

/// Exported functions keep their names; the others do not take the nearest, but are known by where
/// they begin.
#[test]
fn a_stripped_program_names_only_what_it_exports() {
    let program = Program::cpp(&["-O2", "-rdynamic", "-fvisibility=hidden"]);
    let functions = witness::functions(&program);
    program.run(&["strip", "--strip-all", "shop"]);
    let addresses: Vec<_> = functions.iter().flat_map(|(start, size, _)| *start..start + size).collect();
    let mut profile = program.profile(&addresses);
    let report = symbolize(&mut profile, &Options::default());
    let mut named = 0;
    for (address, location) in addresses.iter().zip(&profile.locations) {
        let holds = |(start, size, _): &&(u64, u64, String)| (*start..start + size).contains(address);
        let (.., name) = functions.iter().find(holds).unwrap();
        let frames = witness::frames(&profile, location);
        if name == "entry" {
            assert_eq!(frames.first().map(|frame| &frame.0), Some(name), "{address:#x}");
            named += 1;
        } else {
            let offset = program.offset_of(functions.iter().find(holds).unwrap().0).0;
            let unnamed = (format!("shop+{offset:#x}"), String::new(), 0);
            assert_eq!(frames, [unnamed], "{address:#x} is in {name}");
        }
    }
    assert_eq!(report.resolved, named);
    assert!(named > 0 && named < addresses.len());
    let mut profile = program.profile(&addresses);
    symbolize(&mut profile, &Options { unnamed: false, ..Options::default() });
    let without_lines = profile.locations.iter().filter(|location| location.lines.is_empty());
    assert_eq!(without_lines.count(), addresses.len() - named);
}

#[test]
fn packed_symbols_of_a_stripped_program_are_read() {
    let program = Program::cpp(&["-O2"]);
    let functions = witness::functions(&program);
    program.run(&["objcopy", "--only-keep-debug", "shop", "mini"]);
    program.run(&["strip", "--strip-all", "shop"]);
    program.run(&["xz", "mini"]);
    program.run(&["objcopy", "--add-section", ".gnu_debugdata=mini.xz", "shop"]);
    let addresses: Vec<_> = functions.iter().map(|(start, ..)| *start).collect();
    let mut profile = program.profile(&addresses);
    symbolize(&mut profile, &Options::default());
    for (location, (.., name)) in profile.locations.iter().zip(&functions) {
        assert_eq!(witness::frames(&profile, location)[0].0, *name);
    }
}

/// `sized` has a size, `bare` and `unwound` have none; after `unwound`'s unwind entry comes code
/// that belongs to no function.
const ASSEMBLY: &str = r#"
    .text
    .globl sized, bare, unwound, main
    .type sized, @function
sized:
    nop; nop; ret
    .size sized, . - sized
    nop; nop; nop; nop; nop
bare:
    nop; nop; ret
    .type unwound, @function
unwound:
    .cfi_startproc
    nop; nop; nop; ret
    .cfi_endproc
    .cfi_startproc
nobody:
    nop; nop; nop; ret
    .cfi_endproc
    .p2align 6
    .type main, @function
main:
    .cfi_startproc
    xorl %eax, %eax; ret
    .cfi_endproc
    .size main, . - main
    .section .note.GNU-stack,"",@progbits
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_end_where_their_size_or_unwind_entry_does() {
    let program = Program::build("gcc", "shop.s", ASSEMBLY, &[]);
    let listing = program.run(&["nm", "shop"]);
    let start = |name: &str| {
        let line = listing.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (sized, bare, unwound) = (start("sized"), start("bare"), start("unwound"));
    program.run(&["strip", "--strip-symbol=nobody", "shop"]);
    for (address, expected) in [
        (sized, Some("sized")),
        (sized + 2, Some("sized")),
        (sized + 3, None),
        (bare - 1, None),
        (bare, Some("bare")),
        (bare + 2, Some("bare")),
        (unwound, Some("unwound")),
        (unwound + 3, Some("unwound")),
        (unwound + 4, None),
        (start("main"), Some("main")),
    ] {
        let mut profile = program.profile(&[address]);
        symbolize(&mut profile, &Options { unnamed: false, ..Options::default() });
        let name = profile.functions.first().map(|function| function.name.as_str());
        assert_eq!(name, expected, "{address:#x}");
    }
}

#[test]
fn locations_that_have_lines_are_left_alone() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let mut profile = program.profile(&addresses);
    symbolize(&mut profile, &Options::default());
    let before = profile.clone();
    fs::remove_file(&program.binary).unwrap();
    let report = symbolize(&mut profile, &Options::default());
    assert_eq!((report.locations, report.modules.len()), (0, 0));
    assert_eq!(profile.locations, before.locations);
    assert_eq!(profile.functions, before.functions);
}

#[test]
fn a_resolver_answers_in_the_order_asked() {
    let program = Program::cpp(&["-g", "-O2"]);
    let functions = witness::functions(&program);
    let resolver = Resolver::open(&program.binary, &Options::default()).unwrap();
    let addresses: Vec<_> = functions.iter().rev().map(|(start, ..)| Svma(*start)).collect();
    let symbols = resolver.resolve(&addresses);
    for (lines, (.., name)) in symbols.places.iter().zip(functions.iter().rev()) {
        let physical = lines.last().unwrap().function;
        let plain = |name: &str| name.split(" [clone").next().unwrap().to_owned();
        assert_eq!(plain(&symbols.functions[physical.index()].name), plain(name));
    }
    assert!(Resolver::open(&program.path("shop.cc"), &Options::default()).is_err());
}
