//! Names are data of the profiled program: nothing in them reaches the terminal as a command or as
//! a line of its own. A reader of the output that goes away ends no command with a panic.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::harness::{LOG, Scratch, victims};

/// A title, a bell, a cleared screen, an 8-bit control sequence, a forged row, a reversed
/// direction.
const HOSTILE: &str = "x\x1b]0;owned\x07\x1b[2J\u{9b}31m\nForged 99.9% row\r\u{202e}y";

/// The same as a field of an annotation.
fn field() -> String {
    HOSTILE.replace('\n', "\\n").replace('\r', "\\r")
}

/// A text profile with hostile names everywhere.
fn profile(scratch: &Scratch, file: &str) -> PathBuf {
    let name = field();
    let text = format!(
        "heap_v2/0\n  t*: 2: 3000000 [2: 3000000]\n  t0: 2: 3000000 [2: 3000000]\n\
         @ 0x1000f 0x20010\n  t*: 2: 3000000 [2: 3000000]\n  t0: 2: 3000000 [2: 3000000]\n\n\
         MAPPED_LIBRARIES:\n10000-30000 r-xp 00000000 00:00 0 /bin/{tail}\n\
         # heapwise version 2\n# heapwise program /bin/{name}\n# heapwise args {name}\t{name}\n\
         # heapwise comment {name}\n# heapwise source {name}\n# heapwise thread 0 7 {name}\n\
         # heapwise build-id abcd 10000-30000 0 /bin/{name}\n\
         # heapwise function 1\t{name}\t{name}\t/src/{name}\n# heapwise function 1\tmain{name}\tm\t/src/{name}\n\
         # heapwise symbol 0x1000f 0:3\n# heapwise symbol 0x2000f 1:4\n",
        tail = name.split("\\n").next().unwrap_or_default(),
    );
    let path = scratch.path(file);
    std::fs::write(&path, text).expect("written");
    path
}

fn assert_clean(what: &[&str], output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r') || c == '\u{202e}';
        // Rows of CSV end with a carriage return.
        let text = text.replace("\r\n", "\n");
        assert!(!text.contains(bad) && !text.contains('\r'), "{what:?}: {}", text.escape_debug());
        assert!(!text.lines().any(|line| line.starts_with("Forged")), "{what:?}: {text}");
    }
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{what:?} printed nothing");
}

fn check(scratch: &Scratch, arguments: &[&str]) {
    let output = scratch.heapwise(arguments).output().expect("heapwise starts");
    assert!(output.status.code().is_some_and(|code| code <= 1), "{arguments:?}: {output:?}");
    assert_clean(arguments, &output);
}

#[test]
fn reports_of_a_profile_escape_names() {
    let scratch = Scratch::new();
    let file = format!("profile-{HOSTILE}.heap");
    profile(&scratch, &file);
    let file = file.as_str();
    for view in ["top", "tree", "leaks", "sizes", "modules", "threads", "traces"] {
        for granularity in ["--functions", "--lines", "--files", "--addresses", "--modules"] {
            check(&scratch, &[view, granularity, file]);
        }
        check(&scratch, &[view, "--json", file]);
    }
    check(&scratch, &["top", "--gs", file]);
    check(&scratch, &["peek", ".", file]);
    check(&scratch, &["list", ".", file]);
    check(&scratch, &["diff", file, file]);
    check(&scratch, &["check", "--max-leaked", "1", file]);
    for format in ["folded", "csv", "callgrind", "heaptrack"] {
        check(&scratch, &["export", "-f", format, file]);
    }
    check(&scratch, &["symbolize", "-o", &format!("copy-{HOSTILE}.hwp"), file]);
    check(&scratch, &["jeprof", "--text", file]);
    check(&scratch, &["mprof", "-i", file, "-top", "flat"]);
}

#[test]
fn errors_escape_names() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path(HOSTILE), "no profile: \x1b[2J\n").expect("written");
    for arguments in [
        vec!["top", HOSTILE],
        vec!["summary", HOSTILE],
        vec!["at", HOSTILE, HOSTILE],
        vec!["timeline", HOSTILE],
        vec!["top", "missing-\x1b]0;owned\x07"],
        vec!["stats", HOSTILE],
        vec!["run", "--", "missing-\x1b[2J\nForged"],
        vec!["top", "--\x1b[2J", HOSTILE],
        vec!["export", "-f", "\x1b[2J", HOSTILE],
    ] {
        let output = scratch.heapwise(&arguments).output().expect("heapwise starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert_clean(&arguments, &output);
    }
}

