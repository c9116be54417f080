//! The tools heapwise replaces: their command lines still work, and the originals print the same
//! where they are right.

use std::process::Command;

use crate::harness::{Scratch, victims};

/// Rows about the victim's own functions, and the total: what does not depend on whether the
/// machine has debug information for libc (without it jeprof names libc's frames after the nearest
/// exported symbol).
fn own_rows(text: &str) -> Vec<&str> {
    let own = |line: &&str| {
        let name = line.split_whitespace().nth(5).unwrap_or_default();
        line.starts_with("Total") || name.starts_with("w_") || name == "main"
    };
    text.lines().filter(own).collect()
}

#[test]
#[ignore = "needs jeprof"]
fn jeprof_prints_what_the_original_prints() {
    let scratch = Scratch::new();
    let program = victims().join("plain");
    let program = program.to_str().expect("UTF-8");
    for mode in [["--exact", "--depth=64"], ["-c", "4096"]] {
        let capture = scratch.capture(&mode, "plain", &["30000", "3"]);
        let profile = capture.profile.to_str().expect("UTF-8");
        for options in [
            vec![],
            vec!["--show_bytes"],
            vec!["--inuse_objects"],
            vec!["--alloc_space", "--cum"],
            // Not w_realloc: binutils' addr2line gives it a line of witness.h in plain.c.
            vec!["--alloc_objects", "--lines", "--ignore=w_resized"],
            vec!["--focus=w_fresh", "--show_bytes"],
            vec!["--ignore=w_fresh", "--alloc_space"],
        ] {
            let mut arguments = vec!["--text"];
            arguments.extend(&options);
            arguments.extend([program, profile]);
            let original = Command::new("jeprof").args(&arguments).output().expect("install libjemalloc-dev");
            let original = String::from_utf8(original.stdout).expect("UTF-8");
            let mut ours = vec!["jeprof"];
            ours.extend(&arguments);
            let ours = scratch.output_of(&ours);
            assert!(own_rows(&original).len() > 2, "{mode:?} {options:?}: {original}");
            // Our own reader finds the estimates beside the counts that jeprof scales. These counts
            // are whole numbers, so that jeprof rounds each stack before it adds them up.
            let rounding = if mode[0] == "-c" { 0.005 } else { 0.0 };
            let pairs = own_rows(&ours).into_iter().zip(own_rows(&original));
            for (ours, original) in pairs {
                assert!(is_close(ours, original, rounding), "{mode:?} {options:?}:\n{ours}\n{original}");
            }
        }
    }
}

/// Whether two rows are the same but for the last digit of their numbers, or for the share
/// `rounding` of a number.
fn is_close(ours: &str, original: &str, rounding: f64) -> bool {
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (ours, original) = (words(ours), words(original));
    let same = |(a, b): (&String, &String)| {
        let number = |text: &str| text.trim_end_matches('%').parse::<f64>().ok();
        let last_digit = if a.contains('.') { 0.11 } else { 1.0 };
        let is_near = |(a, b): (f64, f64)| (a - b).abs() <= f64::max(last_digit, rounding * b);
        a == b || number(a).zip(number(b)).is_some_and(is_near)
    };
    ours.len() == original.len() && ours.iter().zip(&original).all(same)
}

#[test]
fn jeprof_answers_at_a_prompt() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["2000"]);
    let program = victims().join("plain");
    std::fs::write(scratch.path("commands"), "top3 --cum\ntop -w_fresh\nbogus\nquit\n").expect("written");
    let output = scratch
        .heapwise(&["jeprof", "--interactive"])
        .arg(program)
        .arg(&capture.profile)
        .stdin(std::fs::File::open(scratch.path("commands")).expect("readable"))
        .output()
        .expect("heapwise starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches("Total: ").count(), 2, "{said}");
    assert!(said.contains("After ignoring 'w_fresh'"), "{said}");
    let prompt = String::from_utf8_lossy(&output.stderr);
    assert!(prompt.contains("(jeprof) ") && prompt.contains("Unknown command: try 'help'."), "{prompt}");
}

