//! jemalloc's guide, chapter by chapter, over plain glibc: options by environment, dumps by
//! themselves and by `mallctl`, with the real `jeprof` as the reader.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::harness::{Scratch, victims, witness};

const VICTIM: &str = "jemalloc_guide";

/// One run of a chapter.
struct Run<'a> {
    scratch: &'a Scratch,
    output: Output,
    witness: BTreeMap<String, i64>,
}

impl<'a> Run<'a> {
    /// Under `MALLOC_CONF`, as a user of jemalloc has it.
    fn new(scratch: &'a Scratch, conf: &str, chapter: &str) -> Self {
        let library = scratch.output_of(&["preload"]);
        Self::over(scratch, library.trim(), conf, chapter)
    }

    fn over(scratch: &'a Scratch, preload: &str, conf: &str, chapter: &str) -> Self {
        let output = scratch
            .command(victims().join(VICTIM))
            .arg(chapter)
            .env("LD_PRELOAD", preload)
            .env("MALLOC_CONF", conf)
            .output()
            .expect("victim starts");
        Self { scratch, witness: witness(&output), output }
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn path(&self, tail: &str) -> PathBuf {
        self.scratch.path(&format!("jeprof.{}.{tail}.heap", self.witness["pid"]))
    }

    /// Names of all dumps, less prefix and suffix, in the order they were written.
    fn dumps(&self) -> Vec<String> {
        let mut names: Vec<(i64, u64, String)> = std::fs::read_dir(self.scratch.path("."))
            .expect("scratch")
            .filter_map(|entry| entry.expect("entry").file_name().into_string().ok())
            .filter_map(|name| {
                let rest = name.strip_prefix("jeprof.")?.strip_suffix(".heap")?;
                let (pid, tail) = rest.split_once('.')?;
                let number = tail.split_once('.')?.0.parse().ok()?;
                Some((pid.parse().ok()?, number, tail.to_owned()))
            })
            .collect();
        names.sort();
        names.into_iter().filter(|(pid, ..)| *pid == self.witness["pid"]).map(|(.., tail)| tail).collect()
    }

    /// Rows of the real jeprof: name to cumulative bytes.
    fn jeprof(&self, arguments: &[&str], dump: &str) -> BTreeMap<String, i64> {
        let output = Command::new("jeprof")
            .args(["--text", "--show_bytes"])
            .args(arguments)
            .arg(victims().join(VICTIM))
            .arg(self.path(dump))
            .output()
            .expect("jeprof (Debian: libjemalloc-dev) is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .skip(1)
            .filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                Some(((*fields.get(5)?).to_owned(), fields.get(3)?.parse().ok()?))
            })
            .collect()
    }
}

