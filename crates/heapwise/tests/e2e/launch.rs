//! `run` as a user of a shell expects it: outputs, signals, names, exit statuses.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

use heapwise_format::segment::{COUNTERS_OFFSET, Counter};

use crate::control::{Live, until};
use crate::harness::{LOG, Scratch, victims, witness};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
}

/// An output that cannot be written is an error before the program runs, not after.
#[test]
fn an_output_that_cannot_be_written_is_refused_at_once() {
    let scratch = Scratch::new();
    fs::write(scratch.path("old"), "kept").expect("written");
    fs::create_dir(scratch.path("folder")).expect("made");
    fs::create_dir(scratch.path("folder.hwr")).expect("made");
    for (options, advice) in [
        (&["--exact", "-o", "missing/out"][..], "choose another place with -o"),
        (&["--exact", "-o", "old"], "use -f to replace it"),
        (&["--exact", "-o", "folder"], "is a directory"),
        (&["--exact", "-f", "-o", "folder"], "is a directory"),
        (&["--log", "-o", "missing/out.hwr"], "choose another place with -o"),
        (&["--log", "-f", "-o", "folder.hwr"], "is a directory"),
    ] {
        let output = scratch.heapwise(&["run"]).args(options).args(["--", "touch", "ran"]).output();
        let output = output.expect("heapwise starts");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(advice), "{options:?}: {said}");
        assert!(advice != "is a directory" || !said.contains("use -f"), "{said}");
        assert!(!scratch.path("ran").exists(), "{options:?}");
    }
    assert_eq!(fs::read_to_string(scratch.path("old")).expect("there"), "kept");
}

/// The program's status is the status, also when its profile cannot be written; and then the
/// profile can still be had.
#[test]
fn the_exit_status_is_the_programs() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("gone")).expect("made");
    let script = "rmdir gone; exit 7";
    let output = scratch.heapwise(&["run", "--exact", "-o", "gone/out", "--", "sh", "-c", script]).output();
    let output = output.expect("heapwise starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("cannot write"), "{said}");
    let pid = said.trim_end().rsplit(' ').next().expect("a pid").to_owned();
    scratch.output_of(&["dump", "-o", "saved", &pid]);
}

