//! A real Lua 5.4 inside a program: its functions and lines stand on top of the native stack, with
//! the right bytes.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Capture, LOG, Scratch};

const THREADS: i64 = 2;

fn script() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/lua_host.lua");
    path.canonicalize().expect("the script").to_str().expect("UTF-8").to_owned()
}

fn capture<'a>(scratch: &'a Scratch, mode: &[&str]) -> Capture<'a> {
    let capture = scratch.capture(mode, "lua_host", &[&script(), &THREADS.to_string()]);
    assert!(capture.output.status.success(), "{mode:?}: {}", capture.stderr());
    assert_eq!(capture.total("inuse_space"), capture.witness["inuse_bytes"], "{mode:?}");
    capture
}

/// Bytes that blocks with `native` in their stack hold in line `line` of the script.
fn held(scratch: &Scratch, profile: &str, native: &str, function: &str, line: u64) -> i64 {
    let top = scratch.json_of(&["top", "--lines", "--json", "--focus", native, profile]);
    let rows = top["rows"].as_array().expect("rows").iter();
    let is_it = |row: &&Value| {
        row["line"] == line
            && row["file"] == script()
            && row["name"].as_str().is_some_and(|name| name.starts_with(function))
    };
    rows.filter(is_it).map(|row| row["flat"].as_i64().expect("bytes")).sum()
}

#[test]
#[ignore = "needs lua5.4"]
fn memory_is_attributed_to_lua_lines() {
    let scratch = Scratch::new();
    for mode in [&["--exact", "--index", "hash"][..], &["--exact", "--index", "shadow"], &["-c", "1"], LOG] {
        let capture = capture(&scratch, mode);
        let profile = capture.profile.to_str().expect("UTF-8");
        // hold() is the only caller of w_malloc: ten times 1000 and ten times 200 bytes in two
        // coroutines.
        assert_eq!(held(&scratch, profile, "^w_malloc$", "leaf", 5), THREADS * 12_000, "{mode:?}");
        assert_eq!(held(&scratch, profile, "^w_malloc$", "function:24", 24), THREADS * 7, "{mode:?}");
        assert_eq!(held(&scratch, profile, "^w_malloc$", "(main chunk)", 25), THREADS * 50, "{mode:?}");
        // Lua's strings come through its allocator; with their heads, and the buffer they were made
        // in.
        let text = held(&scratch, profile, "^w_lua$", "text", 9);
        assert!((THREADS * 100_000..THREADS * 102_000).contains(&text), "{mode:?}: {text}");
    }
}

#[test]
#[ignore = "needs lua5.4"]
fn lua_functions_are_in_every_view() {
    let scratch = Scratch::new();
    let capture = capture(&scratch, &["--exact"]);
    let profile = capture.profile.to_str().expect("UTF-8");
    // Script frames first, then the native frames they were reached through.
    let traces = scratch.output_of(&[
        "traces",
        "--focus",
        "^leaf$",
        "--show",
        "^(leaf|function:12|hold|run)$",
        profile,
    ]);
    // Behind the name of a script's function is its file.
    let script_file = script();
    let is_name = |word: &&str| word.parse::<f64>().is_err() && *word != script_file;
    let words: Vec<&str> = traces.split_whitespace().filter(is_name).collect();
    assert!(words.windows(4).any(|frames| frames == ["leaf", "function:12", "hold", "run"]), "{traces}");
    let tree = scratch.output_of(&["tree", "--bytes", profile]);
    assert!(tree.contains("leaf") && tree.contains("function:12"), "{tree}");
    let report = scratch.output_of(&["top", "--gs", profile]);
    let is_line_9 = |row: &str| row.contains("lua_host.lua ") && row.contains(" line:9 ");
    assert!(report.lines().any(is_line_9), "{report}");
    // Only the script.
    let only = scratch.json_of(&["top", "--json", "--show", r"\.lua$", profile]);
    let rows = only["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["file"] == script()), "{only}");
}

/// A script that has itself recorded and reads the reports; `line` marks the line that allocates.
const REPORTS: &str = r#"
local heapwise = require "heapwise"
heapwise.attach()
local none, why = heapwise.get_all_time_size()
assert(none == nil and why == "no recording was begun", why)
assert(heapwise.start(65536) and heapwise.reset() and heapwise.start() and heapwise.stop())
assert(heapwise.label("job", function(a) return a end, 7) == 7)
assert(heapwise.dump("own.heap") and io.open("own.heap"))
local done, why = heapwise.dump("missing/own.heap")
assert(done == false and why == "the file cannot be written", why)
local function report(type)
  assert(heapwise.set_enable_mem_profiler(type))
  kept = {}
  for i = 1, 1000 do kept[i] = string.rep("x", 1000 + i) end -- line
  print(assert(heapwise.report()))
end
report() -- MEM_RECORD
report(5) -- MEM_FAST
heapwise.set_mem_profiler_log_number(3)
assert(heapwise.get_mem_profiler_log_number() == 3)
assert(heapwise.set_mem_profiler_log_size("64K") and heapwise.get_mem_profiler_log_size() == "64K")
assert(not heapwise.set_mem_profiler_log_size("much"))
report(2) -- LOG_RECORD
assert(heapwise.set_enable_mem_profiler(1))
assert(heapwise.start_mem_log_profiler(2))
local steps = assert(heapwise.get_all_time_size())
local last = steps:match("%[(%d+),%d+%]%]")
print(assert(heapwise.get_mem_report_with_time(tonumber(last))))
local none, why = heapwise.get_mem_report_with_time(1 << 40)
assert(none == nil and why:find("after the end"), why)
local done, why = heapwise.set_enable_mem_profiler(9)
assert(done == false and why == "types are 1 to 5", why)
"#;

/// Compiles the glue to `heapwise.so`.
fn build_glue(scratch: &Scratch) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut gcc = scratch.command("gcc");
    gcc.args(["-O2", "-shared", "-fPIC", "-I/usr/include/lua5.4", "-o", "heapwise.so"]);
    gcc.arg("-I").arg(root.join("crates/probe/include")).arg(root.join("examples/lua/heapwise_lua.c"));
    assert!(gcc.status().expect("gcc starts").success());
}