/// The guide's chapters over jemalloc itself and over the probe: the same files, and jeprof finds
/// the same functions with the same bytes, but for what a size class adds.
#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn the_guide_over_jemalloc_and_over_the_probe() {
    let scratch = Scratch::new();
    for (conf, chapter, dump) in [
        ("prof_leak:true,lg_prof_sample:0,prof_final:true", "leak", "0.f"),
        ("prof:true,lg_prof_sample:0,lg_prof_interval:20", "grow", "7.i7"),
        ("prof:true,lg_prof_sample:0", "dump", "0.m0"),
        ("prof:true,prof_active:false,lg_prof_sample:0", "switched", "0.m0"),
        ("prof:true,lg_prof_sample:0", "reset", "0.m0"),
    ] {
        let ours = Run::new(&scratch, conf, chapter);
        let jemallocs = Run::over(&scratch, "libjemalloc.so.2", conf, chapter);
        assert_eq!(ours.dumps(), jemallocs.dumps(), "{chapter}");
        let (rows, expected) = (ours.jeprof(&[], dump), jemallocs.jeprof(&[], dump));
        let sites = ["do_something", "do_something_else", "w_malloc", "leak", "grow", "main"];
        for site in sites {
            match (rows.get(site), expected.get(site)) {
                (None, None) => {}
                (Some(bytes), Some(classes)) => {
                    let added = *classes as f64 / *bytes as f64;
                    // An interval dump of jemalloc's is written before the block that made it due
                    // counts.
                    assert!((0.99..1.25).contains(&added), "{chapter}: {site} {bytes}, jemalloc {classes}");
                }
                different => panic!("{chapter}: {site} {different:?}"),
            }
        }
        assert!(rows.contains_key("w_malloc"), "{chapter}: {rows:?}");
    }
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn leaks_at_exit_are_told_and_jeprof_finds_them() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof_leak:true,lg_prof_sample:0,prof_final:true", "leak");
    assert!(run.output.status.success());
    let leaked = run.jeprof(&[], "0.f")["leak"];
    assert_eq!(leaked, run.witness["inuse_bytes"]);
    let stderr = run.stderr();
    let expected = format!(
        "<heapwise>: Leak approximation summary: ~{leaked} bytes, ~{} objects, >= 2 contexts\n",
        run.witness["inuse_objects"]
    );
    assert!(stderr.starts_with(&expected), "{stderr}");
    // The buffer that its `printf` made.
    let of_runtime = "<heapwise>: Not counted: ~4096 bytes, ~1 object of the C and C++ runtimes\n";
    assert!(stderr.contains(of_runtime), "{stderr}");
    let file =
        format!("<heapwise>: Run jeprof on \"jeprof.{}.0.f.heap\" for leak detail\n", run.witness["pid"]);
    assert!(stderr.ends_with(&file), "{stderr}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn an_exit_because_of_leaks_loses_nothing() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,prof_leak_error:true,prof_final:true,lg_prof_sample:0", "leak");
    assert_eq!(run.output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.output.stdout).ends_with("goodbye"), "what stdio held is written");
    assert!(run.stderr().contains("<heapwise>: Exiting with error code because memory leaks were detected"));
    assert_eq!(run.jeprof(&[], "0.f")["leak"], run.witness["inuse_bytes"]);
}

#[test]
fn known_leaks_are_suppressed() {
    let scratch = Scratch::new();
    let file = scratch.path("known.supp");
    std::fs::write(&file, "# all of it\nleak:^do_something_else$\n").expect("written");
    let conf = format!(
        "prof:true,prof_leak_error:true,prof_final:true,lg_prof_sample:0,prof_leak_suppressions:{}",
        file.display()
    );
    let run = Run::new(&scratch, &conf, "leak");
    let suppressed: i64 = (0..40).map(|n| n * 4096).sum();
    let left = run.witness["inuse_bytes"] - suppressed;
    let stderr = run.stderr();
    let summary =
        format!("<heapwise>: Leak approximation summary: ~{left} bytes, ~80 objects, >= 1 context\n");
    assert!(stderr.starts_with(&summary), "{stderr}");
    assert!(
        stderr.contains(&format!("<heapwise>: Suppressed: ~{suppressed} bytes, ~40 objects\n")),
        "{stderr}"
    );
    assert_eq!(run.output.status.code(), Some(1));

    std::fs::write(&file, "leak:do_some*\n").expect("written");
    let run = Run::new(&scratch, &conf, "leak");
    assert_eq!((run.output.status.code(), run.stderr().as_str()), (Some(0), ""), "nothing is left");

    std::fs::write(&file, "leak:jemalloc_guide\n").expect("written");
    let run = Run::new(&scratch, &conf, "leak");
    assert_eq!(run.output.status.code(), Some(0), "a whole binary");

    // The same file on the command line, where names are those of the debug information.
    std::fs::write(&file, "leak:^do_something_else$\n").expect("written");
    let profile = run.path("0.f");
    let profile = profile.to_str().expect("UTF-8");
    let supp = file.to_str().expect("UTF-8");
    let leaks = scratch.json_of(&["leaks", "--json", "--suppressions", supp, profile]);
    assert_eq!(leaks["total"].as_i64(), Some(left), "{leaks}");
    let mut check = scratch.heapwise(&["check", "--max-leaked", "0", "--suppressions", supp, profile]);
    assert_eq!(check.output().expect("starts").status.code(), Some(1));
    std::fs::write(&file, "leak:do_some\n").expect("written");
    let mut check = scratch.heapwise(&["check", "--max-leaked", "0", "--suppressions", supp, profile]);
    assert_eq!(check.output().expect("starts").status.code(), Some(0), "the runtime's buffer is no leak");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn sampled_dumps_give_jeprof_an_unbiased_estimate() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:12,prof_final:true", "leak");
    let (told, true_bytes) = (run.jeprof(&[], "0.f")["leak"] as f64, run.witness["inuse_bytes"] as f64);
    // Blocks up to 160 KiB at one sample per 4 KiB: the standard error is about 0.3 %.
    assert!((told / true_bytes - 1.0).abs() < 0.03, "{told} of {true_bytes}");
    let dump = run.path("0.f");
    let top = scratch.json_of(&["top", "--json", "--focus", "^leak$", dump.to_str().expect("UTF-8")]);
    let ours = top["total"].as_f64().expect("a total");
    assert!((ours / told - 1.0).abs() < 0.001, "heapwise reads {ours}, jeprof {told}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn interval_dumps_and_their_difference() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,lg_prof_interval:20", "grow");
    let expected: Vec<String> = (0..8).map(|n| format!("{n}.i{n}")).collect();
    assert_eq!(run.dumps(), expected, "8 MiB by 1 MiB");
    let base = format!("--base={}", run.path("3.i3").display());
    assert_eq!(run.jeprof(&[&base], "7.i7")["grow"], 4 << 20);
    let same = format!("--base={}", run.path("7.i7").display());
    assert!(run.jeprof(&[&same], "7.i7").is_empty(), "a self-difference is nothing");
}

