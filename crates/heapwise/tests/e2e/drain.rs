//! The recorder beside the program: with children to follow, and when it does not get to drain.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::harness::{Scratch, victims};
use crate::serve::Server;

/// `heapwise run --log` over a shell that runs the victim `live_switch`, which is driven over
/// standard input.
struct Recorded {
    recorder: Child,
    lines: BufReader<ChildStdout>,
}

impl Recorded {
    fn start(scratch: &Scratch, options: &[&str], script: &str) -> Self {
        let mut recorder = scratch
            .heapwise(&["run", "--log", "-o", "app.hwr"])
            .args(options)
            .args([
                "--",
                "sh",
                "-c",
                &script.replace("VICTIM", victims().join("live_switch").to_str().unwrap()),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("heapwise starts");
        let lines = BufReader::new(recorder.stdout.take().expect("piped"));
        Self { recorder, lines }
    }

    fn say(&mut self, command: &str) {
        writeln!(self.recorder.stdin.as_mut().expect("piped"), "{command}").expect("the victim listens");
    }

    /// What the victim counted, up to the total named `last`.
    fn read_until(&mut self, last: &str) -> i64 {
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("readable") > 0 {
            if let Some(value) = line.strip_prefix(&format!("witness {last} ")) {
                return value.trim().parse().expect("a number");
            }
            line.clear();
        }
        panic!("the victim ended without `{last}`");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.recorder.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Ends the victim; what the recorder said.
    fn end(mut self) -> String {
        self.say("stop");
        drop(self.recorder.stdin.take());
        let output = self.recorder.wait_with_output().expect("heapwise ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }
}

fn total(scratch: &Scratch, metric: &str, target: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", metric, "--focus", "^w_", target]);
    top["total"].as_i64().expect("a total")
}

/// The recording of the child, once it says that it covers `live_bytes`.
fn await_recording(scratch: &Scratch, live_bytes: i64) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let names = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names = names.filter_map(|name| name.into_string().ok());
        let is_childs =
            |name: &String| name.starts_with("app.") && name != "app.hwr" && name.ends_with(".hwr");
        if let Some(name) = names.find(is_childs) {
            let top = scratch.heapwise(&["top", "--json", "--focus", "^w_", &name]).output().unwrap();
            let top: serde_json::Value = serde_json::from_slice(&top.stdout).unwrap_or_default();
            if top["total"] == live_bytes {
                return name;
            }
        }
        assert!(Instant::now() < deadline, "no recording of the child covers its {live_bytes} bytes");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// While the child runs, its recording follows it; at the end it is whole.
#[test]
fn children_are_drained_while_they_run() {
    let scratch = Scratch::new();
    let mut recorded = Recorded::start(&scratch, &["--children"], "VICTIM; true");
    recorded.say("pause");
    let live = recorded.read_until("inuse_bytes");
    let recording = await_recording(&scratch, live);
    recorded.say("go");
    recorded.say("pause");
    let allocated = recorded.read_until("alloc_bytes");
    let live = recorded.read_until("inuse_bytes");
    let said = recorded.end();
    assert_eq!(total(&scratch, "--alloc_space", &recording), allocated);
    assert_eq!(total(&scratch, "--inuse_space", &recording), live);
    assert!(said.contains(&format!("(live_switch): {recording}")), "{said}");
    assert!(std::fs::read_dir(scratch.path("segments")).unwrap().next().is_none(), "segments are left");
}

/// An unwanted child is not recorded, and the user gets a message.
#[test]
fn unwanted_children_are_off() {
    let scratch = Scratch::new();
    let mut recorded = Recorded::start(&scratch, &[], "VICTIM; true");
    let mut errors = BufReader::new(recorded.recorder.stderr.take().expect("piped"));
    let (send, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        errors.read_line(&mut line).expect("readable");
        send.send(line).expect("the test waits");
        // A closed pipe would end the recorder.
        std::io::copy(&mut errors, &mut std::io::sink()).expect("readable");
    });
    let said = said.recv_timeout(Duration::from_secs(60)).expect("a message");
    assert!(said.contains("(live_switch) is not recorded; --children records each process"), "{said}");
    let list = scratch.json_of(&["ps", "--json"]);
    let child = list.as_array().unwrap().iter().find(|row| row["program"] == "live_switch");
    assert_eq!(child.expect("it runs")["mode"], "off");
    recorded.end();
}

/// Reports, each of which says that events are missing.
const REPORTS: [&[&str]; 9] = [
    &["top"],
    &["tree"],
    &["leaks"],
    &["sizes"],
    &["threads"],
    &["timeline"],
    &["summary"],
    &["export", "-f", "folded"],
    &["mprof", "-top=flat", "-i"],
];

/// Waits until more events were dropped than a step of the program has.
fn await_lost_events(scratch: &Scratch) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while scratch.json_of(&["stats", "--json"])[0]["probe"]["lost_events"].as_u64() < Some(50_000) {
        assert!(Instant::now() < deadline, "the log never became full");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A recorder that stands still, and a log of 8 MiB: the smallest that a limit on addresses leads
/// to.
fn with_a_stopped_recorder(on_full: &str) {
    let scratch = Scratch::new();
    let script = "ulimit -v 1100000; exec VICTIM 20000";
    let mut recorded = Recorded::start(&scratch, &["--on-full", on_full], script);
    recorded.say("pause");
    let before = recorded.read_until("alloc_objects");
    recorded.signal("STOP");
    recorded.say("go");
    // The program is not held up for longer than a recorder may be silent: it goes on without it.
    await_lost_events(&scratch);
    recorded.say("pause");
    let own = recorded.read_until("alloc_objects");
    recorded.signal("CONT");
    let said = recorded.end();
    let recording = "app.hwr";
    let seen = total(&scratch, "--alloc_objects", recording);
    let lost = said.lines().find_map(|line| line.trim().strip_prefix("lost "));
    let lost: i64 = lost.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).expect(&said);
    assert!(before < seen && seen < own, "{before} {seen} {own}");
    // Each missing allocation is an event that was counted as lost, and so is its free.
    assert!((own - seen..=2 * (own - seen) + 5000).contains(&lost), "{lost} lost of {own}, {seen} seen");
    for report in REPORTS {
        let output = scratch.heapwise(report).arg(recording).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(text.contains(&format!("{lost} events lost")), "{report:?}: {text}");
    }
    let at = scratch.output_of(&["at", recording, "peak"]);
    assert!(at.contains(&format!("{lost} events lost")), "{at}");
    let answer = Server::start(&scratch, &[recording]).get("/api/v1/sources/app.hwr/summary");
    let summary: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").last().unwrap()).unwrap();
    let gaps = summary["coverage"]["gaps"].as_array().expect(&answer);
    let told = gaps.iter().find(|gap| gap["kind"] == "lost_events");
    assert_eq!(told.expect(&answer)["events"], lost, "{answer}");
}

#[test]
fn what_a_full_log_drops_is_in_every_report() {
    with_a_stopped_recorder("drop");
}

#[test]
fn a_program_waits_for_its_recorder_only_so_long() {
    with_a_stopped_recorder("block");
}

/// A recorder that has much to catch up with turns to the next file in time, and the last two files
/// know all that is live. Steps of 3000 blocks, a millisecond apart, cannot fill the log in two
/// seconds on any machine.
#[test]
fn files_stay_small_when_the_recorder_falls_behind() {
    let scratch = Scratch::new();
    let rotate = ["--rotate", "256K", "--keep", "2"];
    let mut recorded = Recorded::start(&scratch, &rotate, "exec VICTIM 3000");
    recorded.say("pause");
    recorded.read_until("inuse_bytes");
    recorded.signal("STOP");
    recorded.say("go");
    std::thread::sleep(Duration::from_secs(2));
    recorded.say("pause");
    let allocated = recorded.read_until("alloc_bytes");
    let live = recorded.read_until("inuse_bytes");
    recorded.signal("CONT");
    recorded.end();
    let entries = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap());
    let files: Vec<_> = entries.filter(|e| e.file_name().to_string_lossy().starts_with("app-")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    // A file is full when a page of events, at most 1 MiB unpacked, takes it beyond its limit.
    assert!(files.iter().all(|file| file.metadata().unwrap().len() < (256 << 10) + (1 << 20)));
    assert_eq!(total(&scratch, "--inuse_space", "app.hwr"), live);
    assert_eq!(total(&scratch, "--alloc_space", "app.hwr"), allocated);
}

/// What `heapwise` writes to a terminal that is its standard output and error.
fn in_a_terminal(scratch: &Scratch, arguments: &str) -> String {
    let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_heapwise"));
    let output = scratch.command("script").args(["-qec", &command, "/dev/null"]).output();
    String::from_utf8_lossy(&output.expect("script is installed").stdout).into_owned()
}

/// A terminal sees how far a reading is, and nothing of that remains in the line where the report
/// begins.
#[test]
fn the_bar_shows_in_a_terminal_and_goes_away() {
    let scratch = Scratch::new();
    let recording = scratch.path("plain.hwr");
    scratch.record("plain", &["300000"], &recording);
    let shown = in_a_terminal(&scratch, "summary -j 2 --progress plain.hwr");
    let (bars, report) = shown.split_once("\x1b[K").expect("the bar is wiped away");
    assert!(bars.contains("reading ━") && bars.contains(" % of "), "{bars:?}");
    assert!(bars.split('\r').all(|line| line.chars().count() < 80), "{bars:?}");
    assert!(report.starts_with("profiler contains record for "), "{report:?}");
    assert!(!report.contains('━') && report.contains("peak: "), "{report:?}");
    let piped = scratch.heapwise(&["summary", "plain.hwr"]).output().expect("heapwise starts");
    assert!(piped.status.success() && piped.stderr.is_empty(), "{}", String::from_utf8_lossy(&piped.stderr));
}

/// A mark from outside is a moment of the recording, also one after which nothing happened any
/// more.
#[test]
fn a_mark_names_a_moment() {
    /// Between what happens and a mark: many ticks of the recording's clock, also on a busy
    /// machine.
    const APART: Duration = Duration::from_millis(100);
    let scratch = Scratch::new();
    let mut recorded = Recorded::start(&scratch, &[], "exec VICTIM");
    for (phase, mark) in ["half way", "user@last", "a/quiet"].into_iter().enumerate() {
        if phase > 0 {
            recorded.say("go");
        }
        // A phase allocates before it pauses.
        recorded.say("pause");
        recorded.read_until(&format!("phase{}.free_bytes", phase + 1));
        std::thread::sleep(APART);
        scratch.output_of(&["mark", "live_switch", mark]);
        std::thread::sleep(APART);
    }
    recorded.end();
    assert!(total(&scratch, "--inuse_space", "app.hwr@half way..user@last") > 0);
    assert!(total(&scratch, "--inuse_space", "app.hwr@half way..end") > 0);
    assert_eq!(total(&scratch, "--inuse_space", "app.hwr@a/quiet..end"), 0);
    for mark in ["half way", "user@last", "a/quiet"] {
        let at = scratch.json_of(&["at", "--json", "app.hwr", mark]);
        assert_eq!(at, scratch.json_of(&["top", "--json", &format!("app.hwr@{mark}")]), "{mark}");
    }
    let wrong = scratch.heapwise(&["at", "app.hwr", "nowhere"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("half way"), "the marks there are, are named");
}
