//! What reports say about the part of a program's life that was recorded, and how the program
//! ended.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Scratch, victims};
use crate::serve::Server;

/// Blocks after which a program that does not record has read its control words.
const MANY: u32 = 1000;

/// A program that allocates when its input requests it, with the probe preloaded.
pub(crate) struct Told {
    child: Child,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Told {
    pub(crate) fn start(scratch: &Scratch, conf: &str) -> Self {
        let library = scratch.output_of(&["preload"]);
        let mut program = scratch.command(victims().join("allocates_when_told"));
        program.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", conf);
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let input = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, input, lines }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Lets the program allocate so many blocks of 1000 bytes, and waits until it has.
    pub(crate) fn allocate(&mut self, blocks: u32) {
        writeln!(self.input, "{blocks}").expect("it reads");
        let line = self.lines.next().expect("a line").expect("UTF-8");
        assert_eq!(line, format!("allocated {blocks}"));
    }

    pub(crate) fn end(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().expect("waited").success());
    }
}

fn kinds(report: &Value) -> Vec<String> {
    let gaps = report["coverage"]["gaps"].as_array().expect("gaps");
    gaps.iter().map(|gap| gap["kind"].as_str().expect("a kind").to_owned()).collect()
}

/// `top` of a process that was never recorded, recorded late, stopped and started again.
#[test]
fn a_late_start_and_a_pause_are_told() {
    let scratch = Scratch::new();
    let mut told = Told::start(&scratch, "mode:off");
    let pid = told.pid();
    told.allocate(10);
    let top = || scratch.output_of(&["top", &pid]);
    let json = || scratch.json_of(&["top", "--json", &pid]);
    assert!(top().contains(&format!("nothing: recording was never on (heapwise start {pid})")), "{}", top());
    scratch.output_of(&["start", "--exact", &pid]);
    told.allocate(MANY);
    assert!(top().contains("blocks allocated earlier are missing"), "{}", top());
    assert_eq!(kinds(&json()), ["earlier_blocks"]);
    assert_eq!(json()["coverage"]["end"]["how"], "running");
    scratch.output_of(&["stop", &pid]);
    told.allocate(MANY);
    assert!(top().contains("later blocks are missing"), "{}", top());
    scratch.output_of(&["start", "--exact", &pid]);
    told.allocate(MANY);
    assert!(top().contains("recording was off 1 time in between"), "{}", top());
    let leaks = scratch.output_of(&["leaks", &pid]);
    assert!(leaks.starts_with("Still held"), "{leaks}");
    let check = scratch.heapwise(&["check", "--max-leaked", "1G", &pid]).output().expect("starts");
    assert_eq!(check.status.code(), Some(3), "{check:?}");
    let check = scratch.heapwise(&["check", "--max-leaked", "1K", &pid]).output().expect("starts");
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    told.end();
}

/// `ps`, `stats` and `top` read the same live bytes, in every mode that counts every block; the
/// peak is not below them.
#[test]
fn live_bytes_are_the_same_everywhere() {
    for mode in ["mode:exact", "mode:log"] {
        let scratch = Scratch::new();
        let mut told = Told::start(&scratch, mode);
        let pid = told.pid();
        told.allocate(1000);
        let top = scratch.json_of(&["top", "--json", &pid]);
        let of_top = top["total"].as_u64().expect("a total");
        assert!(of_top >= 1_000_000, "{mode}: {top}");
        assert_eq!(kinds(&top), Vec::<String>::new(), "{mode}");
        let ps = scratch.json_of(&["ps", "--json"]);
        assert_eq!(ps[0]["live_bytes"].as_u64(), Some(of_top), "{mode}: {ps}");
        let stats = scratch.json_of(&["stats", "--json", &pid]);
        let number = |name: &str| stats[0]["probe"][name].as_u64().expect("a number");
        assert_eq!(number("live_bytes"), of_top, "{mode}: {stats}");
        assert!(number("peak_bytes") >= of_top, "{mode}: {stats}");
        told.end();
    }
}

