//! The whole server against a client that means no good: requests for every address, damaged in
//! ways that are the same in every run, over a socket. Nothing may crash, no file but the served
//! ones may come back, and the process that is looked at goes on.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Scratch, victims};
use crate::serve::Server;
use heapwise_testkit::random::Random;

/// Damaged requests sent.
const ROUNDS: usize = 800;
/// The content of the files that are not served.
const SECRET: &str = "UNSERVED";
/// Most resident memory of the server after all of them; it holds its renders.
const MOST_RESIDENT_KB: u64 = 400 << 10;

/// Targets of every kind: `ID` is replaced by a source, `NAME` by a stored profile.
const TARGETS: [&str; 26] = [
    "/",
    "/health",
    "/assets/app.js",
    "/s/ID/flame?profile=NAME",
    "/p/ID/pprof/heap",
    "/p/ID/pprof/heap?display=text&extra_options=show_bytes,--focus=main",
    "/p/ID/pprof/heap?display=svg",
    "/p/ID/pprof/growth",
    "/p/ID/pprof/symbol",
    "/p/ID/pprof/cmdline",
    "/p/ID/debug/pprof/allocs?debug=1",
    "/p/ID/hotspots/heap?view=NAME&base=NAME&display_type=flame&console=1",
    "/p/ID/hotspots/growth_non_responsive?view=NAME",
    "/p/ID/memory?opts=Ja",
    "/p/ID/flags/je_prof_active?setvalue=true",
    "/p/ID/flags/je_prof_reset",
    "/api/v1/sources",
    "/api/v1/sources/ID",
    "/api/v1/sources/ID/timeline",
    "/api/v1/sources/ID/statistics",
    "/api/v1/sources/ID/top?profile=NAME&n=5&order=cum",
    "/api/v1/sources/ID/flame?shape=callers&pivot=w_&base=NAME",
    "/api/v1/sources/ID/graph?format=dot&at=peak",
    "/api/v1/sources/ID/leaks?focus=(main|w_)&granularity=lines",
    "/api/v1/sources/ID/control",
    "/api/v1/sources/ID/profiles",
];

/// What is put in the place of a name, or anywhere.
const PIECES: [&str; 13] = [
    "..",
    "../..",
    "%2e%2e%2f",
    "..%2Funserved.heap",
    "%00",
    "unserved.heap",
    "/etc/passwd",
    "\\..\\",
    "18446744073709551616",
    "-1",
    "(((((",
    "\r\n\r\nGET /",
    "é\u{1f}",
];

/// A program with the probe, for as long as this lives.
struct Live(Child);

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn live(scratch: &Scratch) -> Live {
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join("live_switch"));
    command.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", "mode:exact");
    let live = Live(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("victim starts"));
    let (pid, deadline) = (live.0.id().to_string(), Instant::now() + Duration::from_secs(10));
    while !scratch.heapwise(&["stats", &pid]).output().is_ok_and(|out| out.status.success()) {
        assert!(Instant::now() < deadline, "no segment appeared");
        std::thread::sleep(Duration::from_millis(10));
    }
    live
}

/// A directory of dumps, a recording and a live process are served; other files lie beside and
/// around them.
fn served(scratch: &Scratch, pid: &str) -> Server {
    let dumps = scratch.path("dumps");
    fs::create_dir(&dumps).expect("made");
    let capture = scratch.capture(&["--exact"], "leaky", &["500"]);
    for name in ["first.heap", "second.heap"] {
        fs::copy(&capture.profile, dumps.join(name)).expect("copied");
    }
    // A profile whose every frame would be shown with this name.
    let secret = format!(
        "heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x5ec400\n  t*: 1: 1 [0: 0]\n\nMAPPED_LIBRARIES:\n\
         5ec000-5ed000 r-xp 00000000 00:00 7 /{SECRET}\n"
    );
    fs::write(scratch.path("unserved.heap"), &secret).expect("written");
    let recording = scratch.path("steps.hwr");
    scratch.record("steps", &[], &recording);
    Server::start(scratch, &["dumps", "steps.hwr", pid])
}

/// One request, of a target with names put in, in a method and with headers that may fit it.
fn request(random: &mut Random, server: &Server, pid: &str) -> Vec<u8> {
    let mut pick = |from: &[&str]| from[random.below(from.len() as u64) as usize].to_owned();
    let mut target = pick(&TARGETS).replace("ID", &pick(&["dumps", "steps.hwr", pid, pid]));
    while target.contains("NAME") {
        let name = pick(&["first.heap", "second.heap", "steps.hwr", "last-state"]);
        target = target.replacen("NAME", &if pick(&["", "", "x"]) == "x" { pick(&PIECES) } else { name }, 1);
    }
    let method = pick(&["GET", "GET", "GET", "HEAD", "POST"]);
    let body =
        pick(&["", "action=mark&value=here", "action=rate&value=4K", "action=start", "0x401000+0x7f00"]);
    let packed = pick(&["", "Accept-Encoding: gzip\r\n", "If-None-Match: W/\"0\", *\r\n"]);
    let agent = pick(&["", "User-Agent: curl/8\r\n", "User-Agent: Mozilla/5.0\r\n"]);
    let Server { address, token, .. } = server;
    format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nX-Heapwise-Token: {token}\r\n{packed}{agent}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Some bytes changed, dropped, doubled, cut off, or replaced by a piece.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len() as u64) as usize;
    let span = (random.below(24) as usize).min(bytes.len() - at);
    match random.below(6) {
        0 => bytes[at] = random.below(256) as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => drop(bytes.drain(at..at + span)),
        3 => {
            let copy = bytes[at..at + span].to_vec();
            bytes.splice(at..at, copy);
        }
        4 => bytes.truncate(at.max(1)),
        _ => {
            let piece = PIECES[random.below(PIECES.len() as u64) as usize];
            bytes.splice(at..at + span.min(8), piece.bytes());
        }
    }
}

fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("counted");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn hostile_requests_reach_no_other_file_and_break_nothing() {
    let scratch = Scratch::new();
    let mut live = live(&scratch);
    let pid = live.0.id().to_string();
    let mut server = served(&scratch, &pid);
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let known = ["200", "302", "304", "400", "401", "403", "404", "405", "408", "413", "431", "503"];
    let (mut fine, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = request(&mut random, &server, &pid);
        // Every fourth is as it should be, so that all addresses are really reached.
        for _ in 0..round % 4 {
            damage(&mut random, &mut bytes);
        }
        let answer = server.send(&bytes);
        let told = String::from_utf8_lossy(&bytes);
        let status = answer.strip_prefix("HTTP/1.1 ").map(|rest| &rest[..3]);
        assert!(answer.is_empty() || status.is_some_and(|code| known.contains(&code)), "{told}: {answer}");
        assert!(!answer.contains(SECRET) && !answer.contains("root:x:"), "{told}");
        match status {
            Some("200" | "302" | "304") => fine += 1,
            _ => refused += 1,
        }
    }
    assert!(fine > ROUNDS / 4 && refused > ROUNDS / 4, "{fine} answered, {refused} refused");
    assert!(server.child.try_wait().expect("asked").is_none(), "the server runs");
    assert!(live.0.try_wait().expect("asked").is_none(), "the program runs");
    assert!(server.get("/health").contains("200 OK"));
    let resident = resident_kb(server.child.id());
    assert!(resident < MOST_RESIDENT_KB, "{resident} KB");
}
