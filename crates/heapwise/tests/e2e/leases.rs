//! Several controllers on one process: none changes what another one relies on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use heapwise_format::segment::{COUNTERS_OFFSET, Counter, Mode};
use heapwise_testkit::random::Random;

use crate::control::until;
use crate::harness::{Scratch, victims};
use crate::serve::Server;

/// The victim `turns_over` with the probe: it replaces its whole heap all the time, so that its
/// live bytes stay the same and every block is a new one.
struct Busy {
    child: Child,
    inuse_bytes: f64,
    segment: File,
}

/// The mode of the victims without any controller.
const OWN_RATE: u64 = 3 << 20;

impl Busy {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let library = scratch.output_of(&["preload"]);
        let mut child = scratch
            .command(victims().join("turns_over"))
            .args(arguments)
            .env("LD_PRELOAD", library.trim())
            .env("HEAPWISE_CONF", "mode:sampled,rate:3M")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the victim starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let inuse_bytes = line.rsplit(' ').next().and_then(|own| own.trim().parse().ok()).expect(&line);
        let prefix = format!("{}-", child.id());
        let entries = std::fs::read_dir(scratch.path("segments")).expect("readable").flatten();
        let mut names = entries.map(|entry| entry.path());
        let is_own = |path: &std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let segment = File::open(names.find(is_own).expect("a segment")).expect("ours");
        Self { child, inuse_bytes, segment }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn counter(&self, counter: Counter) -> u64 {
        let mut word = [0; 8];
        let at = (COUNTERS_OFFSET + counter as usize * 8) as u64;
        self.segment.read_exact_at(&mut word, at).expect("readable");
        u64::from_le_bytes(word)
    }

    fn is_at_own_mode(&self) -> bool {
        self.counter(Counter::Mode) == Mode::Sampled as u64 && self.counter(Counter::SampleBytes) == OWN_RATE
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The live bytes of the victim's own functions in a profile or recording.
fn live_bytes(scratch: &Scratch, target: &str) -> f64 {
    scratch.json_of(&["top", "--json", "--focus", "^w_", target])["total"].as_f64().expect("a total")
}

/// What a controller does to a process, and the check of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Collect,
    MemProfiler,
    Set,
    Record,
    Http,
}

const ACTS: [Act; 5] = [Act::Collect, Act::MemProfiler, Act::Set, Act::Record, Act::Http];

/// Five standard errors of the live bytes of 4 096 blocks of 800 bytes, sampled at 1 KiB.
const SAMPLED_ERROR: f64 = 0.075;
/// The block that is being replaced.
const EXACT_ERROR: f64 = 2.0 / 4096.0;

impl Act {
    /// Runs it; the share by which its result may be and is wrong.
    fn run(self, scratch: &Scratch, busy: &Busy, server: &Server, name: &str) -> (f64, f64) {
        let pid = busy.pid();
        let result = match self {
            Act::Collect => {
                scratch.output_of(&["collect", "-s", "1", "-c", "1K", "-o", &format!("{name}-"), &pid]);
                live_bytes(scratch, &format!("{name}-turns_over.{pid}.heap"))
            }
            Act::MemProfiler => {
                scratch.output_of(&["mem_profiler", "-s", "1", "-o", name, &pid]);
                live_bytes(scratch, &format!("{name}.turns_over.{pid}.heap"))
            }
            Act::Set => {
                scratch.output_of(&["set", "--exact", &pid]);
                scratch.output_of(&["set", "-c", "3M", &pid]);
                busy.inuse_bytes
            }
            Act::Record => {
                let file = format!("{name}.hwr");
                let recorded = scratch.heapwise(&["record", "-s", "1", "-o", &file, &pid]).output();
                let recorded = recorded.expect("heapwise starts");
                let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
                if !recorded.status.success() {
                    assert!(said.contains("is recorded already by heapwise record (pid "), "{said}");
                    return (0.0, 0.0);
                }
                live_bytes(scratch, &file)
            }
            Act::Http => {
                let answer = server.get("/pprof/heap?seconds=1&rate=1K");
                let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                let file = format!("{name}.heap");
                std::fs::write(scratch.path(&file), body).expect("written");
                live_bytes(scratch, &file)
            }
        };
        let error = match self {
            Act::Collect | Act::MemProfiler | Act::Http => SAMPLED_ERROR,
            Act::Record | Act::Set => EXACT_ERROR,
        };
        (error, (result - busy.inuse_bytes).abs() / busy.inuse_bytes)
    }
}

/// Runs `pairs` random pairs of controllers at once on one busy process.
fn pairs_of_controllers(pairs: usize, seed: u64) {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &[]);
    let server = Server::start(&scratch, &[&busy.pid()]);
    let mut random = Random::new(seed);
    let mut worst = 0.0_f64;
    for pair in 0..pairs {
        let mut act = || ACTS[random.below(ACTS.len() as u64) as usize];
        let acts = [act(), act()];
        let results = std::thread::scope(|scope| {
            let run = |number: usize| {
                let (scratch, busy, server) = (&scratch, &busy, &server);
                scope.spawn(move || acts[number].run(scratch, busy, server, &format!("p{pair}_{number}")))
            };
            [run(0), run(1)].map(|thread| thread.join().expect("a result"))
        });
        for (allowed, off) in results {
            assert!(off <= allowed, "pair {pair} of seed {seed}, {acts:?}: off by {off}, allowed {allowed}");
            if allowed == SAMPLED_ERROR {
                worst = worst.max(off);
            }
        }
        until("the mode before", || busy.is_at_own_mode());
        let row = &scratch.json_of(&["ps", "--json"])[0];
        assert_eq!((&row["rate"], &row["leases"]), (&OWN_RATE.into(), &serde_json::json!([])), "{acts:?}");
    }
    eprintln!("{pairs} pairs, worst sampled result off by {:.2} %", worst * 100.0);
}