#[test]
fn only_the_last_dumps_are_kept() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,lg_prof_interval:18,prof_dump_keep:3", "grow");
    assert_eq!(run.dumps(), ["29.i29", "30.i30", "31.i31"]);
}

#[test]
fn threads_that_dump_at_once_take_turns() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,lg_prof_interval:16,prof_dump_keep:4";
    let run = Run::new(&scratch, conf, "threads");
    let dumps = run.dumps();
    assert!((1..=4).contains(&dumps.len()), "{dumps:?}");
    // The last may be cut off by the end of the process.
    for dump in dumps.iter().rev().skip(1) {
        let text = std::fs::read_to_string(run.path(dump)).expect("a dump");
        assert!(
            text.starts_with("heap_v2/0\n") && text.contains("# heapwise build-id "),
            "{dump} is damaged"
        );
    }
}

#[test]
fn highs_are_dumped_in_steps() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_gdump:true,prof_gdump_step:2097152";
    let run = Run::new(&scratch, conf, "grow");
    assert_eq!(run.dumps(), ["0.u0", "1.u1", "2.u2", "3.u3"]);
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn a_dump_on_demand() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0", "dump");
    assert_eq!(run.witness["automatic_name"], 0);
    assert_eq!(run.witness["given_name"], 0);
    assert_eq!(run.witness["no_directory"], 14, "EFAULT");
    assert_eq!(run.dumps(), ["0.m0"]);
    assert_eq!(run.jeprof(&[], "0.m0")["leak"], run.witness["inuse_bytes"]);
    assert!(scratch.path("given.heap").exists());
    assert_eq!(run.stderr(), "", "who asks is told by the result");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn recording_is_switched_while_running() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,prof_active:false,lg_prof_sample:0", "switched");
    for result in ["switched_on", "switched_off", "dumped"] {
        assert_eq!(run.witness[result], 0, "{result}");
    }
    let rows = run.jeprof(&[], "0.m0");
    assert_eq!(rows["do_something_else"], (0..40).map(|n| n * 4096).sum::<i64>());
    assert!(!rows.contains_key("do_something"), "{rows:?}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn a_reset_forgets_and_a_thread_is_passed_over() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0", "reset");
    for result in ["reset", "thread_off", "thread_on", "dumped"] {
        assert_eq!(run.witness[result], 0, "{result}");
    }
    let rows = run.jeprof(&[], "0.m0");
    assert_eq!(rows["do_something"], (0..80).map(|n| n * 1024).sum::<i64>());
    assert!(!rows.contains_key("do_something_else"), "{rows:?}");
}

