//! Recordings end to end: every instant against the victim's own account, kills, rotation, marks.

use std::time::Duration;

use crate::harness::{Scratch, victims, witness};
use heapwise_testkit::torture::{Killed, Torture};

/// Bytes that the victim's calls hold in `target`.
fn held(scratch: &Scratch, target: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--focus", "^w_", target]);
    top["total"].as_i64().expect("a total")
}

/// Milliseconds that a time may be off: the clock of the program against that of the recording, and
/// the tick.
const OFF_MS: u64 = 5;

/// A burst of the victim `timeline`, in milliseconds of the recording.
struct Burst {
    from_ms: u64,
    to_ms: u64,
    highest: u64,
    live_after: u64,
}

/// The millisecond of a mark, by the remark of a report that ends there.
fn millisecond_of(mark: &str, scratch: &Scratch, recording: &str) -> u64 {
    let output = scratch.heapwise(&["top", &format!("{recording}@..{mark}")]).output().unwrap();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    let number = notes.split("from 0 ms to ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{notes}"))
}

/// Every step of the timeline to the byte: the highest moment of each burst of work, and what is
/// live in the quiet after it. The recorder's clock gives the time of events, and it stands still
/// while other processes have the processors; so a run is repeated when its times do not fit.
#[test]
fn every_step_is_the_programs_own_account() {
    let mut misfits = Vec::new();
    while let Err(misfit) = compare_steps() {
        misfits.push(misfit);
        assert!(misfits.len() < 6, "{misfits:?}");
    }
}

/// Compares the steps of one run; an error names the first step that does not fit.
fn compare_steps() -> Result<(), String> {
    let scratch = Scratch::new();
    let (account, recording) = (scratch.path("account"), scratch.path("timeline.hwr"));
    let own = scratch.record("timeline", &[account.to_str().unwrap(), "1500"], &recording);
    let recording = recording.to_str().unwrap();
    let begin_ms = millisecond_of(&format!("begin{}", own["begin"]), &scratch, recording);
    // What libc holds besides, from the beginning to the end.
    let top = scratch.json_of(&["top", "--json", recording]);
    let besides = (top["total"].as_i64().unwrap() - own["inuse_bytes"]) as u64;
    let account = std::fs::read_to_string(account).unwrap();
    let bursts: Vec<Burst> = account
        .lines()
        .map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u64>>())
        .map(|line| Burst {
            from_ms: line[0] + begin_ms,
            to_ms: line[1] + begin_ms,
            highest: line[2] + besides,
            live_after: line[3] + besides,
        })
        .collect();
    assert!(bursts.len() > 5);
    let steps = |length: &str| -> Vec<(u64, u64)> {
        let steps = scratch.json_of(&["timeline", "--json", "--step", length, recording]);
        let pair = |step: &serde_json::Value| (step[0].as_u64().unwrap(), step[1].as_u64().unwrap());
        steps.as_array().unwrap().iter().map(pair).collect()
    };
    let (fine, coarse) = (steps("10ms"), steps("100ms"));
    for (start, bytes) in coarse {
        let parts = fine.iter().filter(|(ms, _)| (start..start + 100).contains(ms)).map(|step| step.1);
        assert_eq!(parts.max(), Some(bytes), "the step from {start} ms");
    }
    assert_eq!(held(&scratch, &format!("{recording}@end")), own["inuse_bytes"]);
    assert_eq!(held(&scratch, &format!("{recording}@peak")), own["peak_bytes"]);
    compare_bursts(&bursts, &fine)
}

/// Compares the bursts of the program's account with the steps of the timeline.
fn compare_bursts(bursts: &[Burst], steps: &[(u64, u64)]) -> Result<(), String> {
    let mut quiet_steps = 0;
    for (burst, next) in bursts.iter().zip(bursts.iter().skip(1)) {
        let Burst { from_ms, to_ms, highest, live_after } = *burst;
        let touched = |&&(ms, _): &&(u64, u64)| ms + 10 + OFF_MS > from_ms && ms < to_ms + OFF_MS;
        let found = steps.iter().filter(touched).map(|step| step.1).max();
        if found != Some(highest) {
            return Err(format!("{found:?}, not {highest}, from {from_ms} to {to_ms} ms"));
        }
        let quiet = |&&(ms, _): &&(u64, u64)| ms >= to_ms + OFF_MS && ms + 10 + OFF_MS <= next.from_ms;
        for (ms, bytes) in steps.iter().filter(quiet) {
            if *bytes != live_after {
                return Err(format!("{bytes}, not {live_after}, at {ms} ms"));
            }
            quiet_steps += 1;
        }
    }
    if quiet_steps <= bursts.len() {
        return Err(format!("{quiet_steps} quiet steps of {} bursts", bursts.len()));
    }
    Ok(())
}