/// Pictures and pages hold no character that their formats forbid.
#[test]
fn pictures_stay_well_formed() {
    let scratch = Scratch::new();
    profile(&scratch, "p.heap");
    for (command, file) in [("graph", "g.svg"), ("flame", "f.svg"), ("flame", "f.html")] {
        scratch.output_of(&[command, "-o", file, "p.heap"]);
        let text = std::fs::read_to_string(scratch.path(file)).expect("a picture");
        assert!(!text.contains(|c: char| c.is_ascii_control() && !matches!(c, '\n' | '\t')), "{file}");
        assert!(text.contains("owned"), "{file}");
    }
}

/// A recording of a program whose name, thread and mark are hostile.
#[test]
fn reports_of_a_recording_escape_names() {
    let scratch = Scratch::new();
    let program = scratch.path("p\x1b[31m\nForged");
    std::fs::copy(victims().join("named_marks"), &program).expect("copied");
    let mut run = scratch.heapwise(&["run"]);
    run.args(LOG).args(["-o", "r.hwr", "--"]).arg(&program).args(["m\x1b[2J\nForged", "a"]);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{output:?}");
    assert_clean(&["run"], &output);
    for arguments in [
        &["summary", "r.hwr"][..],
        &["timeline", "r.hwr"],
        &["timeline", "--svg", "t.svg", "r.hwr"],
        &["at", "r.hwr", "mark:m\x1b[2J\nForged"],
        &["threads", "r.hwr"],
        &["modules", "r.hwr"],
        &["top", "r.hwr"],
        &["ps", "--dead"],
    ] {
        check(&scratch, arguments);
    }
    let wrong = scratch.heapwise(&["at", "r.hwr", "nothing"]).output().expect("heapwise starts");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("Forged"), "{wrong:?}");
    assert_clean(&["at", "nothing"], &wrong);
    let picture = std::fs::read_to_string(scratch.path("t.svg")).expect("a picture");
    assert!(!picture.contains('\x1b'));
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let scratch = Scratch::new();
    profile(&scratch, "p.heap");
    scratch.record("named_marks", &["a"], &scratch.path("r.hwr"));
    let library = scratch.output_of(&["preload"]);
    let mut held = scratch.command("/bin/cat");
    held.env("LD_PRELOAD", library.trim()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut held = held.spawn().expect("cat starts");
    // Its segment is there when it answers.
    let mut answer = [0];
    std::io::Write::write_all(&mut held.stdin.as_ref().expect("piped"), b"x").expect("written");
    std::io::Read::read_exact(&mut held.stdout.as_mut().expect("piped"), &mut answer).expect("read");
    let pid = held.id().to_string();
    for arguments in [
        &["ps"][..],
        &["ps", "--json"],
        &["stats", &pid],
        &["stats", "--json", &pid],
        &["doctor"],
        &["preload"],
        &["top", &pid],
        &["top", "p.heap"],
        &["leaks", "p.heap"],
        &["check", "--max-leaked", "1G", "p.heap"],
        &["export", "-f", "folded", "p.heap"],
        &["summary", "r.hwr"],
        &["timeline", "r.hwr"],
        &["at", "r.hwr", "peak"],
        &["run", "--", "true"],
        &["jeprof", "--help"],
        &["jeprof", "--version"],
        &["jeprof", "--text", "p.heap"],
        &["mprof", "-i", "p.heap", "-top", "flat"],
        &["--help"],
        &["--version"],
    ] {
        for closes_errors in [false, true] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let mut command = scratch.heapwise(arguments);
            if closes_errors {
                command.stderr(writer.try_clone().expect("a pipe"));
            } else {
                command.stderr(Stdio::piped());
            }
            let output = command.stdout(writer).output().expect("heapwise starts");
            let error = String::from_utf8_lossy(&output.stderr);
            // A slow machine may fail a check of `doctor`.
            let is_done = matches!((output.status.code(), arguments[0]), (Some(0), _) | (Some(1), "doctor"));
            assert!(is_done, "{arguments:?}: {error}");
            assert!(!error.contains("panicked"), "{arguments:?}: {error}");
        }
    }
    let _ = held.kill();
    let _ = held.wait();
}
