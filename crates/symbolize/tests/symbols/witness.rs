//! The output of binutils for the same program.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use heapwise_profile::{Location, Profile};

use crate::program::Program;

/// One frame: function, file name without directories, line.
pub(crate) type Frame = (String, String, u32);

/// Frames at an address, innermost first.
pub(crate) type Frames = Vec<Frame>;

/// `(start, size, demangled name)` of the program's own functions, by `nm`.
pub(crate) fn functions(program: &Program) -> Vec<(u64, u64, String)> {
    let listing = program.run(&["nm", "-SC", "--defined-only", "shop"]);
    let function = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
        let name = words.next()?.to_owned();
        let is_own = ["shop", "entry", "main"].iter().any(|own| name.contains(own));
        (is_code && is_own).then_some((start, size, name))
    };
    listing.lines().filter_map(function).collect()
}

/// Every address of the program's own functions.
pub(crate) fn addresses(program: &Program) -> Vec<u64> {
    let functions = functions(program);
    assert!(functions.len() >= 5, "{functions:?}");
    functions.iter().flat_map(|(start, size, _)| *start..start + size).collect()
}

/// `addr2line -Cfi` for each address.
pub(crate) fn addr2line(program: &Program, addresses: &[u64]) -> Vec<Frames> {
    let mut tool = Command::new("addr2line")
        .args(["-aCfie", "shop"])
        .current_dir(&program.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = tool.stdin.take().unwrap();
    let list: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(list.as_bytes()).unwrap());
    let output = tool.wait_with_output().unwrap();
    writer.join().unwrap();
    let mut answers = Vec::new();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Frames::new());
        } else {
            answers.last_mut().unwrap().push(frame(line, lines.next().unwrap()));
        }
    }
    answers
}

fn frame(function: &str, place: &str) -> Frame {
    let (path, line) = place.rsplit_once(':').unwrap();
    let line = line.split(' ').next().unwrap();
    (function.to_owned(), base_name(path), line.parse().unwrap_or(0))
}

fn base_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap();
    if name == "??" { String::new() } else { name.to_owned() }
}

/// The frames in the profile now.
pub(crate) fn frames(profile: &Profile, location: &Location) -> Frames {
    let lines = location.lines.iter();
    lines
        .map(|line| {
            let function = &profile.functions[line.function.index()];
            (function.name.clone(), base_name(&function.file), line.line)
        })
        .collect()
}
