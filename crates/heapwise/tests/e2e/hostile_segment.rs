//! The shared segment with the other side hostile: a program that left nonsense in it, a controller
//! that orders nonsense.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use heapwise_format::segment::{COUNTERS_OFFSET, Counter};

use crate::harness::{Scratch, victims};
use heapwise_testkit::random::Random;

/// The number of the signal, the same on x86-64 and aarch64.
const SIGBUS: i32 = 7;

/// Words that break readers: nothing, everything, signs, one more or less than a size.
fn evil(random: &mut Random) -> u64 {
    const WORDS: [u64; 8] = [0, 1, u64::MAX, 1 << 63, 1 << 32, 0xffff_ffff, 4096, 1 << 40];
    let number = random.below(1 << 40);
    match random.below(10) {
        pick @ 0..8 => WORDS[pick as usize],
        8 => number,
        _ => number << 24 | number,
    }
}

fn open(segment: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(segment).expect("ours")
}

/// Starts `victim` with the probe inside and nobody to control it.
fn start(scratch: &Scratch, victim: &str, arguments: &[&str]) -> (Child, PathBuf) {
    start_with(scratch, "mode:exact", victim, arguments)
}

fn start_with(scratch: &Scratch, options: &str, victim: &str, arguments: &[&str]) -> (Child, PathBuf) {
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join(victim));
    command.args(arguments).env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", options);
    command.stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the victim starts");
    let segment = || fs::read_dir(scratch.path("segments")).ok()?.flatten().next().map(|entry| entry.path());
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(segment) = segment() {
            return (child, segment);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill().and_then(|()| child.wait().map(drop));
    panic!("no segment appeared");
}

/// Wherever a segment is damaged, it is read or refused, within limits of time and memory.
#[test]
fn a_damaged_segment_is_read_or_refused() {
    let scratch = Scratch::new();
    let (child, segment) = start(&scratch, "plain", &["20000"]);
    assert!(child.wait_with_output().expect("ends").status.success());
    let file = open(&segment);
    let mut head = vec![0; 64 << 10];
    file.read_exact_at(&mut head, 0).expect("readable");
    let mut random = Random::new(10);
    let mut refused = 0;
    for round in 0..60 {
        // The header's first words say where everything is; the rest of the leading pages is
        // control, counters, tables.
        let reach = if round % 2 == 0 { 512 } else { head.len() as u64 };
        let mut said = String::new();
        for _ in 0..1 + random.below(6) {
            let (at, word) = (random.below(reach / 8) * 8, evil(&mut random));
            file.write_all_at(&word.to_le_bytes(), at).expect("writable");
            said += &format!("{at}: {word:#x} ");
        }
        let mut top = scratch.command("/bin/sh");
        top.args(["-c", "ulimit -v 2000000; exec timeout 60 \"$0\" top --json \"$1\""]);
        let output = top.arg(env!("CARGO_BIN_EXE_heapwise")).arg(&segment).output().expect("heapwise starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{said}: {}: {error}", output.status);
        refused += u32::from(!output.status.success());
        file.write_all_at(&head, 0).expect("writable");
    }
    assert!((1..60).contains(&refused), "{refused} of 60 refused");
}

/// Whatever stands on the control page, the program goes on and its account is its own.
#[test]
fn a_hostile_controller_breaks_nothing() {
    let scratch = Scratch::new();
    let (child, segment) = start(&scratch, "tortured", &["account", "4000", "4"]);
    let (file, mut random) = (open(&segment), Random::new(20));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        // Two of three words are ones that mean something, so that every mode comes up.
        for word in 1..13 {
            let value = if random.below(3) == 0 { evil(&mut random) } else { random.below(4) };
            file.write_all_at(&value.to_le_bytes(), 4096 + word * 8).expect("writable");
        }
        let sequence = if random.below(4) == 0 { evil(&mut random) } else { random.below(1 << 20) * 2 };
        file.write_all_at(&sequence.to_le_bytes(), 4096).expect("writable");
        std::thread::sleep(Duration::from_millis(random.below(5)));
    }
    // Off, at last: nobody waits for a recorder that never was.
    file.write_all_at(&0u64.to_le_bytes(), 4096 + 8).expect("writable");
    file.write_all_at(&(1u64 << 41).to_le_bytes(), 4096).expect("writable");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(heapwise_testkit::account::witness(&said, "alloc_objects") > Some(0), "{said}");
}

