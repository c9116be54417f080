//! Forked children that speak to the probe: what they change is their own, and what they inherit
//! works.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::harness::{LOG, Scratch, victims, witness};

/// A child's first call of heapwise.h changes the child alone.
#[test]
fn the_api_in_a_child_leaves_the_parent_alone() {
    let scratch = Scratch::new();
    for call in ["reset", "off", "exact", "index", "label", "snapshot"] {
        let capture = scratch.capture(&["--exact"], "fork_api", &[call]);
        assert!(capture.output.status.success(), "{call}: {}", capture.stderr());
        let labelled = capture.total_of("alloc_objects", r"^\[of the parent\]$");
        assert_eq!((capture.total("alloc_objects"), labelled), (200, 200), "{call}");
        if call == "snapshot" {
            assert_eq!(capture.witness["child.recorded"], 0, "a child begins with nothing");
        }
    }
}

/// Calls of mallctl in a child leave the parent alone.
#[test]
fn mallctl_in_a_child_leaves_the_parent_alone() {
    for call in ["mallctl_reset", "mallctl_active"] {
        let scratch = Scratch::new();
        let library = scratch.output_of(&["preload"]);
        let output = scratch
            .command(victims().join("fork_api"))
            .arg(call)
            .env("LD_PRELOAD", library.trim())
            .env("HEAPWISE_CONF", "prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:dump")
            .output()
            .expect("the victim starts");
        assert!(output.status.success(), "{call}: {}", output.status);
        // The child ends by `_exit` and writes no dump.
        let names = fs::read_dir(scratch.path(".")).expect("readable").flatten().map(|entry| entry.path());
        let dumps: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "heap")).collect();
        assert_eq!(dumps.len(), 1, "{call}: {dumps:?}");
        let dump = dumps[0].to_str().expect("UTF-8");
        let top = scratch.json_of(&["top", "--json", "--inuse_objects", "--focus", "^w_", dump]);
        assert_eq!(top["total"], 200, "{call}");
    }
}

/// A mark that a child sets first is not one of its parent's recording.
#[test]
fn a_mark_in_a_child_is_the_childs() {
    let scratch = Scratch::new();
    scratch.record("fork_api", &["mark"], &scratch.path("out.hwr"));
    let wrong = scratch.heapwise(&["top", "out.hwr@..nosuchmark"]).output().expect("heapwise starts");
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("of the parent") && !said.contains("of the child"), "{said}");
}

/// The child of a thread with labels has the labels, and pops them as its parent does.
#[test]
fn labels_outlive_a_fork() {
    let scratch = Scratch::new();
    for mode in [&["--exact"][..], &["-c", "1"]] {
        let program = victims().join("fork_labelled");
        let mut run = scratch.heapwise(&["run", "-f", "-q", "--children", "-o", "out.heap"]);
        let output = run.args(mode).arg("--").arg(program).output().expect("heapwise starts");
        assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
        let told = witness(&output);
        let names = fs::read_dir(scratch.path(".")).expect("readable").flatten().map(|entry| entry.path());
        let is_childs = |path: &std::path::PathBuf| path.to_string_lossy().contains("out.heap.");
        let children: Vec<_> = names.filter(is_childs).collect();
        assert_eq!(children.len(), 1, "{children:?}");
        let child = children[0].to_str().expect("UTF-8");
        for (label, name) in
            [("checkout", "child.checkout"), ("basket of 3", "child.basket"), ("payment", "child.payment")]
        {
            let label = format!(r"^\[{label}\]$");
            let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", &label, child]);
            assert_eq!(top["total"].as_i64(), Some(told[name]), "{mode:?} {label}");
        }
        let top = scratch.json_of(&["top", "--json", "--alloc_space", "--focus", "^w_", child]);
        assert_eq!(top["total"].as_i64(), Some(told["child.alloc_bytes"]), "{mode:?}");
        fs::remove_file(&children[0]).expect("removed");
    }
}

/// A child has no thread that writes a dump, though its parent had one: nothing waits for it.
#[test]
fn a_fork_beside_a_dump_leaves_no_lock_behind() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let output = scratch
        .command(victims().join("fork_while_dumping"))
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_CONF", "prof:true,lg_prof_sample:0")
        .output()
        .expect("the victim starts");
    assert!(output.status.success(), "{output:?}");
    let told = witness(&output);
    for call in ["prefix", "log_start", "log_stop", "dump"] {
        assert_eq!(told[&format!("child.{call}")], 0, "{call}: {told:?}");
    }
    assert!(scratch.path("child.json").exists() && scratch.path("child.heap").exists());
}

