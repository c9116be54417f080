//! A running program is watched and switched from outside.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use heapwise_format::segment::{
    CONTROL_OFFSET, COUNTERS_OFFSET, ControlWord, Counter, Mode, SegmentSink, SegmentSource, State, Update,
    write_control,
};

use crate::coverage::Told;
use crate::harness::{Scratch, victims, witness};
use crate::serve::Server;

/// The victim `live_switch`, carrying the probe, driven over its standard input.
pub struct Live {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Live {
    pub fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, &[])
    }

    /// With these variables in its environment.
    pub fn start_with(scratch: &Scratch, variables: &[(&str, &str)]) -> Self {
        let library = scratch.output_of(&["preload"]);
        let mut child = scratch
            .command(victims().join("live_switch"))
            .env("LD_PRELOAD", library.trim())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("victim starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let live = Self { child, lines };
        live.wait_for(scratch);
        live
    }

    /// Until its segment can be read.
    fn wait_for(&self, scratch: &Scratch) {
        until("a segment", || {
            scratch.heapwise(&["stats", &self.pid()]).output().is_ok_and(|out| out.status.success())
        });
    }

    /// Until something it allocated was recorded.
    pub fn wait_for_blocks(&self, scratch: &Scratch) {
        until("a block", || own_bytes(scratch, &self.pid()) > 0);
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// By a signal that it cannot handle.
    pub fn end(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited");
    }

    fn say(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{command}").expect("victim listens");
    }

    /// Reads `witness` lines up to the total named `name`.
    fn read_until(&mut self, name: &str) -> i64 {
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("readable") > 0 {
            if let Some(value) = line.strip_prefix(&format!("witness {name} ")) {
                return value.trim().parse().expect("a number");
            }
            line.clear();
        }
        panic!("the victim ended without `{name}`");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn starts_idle_and_is_switched_from_outside() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    let pid = live.pid();
    let list = scratch.json_of(&["ps", "--json"]);
    assert_eq!(list[0]["pid"].to_string(), pid);
    assert_eq!(list[0]["mode"], "off");
    scratch.output_of(&["start", "--exact", &pid]);
    assert_eq!(scratch.json_of(&["ps", "--json"])[0]["mode"], "exact");
    live.say("pause");
    let phase = live.read_until("phase1.alloc_bytes");
    let recorded =
        scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", &pid])["total"].as_i64();
    assert!(recorded.is_some_and(|bytes| bytes > 0 && bytes <= phase), "{recorded:?} of {phase}");
    scratch.output_of(&["stop", &pid]);
    scratch.output_of(&["reset", &pid]);
    live.say("go");
    live.say("pause");
    live.read_until("phase2.alloc_bytes");
    assert_eq!(scratch.json_of(&["top", "--json", "--alloc_space", &pid])["total"], 0);
}

#[test]
fn a_whole_phase_is_counted_exactly() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    let pid = live.pid();
    // An idle probe looks at its orders every 32 KiB; an exact one at every event, so that the
    // reset below takes effect with the first allocation of the next phase.
    scratch.output_of(&["set", "--exact", &pid]);
    live.say("pause");
    live.read_until("phase1.alloc_bytes");
    scratch.output_of(&["reset", &pid]);
    live.say("go");
    std::thread::sleep(Duration::from_millis(100));
    live.say("pause");
    let own = live.read_until("phase2.alloc_bytes");
    assert_eq!(own_bytes(&scratch, &pid), own);
}

/// tcmalloc's variable and our own start sampling at the start of a preloaded program. Our own
/// rules alone.
#[test]
fn variables_start_sampling_under_plain_preload() {
    for (variables, mode, rate) in [
        (&[("TCMALLOC_SAMPLE_PARAMETER", "4096")][..], "sampled", Some(4096)),
        (&[("TCMALLOC_SAMPLE_PARAMETER", "0")], "off", None),
        (&[("TCMALLOC_SAMPLE_PARAMETER", "much")], "off", None),
        (&[("HEAPWISE_CONF", "mode:sampled,rate:8K")], "sampled", Some(8192)),
        (&[("HEAPWISE_CONF", "mode:off"), ("TCMALLOC_SAMPLE_PARAMETER", "4096")], "off", None),
        (
            &[("MALLOC_CONF", "prof:true,lg_prof_sample:14"), ("TCMALLOC_SAMPLE_PARAMETER", "4096")],
            "sampled",
            Some(1 << 14),
        ),
        (
            &[("MALLOC_CONF", "prof:true,prof_active:false"), ("TCMALLOC_SAMPLE_PARAMETER", "4096")],
            "off",
            None,
        ),
    ] {
        let scratch = Scratch::new();
        let live = Live::start_with(&scratch, variables);
        if mode == "sampled" {
            live.wait_for_blocks(&scratch);
        }
        let row = scratch.json_of(&["ps", "--json"])[0].clone();
        assert_eq!((row["mode"].as_str(), row["rate"].as_u64()), (Some(mode), rate), "{variables:?}: {row}");
    }
}

/// The index of live blocks in force is in the list of processes and in the API.
#[test]
fn the_index_in_force_is_shown() {
    for (mode, index) in [("mem_record", Some("hash")), ("mem_fast", Some("shadow")), ("closed", None)] {
        let scratch = Scratch::new();
        let live = Live::start(&scratch);
        scratch.output_of(&["set", "--mode", mode, &live.pid()]);
        if index.is_some() {
            live.wait_for_blocks(&scratch);
        }
        let row = scratch.json_of(&["ps", "--json"])[0].clone();
        assert_eq!(row["index"].as_str(), index, "{mode}: {row}");
        let list = scratch.output_of(&["ps"]);
        assert!(list.contains("INDEX") && list.contains(index.unwrap_or("-")), "{list}");
        let answer = Server::start(&scratch, &[]).get("/api/v1/sources");
        let body = answer.split("\r\n\r\n").last().expect("a body");
        let sources: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(sources["sources"][0]["index"].as_str(), index, "{mode}: {answer}");
    }
}

/// A collection shows what was live while it recorded, though the program replaces its whole heap
/// in a few milliseconds, and gives the process its mode back.
#[test]
fn a_collection_keeps_the_live_memory_of_a_busy_program() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut child = scratch
        .command(victims().join("turns_over"))
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_CONF", "mode:sampled,rate:3M")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the victim starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let own: f64 = line.rsplit(' ').next().and_then(|own| own.trim().parse().ok()).expect(&line);
    let pid = child.id().to_string();
    for round in 0..3 {
        let prefix = format!("p{round}_");
        scratch.output_of(&["collect", "-s", "0.3", "-c", "1K", "-o", &prefix, &pid]);
        let file = format!("{prefix}turns_over.{pid}.heap");
        let top = scratch.json_of(&["top", "--json", "--focus", "^w_", &file]);
        let live = top["total"].as_f64().expect("a total");
        // Ten standard errors of 4 096 blocks of 800 bytes, sampled at 1 KiB.
        assert!((live - own).abs() < 0.2 * own, "round {round}: {live} of {own}");
    }
    let list = scratch.json_of(&["ps", "--json"]);
    assert_eq!((&list[0]["mode"], &list[0]["rate"]), (&"sampled".into(), &(3 << 20).into()), "{list}");
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// A process that is killed while several are collected leaves none of the others sampling.
#[test]
fn a_failure_with_one_of_several_processes_leaves_no_other_sampling() {
    let scratch = Scratch::new();
    let (first, mut second) = (Live::start(&scratch), Live::start(&scratch));
    let mut collect = scratch.heapwise(&["mem_profiler", "-s", "60", "-c", "1024", "-o", "p"]);
    let mut collect =
        collect.args([first.pid(), second.pid()]).stderr(Stdio::null()).spawn().expect("starts");
    let modes = || -> Vec<String> {
        let list = scratch.json_of(&["ps", "--json"]);
        let rows = list.as_array().expect("rows").iter();
        rows.map(|row| row["mode"].as_str().expect("a mode").to_owned()).collect()
    };
    until("both are sampled", || modes() == ["sampled", "sampled"]);
    second.end();
    // Ctrl-C ends the collection early and keeps what was collected.
    let pid = collect.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    collect.wait().expect("mem_profiler ends");
    until("the other is not sampled", || modes() == ["off"]);
    assert!(scratch.path(&format!("p.live_switch.{}.heap", first.pid())).exists());
}

#[test]
fn collect_writes_a_file_and_mem_profiler_says_so() {
    let scratch = Scratch::new();
    let live = Live::start(&scratch);
    scratch.output_of(&["collect", "-s", "0.3", "-c", "1K", "-o", "p_", &live.pid()]);
    let file = format!("p_live_switch.{}.heap", live.pid());
    assert!(scratch.path(&file).exists());
    let said = scratch.output_of(&["mem_profiler", "-s", "1", "-o", "./custom_prof", &live.pid()]);
    assert!(said.contains("succeeded in collecting memory data!"), "{said}");
    assert!(scratch.path(&format!("custom_prof.live_switch.{}.heap", live.pid())).exists());
    assert_eq!(scratch.json_of(&["ps", "--json"])[0]["mode"], "off");
}

/// Process numbers come round again: segments that earlier holders of the next ones left behind are
/// not the program's.
#[test]
fn a_segment_left_by_an_earlier_holder_of_the_number_is_not_taken() {
    let scratch = Scratch::new();
    let live = Live::start(&scratch);
    let folder = scratch.path("segments");
    let own =
        std::fs::read_dir(&folder).unwrap().flatten().next().expect("the segment of the live one").path();
    // With more names the probe makes no segment on a disk that is nearly full.
    for pid in live.child.id() + 1..live.child.id() + 100 {
        std::fs::hard_link(&own, folder.join(format!("{pid}-1.seg"))).unwrap();
    }
    let capture = scratch.capture(&["--exact"], "plain", &["1000", "7"]);
    assert_eq!(capture.total("alloc_objects"), capture.witness["alloc_objects"]);
}

/// Waits for what takes as long as the machine is busy.
pub fn until(what: &str, mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_there() {
        assert!(Instant::now() < deadline, "{what} did not appear");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes allocated by the victim's own functions.
pub fn own_bytes(scratch: &Scratch, pid: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", pid]);
    top["total"].as_i64().expect("a number")
}

#[test]
fn the_dead_can_be_read_and_cleaned_up() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    let pid = live.pid();
    scratch.output_of(&["start", "--exact", &pid]);
    live.wait_for_blocks(&scratch);
    live.end();
    assert_eq!(scratch.json_of(&["ps", "--dead", "--json"])[0]["state"], "killed");
    assert!(own_bytes(&scratch, &pid) > 0);
    scratch.output_of(&["dump", "-o", "dead.heap", &pid]);
    let late = scratch.heapwise(&["start", &pid]).output().expect("heapwise starts");
    assert_eq!(late.status.code(), Some(2));
    scratch.output_of(&["ps", "--clean"]);
    assert_eq!(scratch.json_of(&["ps", "--dead", "--json"]), serde_json::json!([]));
}

/// A recording in between leaves exact mode's account as it was.
#[test]
fn a_recording_of_a_while_does_not_disturb_the_account() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    let pid = live.pid();
    scratch.output_of(&["set", "--exact", &pid]);
    live.say("pause");
    live.read_until("inuse_bytes");
    let peak = || scratch.json_of(&["export", "-f", "json", &pid])["peak_bytes"].as_u64().expect("a peak");
    let before = peak();
    scratch.output_of(&["record", "-s", "0.5", "-o", "while.hwr", &pid]);
    assert!(before > 0 && peak() == before, "{before} and then {}", peak());
    assert_eq!(scratch.json_of(&["ps", "--json"])[0]["mode"], "exact");
}

/// Two recordings of one program, one after the other: each takes no block that came before for one
/// of its own, and knows all that came while it ran.
#[test]
fn a_recording_knows_its_own_blocks_alone() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    let pid = live.pid();
    for recording in ["first.hwr", "second.hwr"] {
        let mut record =
            scratch.heapwise(&["record", "-o", recording, &pid]).spawn().expect("heapwise starts");
        until("a recorder", || scratch.json_of(&["ps", "--json"])[0]["mode"] == "log");
        // Time for some hundred steps of 200 blocks: every one of the program's 2048 slots is
        // filled again.
        std::thread::sleep(Duration::from_secs(1));
        live.say("pause");
        let own = (live.read_until("inuse_objects"), live.read_until("inuse_bytes"));
        let id = record.id().to_string();
        assert!(scratch.command("kill").args(["-s", "INT", &id]).status().expect("kill is there").success());
        assert!(record.wait().expect("waited").success());
        let total = |metric: &str| {
            let top = scratch.json_of(&["top", "--json", metric, "--focus", "^w_", recording]);
            top["total"].as_i64().expect("a total")
        };
        assert_eq!((total("--inuse_objects"), total("--inuse_space")), own, "{recording}");
        live.say("go");
        until("the mode before", || scratch.json_of(&["ps", "--json"])[0]["mode"] != "log");
    }
}