/// The victim `live_switch` in phases of 20 000 blocks; killed when it takes longer than a minute
/// for all of them.
struct Phases {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    watchdog: Child,
}

impl Phases {
    fn start(scratch: &Scratch, options: &str) -> (Self, PathBuf) {
        let (mut child, segment) = start_with(scratch, options, "live_switch", &["20000"]);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let kill = format!("sleep 60 && kill -9 {}", child.id());
        let watchdog = std::process::Command::new("sh").args(["-c", &kill]).spawn().expect("sh starts");
        (Self { child, lines, watchdog }, segment)
    }

    /// Whether the program comes to the end of a phase.
    fn pass(&mut self, phase: u32) -> bool {
        let input = self.child.stdin.as_mut().expect("piped");
        // A program that was killed does not listen.
        let _ = writeln!(input, "pause").and_then(|()| writeln!(input, "go"));
        let name = format!("phase{phase}.");
        self.lines.any(|line| line.is_ok_and(|line| line.contains(&name)))
    }

    fn end(&mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("waited")
    }
}

impl Drop for Phases {
    fn drop(&mut self) {
        // The watchdog first: it must not outlive the number that it would kill.
        let _ = self.watchdog.kill().and_then(|()| self.watchdog.wait());
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A file that is cut off under a running program, to nothing or to its first part, costs the
/// recording.
#[test]
fn a_truncated_segment_costs_data_and_not_the_program() {
    for options in ["mode:exact", "mode:exact,index:hash", "mode:log", "mode:sampled,rate:1K", "mode:off"] {
        for length in [0, 4096, 1 << 20] {
            let scratch = Scratch::new();
            let (mut phases, segment) = Phases::start(&scratch, options);
            let first = phases.pass(1);
            open(&segment).set_len(length).expect("truncated");
            let passed = (first, phases.pass(2), phases.pass(3));
            let status = phases.end();
            assert!(
                passed == (true, true, true) && status.success(),
                "{options} {length}: {passed:?} {status}"
            );
        }
    }
}

/// However many chunks the log is said to have, an event that finds no room is over at once.
#[test]
fn a_scribbled_chunk_counter_stops_nobody() {
    let scratch = Scratch::new();
    let (mut phases, segment) = Phases::start(&scratch, "mode:log");
    let (file, at) = (open(&segment), COUNTERS_OFFSET as u64 + Counter::Chunks as u64 * 8);
    assert!(phases.pass(1));
    for (phase, count) in (2..).zip([u64::from(u32::MAX), u64::MAX, 0, 1 << 40]) {
        file.write_all_at(&count.to_le_bytes(), at).expect("writable");
        assert!(phases.pass(phase), "{count:#x}: {:?}", phases.end());
    }
    assert!(phases.end().success());
}

/// A program that dies of its own `SIGBUS`, or is sent one, dies of it as it would without the
/// probe.
#[test]
fn other_bus_errors_end_the_program() {
    use std::os::unix::process::ExitStatusExt;
    for how in ["fault", "raise", "handled"] {
        let scratch = Scratch::new();
        let (child, _) = start(&scratch, "bus_error", &[how]);
        let output = child.wait_with_output().expect("ends");
        let expected = if how == "handled" { None } else { Some(SIGBUS) };
        assert_eq!(output.status.signal(), expected, "{how}: {output:?}");
        assert_eq!(output.status.success(), how == "handled", "{how}: {output:?}");
    }
}