/// Marks that have no room are counted, and reports say so.
#[test]
fn marks_beyond_their_room_are_counted() {
    let scratch = Scratch::new();
    let mut run = scratch.heapwise(&["run", "-q", "-o", "out.hwr"]);
    run.args(LOG).arg("--").arg(victims().join("many_marks")).arg("300");
    assert!(run.status().expect("heapwise starts").success());
    let live = |mark: &str| {
        let place = format!("out.hwr@..{mark}");
        scratch.json_of(&["top", "--json", "--focus", "^w_", &place])["total"].as_i64().expect("a total")
    };
    assert!(live("mark 299") > 0);
    // The smallest tables have room for 64 marks.
    let library = scratch.output_of(&["preload"]);
    let mut child = scratch
        .command(victims().join("many_marks"))
        .arg("300")
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_CONF", "mode:exact,tables:least,keep_segment:true")
        .stdout(Stdio::null())
        .spawn()
        .expect("the victim starts");
    let pid = child.id().to_string();
    assert!(child.wait().expect("the victim ends").success());
    let stats = scratch.json_of(&["stats", "--json", &pid]);
    assert_eq!(stats[0]["probe"]["lost_marks"], 236, "{stats}");
}

/// Signals whose handler allocates come while a child makes its own segment.
#[test]
#[ignore = "long"]
fn a_childs_first_event_may_be_interrupted() {
    const CHILDREN: i64 = 25;
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    for mode in ["mode:exact", "mode:log", "mode:sampled,rate:1K"] {
        for event in ["malloc", "free", "realloc", "failed_realloc"] {
            let output = scratch
                .command(victims().join("fork_signal"))
                .args([event, &CHILDREN.to_string()])
                .env("LD_PRELOAD", library.trim())
                .env("HEAPWISE_CONF", mode)
                .output()
                .expect("the victim starts");
            assert!(output.status.success(), "{mode} {event}: {output:?}");
            assert_eq!(witness(&output)["ended"], CHILDREN, "{mode} {event}");
        }
    }
}

/// A handler that makes the child's segment interrupts each of the first instructions of a child.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_childs_first_instructions_may_be_interrupted() {
    const INSTRUCTIONS: i64 = 100;
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    for event in ["malloc", "free"] {
        let output = scratch
            .command(victims().join("fork_step"))
            .args([event, &INSTRUCTIONS.to_string()])
            .env("LD_PRELOAD", library.trim())
            .env("HEAPWISE_CONF", "mode:exact")
            .output()
            .expect("the victim starts");
        assert!(output.status.success(), "{event}: {output:?}");
        assert_eq!(witness(&output)["ended"], INSTRUCTIONS, "{event}");
    }
}

/// A report on a forked child shows what it has of its parent's heap by the parent's stacks, as
/// long as the parent's segment is there; then it names the amount.
#[test]
fn a_child_shows_what_it_inherited() {
    const HEAP: f64 = (100 << 20) as f64;
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    for mode in ["mode:exact", "mode:sampled,rate:4K"] {
        let mut program = scratch.command(victims().join("fork_inherits"));
        program.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", mode);
        let mut victim = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        // The child ends with its standard input.
        let input = victim.stdin.take();
        let mut lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
        let mut number = |name: &str| {
            let line = lines.next().expect("a line").expect("UTF-8");
            line.strip_prefix(&format!("witness {name} ")).expect("in order").to_owned()
        };
        let (parent, pid) = (number("parent"), number("child.pid"));
        let root = format!("inherited from {parent} by fork");
        let check_stacks = || {
            let said = scratch.output_of(&["top", &pid]);
            assert!(said.contains(&root) && !said.contains("not shown"), "{mode}: {said}");
            let rows = scratch.json_of(&["top", "--json", "--cum", "--focus", &root, &pid]);
            let load = rows["rows"].as_array().expect("rows").iter().find(|row| row["name"] == "load");
            let of_heap = load.expect("the parent's function")["cum"].as_f64().expect("bytes") / HEAP;
            // Samples of 4 KiB take each block of a MiB.
            assert!((0.99..1.01).contains(&of_heap), "{mode}: {of_heap} {rows}");
        };
        check_stacks();
        let inherited = scratch.json_of(&["stats", "--json", &pid])[0]["probe"]["inherited_bytes"].as_u64();
        let of_heap = inherited.expect("a number") as f64 / HEAP;
        // The C library's own blocks come on top.
        assert!((0.999..1.01).contains(&of_heap), "{mode}: {of_heap}");
        assert!(!scratch.output_of(&["top", &parent]).contains("inherited"), "{mode}");
        victim.kill().expect("killed");
        victim.wait().expect("waited");
        check_stacks();
        scratch.output_of(&["ps", "--clean"]);
        let said = scratch.output_of(&["top", &pid]);
        assert!(said.contains("not shown: 100 MiB") && said.contains(&root), "{mode}: {said}");
        drop(input);
    }
}
