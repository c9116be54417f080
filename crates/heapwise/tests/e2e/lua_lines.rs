//! A real Lua without glue: its lines are in every stack, with the right bytes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{LOG, Scratch};
use crate::python::folded;

/// The interpreter: Debian's, or the one named by `HEAPWISE_TEST_LUA`.
fn lua() -> String {
    std::env::var("HEAPWISE_TEST_LUA").unwrap_or_else(|_| "/usr/bin/lua5.4".into())
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/lua").join(name);
    path.canonicalize().expect("the script").to_str().expect("UTF-8").to_owned()
}

/// Runs Lua under `heapwise run MODE`; the profile.
fn run(scratch: &Scratch, mode: &[&str], arguments: &[&str]) -> PathBuf {
    let profile = scratch.path(if mode == LOG { "lua.hwr" } else { "lua.hwp" });
    let mut run = scratch.heapwise(&["run", "-f", "-o"]);
    run.arg(&profile).args(mode).arg("--").arg(lua()).args(arguments);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
    profile
}

/// The number of the line that ends with a comment.
fn line_of(source: &str, comment: &str) -> usize {
    source.lines().position(|line| line.ends_with(comment)).expect("the line") + 1
}

/// Bytes by line number of a script.
fn bytes_by_line(scratch: &Scratch, profile: &Path, script: &str, metric: &str) -> BTreeMap<u64, f64> {
    let profile = profile.to_str().expect("UTF-8");
    let top = scratch.json_of(&["top", "--lines", "--json", "-n", "0", metric, profile]);
    let mut lines = BTreeMap::new();
    for row in top["rows"].as_array().expect("rows").iter().filter(|row| row["file"] == script) {
        *lines.entry(row["line"].as_u64().expect("a line")).or_default() +=
            row["flat"].as_f64().expect("bytes");
    }
    lines
}

/// Compares the stacks of thousands of allocations with those of Lua's debug library.
fn compare_stacks(mode: &[&str]) {
    let scratch = Scratch::new();
    let expected = scratch.path("expected");
    let script = script("stacks.lua");
    let profile = run(&scratch, mode, &[&script, "12", expected.to_str().expect("UTF-8")]);
    let source = std::fs::read_to_string(&script).expect("the script");
    let check = source.lines().position(|line| line == "function check()").expect("the function") + 1;

    let mut stacks: BTreeMap<String, (f64, [f64; 3])> = BTreeMap::new();
    for row in std::fs::read_to_string(&expected).expect("expected stacks").lines() {
        let (count, stack) = row.strip_prefix("stack ").and_then(|row| row.split_once(' ')).expect("a row");
        stacks.entry(stack.to_owned()).or_default().0 += count.parse::<f64>().expect("a count");
    }
    let checks: f64 = stacks.values().map(|(count, _)| count).sum();
    assert!(checks > 1000.0, "{checks}");
    let leaves = ["block", "object", "list"].map(|name| {
        let line = line_of(&source, &format!("-- the line of the {name}"));
        format!(";function:{check} ({script}:{line})")
    });
    let profile = profile.to_str().expect("UTF-8");
    let recorded = scratch.output_of(&["export", "--alloc_space", "-f", "folded", profile]);
    for (stack, bytes) in folded(&recorded) {
        for (number, leaf) in leaves.iter().enumerate() {
            if let Some(stack) = stack.strip_suffix(leaf) {
                stacks.entry(stack.to_owned()).or_default().1[number] += bytes;
            }
        }
    }
    for number in 0..leaves.len() {
        // Each call allocates the same in a line.
        let all: f64 = stacks.values().map(|(_, bytes)| bytes[number]).sum();
        let once = all / checks;
        assert!(once >= 200.0 && once.fract() == 0.0, "{mode:?}: {once} bytes, {}", leaves[number]);
        for (stack, (count, bytes)) in &stacks {
            assert_eq!(count * once, bytes[number], "{mode:?}: {stack}{}", leaves[number]);
        }
    }
}

#[test]
#[ignore = "needs lua5.4"]
fn stacks_are_those_of_the_debug_library() {
    compare_stacks(&["--exact"]);
}

#[test]
#[ignore = "needs lua5.4"]
fn stacks_are_those_of_the_debug_library_in_log_mode() {
    compare_stacks(LOG);
}