#[test]
#[ignore = "long"]
fn pairs_of_controllers_do_not_disturb_each_other() {
    pairs_of_controllers(8, 21);
}

#[test]
#[ignore = "long"]
fn a_hundred_pairs_of_controllers_do_not_disturb_each_other() {
    pairs_of_controllers(100, 2_026);
}

/// Kills controllers of `victims` processes at random moments, `batches` times.
fn killed_controllers(victims: usize, batches: usize, seed: u64) {
    let scratch = Scratch::new();
    let busy: Vec<Busy> = (0..victims).map(|_| Busy::start(&scratch, &["1024", "64"])).collect();
    let mut random = Random::new(seed);
    let mut slowest = Duration::ZERO;
    for batch in 0..batches {
        let controllers: Vec<(Child, Duration)> = busy
            .iter()
            .enumerate()
            .map(|(number, busy)| {
                let (name, pid) = (format!("k{batch}_{number}"), busy.pid());
                let arguments: &[&str] = match random.below(3) {
                    0 => &["collect", "-s", "60", "-c", "1K", "-o", &name, &pid],
                    1 => &["mem_profiler", "-s", "60", "-o", &name, &pid],
                    _ => &["record", "-o", &name, &pid],
                };
                let quiet = || Stdio::null();
                let child = scratch.heapwise(arguments).stdout(quiet()).stderr(quiet()).spawn();
                (child.expect("heapwise starts"), random.moment(1000))
            })
            .collect();
        let killed: Vec<Instant> = controllers
            .into_iter()
            .map(|(mut child, moment)| {
                std::thread::sleep(moment / victims as u32);
                child.kill().expect("killed");
                child.wait().expect("waited");
                Instant::now()
            })
            .collect();
        for (busy, killed) in busy.iter().zip(killed) {
            // The program's next allocation may wait for a processor.
            while !busy.is_at_own_mode() {
                assert!(killed.elapsed() < Duration::from_secs(5), "batch {batch} of seed {seed}: not back");
                std::thread::sleep(Duration::from_millis(5));
            }
            slowest = slowest.max(killed.elapsed());
        }
    }
    eprintln!("{} controllers killed, the slowest return took {slowest:?}", victims * batches);
}

#[test]
fn a_killed_controller_loses_its_lease() {
    killed_controllers(10, 3, 7);
}

#[test]
#[ignore = "long"]
fn a_thousand_killed_controllers_lose_their_leases() {
    killed_controllers(20, 50, 1_000);
}

/// Collects from a program that replaces 26 MB all the time.
fn collections(rounds: usize) {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &["32768"]);
    let pid = busy.pid();
    let mut worst = 0.0_f64;
    for round in 0..rounds {
        let prefix = format!("p{round}_");
        scratch.output_of(&["collect", "-s", "2", "-c", "1K", "-o", &prefix, &pid]);
        let live = live_bytes(&scratch, &format!("{prefix}turns_over.{pid}.heap"));
        let off = (live - busy.inuse_bytes).abs() / busy.inuse_bytes;
        assert!(off < 0.03, "round {round}: {live} of {}", busy.inuse_bytes);
        worst = worst.max(off);
    }
    eprintln!("{rounds} collections, the worst off by {:.2} %", worst * 100.0);
}

#[test]
fn a_collection_knows_what_was_live_at_its_end() {
    collections(2);
}

#[test]
#[ignore = "long"]
fn twenty_collections_know_what_was_live_at_their_end() {
    collections(20);
}

