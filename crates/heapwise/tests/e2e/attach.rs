//! The probe in programs that were started without it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::harness::{Scratch, victims};

/// A running victim, without the probe.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(scratch: &Scratch, victim: &str, arguments: &[&str]) -> Self {
        Self::of(scratch.command(victims().join(victim)).args(arguments))
    }

    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    /// Has `allocates_when_told` allocate.
    pub fn tell(&mut self, blocks: u32) {
        writeln!(self.input.as_ref().expect("a pipe"), "{blocks}").expect("it reads");
    }

    /// Has `allocates_when_told` allocate; returns when it has.
    pub fn allocate(&mut self, blocks: u32) {
        self.tell(blocks);
        assert_eq!(self.line(), format!("allocated {blocks}\n"));
    }

    /// Every byte of code of its files.
    pub fn code(&self) -> Vec<u8> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("a map");
        let mut memory = fs::File::open(format!("/proc/{}/mem", self.pid())).expect("memory");
        let mut code = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /")) {
            if line.contains("libheapwise") {
                continue;
            }
            let (start, rest) = line.split_once('-').expect("a range");
            let end = rest.split(' ').next().expect("its end");
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            memory.seek(SeekFrom::Start(start)).expect("a place");
            let from = code.len();
            code.resize(from + (end - start) as usize, 0);
            memory.read_exact(&mut code[from..]).expect("code");
        }
        code
    }

    /// Ends its input and waits for its end.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("waited").success());
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("waited").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs heapwise; its standard error.
fn heapwise(scratch: &Scratch, arguments: &[&str]) -> (bool, String) {
    let output = scratch.heapwise(arguments).output().expect("heapwise starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn attach(scratch: &Scratch, pid: &str) -> String {
    let (done, text) = heapwise(scratch, &["attach", "--exact", pid]);
    assert!(done && text.contains("attached") && !text.contains("not hooked"), "{text}");
    text
}

pub fn detach(scratch: &Scratch, pid: &str) {
    let (done, text) = heapwise(scratch, &["detach", pid]);
    assert!(done && text.contains("detached"), "{text}");
}

fn blocks(scratch: &Scratch, pid: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--alloc_objects", "--focus", "^w_", pid]);
    top["total"].as_i64().expect("a total")
}

/// What is allocated between attach and detach is counted, no more and no less, and the code is
/// what it was.
#[test]
fn every_block_since_the_attach_is_counted() {
    let scratch = Scratch::new();
    let mut told = Running::start(&scratch, "allocates_when_told", &[]);
    told.allocate(5000);
    let (pid, before) = (told.pid(), told.code());
    let text = attach(&scratch, &pid);
    assert!(text.contains("stopped for"), "{text}");
    told.allocate(1000);
    assert_eq!(blocks(&scratch, &pid), 1000);
    let top = scratch.output_of(&["top", &pid]);
    assert!(top.contains("blocks allocated earlier are missing"), "{top}");
    let stats = scratch.output_of(&["stats", &pid]);
    assert!(stats.contains("heap: before attach"), "{stats}");
    assert!(told.code() != before, "functions are hooked");
    detach(&scratch, &pid);
    assert!(told.code() == before, "every byte is restored");
    told.allocate(100);
    attach(&scratch, &pid);
    told.allocate(500);
    assert_eq!(blocks(&scratch, &pid), 1500);
    detach(&scratch, &pid);
    assert!(told.code() == before, "every byte is restored again");
    let (done, text) = heapwise(&scratch, &["detach", &pid]);
    assert!(!done && text.contains("not attached"), "{text}");
    let listed = scratch.output_of(&["ps"]);
    assert!(listed.lines().any(|row| row.contains(&pid) && row.contains("detached")), "{listed}");
    told.allocate(10);
}

/// A child that is forked after the attach counts its own blocks.
#[test]
fn forked_children_of_an_attached_program_are_counted() {
    let scratch = Scratch::new();
    let mut program = Running::start(&scratch, "forks_when_told", &[]);
    let mut told = |blocks: i32| {
        writeln!(program.input.as_ref().expect("a pipe"), "{blocks}").expect("it reads");
        let mut line = String::new();
        program.output.read_line(&mut line).expect("a line");
        let answer = line.trim().strip_prefix(&format!("allocated {} ", blocks.abs())).expect("an answer");
        answer.to_owned()
    };
    let pid = told(100);
    attach(&scratch, &pid);
    told(1000);
    let child = told(-300);
    assert_eq!((blocks(&scratch, &pid), blocks(&scratch, &child)), (1000, 300));
    let own = ["top", "--json", "--inuse_objects", "--focus", "^w_", "--ignore", r"^\[inherited", &child];
    let live = scratch.json_of(&own);
    assert_eq!(live["total"], 150, "{live}");
    told(50);
    assert_eq!((blocks(&scratch, &pid), blocks(&scratch, &child)), (1050, 300));
    // The child keeps its hooks: its code is not that of the parent.
    detach(&scratch, &pid);
    let later = told(-30);
    assert_ne!(later, child);
    assert_eq!(blocks(&scratch, &child), 300);
}

/// The calls that mapped memory before the attach are not known; the memory is a line of its own.
#[test]
fn memory_mapped_before_the_attach_is_a_line() {
    const PAGE: i64 = 4096;
    let scratch = Scratch::new();
    let mut holding = Running::start(&scratch, "known_pages", &[]);
    let mut known = |name: &str| loop {
        let line = holding.line();
        if let Some(pages) = line.strip_prefix(name) {
            break pages.trim().parse::<i64>().expect("a number") * PAGE;
        }
    };
    // A large block has a mapping of its own, and the call is not known either.
    let (mappings, large) = (known("mappings "), known("large "));
    known("untouched ");
    let pid = holding.pid();
    attach(&scratch, &pid);
    let ledger = scratch.json_of(&["stats", "--json", &pid])[0]["ledger"].clone();
    let line = |kind: &str| {
        let lines = ledger["lines"].as_array().expect("lines").iter();
        lines.filter(|line| line["kind"] == kind).filter_map(|line| line["bytes"].as_i64()).sum::<i64>()
    };
    let resident = ledger["resident"].as_i64().expect("bytes");
    let slack = resident / 50;
    let before = mappings..=mappings + large + slack;
    assert!(before.contains(&line("mappings_before_attach")), "{before:?}: {ledger}");
    assert!(line("unexplained") <= slack, "{ledger}");
}

/// Rounds of attach and detach on threads that allocate all the time.
fn rounds(threads: &str, how: &str, count: usize) {
    let scratch = Scratch::new();
    let mut busy = Running::start(&scratch, "busy_threads", &[threads, how]);
    assert_eq!(busy.line(), "ready\n");
    let (pid, before) = (busy.pid(), busy.code());
    for _ in 0..count {
        attach(&scratch, &pid);
        detach(&scratch, &pid);
        assert!(busy.is_alive());
    }
    assert!(busy.code() == before, "every byte is restored");
    attach(&scratch, &pid);
    let counted = blocks(&scratch, &pid);
    while blocks(&scratch, &pid) <= counted {
        assert!(busy.is_alive());
    }
    detach(&scratch, &pid);
}

#[test]
#[ignore = "long"]
fn two_hundred_threads_are_attached() {
    rounds("200", "waiting", 3);
}

/// No thread waits in a system call: one is caught where it calls `malloc`.
#[test]
fn threads_that_never_wait_are_attached() {
    rounds("2", "never", 2);
}

#[test]
#[ignore = "200 rounds"]
fn two_hundred_rounds_on_two_hundred_threads() {
    rounds("200", "waiting", 200);
}

/// A controller that is killed at any moment leaves a program that runs on and can be attached.
fn killed_controllers(kills: u32) {
    let scratch = Scratch::new();
    let mut busy = Running::start(&scratch, "busy_threads", &["4", "waiting"]);
    assert_eq!(busy.line(), "ready\n");
    let (pid, before) = (busy.pid(), busy.code());
    for kill in 0..kills {
        let mut controller = scratch.heapwise(&["attach", "--exact", &pid]);
        let mut controller = controller.stderr(Stdio::null()).spawn().expect("heapwise starts");
        // The moment of the kill is what is varied, not a synchronization.
        std::thread::sleep(Duration::from_millis(u64::from(kill * 37 % 400)));
        let _ = controller.kill();
        let _ = controller.wait();
        assert!(busy.is_alive(), "killed after {} ms", kill * 37 % 400);
    }
    attach(&scratch, &pid);
    detach(&scratch, &pid);
    assert!(busy.is_alive() && busy.code() == before, "every byte is restored");
}

#[test]
fn a_killed_controller_leaves_a_program_that_works() {
    killed_controllers(6);
}

#[test]
#[ignore = "200 kills"]
fn two_hundred_killed_controllers_leave_a_program_that_works() {
    killed_controllers(200);
}

#[test]
fn what_cannot_be_attached_is_declined() {
    let scratch = Scratch::new();
    let declined = |running: &Running, reason: &str| {
        let (done, text) = heapwise(&scratch, &["attach", &running.pid()]);
        assert!(!done && text.contains(reason), "{text}");
    };
    let mut static_program = Running::start(&scratch, "static_told", &[]);
    static_program.allocate(1);
    declined(&static_program, "statically linked");
    let library = scratch.output_of(&["preload"]);
    let mut preloaded = scratch.command(victims().join("allocates_when_told"));
    let mut preloaded = Running::of(preloaded.env("LD_PRELOAD", library.trim()));
    preloaded.allocate(1);
    declined(&preloaded, "was started with the probe");
    let (done, text) = heapwise(&scratch, &["start", "--log", &preloaded.pid()]);
    assert!(!done && text.contains("log mode needs a recorder"), "{text}");
    let mut plain = Running::start(&scratch, "allocates_when_told", &[]);
    plain.allocate(1);
    let (done, text) = heapwise(&scratch, &["detach", &plain.pid()]);
    assert!(!done && text.contains("not attached"), "{text}");
    let (done, text) = heapwise(&scratch, &["attach", "--log", &plain.pid()]);
    assert!(!done && text.contains("heapwise record"), "{text}");
    plain.allocate(1);
}

/// musl's dynamic linker cannot load the probe.
#[test]
#[ignore = "needs musl-gcc"]
fn a_program_with_musl_is_declined() {
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/allocates_when_told.c");
    let program = scratch.path("musl_told");
    let compiled = Command::new("musl-gcc").arg(source).arg("-o").arg(&program).status();
    assert!(compiled.expect("musl-gcc runs").success());
    let mut told = Running::of(&mut scratch.command(&program));
    told.allocate(1);
    let (done, text) = heapwise(&scratch, &["attach", &told.pid()]);
    assert!(!done && text.contains("it uses musl"), "{text}");
    told.allocate(1);
}

/// The filter ends the process for most of the probe's system calls: none is made.
#[test]
#[ignore = "needs root"]
fn a_program_behind_a_filter_is_attached() {
    let scratch = Scratch::new();
    let mut filtered = Running::start(&scratch, "filtered_told", &[]);
    filtered.allocate(10);
    let (pid, before) = (filtered.pid(), filtered.code());
    attach(&scratch, &pid);
    filtered.allocate(1000);
    assert_eq!(blocks(&scratch, &pid), 1000);
    detach(&scratch, &pid);
    assert!(filtered.code() == before, "every byte is restored");
    filtered.allocate(10);
    attach(&scratch, &pid);
    filtered.allocate(500);
    assert_eq!(blocks(&scratch, &pid), 1500);
    filtered.end();
}

/// Commands that record offer to attach: without the option they name it.
#[test]
fn recorders_attach_when_they_may() {
    let scratch = Scratch::new();
    let mut told = Running::start(&scratch, "allocates_when_told", &[]);
    told.allocate(1);
    let pid = told.pid();
    for command in [&["record", "-s", "1"][..], &["collect", "-s", "1"], &["serve", "--port", "0"]] {
        let (done, text) = heapwise(&scratch, &[command, &[&pid]].concat());
        assert!(
            !done && text.contains(&format!("heapwise attach {pid}")) && text.contains("--attach"),
            "{text}"
        );
    }
    let recording = scratch.path("told.hwr");
    let mut record = scratch.heapwise(&["record", "--attach", "-o"]);
    let record = record.arg(&recording).arg(&pid).stderr(Stdio::piped()).spawn().expect("it starts");
    let is_logged = || scratch.json_of(&["ps", "--json"])[0]["mode"] == "log";
    while !is_logged() {
        told.allocate(1);
    }
    told.allocate(1000);
    rustix::process::kill_process(rustix::process::Pid::from_child(&record), rustix::process::Signal::INT)
        .expect("interrupted");
    let ended = record.wait_with_output().expect("waited");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let path = recording.to_str().expect("UTF-8");
    let top = scratch.json_of(&["top", "--json", "--alloc_objects", "--focus", "^w_", path]);
    assert!(top["total"].as_i64().expect("a total") >= 1000, "{top}");
    // The probe is there now: no second attach.
    let (done, text) = heapwise(&scratch, &["collect", "--attach", "-s", "0.1", &pid]);
    assert!(done && !text.contains("attached"), "{text}");
    told.allocate(1);
}

/// An interpreter at work.
#[test]
#[ignore = "needs python3"]
fn python_is_attached() {
    let scratch = Scratch::new();
    let script = "import sys\nl = []\nfor line in sys.stdin:\n    l += [bytearray(2000) for _ in range(int(line))]\n    \
                  print('allocated', line.strip(), flush=True)\n";
    let mut python = Running::of(scratch.command(Path::new("/usr/bin/python3")).args(["-c", script]));
    python.allocate(10);
    let pid = python.pid();
    attach(&scratch, &pid);
    python.allocate(1000);
    let top = scratch.json_of(&["top", "--json", "--inuse_space", &pid]);
    assert!(top["total"].as_i64().expect("a total") >= 2_000_000, "{top}");
    detach(&scratch, &pid);
    python.allocate(10);
}