/// Threads of the program that change settings at once: every change is in force when its call
/// returns.
#[test]
fn changes_of_several_threads_are_not_lost() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("control_races"));
    let output = program.arg("50000").env("LD_PRELOAD", library.trim()).output().expect("victim starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(crate::harness::witness(&output)["lost"], 0);
}

/// A segment whose writer stops at its `stop`th write until the program has made a change of its
/// own.
struct Interrupted<'a> {
    file: &'a std::fs::File,
    stop: usize,
    writes: Cell<usize>,
    program: RefCell<&'a mut dyn FnMut()>,
}

impl SegmentSource for Interrupted<'_> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.file.read_at(into, offset).expect("readable")
    }
}

impl SegmentSink for Interrupted<'_> {
    type Error = std::io::Error;
    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        if self.writes.replace(self.writes.get() + 1) == self.stop {
            (self.program.borrow_mut())();
        }
        self.file.write_all_at(bytes, offset)
    }
}

/// The program changes a setting while a controller is in the middle of a change: both come into
/// force.
#[test]
fn a_change_of_a_controller_is_not_lost_to_one_of_the_program() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("control_races"));
    program.arg("commands").env("LD_PRELOAD", library.trim());
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("victim starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut input = child.stdin.take().expect("piped");
    let mut mode_after = |command: &[u8]| {
        input.write_all(command).expect("it listens");
        lines.next().expect("it answers").expect("UTF-8")
    };
    assert_eq!(mode_after(b"m"), "witness mode 0");
    let name = std::fs::read_dir(scratch.path("segments")).expect("readable").flatten().next();
    let path = name.expect("a segment").path();
    let file = std::fs::File::options().read(true).write(true).open(path).expect("ours");
    for stop in 0..3 {
        for mode in [Mode::Exact, Mode::Off] {
            let mut change = || drop(mode_after(b"i"));
            let program = RefCell::new(&mut change as &mut dyn FnMut());
            let segment = Interrupted { file: &file, stop, writes: Cell::new(0), program };
            write_control(&segment, &[(ControlWord::Mode, Update::Set(mode as u64))], &[]).expect("writable");
            assert_eq!(mode_after(b"m"), format!("witness mode {}", mode as u64), "at write {stop}");
        }
    }
    drop(input);
    assert!(child.wait().expect("waited").success());
}