#[test]
#[ignore = "needs lua5.4"]
fn stacks_are_those_of_the_debug_library_in_sampled_mode() {
    // Every block is a sample.
    compare_stacks(&["-c", "1"]);
}

#[test]
#[ignore = "needs lua5.4"]
fn constructors_have_their_own_lines() {
    let scratch = Scratch::new();
    let script = script("constructors.lua");
    let source = std::fs::read_to_string(&script).expect("the script");
    let profile = run(&scratch, &["--exact"], &[&script, "1000"]);
    let lines = bytes_by_line(&scratch, &profile, &script, "--alloc_space");
    // A table, four values, and what `outer` grows by.
    for (comment, tables) in [("-- one table", 1000.0), ("-- half a table", 500.0)] {
        let marked = source.lines().enumerate().filter(|(_, line)| line.ends_with(comment));
        for (index, line) in marked {
            let bytes = lines.get(&(index as u64 + 1)).copied().unwrap_or(0.0);
            let expected = tables * 120.0;
            assert!((expected..expected + 200.0).contains(&bytes), "{line}: {bytes} of {lines:?}");
        }
    }
}

#[test]
#[ignore = "needs lua5.4"]
fn samples_estimate_lines() {
    let scratch = Scratch::new();
    let source = "kept = {}\nfor i = 1, 100000 do\n  kept[i] = { i, i, i, i }\nend\nos.exit(0)";
    let file = scratch.path("kept.lua");
    std::fs::write(&file, source).expect("the script");
    let file = file.to_str().expect("UTF-8");
    let profile = run(&scratch, &["-c", "4K"], &[file]);
    let lines = bytes_by_line(&scratch, &profile, file, "--inuse_space");
    // 120 bytes each, and the table that has them.
    assert!((13e6..15.5e6).contains(&lines[&3]), "{lines:?}");
}

/// Compares the lines and the largest stack of what `times` states have run of `threads.lua`.
fn compare_threads(scratch: &Scratch, profile: &Path, script: &str, times: f64, what: &str) {
    let lines = bytes_by_line(scratch, profile, script, "--inuse_space");
    let held = |line: u64| lines.get(&line).copied().unwrap_or(0.0);
    // The strings, their heads, and the buffers that they were made in.
    assert!((times * 500_000.0..times * 1_010_000.0).contains(&held(12)), "{what}: {lines:?}");
    assert!((times * 100_000.0..times * 240_000.0).contains(&held(7)), "{what}: {lines:?}");
    let recorded = scratch.output_of(&["export", "-f", "folded", profile.to_str().expect("UTF-8")]);
    let largest = folded(&recorded).max_by(|one, two| one.1.total_cmp(&two.1)).expect("stacks").0;
    // The coroutine, the one that resumed it, and the chunk.
    let frames = [
        format!("(main chunk) ({script}:25)"),
        format!("function:17 ({script}:20)"),
        format!("function:10 ({script}:12)"),
    ];
    assert!(largest.ends_with(&frames.join(";")), "{what}: {largest}");
}

/// A program that links Lua: states of several threads, coroutines inside each other.
#[test]
#[ignore = "needs lua5.4"]
fn threads_have_their_states_and_coroutines() {
    let scratch = Scratch::new();
    let script = script("threads.lua");
    for victim in ["lua_threads", "lua_hidden"] {
        for mode in [&["--exact"][..], LOG] {
            let capture = scratch.capture(mode, victim, &[&script, "3"]);
            assert!(capture.output.status.success(), "{mode:?}: {}", capture.stderr());
            compare_threads(&scratch, &capture.profile, &script, 3.0, &format!("{victim} {mode:?}"));
        }
    }
}

/// `lua_call` outside of every protected call.
#[test]
#[ignore = "needs lua5.4"]
fn unprotected_calls_have_lines() {
    let scratch = Scratch::new();
    let script = script("threads.lua");
    for mode in [&["--exact"][..], LOG, &["-c", "1"]] {
        let capture = scratch.capture(mode, "lua_threads", &[&script, "2", "1"]);
        assert!(capture.output.status.success(), "{mode:?}: {}", capture.stderr());
        compare_threads(&scratch, &capture.profile, &script, 2.0, &format!("{mode:?}"));
    }
}