#[test]
fn a_program_carries_its_options_and_runtimes_do_not_leak() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let run = |arguments: &[&str]| {
        let mut command = scratch.command(victims().join("jemalloc_conf"));
        command.args(arguments).env("LD_PRELOAD", library.trim()).output().expect("victim starts")
    };
    let clean = run(&[]);
    assert_eq!((clean.status.code(), String::from_utf8_lossy(&clean.stderr).as_ref()), (Some(0), ""));
    let leaky = run(&["leak"]);
    assert_eq!(leaky.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&leaky.stderr).into_owned();
    let summary = "<heapwise>: Leak approximation summary: ~1000 bytes, ~1 object, >= 1 context\n";
    assert!(stderr.starts_with(summary) && stderr.contains("\"carried."), "{stderr}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn sizes_and_errnos_are_jemallocs() {
    let scratch = Scratch::new();
    let ours = Run::new(&scratch, "prof:true", "strict");
    let mut command = scratch.command(victims().join(VICTIM));
    command.arg("strict").env("LD_PRELOAD", "libjemalloc.so.2").env("MALLOC_CONF", "prof:true");
    let mut jemallocs = witness(&command.output().expect("victim starts"));
    assert_eq!(jemallocs["prof"], 1, "libjemalloc.so.2 with profiling is installed");
    jemallocs.insert("pid".to_owned(), ours.witness["pid"]);
    assert_eq!(ours.witness, jemallocs);
}

/// What every name answers to every kind of call.
fn answers(scratch: &Scratch, preload: &str, conf: &str) -> BTreeMap<String, i64> {
    let mut command = scratch.command(victims().join("mallctl_names"));
    let output = command.env("LD_PRELOAD", preload).env("MALLOC_CONF", conf).output().expect("victim starts");
    assert!(output.status.success(), "{preload}: {output:?}");
    witness(&output)
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn every_name_answers_as_jemalloc_does() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let confs = [
        "prof:true",
        "prof:false",
        "prof:true,prof_active:false,prof_stats:true,prof_sys_thread_name:true",
        "prof:true,lg_prof_sample:10,lg_prof_interval:20,prof_accum:true,prof_recent_alloc_max:7",
    ];
    for conf in confs {
        let (jemallocs, ours) =
            (answers(&scratch, "libjemalloc.so.2", conf), answers(&scratch, library.trim(), conf));
        assert!(jemallocs.len() > 1200, "{} answers", jemallocs.len());
        let differing: Vec<_> = jemallocs
            .iter()
            .filter(|(question, answer)| ours.get(*question) != Some(*answer))
            .map(|(question, answer)| format!("{question}: {answer}, here {:?}", ours.get(question)))
            // jemalloc reads the system's name of a thread when it samples a block of it, the probe
            // when the name is read.
            .filter(|line| {
                !(conf.contains("sys_thread_name") && line.starts_with("thread.prof.name/length_"))
            })
            .collect();
        assert!(differing.is_empty(), "{conf}: {differing:#?}");
    }
}

/// Names of jemalloc's allocator, not of its profiler: over another allocator there is nothing to
/// answer.
#[test]
fn the_allocators_own_names_are_unknown() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true", "foreign");
    let names: Vec<_> = run.witness.iter().filter(|(name, _)| name.contains('.')).collect();
    assert!(names.len() >= 8 && names.iter().all(|(_, errno)| **errno == 2), "{names:?}");
}

/// Bytes of threads and sizes of blocks have a meaning over any allocator. jemalloc itself passes
/// the same checks.
#[test]
fn bytes_of_threads_and_sizes_of_blocks_are_known() {
    let scratch = Scratch::new();
    let check = |run: &Run<'_>| {
        let of = |names: &[&str]| names.iter().map(|name| run.witness[*name]).collect::<Vec<_>>();
        assert_eq!(of(&["own.allocated", "page", "quantum"]), [1, 1, 16], "{:?}", run.output);
        assert_eq!(of(&["wrong_sizes", "thread.allocated", "written"]), [0, 0, 1], "{:?}", run.output);
    };
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,prof_stats:true", "blocks");
    check(&run);
    let bytes = ["other.allocated", "other.deallocated", "own.deallocated"].map(|name| run.witness[name]);
    assert_eq!(bytes, [75_000, 70_000, 1000]);
    let classes = ["nbins", "nlextents", "bin", "lextent", "no_bin"].map(|name| run.witness[name]);
    assert_eq!(classes, [36, 196, 14_336, 16_384, 2]);
    // Not every block is recorded, so the bytes are unknown.
    let sampled = Run::new(&scratch, "prof:true,lg_prof_sample:19", "blocks");
    assert_eq!(sampled.witness["thread.allocated"], 2);
}

