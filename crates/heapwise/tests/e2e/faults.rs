//! The fault matrix: surroundings that break a careless guest. The program must run as it would
//! alone, and what heapwise says of it must be true.

use std::process::{Output, Stdio};

use crate::harness::{LOG, Scratch, victims, witness};

const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// Modes that know every block.
const EXACT: [&[&str]; 3] = [&["--exact", "--index", "shadow"], &["--exact", "--index", "hash"], LOG];

/// Every mode a program may find itself in.
const MODES: [&[&str]; 5] =
    [&["--off"], &["-c", "1K"], &["--exact", "--index", "shadow"], &["--exact", "--index", "hash"], LOG];

fn alone(victim: &str, arguments: &[&str]) -> Output {
    let scratch = Scratch::new();
    scratch.command(victims().join(victim)).args(arguments).output().expect("the victim starts")
}

/// The program says and returns under heapwise what it says and returns alone, in the lines `kept`.
fn runs_unchanged_in(victim: &str, arguments: &[&str], kept: impl Fn(&str) -> bool) {
    let expected = alone(victim, arguments);
    let account = |output: &Output| {
        let mut lines = witness(output);
        lines.retain(|name, _| kept(name));
        lines
    };
    let scratch = Scratch::new();
    for mode in MODES {
        let capture = scratch.capture(mode, victim, arguments);
        let what = format!("{victim} {arguments:?} {mode:?}: {}", capture.stderr());
        assert_eq!(capture.output.status.code(), expected.status.code(), "{what}");
        assert_eq!(account(&capture.output), account(&expected), "{what}");
    }
}

fn runs_unchanged(victim: &str, arguments: &[&str]) {
    runs_unchanged_in(victim, arguments, |_| true);
}

fn counts_exactly(victim: &str, arguments: &[&str]) {
    let scratch = Scratch::new();
    for mode in EXACT {
        let capture = scratch.capture(mode, victim, arguments);
        for (metric, name) in METRICS {
            assert_eq!(
                capture.total(metric),
                capture.witness[name],
                "{victim} {arguments:?} {mode:?}: {metric}"
            );
        }
    }
}

#[test]
fn a_bounded_fork_bomb() {
    runs_unchanged("fork_tree", &["2", "4"]);
    counts_exactly("fork_tree", &["2", "4"]);
}

/// A child whose first allocations are those of eight threads at once has one segment, with all of
/// them.
#[test]
fn a_child_that_starts_threads_at_once() {
    runs_unchanged("fork_threads", &["6"]);
    for index in ["shadow", "hash"] {
        let scratch = Scratch::new();
        let library = scratch.output_of(&["preload"]);
        let mut program = scratch.command(victims().join("fork_threads"));
        program
            .arg("4")
            .env("LD_PRELOAD", library.trim())
            .env("HEAPWISE_CONF", format!("mode:exact,index:{index}"));
        let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the victim starts");
        let parent = format!("{}-", child.id());
        let output = child.wait_with_output().expect("the victim ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let own = witness(&output);
        let segments = std::fs::read_dir(scratch.path("segments")).expect("readable").flatten();
        let segments: Vec<_> = segments.map(|entry| entry.path()).collect();
        assert_eq!(segments.len(), 1 + 4, "the parent's and each child's");
        for segment in &segments {
            let name = segment.file_name().expect("a name").to_string_lossy();
            let prefix = if name.starts_with(&parent) { "" } else { "child." };
            for (metric, name) in [METRICS[0], METRICS[3]] {
                let file = segment.to_str().expect("UTF-8");
                let top = scratch.json_of(&["top", "--json", &format!("--{metric}"), "--focus", "^w_", file]);
                let counted = own[&format!("{prefix}{name}")];
                assert_eq!(top["total"].as_i64(), Some(counted), "{index} {prefix} {metric} of {file}");
            }
        }
    }
}

/// Threads that libc starts by itself, for a timer, are noticed before they begin, too.
#[test]
fn a_child_whose_first_thread_is_a_timers() {
    runs_unchanged("fork_timer", &["3"]);
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("fork_timer"));
    program.arg("1").env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", "mode:sampled,rate:524288");
    assert!(program.output().expect("the victim starts").status.success());
    let segments = std::fs::read_dir(scratch.path("segments")).expect("readable").count();
    assert_eq!(segments, 2, "the parent's and the child's");
}

#[test]
fn another_root_directory() {
    runs_unchanged("chroot_dir", &[]);
    // `skipped` is what the victim says when it may not chroot.
    if !witness(&alone("chroot_dir", &[])).contains_key("skipped") {
        counts_exactly("chroot_dir", &[]);
    }
}

#[test]
fn hardly_any_address_space() {
    // The limit a running program sets itself counts the segment it already carries; what the limit
    // leaves to a fresh image is the image's alone.
    runs_unchanged_in("rlimits", &["as"], |name| !name.starts_with("before."));
}

#[test]
fn what_was_given_back_is_the_programs() {
    runs_unchanged("limited_fork", &[]);
}

#[test]
fn no_file_may_grow() {
    runs_unchanged("rlimits", &["fsize"]);
}

#[test]
fn hardly_any_descriptors() {
    runs_unchanged("rlimits", &["nofile"]);
}

