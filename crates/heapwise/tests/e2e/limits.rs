//! Small files that unfold to gigabytes: reading and writing have limits, with one line that names
//! them.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::harness::Scratch;

/// Functions that each hold a copy of a name of a mebibyte.
fn bomb(scratch: &Scratch, functions: u32) -> PathBuf {
    let mut text = format!("v 10400 3\ns 100000 {}\n", "n".repeat(1 << 20));
    for number in 2..functions + 2 {
        let _ = writeln!(text, "s 8 {number:08}\ni {number:x} 0 1 {number:x} 1");
    }
    text += "t 1 0\na 10 1\n+ 0\n";
    let path = scratch.path("bomb.heaptrack");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
#[ignore = "long"]
fn a_bomb_stops_at_the_default_limit() {
    let scratch = Scratch::new();
    bomb(&scratch, 20_000);
    // Without a limit it would take 40 GB; an allocation beyond 5 GiB ends heapwise with an abort.
    let heapwise = env!("CARGO_BIN_EXE_heapwise");
    let script = format!("ulimit -v 5242880; exec '{heapwise}' top bomb.heaptrack");
    let output = scratch.command("/bin/sh").args(["-c", &script]).output().expect("sh starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("unfolds to more than 2.00 GiB") && error.contains("--limit"), "{error}");
}

#[test]
fn the_limit_is_an_option() {
    let scratch = Scratch::new();
    bomb(&scratch, 20);
    let output = scratch.heapwise(&["top", "--limit", "20M", "bomb.heaptrack"]).output().expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("more than 20.0 MiB"), "{error}");
    scratch.output_of(&["top", "--limit", "100M", "bomb.heaptrack"]);
}

#[test]
fn an_export_has_a_limit_and_leaves_no_part_of_a_file() {
    let scratch = Scratch::new();
    scratch.capture(&["--exact"], "leaky", &[]);
    let export = ["export", "-f", "folded", "-o", "out.folded", "--limit"];
    let output = scratch.heapwise(&export).args(["10", "leaky.heap"]).output().expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("larger than 10 B") && !scratch.path("out.folded").exists(), "{error}");
    assert!(scratch.heapwise(&export).args(["1M", "leaky.heap"]).status().expect("starts").success());
}

/// The ending of a name decides how an export is compressed.
#[test]
fn exports_are_compressed_by_the_ending_of_their_name() {
    let scratch = Scratch::new();
    scratch.capture(&["--exact"], "leaky", &[]);
    let total = |file: &str| scratch.json_of(&["top", "--json", file])["total"].clone();
    let whole = total("leaky.heap");
    for format in ["heaptrack", "folded", "heap_v2", "gperftools", "raw", "dhat"] {
        for (ending, magic) in [("zst", &[0x28, 0xb5, 0x2f, 0xfd][..]), ("gz", &[0x1f, 0x8b])] {
            let file = format!("out.{format}.{ending}");
            scratch.output_of(&["export", "-f", format, "-o", &file, "leaky.heap"]);
            let bytes = std::fs::read(scratch.path(&file)).expect("an export");
            assert!(bytes.starts_with(magic), "{file}");
            assert_eq!(total(&file), whole, "{file}");
        }
    }
}

/// Texts that are not compressed unfold to tables, too.
#[test]
fn plain_texts_have_the_limit() {
    let scratch = Scratch::new();
    let frames = |number: usize| format!("f{number};").repeat(200);
    let folded: String = (0..400).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{}leaf 8", frames(number));
        text
    });
    let addresses =
        |number: u64| (0..200).map(move |frame| format!(" 0x{:x}", 4096 + number * 4096 + frame * 16));
    let stack = |number: u64| addresses(number).collect::<String>();
    let jemalloc = (0..400).fold("heap_v2/0\n  t*: 400: 3200 [0: 0]\n".to_owned(), |mut text, number| {
        let _ = write!(text, "@{}\n  t*: 1: 8 [0: 0]\n", stack(number));
        text
    });
    let gperftools = (0..400).fold(
        "heap profile: 400: 3200 [400: 3200] @ heapprofile\n".to_owned(),
        |mut text, number| {
            let _ = writeln!(text, "  1: 8 [1: 8] @{}", stack(number));
            text
        },
    );
    let dhat = {
        let point =
            "{\"tb\":8,\"tbk\":1,\"mb\":8,\"mbk\":1,\"gb\":8,\"gbk\":1,\"eb\":8,\"ebk\":1,\"fs\":[0]},";
        let points = point.repeat(4000);
        let points = points.trim_end_matches(',');
        format!(
            "{{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,\"bkacc\":false,\"tu\":\"instrs\",\"Mtu\":\"Minstr\",\"tuth\":0,\"cmd\":\"a\",\"pid\":1,\"te\":1,\"tg\":1,\"pps\":[{points}],\"ftbl\":[\"[root]\"]}}"
        )
    };
    // One line that is a bomb by itself.
    let long_line = format!("{}leaf 8\n", "a;".repeat(200_000));
    for (name, text) in [
        ("folded", &folded),
        ("jemalloc", &jemalloc),
        ("gperftools", &gperftools),
        ("dhat", &dhat),
        ("line", &long_line),
    ] {
        std::fs::write(scratch.path(name), text).expect("written");
        let output = scratch.heapwise(&["top", "--limit", "1M", name]).output().expect("starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains("more than 1.00 MiB"), "{name}: {error}");
        scratch.output_of(&["top", name]);
    }
}

/// A stack of a thousand frames, of which every frame allocates: a small file, a long list.
#[test]
fn lists_of_stacks_have_the_limit() {
    let scratch = Scratch::new();
    let mut text = String::new();
    let mut stack = String::new();
    for number in 0..1000 {
        let _ = write!(stack, "f{number};");
        let _ = writeln!(text, "{} 8", stack.trim_end_matches(';'));
    }
    std::fs::write(scratch.path("deep.folded"), text).expect("written");
    let whole = scratch.output_of(&["traces", "deep.folded"]);
    assert!(whole.len() > 4 << 20, "{}", whole.len());
    scratch.output_of(&["export", "-f", "heapwise", "-o", "deep.hwp", "deep.folded"]);
    let output = scratch.heapwise(&["traces", "--limit", "8M", "deep.hwp"]).output().expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.len() <= 2 << 20, "{error}");
    assert!(error.contains(" more stacks; --limit SIZE allows more"), "{error}");
    for view in ["leaks", "traces"] {
        let output =
            scratch.heapwise(&[view, "--json", "--limit", "8M", "deep.hwp"]).output().expect("starts");
        assert!(output.status.success() && output.stdout.len() <= 8 << 20, "{view}: {}", output.stdout.len());
    }
}