/// How the program ended is part of profiles, recordings and exports.
#[test]
fn the_end_of_the_program_is_a_fact() {
    let scratch = Scratch::new();
    let shell = |script: &str| ["--", "sh", "-c", script].map(str::to_owned);
    for (script, end) in [("exit 3", "exit status 3"), ("kill -9 $$", "killed by signal 9")] {
        for (mode, file) in [("--exact", "out.hwp"), ("--exact", "out.heap"), ("--log", "out.hwr")] {
            let run: Vec<String> = ["run", "-q", "-f", mode, "-o", file].map(str::to_owned).into();
            let arguments: Vec<String> = run.into_iter().chain(shell(script)).collect();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let status = scratch.heapwise(&arguments).status().expect("heapwise starts");
            assert!(!status.success());
            let leaks = scratch.output_of(&["leaks", file]);
            assert!(leaks.starts_with("Never freed (the program has ended)"), "{file}: {leaks}");
            assert!(leaks.contains(&format!("to its end ({end})")), "{file}: {leaks}");
        }
        let json = scratch.json_of(&["export", "-f", "json", "out.hwp"]);
        assert_ne!(json["coverage"]["end"]["how"], "unknown");
    }
}

/// An allocator inside the executable is not hooked without `run`: the report says so.
#[test]
fn an_allocator_inside_the_executable_is_told() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("own_allocator"));
    program.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", "mode:exact,keep_segment:true");
    let child = program.stdout(Stdio::null()).spawn().expect("the program starts");
    let pid = child.id().to_string();
    child.wait_with_output().expect("it ends");
    scratch.output_of(&["dump", "-o", "own.hwp", &pid]);
    let top = scratch.output_of(&["top", "own.hwp"]);
    assert!(top.contains("not seen: blocks of the allocator inside the executable (je_malloc)"), "{top}");
    let plain = scratch.capture(&["--exact"], "leaky", &["10"]);
    let top = scratch.output_of(&["top", plain.profile.to_str().expect("UTF-8")]);
    assert!(!top.contains("not seen"), "{top}");
}

/// A recording that lost nothing says so by saying nothing, and its live blocks are not "never
/// freed" while the program runs on.
#[test]
fn a_summary_has_no_losses_of_zero() {
    let scratch = Scratch::new();
    let mut told = Told::start(&scratch, "mode:off");
    let pid = told.pid();
    told.allocate(10);
    let mut record = scratch.heapwise(&["record", &pid, "-o", "out.hwr"]);
    let mut recorder = record.stderr(Stdio::null()).spawn().expect("heapwise starts");
    while scratch.json_of(&["ps", "--json"])[0]["mode"] != "log" {
        told.allocate(MANY);
    }
    told.allocate(MANY);
    let interrupted = std::process::Command::new("kill").args(["-INT", &recorder.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|status| status.success()));
    assert!(recorder.wait().expect("waited").success());
    let summary = scratch.output_of(&["summary", "out.hwr"]);
    assert!(!summary.contains("missing:") && !summary.contains("0 events"), "{summary}");
    assert!(summary.contains("still held"), "{summary}");
    assert!(summary.contains("blocks allocated earlier are missing"), "{summary}");
    told.end();
}

/// The server says what a profile covers, in brpc's text too; a moment of a live process is
/// refused.
#[test]
fn the_server_says_why_there_is_nothing() {
    let scratch = Scratch::new();
    let mut told = Told::start(&scratch, "mode:off");
    told.allocate(10);
    let server = Server::start(&scratch, &[&told.pid()]);
    let is = |status: u16, answer: &str| answer.starts_with(&format!("HTTP/1.1 {status} "));
    let sources = server.get("/api/v1/sources");
    let (_, id) = sources.split_once("\"id\":\"").expect("a source");
    let source = format!("/api/v1/sources/{}", id.split('"').next().expect("an id"));
    let answer = server.get(&format!("{source}/summary"));
    assert!(is(200, &answer) && answer.contains("recording was never on"), "{answer}");
    let answer = server.get(&format!("{source}/top?at=5ms"));
    assert!(is(400, &answer) && answer.contains("only recordings have moments"), "{answer}");
    scratch.output_of(&["start", "--exact", &told.pid()]);
    told.allocate(MANY);
    // The server keeps an answer for a moment.
    let started = Instant::now();
    while !server.get("/pprof/heap?display=text").contains("blocks allocated earlier are missing") {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", server.get("/pprof/heap?display=text"));
        std::thread::sleep(Duration::from_millis(10));
    }
    told.end();
}