/// A script with labels, and coroutines as deep inside each other as Lua allows.
const NESTED: &str = r#"
local function deepest()
  local depth = 0
  local function nest(level)
    depth = level
    coroutine.resume(coroutine.create(nest), level + 1)
  end
  nest(1)
  return depth
end
local before = deepest()
local heapwise = require "heapwise"
local present, why = heapwise.start()
if not present then return print(why) end
assert(before > 100 and deepest() == before)
heapwise.mark("labels")
local worker = coroutine.wrap(function(bytes)
  kept = string.rep("x", bytes) -- line
end)
heapwise.label("job", worker, 1000000)
os.exit(0)
"#;

#[test]
#[ignore = "needs lua5.4"]
fn the_glue_keeps_lines_and_coroutines() {
    let scratch = Scratch::new();
    build_glue(&scratch);
    std::fs::write(scratch.path("nested.lua"), NESTED).expect("written");
    // Without the probe, the reason is there.
    let alone = scratch.command("lua5.4").arg("nested.lua").env("LUA_CPATH", "./?.so").output();
    let said = String::from_utf8(alone.expect("lua starts").stdout).expect("UTF-8");
    assert_eq!(said, "the probe is not in this process\n");
    let mut run =
        scratch.heapwise(&["run", "-q", "--exact", "-o", "nested.hwp", "--", "lua5.4", "nested.lua"]);
    let output = run.env("LUA_CPATH", "./?.so").output().expect("heapwise starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = 1 + NESTED.lines().position(|line| line.ends_with("-- line")).expect("there");
    let recorded = scratch.output_of(&["export", "-f", "folded", "nested.hwp"]);
    let largest =
        recorded.lines().max_by_key(|row| row.rsplit_once(' ').map(|(_, value)| value.parse::<u64>().ok()));
    let largest = largest.expect("a stack");
    assert!(largest.contains("[job]") && largest.contains(&format!("nested.lua:{line})")), "{largest}");
    assert!(largest.contains("(main chunk) (nested.lua:"), "{largest}");
}

#[test]
#[ignore = "needs lua5.4"]
fn a_script_reads_its_own_reports() {
    let scratch = Scratch::new();
    build_glue(&scratch);
    std::fs::write(scratch.path("app.lua"), REPORTS).expect("written");
    let mut run = scratch.heapwise(&["run", "-q", "--off", "--", "lua5.4", "app.lua"]);
    let output = run.env("LUA_CPATH", "./?.so").output().expect("heapwise starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = 1 + REPORTS.lines().position(|line| line.ends_with("-- line")).expect("there");
    let reports: Vec<Value> = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(reports.len(), 4, "{text}");
    for report in &reports {
        let rows = report["mem_report"].as_array().expect("rows").iter().filter_map(Value::as_str);
        let size = |row: &str| -> Option<u64> {
            let [file, number, size] = row.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            let is_it = file.ends_with("app.lua") && number == format!("line:{line}");
            size.strip_prefix("size:").filter(|_| is_it)?.parse().ok()
        };
        // A thousand strings of 1001 to 2000 bytes, and what Lua has beside them.
        let held = rows.filter_map(size).max().unwrap_or(0);
        assert!((1_500_000..1_700_000).contains(&held), "{held} bytes in line {line}: {report}");
    }
}