/// What was recorded stays as it was when recording stopped, until it starts again.
#[test]
fn a_stopped_process_shows_its_last_state() {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &[]);
    let pid = busy.pid();
    scratch.output_of(&["set", "--exact", &pid]);
    until("every block", || {
        (live_bytes(&scratch, &pid) - busy.inuse_bytes).abs() <= EXACT_ERROR * busy.inuse_bytes
    });
    scratch.output_of(&["stop", &pid]);
    // The program goes on freeing.
    until("freed blocks", || busy.counter(Counter::Mode) == Mode::Off as u64);
    let stopped = live_bytes(&scratch, &pid);
    assert!((stopped - busy.inuse_bytes).abs() <= EXACT_ERROR * busy.inuse_bytes, "{stopped}");
    // `ps` and `stats` show the same, and `stats` the part not freed since.
    let all = scratch.json_of(&["top", "--json", &pid])["total"].clone();
    assert_eq!(scratch.json_of(&["ps", "--json"])[0]["live_bytes"], all);
    until("the blocks to be replaced", || {
        let probe = scratch.json_of(&["stats", "--json", &pid])[0]["probe"].clone();
        assert_eq!(probe["live_bytes"], all);
        probe["held_now_bytes"].as_i64().is_some_and(|now| now < all.as_i64().expect("bytes") / 2)
    });
    scratch.output_of(&["start", "--exact", &pid]);
    until("blocks of the second start", || busy.counter(Counter::Starts) == 2);
}

/// A process whose own mode is off shows what a controller saw last, after its lease has ended.
#[test]
#[ignore = "long"]
fn the_end_of_the_last_lease_keeps_its_state() {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &[]);
    let pid = busy.pid();
    scratch.output_of(&["set", "--off", &pid]);
    until("no recording", || busy.counter(Counter::Mode) == Mode::Off as u64);
    let server = Server::start(&scratch, &[&pid]);
    let acts: [&dyn Fn(&str); 3] = [
        &|name| drop(scratch.output_of(&["collect", "-s", "1", "-c", "1K", "-o", name, &pid])),
        &|name| drop(scratch.output_of(&["record", "-s", "1", "-o", name, &pid])),
        &|_| assert!(server.get("/pprof/heap?seconds=1&rate=1K").starts_with("HTTP/1.1 200")),
    ];
    for (number, act) in acts.into_iter().enumerate() {
        act(&format!("lease{number}"));
        until("no recording", || busy.counter(Counter::Mode) == Mode::Off as u64);
        until("freed blocks", || {
            let probe = scratch.json_of(&["stats", "--json", &pid])[0]["probe"].clone();
            probe["held_now_bytes"].as_f64().is_some_and(|left| left < busy.inuse_bytes / 2.0)
        });
        let live = live_bytes(&scratch, &pid);
        assert!((live - busy.inuse_bytes).abs() <= 0.2 * busy.inuse_bytes, "{number}: {live}");
    }
}

/// One log has one recorder: the second one is refused with the name of the first, which goes on.
#[test]
fn a_second_recorder_is_refused() {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &["1024", "64"]);
    let pid = busy.pid();
    let mut first = scratch.heapwise(&["record", "-o", "first.hwr", &pid]).spawn().expect("heapwise starts");
    until("a recorder", || busy.counter(Counter::Mode) == Mode::Log as u64);
    let second = scratch.heapwise(&["record", "-s", "1", "-o", "second.hwr", &pid]).output();
    let second = second.expect("heapwise starts");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("heapwise record (pid {}", first.id())), "{said}");
    assert!(!scratch.path("second.hwr").exists());
    let row = &scratch.json_of(&["ps", "--json"])[0];
    assert_eq!((&row["leases"][0]["command"], &row["leases"][0]["mode"]), (&"record".into(), &"log".into()));
    let refused = scratch.heapwise(&["reset", &pid]).output().expect("heapwise starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("relies on what is recorded"));
    let set = scratch.heapwise(&["set", "--log", &pid]).output().expect("heapwise starts");
    assert_eq!(set.status.code(), Some(2));
    let id = first.id().to_string();
    assert!(scratch.command("kill").args(["-s", "HUP", &id]).status().expect("kill is there").success());
    assert!(first.wait().expect("waited").success());
    until("the mode before", || busy.is_at_own_mode());
}