/// Calls made inside the probe, as from a signal handler that interrupted it, change nothing: they
/// are counted, or return an error.
#[test]
fn calls_inside_the_probe_are_not_lost_in_silence() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let child = scratch
        .command(victims().join("api_inside_probe"))
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_CONF", "mode:exact,keep_segment:true")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the victim starts");
    let pid = child.id().to_string();
    let output = child.wait_with_output().expect("the victim ends");
    let told = witness(&output);
    assert_eq!(told["mode"], Mode::Exact as i64, "{told:?}");
    for fact in ["dumped", "controlled", "seen"] {
        assert_eq!(told[fact], 1, "{fact}: {told:?}");
    }
    let stats = scratch.json_of(&["stats", "--json", &pid]);
    assert_eq!(stats[0]["probe"]["lost_calls"], 2, "{stats}");
}

/// A segment is listed while its probe is set up. A change waits until the probe has written its
/// own control words, which would replace it.
#[test]
fn a_change_waits_for_a_probe_that_is_starting() {
    let scratch = Scratch::new();
    let mut program = Told::start(&scratch, "mode:off");
    program.allocate(10);
    let mut segments = std::fs::read_dir(scratch.path("segments")).expect("readable").flatten();
    let segment = segments.next().expect("a segment").path();
    let segment = std::fs::OpenOptions::new().read(true).write(true).open(segment).expect("ours");
    let set_state = |state: State| {
        let at = COUNTERS_OFFSET as u64 + Counter::State as u64 * 8;
        segment.write_all_at(&(state as u64).to_le_bytes(), at).expect("written");
    };
    let mode = || {
        let mut word = [0; 8];
        let at = CONTROL_OFFSET as u64 + ControlWord::Mode as u64 * 8;
        segment.read_exact_at(&mut word, at).expect("readable");
        u64::from_le_bytes(word)
    };
    set_state(State::Starting);
    let mut start = scratch.heapwise(&["start", "--exact", &program.pid()]).spawn().expect("starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!((mode(), start.try_wait().expect("ours").is_none()), (Mode::Off as u64, true));
    set_state(State::Ready);
    assert!(start.wait().expect("ours").success());
    assert_eq!(mode(), Mode::Exact as u64);
    program.end();
}