#[test]
#[ignore = "needs libjemalloc"]
fn jemalloc_passes_the_same_checks() {
    let scratch = Scratch::new();
    let run = Run::over(&scratch, "libjemalloc.so.2", "prof:true,prof_stats:true", "blocks");
    let names =
        ["wrong_sizes", "narenas", "page", "quantum", "nbins", "nlextents", "bin", "lextent", "no_bin"];
    assert_eq!(names.map(|name| run.witness[name]), [0, 1, 1, 16, 36, 196, 14_336, 16_384, 2]);
}

/// Over jemalloc, dumps count usable bytes as jemalloc's own: both dumps of one kind of run have
/// the same bytes in the program's functions, and so has `--usable`.
#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn usable_bytes_equal_jemallocs() {
    let scratch = Scratch::new();
    let conf = "prof:true,prof_leak:true,lg_prof_sample:0,prof_final:true";
    let jemallocs = Run::over(&scratch, "libjemalloc.so.2", conf, "leak");
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join(VICTIM));
    let both = format!("{} libjemalloc.so.2", library.trim());
    let output = command.arg("leak").env("LD_PRELOAD", both).env("HEAPWISE_CONF", conf).output();
    let output = output.expect("victim starts");
    let ours = Run { scratch: &scratch, witness: witness(&output), output };
    let rows = |run: &Run<'_>| run.jeprof(&[], "0.f")["do_something"];
    assert!(rows(&jemallocs) > jemallocs.witness["inuse_bytes"] / 2);
    assert_eq!(rows(&ours), rows(&jemallocs));
    let mut command = scratch.heapwise(&["run", "-q", "--exact", "-o", "all.heap", "--"]);
    let run = command.arg(victims().join(VICTIM)).arg("leak").env("LD_PRELOAD", "libjemalloc.so.2").output();
    assert!(run.expect("heapwise starts").status.success());
    let top = scratch.json_of(&["top", "--usable", "--json", "--focus", "^do_something$", "all.heap"]);
    assert_eq!(top["total"].as_i64(), Some(rows(&jemallocs)));
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn a_jemalloc_underneath_is_asked_itself() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let both = format!("{} libjemalloc.so.2", library.trim());
    let mut command = scratch.command(victims().join(VICTIM));
    command.arg("dump").env("LD_PRELOAD", both).env("MALLOC_CONF", "prof:true,lg_prof_sample:0");
    let witness = witness(&command.output().expect("victim starts"));
    assert_eq!((witness["automatic_name"], witness["no_directory"]), (0, 14));
    let dump = scratch.path(&format!("jeprof.{}.0.m0.heap", witness["pid"]));
    let text = std::fs::read_to_string(dump).expect("jemalloc's dump");
    assert!(text.starts_with("heap_v2/1\n") && !text.contains("# heapwise"), "{text}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn a_forked_child_writes_its_own_files() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,prof_final:true", "fork");
    assert_eq!(run.witness["child"], 0);
    assert_eq!(run.dumps(), ["0.f"]);
    assert_eq!(run.jeprof(&[], "0.f")["leak"], run.witness["inuse_bytes"]);
    let child = scratch.path(&format!("jeprof.{}.0.f.heap", run.witness["child_pid"]));
    let text = std::fs::read_to_string(child).expect("the child's dump");
    assert!(text.contains("  t*: 32: 4194304 [0: 0]\n"), "{text}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn the_last_dump_is_whole_while_64_threads_end() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,prof_final:true", "threads");
    assert_eq!(run.dumps(), ["0.f"]);
    let text = std::fs::read_to_string(run.path("0.f")).expect("a dump");
    assert!(text.contains("\nMAPPED_LIBRARIES:\n") && text.contains("# heapwise build-id "), "cut off");
    assert_eq!(
        run.jeprof(&[], "0.f")["leak"],
        (0..80).map(|n| n * 1024).sum::<i64>() + (0..40).map(|n| n * 4096).sum::<i64>()
    );
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn the_last_dump_is_whole_when_64_threads_call_exit() {
    let scratch = Scratch::new();
    let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,prof_final:true", "exits");
    assert_eq!(run.dumps(), ["0.f"]);
    assert_eq!(run.jeprof(&[], "0.f")["w_malloc"], run.witness["inuse_bytes"]);
    let text = std::fs::read_to_string(run.path("0.f")).expect("a dump");
    assert!(text.contains("# heapwise build-id "), "cut off");
}