/// Events that were lost before a recording began are not its losses.
#[test]
#[ignore = "long"]
fn a_recording_counts_its_own_losses() {
    let scratch = Scratch::new();
    let busy = Busy::start(&scratch, &[]);
    let pid = busy.pid();
    let mut first = scratch.heapwise(&["record", "-o", "first.hwr", &pid]).spawn().expect("heapwise starts");
    until("a recorder", || busy.counter(Counter::Mode) == Mode::Log as u64);
    let id = first.id().to_string();
    assert!(scratch.command("kill").args(["-s", "STOP", &id]).status().expect("kill is there").success());
    until("lost events", || busy.counter(Counter::LostEvents) > 0);
    first.kill().expect("killed");
    first.wait().expect("waited");
    until("the mode before", || busy.is_at_own_mode());
    let before = busy.counter(Counter::LostEvents);
    let said = scratch.heapwise(&["record", "-s", "1", "-o", "second.hwr", &pid]).output().expect("starts");
    assert!(said.status.success(), "{said:?}");
    let own = busy.counter(Counter::LostEvents) - before;
    let coverage = scratch.json_of(&["top", "--json", "second.hwr"])["coverage"].clone();
    let gaps = coverage["gaps"].as_array().expect("gaps");
    let lost = gaps
        .iter()
        .find(|gap| gap["kind"] == "lost_events")
        .map_or(0, |gap| gap["events"].as_u64().expect("a number"));
    assert!(before > 0 && lost <= own, "{lost} of {own} and {before} before: {coverage}");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(text.contains(&format!("lost {own} events")) || own > 0, "{text}");
}

/// A program of `run` is recorded to its end, whatever others do to it, and commands without a pid
/// leave it alone.
#[test]
fn others_do_not_hurt_a_run() {
    let scratch = Scratch::new();
    for mode in ["--exact", "--log"] {
        let file = format!("run{mode}");
        let mut run = scratch
            .heapwise(&["run", "-q", mode, "-o", &file, "--"])
            .arg(victims().join("turns_over"))
            .args(["1024", "64"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("heapwise starts");
        let mut line = String::new();
        BufReader::new(run.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let mut pid = String::new();
        until("the program", || {
            pid = scratch.json_of(&["ps", "--json"])[0]["pid"].to_string();
            pid != "null"
        });
        let all = scratch.heapwise(&["mem_profiler", "-s", "1"]).output().expect("heapwise starts");
        assert_eq!(all.status.code(), Some(2), "{all:?}");
        scratch.output_of(&["mem_profiler", "-s", "1", &pid]);
        scratch.output_of(&["stop", &pid]);
        let record = scratch.heapwise(&["record", "-s", "1", "-o", "second", &pid]).output();
        let is_recorded = !record.expect("heapwise starts").status.success();
        assert_eq!(is_recorded, mode == "--log");
        assert!(scratch.command("kill").arg(&pid).status().expect("kill is there").success());
        assert_eq!(run.wait().expect("waited").code(), Some(128 + 15));
        let live = live_bytes(&scratch, &file);
        // In the middle of a replacement, a block is missing.
        assert!((1023.0 * 800.0..=1024.0 * 800.0).contains(&live), "{mode}: {live}");
    }
}

/// A program whose `run --log` was killed stops logging; it would fill its log for nobody.
#[test]
fn a_killed_run_leaves_no_log_behind() {
    let scratch = Scratch::new();
    let mut run = scratch
        .heapwise(&["run", "-q", "--log", "-o", "run.hwr", "--"])
        .arg(victims().join("turns_over"))
        .args(["1024", "64"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("heapwise starts");
    let mut line = String::new();
    BufReader::new(run.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let row = scratch.json_of(&["ps", "--json"])[0].clone();
    assert_eq!((&row["mode"], &row["leases"][0]["command"]), (&"log".into(), &"run".into()));
    run.kill().expect("killed");
    run.wait().expect("waited");
    until("the end of the log", || scratch.json_of(&["ps", "--json"])[0]["mode"] == "off");
    let pid = row["pid"].to_string();
    assert!(scratch.command("kill").arg(&pid).status().expect("kill is there").success());
}

/// A child that is forked during a collection is not recorded for a controller that does not know
/// of it.
#[test]
fn a_child_forked_during_a_collection_is_not_recorded() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("forks_on_demand"));
    let mut parent =
        program.env("LD_PRELOAD", library.trim()).stdout(Stdio::piped()).spawn().expect("the victim starts");
    let mut line = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let pid = parent.id().to_string();
    let mut collect = scratch.heapwise(&["collect", "-s", "60", "-o", "p_", &pid]).spawn().expect("starts");
    let rows = || scratch.json_of(&["ps", "--json"]).as_array().cloned().expect("rows");
    until("a collection", || rows().iter().any(|row| row["mode"] == "sampled"));
    let send = |signal: &str, pid: &str| {
        assert!(scratch.command("kill").args(["-s", signal, pid]).status().expect("kill is there").success());
    };
    send("USR1", &pid);
    until("a child", || rows().len() == 2);
    let is_child = |row: &&serde_json::Value| row["pid"] != parent.id();
    let child = rows().iter().find(is_child).cloned().expect("a child");
    assert_eq!((&child["mode"], &child["leases"]), (&"off".into(), &serde_json::json!([])));
    send("INT", &collect.id().to_string());
    assert!(collect.wait().expect("waited").success());
    send("KILL", &child["pid"].to_string());
    parent.kill().expect("killed");
    parent.wait().expect("waited");
}