#[test]
fn nothing_but_read_write_and_exit() {
    runs_unchanged("seccomp_strict", &[]);
    counts_exactly("seccomp_strict", &[]);
}

#[test]
fn the_programs_own_seccomp_filter() {
    for way in ["prctl", "syscall"] {
        runs_unchanged("seccomp_filter", &[way]);
        counts_exactly("seccomp_filter", &[way]);
    }
}

#[test]
fn huge_pages_under_the_heap() {
    // 1: transparent ones by madvise, 2: MAP_HUGETLB, which falls back where none are reserved.
    for kind in ["1", "2"] {
        for mode in EXACT {
            let scratch = Scratch::new();
            let mut command = scratch.heapwise(&["run", "-f", "-o", "out.heap"]);
            command.args(mode).arg("--").arg(victims().join("plain")).arg("50000");
            let tunables = format!("glibc.malloc.hugetlb={kind}");
            let output = command.env("GLIBC_TUNABLES", tunables).output().expect("heapwise starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            for (metric, name) in METRICS {
                let report = ["top", "--json", &format!("--{metric}"), "--focus", "^w_", "out.heap"];
                let total = scratch.json_of(&report)["total"].as_i64();
                assert_eq!(total, Some(witness(&output)[name]), "hugetlb {kind} {mode:?}: {metric}");
            }
        }
    }
}

#[test]
fn a_thousand_threads_alive_or_gone() {
    counts_exactly("many_threads", &["1000", "128"]);
}

#[test]
fn errno_is_the_programs_own() {
    runs_unchanged("malloc_fail", &["200"]);
    runs_unchanged("errno_kept", &[]);
}

#[test]
fn exit_status_without_flushing() {
    runs_unchanged("exit_underscore", &["1000", "7"]);
}

#[test]
fn nowhere_to_put_the_segment() {
    let expected = witness(&alone("plain", &["5000"]));
    for place in ["/proc/nowhere", "/dev/null", "/"] {
        let scratch = Scratch::new();
        let mut command = scratch.heapwise(&["run", "--exact", "-o", "out.heap", "--"]);
        let program = victims().join("plain");
        let output =
            command.arg(program).arg("5000").env("HEAPWISE_DIR", place).output().expect("heapwise starts");
        assert_eq!(output.status.code(), Some(0), "{place}");
        assert_eq!(witness(&output), expected, "{place}");
    }
}

#[test]
#[ignore = "needs jemalloc, tcmalloc and mimalloc"]
fn another_allocator_underneath() {
    for library in ["libjemalloc.so.2", "libtcmalloc.so.4", "libmimalloc.so.2"] {
        for (victim, arguments) in
            [("plain", ["20000"]), ("cross_thread_free", ["4"]), ("cpp_operators", ["50"])]
        {
            if (victim, library) == ("cpp_operators", "libmimalloc.so.2") {
                continue; // mimalloc 2.0 aborts the victim's impossible `new (nothrow)` by itself
            }
            let scratch = Scratch::new();
            let profile = scratch.path("out.heap");
            let mut command = scratch.heapwise(&["run", "--exact", "-o", "out.heap", "--"]);
            command.arg(victims().join(victim)).args(arguments).env("LD_PRELOAD", library);
            let output = command.output().expect("heapwise starts");
            let what = format!("{victim} over {library}");
            assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            let file = profile.to_str().expect("UTF-8");
            for (metric, name) in METRICS {
                let top = scratch.json_of(&["top", "--json", &format!("--{metric}"), "--focus", "^w_", file]);
                assert_eq!(top["total"].as_i64(), Some(witness(&output)[name]), "{what}: {metric}");
            }
        }
    }
}

/// An allocator whose exported functions call each other must not make a sampled block count twice.
#[test]
#[ignore = "needs jemalloc, tcmalloc and mimalloc"]
fn sampled_over_another_allocator() {
    for library in ["libjemalloc.so.2", "libtcmalloc.so.4", "libmimalloc.so.2"] {
        for (victim, arguments) in [("plain", ["100000"]), ("cpp_operators", ["2000"])] {
            if (victim, library) == ("cpp_operators", "libmimalloc.so.2") {
                continue; // as above
            }
            let scratch = Scratch::new();
            let mut command = scratch.heapwise(&["run", "-c", "512", "-o", "out.heap", "--"]);
            command.arg(victims().join(victim)).args(arguments).env("LD_PRELOAD", library);
            let output = command.output().expect("heapwise starts");
            let top = scratch.json_of(&["top", "--json", "--alloc_objects", "--focus", "^w_", "out.heap"]);
            let (total, error) = (top["total"].as_f64().expect("total"), top["total_error"].as_f64());
            let own = witness(&output)["alloc_objects"] as f64;
            let off = (total - own) / error.expect("a standard error").max(1.0);
            assert!(off.abs() < 5.0, "{victim} over {library}: {total} for {own}, {off} standard errors");
        }
    }
}

#[test]
#[ignore = "needs musl-gcc"]
fn another_c_library_is_told_so() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "musl_program", &[]);
    assert_eq!(capture.output.status.code(), Some(2));
    assert!(capture.stderr().contains("musl"), "{}", capture.stderr());
}