/// Two versions of Lua in one process.
#[test]
#[ignore = "needs lua5.4, liblua5.3"]
fn each_lua_of_a_process_has_its_lines() {
    let scratch = Scratch::new();
    let script = script("threads.lua");
    for mode in [&["--exact"][..], LOG] {
        let capture = scratch.capture(mode, "lua_two", &[&script]);
        assert!(capture.output.status.success(), "{mode:?}: {}", capture.stderr());
        compare_threads(&scratch, &capture.profile, &script, 2.0, &format!("{mode:?}"));
    }
}

/// Lua inside of Python: lines of both are in the stacks of Lua's blocks.
#[test]
#[ignore = "needs lua5.4, python3"]
fn lua_and_python_are_in_one_stack() {
    let scratch = Scratch::new();
    let lua = script("threads.lua");
    let python = script("../python/calls_lua.py");
    let source = std::fs::read_to_string(&python).expect("the script");
    let line = line_of(&source, "# the call");
    for mode in [&["--exact"][..], LOG] {
        let profile = scratch.path(if mode == LOG { "both.hwr" } else { "both.hwp" });
        let mut run = scratch.heapwise(&["run", "-f", "-o"]);
        run.arg(&profile).args(mode).args(["--", "/usr/bin/python3", &python, &lua]);
        let output = run.output().expect("heapwise starts");
        assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
        let profile = match mode == LOG {
            true => format!("{}@end", profile.display()),
            false => profile.display().to_string(),
        };
        let recorded = scratch.output_of(&["export", "-f", "folded", &profile]);
        let from_python = format!("run ({python}:{line});(main chunk) ({lua}:25);function:17 ({lua}:20);");
        let held: f64 =
            folded(&recorded).filter(|(stack, _)| stack.contains(&from_python)).map(|(_, bytes)| bytes).sum();
        assert!((500_000.0..1_010_000.0).contains(&held), "{mode:?}: {held} of {recorded}");
    }
}

/// LuaJIT maps its arenas itself: the pages have the lines that mapped them.
#[test]
#[ignore = "needs luajit"]
fn arenas_of_luajit_have_lines() {
    let scratch = Scratch::new();
    let script = script("luajit.lua");
    let source = std::fs::read_to_string(&script).expect("the script");
    for mode in [&["--exact"][..], &["-c", "64K"]] {
        let mut run = scratch.heapwise(&["run", "-q", "-f", "-o", "luajit.hwp"]);
        run.args(mode).args(["--", "/usr/bin/luajit", "-joff", &script]).stdin(Stdio::piped());
        let mut program = run.stdout(Stdio::piped()).spawn().expect("heapwise starts");
        let mut said = String::new();
        let output = program.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("a line");
        let pid = said.trim().strip_prefix("ready ").expect("the script is ready");
        let top = scratch.json_of(&["top", "--resident", "--lines", "--json", "-n", "0", pid]);
        let held = |comment: &str| -> f64 {
            let line = line_of(&source, comment) as u64;
            let rows = top["rows"].as_array().expect("rows").iter();
            rows.filter(|row| row["file"] == *script && row["line"] == line)
                .map(|row| row["flat"].as_f64().expect("bytes"))
                .sum()
        };
        // 20 strings of 1 to 1.5 million bytes each, and the buffer that they were made in.
        for comment in ["-- the line of the coroutine", "-- the line of the chunk"] {
            assert!((25e6..29e6).contains(&held(comment)), "{mode:?}: {comment}: {}: {top}", held(comment));
        }
        let stacks = scratch.output_of(&["traces", "--resident", "--focus", "luajit.lua", pid]);
        drop(program.stdin.take());
        assert!(program.wait().expect("it ends").success());
        // The coroutine's stack continues that of the chunk.
        let frames = [("function:9", 11), ("function:4", 6), ("(main chunk)", 9)]
            .map(|(function, line)| format!("{function} {script}:{line}"));
        let lines: Vec<&str> = stacks.lines().collect();
        let is_it = |lines: &[&str]| lines.iter().zip(&frames).all(|(line, frame)| line.ends_with(frame));
        assert!(lines.windows(3).any(is_it), "{mode:?}: {stacks}");
    }
}
