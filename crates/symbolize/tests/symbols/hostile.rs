//! Damaged binaries: wrong or missing names, but no panic, no hang, no absurd memory.

use std::fs;

use heapwise_symbolize::{Options, Resolver, Svma, demangle};

use crate::{program::Program, witness};

/// A fixed sequence, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn survive(program: &Program, bytes: &[u8], addresses: &[Svma]) {
    let path = program.path("damaged");
    fs::write(&path, bytes).unwrap();
    if let Ok(resolver) = Resolver::open(&path, &Options::default()) {
        let symbols = resolver.resolve(addresses);
        assert_eq!(symbols.places.len(), addresses.len());
    }
}

#[test]
fn damaged_binaries_are_survived() {
    for flags in [&["-g", "-O2"][..], &["-g", "-O2", "-gz"], &["-g", "-O2", "-gdwarf-4"]] {
        let program = Program::cpp(flags);
        let good = fs::read(&program.binary).unwrap();
        let addresses: Vec<_> = witness::addresses(&program).into_iter().map(Svma).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..60 {
            let mut bad = good.clone();
            // From a single flipped byte to whole stretches of noise, headers included.
            for _ in 0..=random.below(20) {
                let at = random.below(bad.len());
                let size = 1 + random.below(if round % 3 == 0 { 64 } else { 2 });
                for byte in bad.iter_mut().skip(at).take(size) {
                    *byte = random.below(256) as u8;
                }
            }
            let at = random.below(bad.len());
            match round % 4 {
                0 => bad.truncate(at),
                1 => bad[random.below(1024)] ^= 0xff,
                _ => {}
            }
            survive(&program, &bad, &addresses);
        }
    }
}

/// `.debug_info` that claims to inflate to an exabyte.
#[test]
fn a_compressed_section_cannot_claim_any_size() {
    let program = Program::cpp(&["-g", "-O2", "-gz"]);
    let addresses: Vec<_> = witness::addresses(&program).into_iter().map(Svma).collect();
    let mut bytes = fs::read(&program.binary).unwrap();
    let listing = program.run(&["readelf", "-SW", "shop"]);
    for name in [".debug_info", ".debug_line", ".debug_str"] {
        let line = listing.lines().find(|line| line.contains(&format!("{name} "))).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "PROGBITS").unwrap();
        let offset = usize::from_str_radix(words[at + 2], 16).unwrap();
        // Elf64_Chdr: type, reserved, then the size.
        bytes[offset + 8..offset + 16].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    }
    survive(&program, &bytes, &addresses);
}

#[test]
fn names_cannot_grow_without_bound() {
    // Each pair of parameters refers to the one before it: 2^40 of them when written out.
    let doubling: String = (0..40).map(|at| format!("St4pairIS{0}_S{0}_E", seq_id(at))).collect();
    for name in [
        format!("_Z1fI{doubling}EvT_"),
        format!("_Z1f{doubling}"),
        format!("_Z1f{}i", "P".repeat(100_000)),
        format!("_Z{}", "N1a".repeat(50_000)),
        format!("_ZN{}E", "3abc".repeat(50_000)),
        format!("_R{}", "NvC".repeat(50_000)),
        format!("_Z{}1fv", "Th0_".repeat(50_000)),
        "_Z".to_owned(),
        "_ZN17h0123456789abcdefE".to_owned(),
        "\u{0}_Zé".to_owned(),
    ] {
        let plain = demangle(&name);
        assert!(plain.len() <= name.len().max(64 << 10));
    }
}

fn seq_id(at: usize) -> String {
    let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digit = |at: usize| digits.chars().nth(at % 36).unwrap();
    if at >= 36 { format!("{}{}", digit(at / 36), digit(at)) } else { digit(at).to_string() }
}

/// DWARF 4 by hand: a unit that covers `main` and holds the entries that replace `ENTRIES`.
/// Abbreviation 2 is a function with ranges, 3 one with an address, 4 an inlined function with
/// children.
const BY_HAND: &str = r#"
    .text
    .globl main
    .type main, @function
main:
    ret
    .size main, . - main
    .section .debug_abbrev,"",@progbits
    .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0
    .byte 2, 0x2e, 0, 0x03, 0x08, 0x55, 0x17, 0, 0
    .byte 3, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
    .byte 4, 0x1d, 1, 0, 0
    .byte 0
    .section .debug_info,"",@progbits
    .4byte end - start
start:
    .2byte 4
    .4byte .debug_abbrev
    .byte 8
    .byte 1
    .8byte main, 1
    ENTRIES
    .byte 0
end:
    .section .debug_ranges,"",@progbits
    .rept 40000
    .8byte 0x100000, 0x200000
    .endr
    .8byte 0, 0
    .section .note.GNU-stack,"",@progbits
"#;

/// The symbol table still names `main`.
fn main_is_found(entries: &str) {
    let program = Program::build("gcc", "shop.s", &BY_HAND.replace("ENTRIES", entries), &[]);
    let listing = program.run(&["nm", "shop"]);
    let main = listing.lines().find(|line| line.ends_with(" main")).unwrap();
    let main = u64::from_str_radix(main.split(' ').next().unwrap(), 16).unwrap();
    let resolver = Resolver::open(&program.binary, &Options::default()).unwrap();
    let symbols = resolver.resolve(&[Svma(main)]);
    assert_eq!(symbols.functions[0].name, "main");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_that_share_a_long_list_do_not_hang() {
    main_is_found(".rept 40000\n .byte 2\n .asciz \"f\"\n .4byte 0\n .endr");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_nested_without_end_do_not_overflow_the_stack() {
    main_is_found(".byte 3\n .asciz \"main\"\n .8byte main, 1\n .fill 1000000, 1, 4\n .fill 1000001, 1, 0");
}