#[test]
fn the_last_dump_is_whole_when_main_returns_while_another_thread_exits() {
    let scratch = Scratch::new();
    for chapter in ["race_handler", "race_destructor"] {
        let run = Run::new(&scratch, "prof:true,lg_prof_sample:0,prof_final:true", chapter);
        assert!(run.output.status.success(), "{chapter}: {:?}", run.output.status);
        assert_eq!(run.dumps(), ["0.f"], "{chapter}");
        let text = std::fs::read_to_string(run.path("0.f")).expect("a dump");
        assert!(text.contains("# heapwise build-id "), "{chapter}: cut off");
        let dump = run.path("0.f");
        let top = scratch.json_of(&["top", "--json", "--focus", "^w_", dump.to_str().expect("UTF-8")]);
        assert_eq!(top["total"].as_i64(), Some(run.witness["inuse_bytes"]), "{chapter}");
    }
}

#[test]
fn diagnostics_are_jemallocs() {
    let scratch = Scratch::new();
    let cases = [
        ("prof:yes", "Invalid conf value: prof:yes"),
        ("proof:true", "Invalid conf pair: proof:true"),
        ("prof", "Conf string ends with key"),
        ("prof:false,", "Conf string ends with comma"),
        ("prof=true", "Malformed conf string"),
        ("lg_prof_interval:64", "Out-of-range conf value: lg_prof_interval:64"),
        ("prof_leak_error:true", "prof_leak_error is set w/o prof_final."),
    ];
    for (conf, message) in cases {
        assert_eq!(Run::new(&scratch, conf, "none").stderr(), format!("<heapwise>: {message}\n"), "{conf}");
    }
    assert_eq!(Run::new(&scratch, "lg_prof_sample:99,narenas:1", "none").stderr(), "");
    let confirmed = Run::new(&scratch, "confirm_conf:true,prof:false", "none").stderr();
    let lines = "<heapwise>: malloc_conf #4 (value of the environment variable MALLOC_CONF): \
                 \"confirm_conf:true,prof:false\"\n\
                 <heapwise>: -- Set conf value: confirm_conf:true\n<heapwise>: -- Set conf value: prof:false\n";
    assert!(confirmed.ends_with(lines), "{confirmed}");
}

#[test]
fn a_bad_option_aborts_when_asked_to() {
    use std::os::unix::process::ExitStatusExt;
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join(VICTIM));
    command.env("LD_PRELOAD", library.trim()).env("MALLOC_CONF", "abort_conf:true,prof:what");
    let output = command.output().expect("victim starts");
    assert_eq!(output.status.signal(), Some(6));
    let last = "<heapwise>: Abort (abort_conf:true) on invalid conf value (see above).\n";
    assert!(String::from_utf8_lossy(&output.stderr).ends_with(last));
}

#[test]
fn our_own_options_are_silent_and_rule_alone() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join(VICTIM));
    command.arg("leak").env("LD_PRELOAD", library.trim());
    command.env("HEAPWISE_CONF", "mode:exact,nonsense:1").env("MALLOC_CONF", "prof:what,prof_final:true");
    let output = command.output().expect("victim starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let pid = witness(&output)["pid"];
    assert!(!scratch.path(&format!("jeprof.{pid}.0.f.heap")).exists());
}

#[test]
fn the_allocator_tells_its_statistics() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join("live_switch"));
    command.env("LD_PRELOAD", library.trim()).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("victim starts");
    let pid = child.id().to_string();
    let stats = || scratch.heapwise(&["stats", "--json", &pid]).output().expect("heapwise starts").stdout;
    // The first answers may come from before the victim's first block.
    let found = (0..3000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let all: serde_json::Value = serde_json::from_slice(&stats()).ok()?;
        let told = all.get(0)?["allocator_stats"].clone();
        told["allocated"].as_u64().is_some_and(|bytes| bytes > 0).then_some(told)
    });
    drop(child.stdin.take());
    child.kill().expect("killed");
    child.wait().expect("waited for");
    let told = found.expect("an answer");
    let number = |name: &str| told[name].as_u64().expect("a number");
    assert!(number("allocated") <= number("mapped"), "{told}");
    assert!(number("resident") <= number("mapped") && number("active") <= number("mapped"), "{told}");
}