/// Every signal that ends a process by default reaches the program; `run` waits for its end.
#[test]
fn signals_reach_the_program() {
    let scratch = Scratch::new();
    let script = "for s in USR1 USR2 ALRM HUP TERM VTALRM; do trap \"echo $s\" $s; done; \
        echo ready; while [ ! -e enough ]; do sleep 0.05; done; exit 5";
    // A shell cannot trap what was ignored when it was started, as under `nohup`.
    let mut run = scratch
        .command("env")
        .arg("--default-signal")
        .arg(scratch.heapwise(&[]).get_program())
        .args(["run", "-q", "--exact", "-o", "out", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("heapwise starts");
    let mut lines = BufReader::new(run.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let id = run.id().to_string();
    for signal in ["USR1", "USR2", "ALRM", "HUP", "TERM", "VTALRM"] {
        assert!(scratch.command("kill").args(["-s", signal, &id]).status().expect("kill is there").success());
        assert_eq!(lines.next().as_deref(), Some(signal));
    }
    fs::write(scratch.path("enough"), "").expect("written");
    assert_eq!(run.wait().expect("waited").code(), Some(5));
    assert!(scratch.path("out").exists());
}

/// What is ignored where `run` is called (`nohup`, a background job) is ignored by the program.
#[test]
fn ignored_signals_stay_ignored() {
    let scratch = Scratch::new();
    let ignored = |words: &[&str]| {
        let mut command = scratch.command("env");
        command.args(["--default-signal", "--ignore-signal=HUP,INT,USR1"]).args(words);
        let output = command.args(["grep", "SigIgn", "/proc/self/status"]).output().expect("env starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let heapwise = scratch.heapwise(&[]).get_program().to_string_lossy().into_owned();
    let alone = ignored(&[]);
    assert!(alone.contains("203"), "signals 1, 2 and 10: {alone}");
    assert_eq!(ignored(&[&heapwise, "run", "-q", "--off", "--"]), alone);
}

/// A program that is found on PATH is called by the name that the user typed.
#[test]
fn argv_0_is_what_the_user_typed() {
    let scratch = Scratch::new();
    let run = |program: &str| {
        let output = scratch.output_of(&["run", "-q", "-f", "-o", "out", "--", program, "-c", "echo $0"]);
        output.trim().to_owned()
    };
    assert_eq!(run("sh"), "sh");
    assert_eq!(run("/bin/sh"), "/bin/sh");
}

/// The names of a sanitizer's functions in a program's data do not make it a sanitized one.
#[test]
fn a_program_that_names_a_sanitizer_is_not_refused() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "names_sanitizer", &[]);
    assert_eq!(capture.total("alloc_space"), 100, "{}", capture.stderr());
}

/// Profiles and recordings are their owner's, and go through no link, with `-f` neither.
#[test]
fn outputs_are_private_and_go_through_no_link() {
    let scratch = Scratch::new();
    fs::write(scratch.path("precious"), "kept").expect("written");
    for name in ["linked.hwr", "linked.keep", "linked", "linked-1.hwr"] {
        symlink(scratch.path("precious"), scratch.path(name)).expect("linked");
    }
    let plain = victims().join("plain");
    let run = |options: &[&str]| {
        let mut command = scratch.heapwise(&["run", "-q", "-f"]);
        let output = command.args(options).arg("--").arg(&plain).arg("1000").output();
        let output = output.expect("heapwise starts");
        assert!(output.status.success(), "{}", said(&output));
    };
    run(&["--exact", "-o", "linked"]);
    run(&[LOG, &["-o", "linked.hwr"]].concat());
    assert_eq!((mode_of(&scratch.path("linked")), mode_of(&scratch.path("linked.hwr"))), (0o600, 0o600));
    fs::remove_file(scratch.path("linked.hwr")).expect("removed");
    run(&[LOG, &["--rotate", "4K", "-o", "linked.hwr"]].concat());
    assert_eq!(mode_of(&scratch.path("linked.keep")), 0o600);
    assert_eq!(fs::read_to_string(scratch.path("precious")).expect("there"), "kept");
}

/// Two recorders do not write to one file.
#[test]
fn a_file_has_one_recorder() {
    let scratch = Scratch::new();
    let (first, second) = (Live::start(&scratch), Live::start(&scratch));
    for options in
        [&["-o", "app.hwr"][..], &["--rotate", "4K", "-o", "app.hwr"], &["--ring", "1s", "-o", "app.hwr"]]
    {
        let mut record = scratch.heapwise(&["record", "-f"]);
        let mut recorder = record.args(options).arg(first.pid()).spawn().expect("heapwise starts");
        until("a recorder", || {
            let list = scratch.json_of(&["ps", "--json"]);
            list.as_array().is_some_and(|rows| rows.iter().any(|row| row["mode"] == "log"))
        });
        let other = scratch.heapwise(&["record", "-f", "-s", "1"]).args(options).arg(second.pid()).output();
        let other = other.expect("heapwise starts");
        assert_eq!(other.status.code(), Some(2), "{options:?}: {}", said(&other));
        assert!(said(&other).contains("another recorder is writing to it"), "{}", said(&other));
        let id = recorder.id().to_string();
        assert!(scratch.command("kill").args(["-s", "INT", &id]).status().expect("kill is there").success());
        assert!(recorder.wait().expect("waited").success());
        scratch.output_of(&["summary", "app.hwr"]);
        let _ = fs::remove_file(scratch.path("app.hwr"));
    }
}

/// A recorder that was killed when it had just begun another file leaves one of a few bytes.
#[test]
fn a_last_file_of_few_bytes_does_not_hide_the_others() {
    let scratch = Scratch::new();
    let output = scratch
        .heapwise(&["run", "-q", "--rotate", "4K", "--keep", "100"])
        .args(LOG)
        .args(["-o", "app.hwr", "--"])
        .arg(victims().join("plain"))
        .arg("100000")
        .output()
        .expect("heapwise starts");
    assert!(output.status.success(), "{}", said(&output));
    let number = (1..).find(|number| !scratch.path(&format!("app-{number}.hwr")).exists()).expect("a gap");
    let first = fs::read(scratch.path("app-1.hwr")).expect("a file");
    let own = witness(&output)["alloc_objects"];
    for bytes in [0, 1, 8, 15, 16] {
        fs::write(scratch.path(&format!("app-{number}.hwr")), &first[..bytes]).expect("written");
        let report = ["top", "--json", "--alloc_objects", "--focus", "^w_", "app.hwr"];
        let top = scratch.heapwise(&report).output().expect("heapwise starts");
        assert!(top.status.success(), "{bytes}: {}", said(&top));
        let total = serde_json::from_slice::<serde_json::Value>(&top.stdout).expect("JSON")["total"].as_i64();
        assert_eq!(total, Some(own), "{bytes} bytes");
        assert!(said(&top).contains("not ended"), "{}", said(&top));
    }
}

/// The counters that a victim left in its segment.
fn counters_of(conf: &str, victim: &str, arguments: &[&str]) -> impl Fn(Counter) -> u64 {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join(victim));
    program.args(arguments).env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", conf);
    program.stdout(Stdio::null()).status().expect("the victim starts");
    let entry = fs::read_dir(scratch.path("segments")).expect("readable").flatten().next();
    let segment = fs::File::open(entry.expect("a segment").path()).expect("ours");
    move |counter| {
        let mut word = [0; 8];
        let at = (COUNTERS_OFFSET + counter as usize * 8) as u64;
        segment.read_exact_at(&mut word, at).expect("readable");
        u64::from_le_bytes(word)
    }
}

/// Losses have their causes: a program under seccomp loses for another reason than one whose tables
/// are full.
#[test]
fn losses_have_causes() {
    let causes = |conf: &str, arguments: &[&str]| {
        let counter = counters_of(conf, "many_stacks", arguments);
        let lost = [Counter::LostTallies, Counter::LostNodes, Counter::UntrackedBlocks].map(&counter);
        (lost.iter().sum::<u64>(), counter(Counter::NoSpaceLosses), counter(Counter::FrozenLosses))
    };
    let (lost, no_space, frozen) = causes("mode:exact,tables:least", &["40000"]);
    assert!(lost > 0 && no_space == 0 && frozen == 0, "{lost} {no_space} {frozen}");
    let (lost, no_space, frozen) = causes("mode:exact", &["200000", "seccomp"]);
    assert!(lost > 0 && no_space == 0 && frozen == lost, "{lost} {no_space} {frozen}");
}

/// The stacks of fibers end where their library made them begin, and are whole.
#[test]
fn fibers_are_not_broken() {
    for victim in ["planted_fibers", "swapcontext_coroutines"] {
        let counter = counters_of("mode:exact", victim, &[]);
        assert!(counter(Counter::Recorded) > 100, "{victim}");
        assert_eq!(counter(Counter::Broken), 0, "{victim}");
    }
}

/// A site whose stacks end in code without unwind information is counted once.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_broken_site_is_counted_once() {
    let counter = counters_of("mode:exact", "unreadable_code", &["300"]);
    assert!(counter(Counter::Recorded) >= 300);
    assert_eq!(counter(Counter::Broken), 1);
}

/// Starts the victim `daemonizes`, which becomes a daemon that waits for `stop_daemon`.
fn start_daemon(scratch: &Scratch, options: &[&str]) -> std::process::Child {
    start_daemon_with(scratch, options, &[])
}

fn start_daemon_with(scratch: &Scratch, options: &[&str], arguments: &[&str]) -> std::process::Child {
    let mut command = scratch.heapwise(&["run"]);
    command.args(options).arg("--").arg(victims().join("daemonizes")).arg("daemon").args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("heapwise starts")
}

/// Options that follow a daemon to its end.
const FOLLOWED: [&[&str]; 2] =
    [&["--children", "--log", "-o", "app.hwr"], &["--children", "--exact", "-o", "app.hwp"]];

/// Waits until heapwise says that it follows the daemon; the daemon's pid, and the rest of what
/// heapwise says.
fn await_followed(run: &mut std::process::Child) -> (u32, BufReader<std::process::ChildStderr>) {
    let mut said = BufReader::new(run.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("readable");
    assert!(line.contains("recording goes on until daemonizes (pid "), "{line}");
    let pid = line.split("(pid ").nth(1).and_then(|rest| rest.split(')').next()).expect(&line);
    (pid.parse().expect("a pid"), said)
}

/// Bytes that the daemon allocated, by its recording or profile.
fn allocated_by_daemon(scratch: &Scratch, options: &[&str], pid: u32) -> u64 {
    let file = if options.contains(&"--log") { format!("app.{pid}.hwr") } else { format!("app.hwp.{pid}") };
    let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", &file]);
    top["total"].as_u64().expect("a total")
}

/// Lets the daemon end; its own count of allocated bytes.
fn stop_daemon(scratch: &Scratch) -> u64 {
    fs::write(scratch.path("daemon.stop"), "").expect("written");
    let mut account = None;
    until("the account", || {
        let text = fs::read_to_string(scratch.path("daemon.account")).unwrap_or_default();
        account = heapwise_testkit::account::witness(&text, "alloc_bytes");
        text.contains("inuse_bytes")
    });
    account.expect("there")
}

/// With `--children`, the recording of a program that becomes a daemon goes on until the daemon
/// ends.
#[test]
fn a_recording_follows_a_daemon_to_its_end() {
    for options in FOLLOWED {
        let scratch = Scratch::new();
        let mut run = start_daemon(&scratch, options);
        let (pid, _said) = await_followed(&mut run);
        let own = stop_daemon(&scratch);
        assert!(run.wait().expect("heapwise ends").success());
        assert_eq!(allocated_by_daemon(&scratch, options, pid), own, "{options:?}");
    }
}

/// A daemon that overwrites its environment, as redis does, is followed too.
#[test]
fn a_recording_follows_a_daemon_without_an_environment() {
    let scratch = Scratch::new();
    let mut run = start_daemon_with(&scratch, FOLLOWED[0], &["scrub"]);
    let (pid, mut rest) = await_followed(&mut run);
    let environment = fs::read(format!("/proc/{pid}/environ")).expect("the daemon runs");
    assert!(environment.iter().all(|byte| *byte == 0));
    let own = stop_daemon(&scratch);
    let mut said = String::new();
    rest.read_to_string(&mut said).expect("readable");
    assert!(run.wait().expect("heapwise ends").success(), "{said}");
    assert!(!said.contains("runs on"), "{said}");
    assert_eq!(allocated_by_daemon(&scratch, FOLLOWED[0], pid), own, "{said}");
}

/// Ctrl-C while a daemon is followed ends the recording, not the daemon: what was recorded until
/// then is kept, and the end says that the daemon runs on. Its last state can still be read.
#[test]
fn ctrl_c_keeps_the_recording_of_a_daemon() {
    for options in FOLLOWED {
        let scratch = Scratch::new();
        let mut run = start_daemon(&scratch, options);
        let (pid, mut rest) = await_followed(&mut run);
        until("half of the daemon's blocks", || scratch.path("daemon.ready").exists());
        let id = run.id().to_string();
        assert!(scratch.command("kill").args(["-s", "INT", &id]).status().expect("kill is there").success());
        let mut said = String::new();
        rest.read_to_string(&mut said).expect("readable");
        assert!(run.wait().expect("heapwise ends").success(), "{said}");
        assert!(said.contains("; it runs on"), "{said}");
        let half = allocated_by_daemon(&scratch, options, pid);
        assert!(scratch.output_of(&["ps"]).contains(&pid.to_string()), "{options:?}");
        assert_eq!(2 * half, stop_daemon(&scratch), "{options:?}: {said}");
    }
}

/// A daemon that ends before the recorder looks for it is recorded: it inherits the lease of its
/// first process, which has ended then.
#[test]
fn a_short_daemon_is_recorded() {
    for _ in 0..5 {
        let scratch = Scratch::new();
        fs::write(scratch.path("daemon.stop"), "").expect("written");
        let run = start_daemon(&scratch, &["--children", "--log", "-o", "app.hwr"]);
        let said = said(&run.wait_with_output().expect("heapwise ends"));
        let own = stop_daemon(&scratch);
        let file = said.split_whitespace().find(|word| word.starts_with("app.") && word.ends_with(".hwr,"));
        let file = file.expect(&said).trim_end_matches(',');
        let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", file]);
        assert_eq!(top["total"].as_u64(), Some(own), "{said}");
    }
}

/// Without `--children`, the end of the recording and the process that runs on are named.
#[test]
fn a_daemon_that_is_not_recorded_is_named() {
    for options in [&["--log", "-o", "app.hwr"][..], &["--exact", "-o", "app.hwp"]] {
        let scratch = Scratch::new();
        let said = said(&start_daemon(&scratch, options).wait_with_output().expect("heapwise ends"));
        stop_daemon(&scratch);
        assert!(said.contains("the recording ends with the program; daemonizes (pid "), "{said}");
    }
}

/// A program that another one starts is recorded with `--children` only.
#[test]
fn programs_that_the_program_starts_are_off() {
    for (option, mode) in [("--quiet", "off"), ("--children", "exact")] {
        let scratch = Scratch::new();
        let mut run = scratch.heapwise(&["run", "--exact", "-o", "out.hwp", option, "--", "timeout", "600"]);
        run.arg(victims().join("live_switch")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = run.spawn().expect("heapwise starts");
        // An answer: its probe has started, and the mode is that of the configuration.
        writeln!(run.stdin.as_mut().expect("piped"), "pause").expect("it reads");
        let mut lines = BufReader::new(run.stdout.take().expect("piped")).lines();
        lines.next().expect("an answer").expect("text");
        let list = scratch.json_of(&["ps", "--json"]);
        let mode_of = |program: &str| {
            let row = list.as_array()?.iter().find(|row| row["program"] == program)?;
            row["mode"].as_str()
        };
        assert_eq!(mode_of("live_switch"), Some(mode), "{option}");
        assert_eq!(mode_of("timeout"), Some("exact"), "{option}");
        drop(run.stdin.take());
        lines.for_each(|line| drop(line.expect("text")));
        assert!(run.wait().expect("waited").success());
    }
}