/// At every mark the live bytes, and between every two the most there were, to the byte.
#[test]
fn between_quiet_moments_every_number_is_exact() {
    let scratch = Scratch::new();
    let recording = scratch.path("steps.hwr");
    let own = scratch.record("steps", &["8"], &recording);
    let recording = recording.to_str().unwrap();
    for step in 1..=8 {
        let (live, most) = (own[&format!("live{step}")], own[&format!("most{step}")]);
        assert_eq!(held(&scratch, &format!("{recording}@..step{step}")), live, "live at mark {step}");
        let window = format!("{recording}@peak:step{}..step{step}", step - 1);
        assert_eq!(held(&scratch, &window), most, "highest up to mark {step}");
    }
}

/// A mark is its own point, with events of all threads in the same millisecond before and behind
/// it.
#[test]
fn at_a_mark_every_threads_bytes_are_exact() {
    let scratch = Scratch::new();
    let recording = scratch.path("marks.hwr");
    let own = scratch.record("thread_marks", &["12"], &recording);
    let recording = recording.to_str().unwrap();
    for mark in 1..=12 {
        let live = own[&format!("live{mark}")];
        assert_eq!(held(&scratch, &format!("{recording}@meeting {mark}")), live, "live at mark {mark}");
        let (young, from) = (own[&format!("young{mark}")], format!("meeting {}", mark - 1));
        let from = if mark > 1 { from } else { String::new() };
        let since = held(&scratch, &format!("{recording}@{from}..meeting {mark}"));
        assert_eq!(since, young, "allocated since the mark before {mark}");
    }
    assert_eq!(held(&scratch, &format!("{recording}@end")), own["inuse_bytes"]);
}

/// A flight recorder has summed up what is older, and knows all that is live; every mark is written
/// down.
#[test]
fn a_ring_remembers_what_is_live() {
    let scratch = Scratch::new();
    let mut run = scratch.heapwise(&["run", "--log", "-q", "--ring", "0.2s", "-o", "ring.hwr", "--"]);
    let output = run.arg(victims().join("steps")).arg("20").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let own = witness(&output);
    assert_eq!(held(&scratch, "ring.hwr@end"), own["inuse_bytes"]);
    let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", "ring.hwr"]);
    assert_eq!(top["total"], own["alloc_bytes"]);
    assert_eq!(held(&scratch, "ring.hwr@peak:step19..step20"), own["most20"]);
    let steps = scratch.json_of(&["timeline", "--json", "ring.hwr"]);
    assert!(steps[0][0].as_u64() > Some(0), "the oldest events are still there: {steps}");
    assert!(held(&scratch, "ring-step10.hwr") > 0, "a dump at the mark");
}

