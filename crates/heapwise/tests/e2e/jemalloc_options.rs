//! jemalloc's options that need a stage of their own: where they come from, and what each changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::harness::{Scratch, victims, witness};

/// A run of the guide's program under options; its output and what it says.
fn run(scratch: &Scratch, conf: &str, chapter: &str) -> (Output, BTreeMap<String, i64>) {
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join("jemalloc_guide"));
    command.arg(chapter).env("LD_PRELOAD", library.trim()).env("MALLOC_CONF", conf);
    let output = command.output().expect("victim starts");
    let told = witness(&output);
    (output, told)
}

fn text_of(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(scratch: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(scratch.path(".")).expect("scratch");
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.expect("entry").file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".heap"));
    names.sort();
    names
}

/// In a namespace of its own, where `/etc` is ours; skipped where the kernel does not allow that.
#[test]
fn the_link_in_etc_is_read_and_the_variable_overrides_it() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let script = format!(
        "mount -t tmpfs tmpfs /etc && ln -s prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:linked /etc/malloc.conf \
         && LD_PRELOAD={} exec {} leak",
        library.trim(),
        victims().join("jemalloc_guide").display()
    );
    let mut command = scratch.command("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    let allowed = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this kernel gives no namespaces to users");
        return;
    }
    let told = witness(&command.output().expect("unshare starts"));
    assert_eq!(names(&scratch), [format!("linked.{}.0.f.heap", told["pid"])]);
    let told = witness(&command.env("MALLOC_CONF", "prof_prefix:set").output().expect("unshare starts"));
    assert!(names(&scratch).contains(&format!("set.{}.0.f.heap", told["pid"])), "{:?}", names(&scratch));
}

#[test]
fn new_threads_may_begin_unrecorded() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_thread_active_init:false,prof_final:true,prof_accum:true";
    let (_, told) = run(&scratch, conf, "threads");
    let text = text_of(scratch.path(&format!("jeprof.{}.0.f.heap", told["pid"])));
    assert!(text.starts_with("heap_v2/0\n  t*: 0: 0 [0: 0]\n"), "{text}");
}

#[test]
fn the_pid_namespace_is_in_names() {
    let scratch = Scratch::new();
    let (_, told) = run(&scratch, "prof:true,prof_final:true,prof_pid_namespace:true", "leak");
    let link = std::fs::read_link("/proc/self/ns/pid").expect("a link");
    let link = link.to_str().expect("UTF-8");
    let number = link.trim_start_matches("pid:[").trim_end_matches(']');
    assert_eq!(names(&scratch), [format!("jeprof.{number}.{}.0.f.heap", told["pid"])]);
}

/// Two distances in one dump: estimates, or counts of samples as they are.
#[test]
fn counts_are_raw_where_they_are_not_to_be_unbiased() {
    let scratch = Scratch::new();
    let header = |conf: &str| {
        let (_, told) = run(&scratch, conf, "two_rates");
        assert_eq!(told["dumped"], 0);
        let text = text_of(scratch.path(&format!("jeprof.{}.0.m0.heap", told["pid"])));
        let mut lines = text.lines();
        let rate = lines.next().expect("a header").to_owned();
        let total = lines.next().expect("a total").trim_start_matches("  t*: ");
        let blocks: u64 = total.split(':').next().expect("blocks").parse().expect("a number");
        (rate, blocks)
    };
    let (rate, blocks) = header("prof:true,lg_prof_sample:12");
    assert_eq!(rate, "heap_v2/0", "jeprof is not to scale");
    assert!((1500..2500).contains(&blocks), "{blocks} of 2000 blocks; the standard error is about 130");
    let (rate, samples) = header("prof:true,lg_prof_sample:12,prof_unbias:false");
    assert_eq!(rate, "heap_v2/65536", "the distance in force");
    assert!((500..900).contains(&samples), "{samples} samples, 632 + 61 expected");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn recording_by_the_clock() {
    let scratch = Scratch::new();
    let (_, told) = run(&scratch, "prof:true,prof_active:false,lg_prof_sample:0", "timed");
    assert_eq!(told["dumped"], 0);
    let dump = scratch.path(&format!("jeprof.{}.0.m0.heap", told["pid"]));
    let output = Command::new("jeprof")
        .args(["--text", "--show_bytes"])
        .args([victims().join("jemalloc_guide"), dump])
        .output()
        .expect("jeprof (Debian: libjemalloc-dev) is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" do_something_else\n") && !text.contains(" do_something\n"), "{text}");
    assert!(text.contains(&format!(" {} ", told["while_on"])), "{text} has not {}", told["while_on"]);
}

/// Parent and child both grow, each with files of its own, all whole.
#[test]
fn highs_are_dumped_on_both_sides_of_a_fork() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_gdump:true,prof_gdump_step:1048576";
    let (_, told) = run(&scratch, conf, "fork");
    assert_eq!(told["child"], 0, "the child ended well");
    let of = |pid: i64| -> Vec<String> {
        let prefix = format!("jeprof.{pid}.");
        names(&scratch).into_iter().filter(|name| name.starts_with(&prefix)).collect()
    };
    let (parent, child) = (of(told["pid"]), of(told["child_pid"]));
    assert_eq!((parent.len(), child.len()), (5, 4), "{parent:?} {child:?}");
    // As jemalloc's, a child goes on with its parent's numbers.
    assert!(child[0].ends_with(".5.u5.heap"), "{child:?}");
    for name in parent.iter().chain(&child) {
        let text = text_of(scratch.path(name));
        assert!(
            text.starts_with("heap_v2/0\n") && text.contains("# heapwise build-id "),
            "{name} is damaged"
        );
    }
    // The child counts what it allocated itself, here its fourth megabyte.
    let last = text_of(scratch.path(&child[3]));
    let total = last.lines().nth(1).expect("a total");
    assert_eq!(total, "  t*: 32: 4194304 [0: 0]");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn messages_are_jemallocs_to_the_letter() {
    let scratch = Scratch::new();
    let stderr = |preload: &str, conf: &str| {
        let mut command = scratch.command(victims().join("jemalloc_guide"));
        command.arg("none").env("LD_PRELOAD", preload).env("MALLOC_CONF", conf);
        String::from_utf8(command.output().expect("victim starts").stderr).expect("UTF-8")
    };
    let library = scratch.output_of(&["preload"]);
    for conf in [
        "prof:yes",
        "proof:true",
        "prof_final:True,prof:true",
        "lg_prof_interval:64",
        "lg_prof_interval:-2",
        "prof_recent_alloc_max:-2",
        "prof_time_resolution:often",
        "prof_leak_error:true",
        "confirm_conf:true,prof:true,lg_prof_sample:19,nonsense:1",
        "abort_conf:true,prof:what",
    ] {
        let jemallocs = stderr("libjemalloc.so.2", conf);
        let ours = stderr(library.trim(), conf);
        // jemalloc also prints its two sources that cannot be set here, and with `confirm_conf` all
        // that are empty.
        let told = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.replace("<heapwise>", "<jemalloc>"));
            lines.filter(|line| !(line.contains("malloc_conf #") && line.ends_with(": \"\""))).collect()
        };
        assert_eq!(told(&ours), told(&jemallocs), "{conf}");
    }
}