#[test]
fn a_missing_profile_is_a_missing_file() {
    let scratch = Scratch::new();
    let output = scratch.heapwise(&["jeprof", "--text", "/bin/true", "typo.heap"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such file"));
}

#[test]
fn mem_parser_as_text_and_as_a_graph() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["5000"]);
    let program = victims().join("plain");
    let (program, profile) = (program.to_str().expect("UTF-8"), capture.profile.to_str().expect("UTF-8"));
    let text = scratch.output_of(&["mem_parser", "-p", program, "-f", profile, "-t"]);
    assert!(text.starts_with("Total: ") && text.contains(" w_malloc"), "{text}");
    scratch.output_of(&["mem_parser", "-p", program, "-f", profile, "-s", "-o", "graph.svg"]);
    let svg = std::fs::read_to_string(scratch.path("graph.svg")).expect("written");
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..80]);
    assert!(svg.contains("Total MB:") && svg.contains("w_malloc"));
    for wrong in [
        vec!["mem_parser", "-f", profile, "-t"],
        vec!["mem_parser", "-p", program, "-t"],
        vec!["mem_parser", "-p", program, "-f", profile],
        vec!["mem_parser", "-p", program, "-f", profile, "-s", "-t"],
    ] {
        let output = scratch.heapwise(&wrong).output().expect("heapwise starts");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn mem_parser_finds_the_program_at_another_place() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["5000"]);
    let profile = capture.profile.to_str().expect("UTF-8");
    // The recorded path is gone: only the build-id says that the copy is the same program.
    let text = std::fs::read_to_string(profile).expect("readable").replace("victims/plain", "victims/gone");
    std::fs::write(scratch.path("moved.heap"), text).expect("written");
    std::fs::copy(victims().join("plain"), scratch.path("renamed")).expect("copied");
    let table = scratch.output_of(&["mem_parser", "-p", "renamed", "-f", "moved.heap", "-t"]);
    assert!(table.contains(" w_malloc"), "{table}");
}

#[test]
fn mprof_ranks_and_draws() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["5000"]);
    let profile = capture.profile.to_str().expect("UTF-8");
    scratch.output_of(&["export", "-f", "pro", "-o", "plain.pro", profile]);
    for input in [profile, "plain.pro"] {
        let top = scratch.output_of(&["mprof", "-i", input, "-top=flat"]);
        assert!(top.contains("-----------inuse space ranking----------"), "{top}");
        assert!(top.contains("No:") && top.contains("1th"), "{top}");
        let alloc = scratch.output_of(&["mprof", "-i", input, "-top", "cum", "-inuse=false"]);
        assert!(alloc.contains("-----------alloc space ranking----------"), "{alloc}");
    }
    scratch.output_of(&["mprof", "-i", "plain.pro", "-png", "g.png", "-svg", "g.svg", "-info", "info.txt"]);
    assert!(std::fs::read(scratch.path("g.png")).expect("written").starts_with(b"\x89PNG"));
    let info = std::fs::read_to_string(scratch.path("info.txt")).expect("written");
    assert!(info.starts_with("----------FuncName:------------"), "{info}");
}

/// A `.pro` file of skynet-mprof with one block of 4096 bytes at each place.
fn pro_file(places: &[(String, u64)]) -> Vec<u8> {
    let mut body = (places.len() as u32).to_be_bytes().to_vec();
    for (text, pc) in places {
        body.push(text.len() as u8);
        body.extend(text.as_bytes());
        body.extend(pc.to_be_bytes());
    }
    for (_, pc) in places {
        [1_u32, 4096, 0, 0, 1].iter().for_each(|word| body.extend(word.to_be_bytes()));
        body.extend(pc.to_be_bytes());
    }
    [(body.len() as u32).to_be_bytes().to_vec(), body].concat()
}