/// Each file begins with the sum of all before it: together, and the last one alone, they have the
/// program's account.
#[test]
fn rotated_files_are_readable_alone_and_together() {
    let scratch = Scratch::new();
    let output = scratch
        .heapwise(&["run", "--log", "--block", "10s", "--rotate", "4K", "--keep", "3", "-o", "app.hwr", "--"])
        .arg(victims().join("tortured"))
        .args(["account", "1000", "2"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let own = witness(&output);
    let mut files: Vec<String> = std::fs::read_dir(scratch.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("app-"))
        .collect();
    files.sort_by_key(|name| (name.len(), name.clone()));
    assert!((2..=3).contains(&files.len()), "{files:?}");
    for file in &files {
        scratch.output_of(&["timeline", "--json", file]);
        scratch.output_of(&["summary", file]);
    }
    for file in ["app.hwr", files.last().unwrap()] {
        for (metric, name) in heapwise_testkit::account::METRICS {
            let top = scratch.json_of(&["top", "--json", &format!("--{metric}"), "--focus", "^w_", file]);
            assert_eq!(top["total"].as_i64(), Some(own[name]), "{file}: {metric}");
        }
    }
}

fn torture() -> (Scratch, Torture) {
    let scratch = Scratch::new();
    let torture = Torture {
        heapwise: env!("CARGO_BIN_EXE_heapwise").into(),
        victim: victims().join("tortured"),
        scratch: scratch.path(""),
    };
    (scratch, torture)
}

#[test]
fn a_killed_program_loses_nothing() {
    let (_scratch, torture) = torture();
    for after in [0, 30, 333] {
        torture.round(Killed::Program, Duration::from_millis(after)).unwrap();
    }
}

#[test]
fn a_killed_recorder_leaves_a_readable_file_and_a_running_program() {
    let (_scratch, torture) = torture();
    for after in [0, 150, 900] {
        torture.round(Killed::Recorder, Duration::from_millis(after)).unwrap();
    }
}

#[test]
#[ignore = "long"]
fn random_kills() {
    let (_scratch, torture) = torture();
    torture.run(6, 42).unwrap();
}

/// Whether the victim's function is named in a report that finds no symbols but those in the file.
fn names_the_function(scratch: &Scratch, recording: &str) -> bool {
    scratch.output_of(&["top", "--alloc_space", "--no-cache", recording]).contains("w_malloc")
}

#[test]
fn embedded_symbols_open_without_the_binary() {
    let scratch = Scratch::new();
    let (program, account) = (scratch.path("gone"), scratch.path("account"));
    for (recording, options) in [("with.hwr", &["--embed-symbols"][..]), ("later.hwr", &[])] {
        std::fs::copy(victims().join("tortured"), &program).unwrap();
        let status = scratch
            .heapwise(&["run", "--log", "-q", "-o", recording])
            .args(options)
            .arg("--")
            .arg(&program)
            .args([account.to_str().unwrap(), "300", "1"])
            .status()
            .unwrap();
        assert!(status.success());
        if options.is_empty() {
            scratch.output_of(&["symbolize", recording]);
        }
        std::fs::remove_file(&program).unwrap();
        assert!(
            names_the_function(&scratch, recording),
            "{recording}: {}",
            scratch.output_of(&["top", "--alloc_space", recording])
        );
        scratch.output_of(&["timeline", "--json", recording]);
        scratch.output_of(&["summary", "-j", "3", "--progress", recording]);
    }
}

#[test]
fn without_embedded_symbols_a_missing_binary_leaves_addresses() {
    let scratch = Scratch::new();
    let (program, account) = (scratch.path("gone"), scratch.path("account"));
    std::fs::copy(victims().join("tortured"), &program).unwrap();
    let account = account.to_str().unwrap();
    let status = scratch
        .heapwise(&["run", "--log", "-q", "-o", "plain.hwr", "--"])
        .arg(&program)
        .args([account, "500", "1"])
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::remove_file(&program).unwrap();
    assert!(!names_the_function(&scratch, "plain.hwr"));
}

/// Each finding ends with the command to go on with, which works.
#[test]
fn the_next_commands_of_a_summary_work() {
    let scratch = Scratch::new();
    let recording = scratch.path("app.hwr");
    scratch.record("handed_over", &[], &recording);
    let summary = scratch.json_of(&["summary", "--all", "--json", "app.hwr"]);
    let commands = summary["findings"].as_array().unwrap().iter().map(|finding| &finding["next"]);
    let commands: Vec<String> =
        commands.map(|next| next.as_str().unwrap().replace("FILE", "app.hwr")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(!scratch.output_of(&words).is_empty(), "{command}");
    }
}

/// Names of marks that look like moments, ranges, paths or targets.
#[test]
fn every_mark_can_be_reached_whatever_its_name() {
    let scratch = Scratch::new();
    let names =
        ["user@host", "a/b", "peak", "..", "%", "50%", "1s..2s", "end", "mark:x", "a b", "99s", "r.hwr@x"];
    let recording = scratch.path("r.hwr");
    let counted = scratch.record("named_marks", &names, &recording);
    let live = |target: &[&str]| {
        let arguments = [target, &["--json", "--focus", "^w_"]].concat();
        scratch.json_of(&arguments)["total"].as_i64().expect("a total")
    };
    for (number, name) in (1..).zip(names) {
        let truth = counted[&format!("live_at_{number}")];
        let marked = format!("mark:{name}");
        assert_eq!(live(&["at", "r.hwr", &marked]), truth, "{name}");
        assert_eq!(live(&["top", &format!("r.hwr@{marked}")]), truth, "{name}");
        if !["peak", "end"].contains(&name) {
            assert_eq!(live(&["at", "r.hwr", name]), truth, "{name}");
            assert_eq!(live(&["top", &format!("r.hwr@{name}")]), truth, "{name}");
        }
    }
    let whole = counted["inuse_bytes"];
    assert_eq!((live(&["at", "r.hwr", "peak"]), live(&["at", "r.hwr", "end"])), (whole, whole));
    let from_peak = live(&["at", "r.hwr", "peak..end"]);
    assert!((1..=whole).contains(&from_peak), "{from_peak} of {whole}");
}

#[test]
fn a_moment_outside_the_recording_is_an_error_that_names_its_length() {
    let scratch = Scratch::new();
    scratch.record("named_marks", &["a"], &scratch.path("r.hwr"));
    let error = |arguments: &[&str]| {
        let output = scratch.heapwise(arguments).output().expect("heapwise starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in [
        &["at", "r.hwr", "9h"][..],
        &["top", "r.hwr@9h"],
        &["at", "r.hwr", "0..9h"],
        &["diff", "r.hwr@9h", "r.hwr"],
    ] {
        let said = error(arguments);
        assert!(said.contains("after the end: the recording covers "), "{arguments:?}: {said}");
    }
    assert!(error(&["at", "--step", "15ms", "r.hwr", "0"]).contains("multiple of 10 ms"));
    assert!(error(&["timeline", "--step", "15ms", "r.hwr"]).contains("multiple of 10 ms"));
    scratch.output_of(&["timeline", "--step", "30ms", "r.hwr"]);
}

/// `symbolize` of numbered files reports on all of them.
#[test]
fn names_of_all_numbered_files_are_counted() {
    let scratch = Scratch::new();
    scratch.record("steps", &["1"], &scratch.path("app-1.hwr"));
    scratch.record("named_marks", &["a"], &scratch.path("app-2.hwr"));
    let addresses = |file: &str, arguments: &[&str]| -> u64 {
        let output = scratch.heapwise(&["symbolize", file]).args(arguments).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(output.status.success() && numbers.len() == 2, "{said}");
        numbers[1]
    };
    let alone = ["1", "2"]
        .map(|number| addresses(&format!("app-{number}.hwr"), &["-o", &format!("copy{number}.hwr")]));
    let all = addresses("app.hwr", &[]);
    assert!(all > alone[0].max(alone[1]) && all <= alone[0] + alone[1], "{all} of {alone:?}");
}

/// What a report of an earlier moment covers does not reach to the end of the program.
#[test]
fn only_the_last_moment_covers_the_end() {
    let scratch = Scratch::new();
    let (account, recording) = (scratch.path("account"), scratch.path("timeline.hwr"));
    scratch.record("timeline", &[account.to_str().unwrap(), "300"], &recording);
    for (moment, is_last) in [("10ms", false), ("end", true)] {
        let report = scratch.output_of(&["top", &format!("{}@{moment}", recording.display())]);
        assert!(report.contains("from the start of the program"), "{report}");
        assert_eq!(report.contains("to its end"), is_last, "{moment}: {report}");
    }
}

/// A profile has no moments; the answer names what shows its peak.
#[test]
fn a_moment_of_a_profile_is_refused_with_the_way_to_its_peak() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "plain", &["100", "1"]);
    let profile = capture.profile.to_str().unwrap();
    for arguments in [["at", profile, "peak"].as_slice(), &["top", &format!("{profile}@peak")]] {
        let output = scratch.heapwise(arguments).output().expect("heapwise starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("--sample_index peak_space"), "{text}");
    }
}