#[test]
fn offsets_in_a_pro_file_get_names_and_lines_from_the_binary() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["2000"]);
    std::fs::copy(victims().join("plain"), scratch.path("skynet.so")).expect("copied");
    let text = std::fs::read_to_string(&capture.profile).expect("readable");
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal");
    // `55d0…-55d1… r-xp 00001000 00:00 0 …/plain`, and the leaf of the first stack, a call site.
    let mapping =
        text.lines().find(|line| line.ends_with("/plain") && line.contains("r-xp")).expect("mapped");
    let mut fields = mapping.split_whitespace();
    let start = hex(fields.next().and_then(|range| range.split('-').next()).expect("a range"));
    let base = start - hex(fields.nth(1).expect("an offset"));
    let stacks = text.lines().filter_map(|line| line.strip_prefix("@ "));
    let leaves: Vec<u64> =
        stacks.filter_map(|line| line.split(' ').next()).map(|leaf| hex(leaf) + 1).collect();
    let (first, second) = (leaves[0], leaves[1]);
    let places = [
        (format!("./skynet.so(+{:#x}) [{first:#x}]", first - base), first),
        (format!("./skynet.so(told_name+0x10) [{second:#x}]"), second),
        ("./gone.so(lost_name+0x10) [0x7fff00001234]".to_owned(), 0x7fff_0000_1234),
    ];
    std::fs::write(scratch.path("real.pro"), pro_file(&places)).expect("written");
    let table = scratch.output_of(&["top", "--lines", "--bytes", "real.pro"]);
    let named = table.lines().filter(|line| line.contains(" w_") && line.contains(".h:")).count();
    assert_eq!(named, 2, "{table}");
    assert!(table.contains(" lost_name"), "{table}");
    let output = scratch.heapwise(&["symbolize", "-o", "named.heap", "real.pro"]).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("2 of 2 addresses have names now"), "{said}");
    scratch.output_of(&["mprof", "-i", "real.pro", "-info", "info.txt"]);
    let info = std::fs::read_to_string(scratch.path("info.txt")).expect("written");
    assert!(info.contains("./gone.so(lost_name+0x10) [0x7fff00001234]"), "{info}");
}

#[test]
fn mprof_separates_the_lines_of_a_function_and_counts_what_it_does_not_draw() {
    let scratch = Scratch::new();
    let mut places: Vec<(String, u64)> = (0..300)
        .map(|at| (format!("./a.so(f{at}+0x10) [0x7f0000{at:06x}]"), 0x7f00_0000_0000 + at))
        .collect();
    places.push(("./a.so(f0+0x20) [0x7f0000ffffff]".to_owned(), 0x7f00_00ff_ffff));
    std::fs::write(scratch.path("many.pro"), pro_file(&places)).expect("written");
    let top = scratch.output_of(&["mprof", "-i", "many.pro", "-top=flat"]);
    assert!(top.contains(" f0+0x10 ") && top.contains(" f0+0x20 "), "{top}");
    scratch.output_of(&["mprof", "-i", "many.pro", "-svg", "some.svg"]);
    let some = std::fs::read_to_string(scratch.path("some.svg")).expect("written");
    assert!(some.contains("301 smaller places are not drawn; -all draws them"), "{}", &some[..2000]);
    scratch.output_of(&["mprof", "-i", "many.pro", "-svg", "all.svg", "-all"]);
    let all = std::fs::read_to_string(scratch.path("all.svg")).expect("written");
    assert_eq!(all.matches("class=\"node\"").count(), 301);
}

#[test]
fn dump_writes_the_format_of_the_ending() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["500"]);
    let profile = capture.profile.to_str().expect("UTF-8");
    let total = scratch.json_of(&["top", "--json", profile])["total"].clone();
    for (ending, start) in [
        ("pro", &b""[..]),
        ("heap", b"heap_v2/"),
        ("pb.gz", b"\x1f\x8b"),
        ("raw", b"--- symbol"),
        ("folded", b""),
        ("dhat.json", b"{"),
        ("hwp", b""),
    ] {
        let file = format!("plain.{ending}");
        scratch.output_of(&["symbolize", "-o", &file, profile]);
        let bytes = std::fs::read(scratch.path(&file)).expect("written");
        assert!(bytes.starts_with(start), "{file}");
        assert_eq!(scratch.json_of(&["top", "--json", &file])["total"], total, "{file}");
    }
}
