//! Options and modes of jeprof that depend on more than the text of a table.

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{Scratch, copy_program, victims, write_script};

/// A profile of `plain`, which allocates by functions `w_…`, and the program.
fn profiled(scratch: &Scratch) -> (String, String) {
    let capture = scratch.capture(&["--exact"], "plain", &["5000"]);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    (text(&victims().join("plain")), text(&capture.profile))
}

fn jeprof(scratch: &Scratch, arguments: &[&str]) -> Output {
    scratch.heapwise(&["jeprof"]).args(arguments).output().expect("heapwise starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The number behind `Total:` or `Total (t1):`.
fn total(text: &str) -> u64 {
    let (_, rest) = text.split_once(": ").unwrap_or_else(|| panic!("no total in {text:?}"));
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a total in bytes")
}

#[test]
fn graphs_in_bytes() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let table = stdout(&jeprof(&scratch, &["--text", "--show_bytes", &program, &profile]));
    let bytes = total(&table);
    let dot = stdout(&jeprof(&scratch, &["--dot", "--show_bytes", &program, &profile]));
    assert!(dot.contains(&format!("Total B: {bytes}\\l")), "{dot}");
    let svg = stdout(&jeprof(&scratch, &["--svg", "--show_bytes", &program, &profile]));
    assert!(svg.contains(&format!("Total B: {bytes}<")), "{svg}");
    assert!(!svg.contains("MiB") && !svg.contains("KiB"), "{svg}");
    // A box whose own share is 0 has both numbers.
    assert!(svg.contains(">0 (0.0%)<") && svg.contains(&format!(">of {bytes} (100.0%)<")), "{svg}");
    let pdf = jeprof(&scratch, &["--pdf", "--show_bytes", &program, &profile]);
    assert!(pdf.stdout.starts_with(b"%PDF-"));
}

#[test]
fn heapcheck_sets_holders_apart() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let marked = stdout(&jeprof(&scratch, &["--dot", "--heapcheck", &program, &profile]));
    assert!(marked.contains(",style=filled,fillcolor=gray];"), "{marked}");
    let plain = stdout(&jeprof(&scratch, &["--dot", &program, &profile]));
    assert_eq!(marked.replace(",style=filled,fillcolor=gray", ""), plain);
    // More before than now: a triple border.
    std::fs::write(scratch.path("none.heap"), "heap_v2/0\n  t*: 0: 0 [0: 0]\n").expect("written");
    let base = format!("--base={profile}");
    let less = stdout(&jeprof(&scratch, &["--dot", "--heapcheck", &base, &program, "none.heap"]));
    assert!(less.contains(",peripheries=3];"), "{less}");
}

#[test]
fn threads_have_their_numbers_and_totals() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "cross_thread_free", &[]);
    let program = victims().join("cross_thread_free");
    let (program, profile) = (program.to_str().expect("UTF-8"), capture.profile.to_str().expect("UTF-8"));
    let text = std::fs::read_to_string(profile).expect("readable");
    // `  t1: 3: 4711 [5: 9000] name`, before the first stack.
    let header = text.split("\n@").next().unwrap_or_default();
    let threads = header.lines().filter_map(|line| {
        let (number, counts) = line.trim().strip_prefix('t')?.split_once(':')?;
        let allocated = counts.split_once('[')?.1.split_once(']')?.0.split_once(": ")?.1;
        Some((number.parse::<u64>().ok()?, allocated.parse::<u64>().ok()?))
    });
    let mut compared = 0;
    for (number, allocated) in threads.filter(|(_, allocated)| *allocated > 0) {
        let option = format!("--thread={number}");
        let arguments = ["--text", "--show_bytes", "--alloc_space", &option, program, profile];
        let table = stdout(&jeprof(&scratch, &arguments));
        assert!(table.starts_with(&format!("Total (t{number}): {allocated} B\n")), "{table}\n{header}");
        compared += 1;
    }
    assert!(compared >= 2, "{header}");
    let each = stdout(&jeprof(&scratch, &["--text", "--alloc_space", "--thread=*", program, profile]));
    assert_eq!(each.matches("Total (t").count(), compared, "{each}");
}

#[test]
fn profiles_without_a_program_add_up() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let raw = stdout(&jeprof(&scratch, &["--raw", &program, &profile]));
    for name in ["a.raw", "b.raw"] {
        std::fs::write(scratch.path(name), &raw).expect("written");
    }
    let one = total(&stdout(&jeprof(&scratch, &["--text", "--show_bytes", "a.raw"])));
    let two = total(&stdout(&jeprof(&scratch, &["--text", "--show_bytes", "a.raw", "b.raw"])));
    assert_eq!(two, 2 * one);
    let mixed = total(&stdout(&jeprof(&scratch, &["--text", "--show_bytes", &profile, "b.raw"])));
    assert_eq!(mixed, two);
}

/// `fn=` names of a callgrind file, and the sum of one event.
fn callgrind(text: &str) -> (Vec<&str>, u64) {
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")))
        .filter_map(|name| Some(name.split_once(' ')?.1))
        .collect();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("totals");
    (names, totals.split(' ').next().and_then(|sum| sum.parse().ok()).expect("a sum"))
}

#[test]
fn callgrind_is_of_the_selected_stacks() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let of = |options: &[&str]| {
        let mut arguments = vec!["--callgrind"];
        arguments.extend(options);
        arguments.extend([program.as_str(), &profile]);
        stdout(&jeprof(&scratch, &arguments))
    };
    let whole = of(&[]);
    assert!(whole.contains("\nevents: curB curBk totB totBk totFdB totFdBk\n"), "{whole}");
    let (names, bytes) = callgrind(&whole);
    assert!(names.contains(&"w_malloc") && !names.contains(&"malloc"), "{names:?}");
    let focused = of(&["--focus=^w_malloc$"]);
    let ignored = of(&["--ignore=^w_malloc$"]);
    assert_eq!(callgrind(&focused).1 + callgrind(&ignored).1, bytes);
    assert!(callgrind(&focused).1 > 0 && !callgrind(&ignored).0.contains(&"w_malloc"));
    assert_eq!(callgrind(&of(&["--retain=^w_"])).0.iter().filter(|name| !name.starts_with("w_")).count(), 0);
    assert_eq!(callgrind(&of(&[&format!("--base={profile}")])).1, 0);
    // `export` selects as well.
    scratch.output_of(&["export", "-f", "callgrind", "--focus", "^w_malloc$", "-o", "part.kcg", &profile]);
    let part = std::fs::read_to_string(scratch.path("part.kcg")).expect("written");
    assert_eq!(callgrind(&part).1, callgrind(&focused).1);
}

#[test]
fn perl_patterns_and_source_lines() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let of = |option: &str| stdout(&jeprof(&scratch, &["--text", option, &program, &profile]));
    let others = of("--focus=^(?!w_malloc$|w_fresh$)w_");
    assert!(others.contains(" w_calloc\n") && !others.contains(" w_malloc\n"), "{others}");
    assert!(of(r"--focus=^(w)_\1?malloc$").contains(" w_malloc\n"));
    let lines = of("--lines");
    let row = lines.lines().find(|row| row.contains(" w_malloc ")).expect("a row with its line");
    let place = row.rsplit('/').next().expect("a file and line");
    let focused = of(&format!("--focus={}$", place.replace('.', r"\.")));
    assert!(focused.contains(" w_malloc\n") && !focused.contains(" w_calloc\n"), "{place}: {focused}");
}

#[test]
fn a_graph_of_nothing_is_status_1() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    for mode in ["--dot", "--svg", "--pdf", "--ps"] {
        let output = jeprof(&scratch, &[mode, "--focus=no_such_function", &program, &profile]);
        assert_eq!(output.status.code(), Some(1), "{mode}");
        assert!(stderr(&output).contains("No nodes to print"), "{mode}");
        assert!(output.stdout.is_empty(), "{mode}");
    }
}

#[test]
fn postscript_is_postscript() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let output = jeprof(&scratch, &["--ps", &program, &profile]);
    assert!(output.stdout.starts_with(b"%!PS-Adobe-3.0\n"));
}

#[test]
#[ignore = "needs ghostscript"]
fn ghostscript_draws_our_postscript() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let output = jeprof(&scratch, &["--ps", &program, &profile]);
    std::fs::write(scratch.path("graph.ps"), &output.stdout).expect("written");
    let drawn = scratch
        .command("gs")
        .args(["-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=inkcov", "-o", "-", "graph.ps"])
        .output()
        .expect("install ghostscript");
    let said = stdout(&drawn);
    assert!(drawn.status.success(), "{said}");
    // Coverage by cyan, magenta, yellow and black: something is drawn.
    assert!(
        said.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() > 0.001,
        "{said}"
    );
}

#[test]
#[ignore = "needs objdump"]
fn disassembly_with_its_amounts() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let text = stdout(&jeprof(&scratch, &["--disasm=^w_malloc$", "--show_bytes", &program, &profile]));
    assert!(text.starts_with("ROUTINE ====================== w_malloc\n"), "{text}");
    let table = stdout(&jeprof(&scratch, &["--text", "--show_bytes", &program, &profile]));
    let row = table.lines().find(|row| row.ends_with(" w_malloc")).expect("a row");
    let flat = row.split_whitespace().next().expect("flat");
    assert!(text.lines().any(|line| line.contains("call ") && line.trim_start().starts_with(flat)), "{text}");
    let none = jeprof(&scratch, &["--disasm=no_such_function", &program, &profile]);
    assert_eq!(none.status.code(), Some(2));
    // The same at the prompt.
    std::fs::write(scratch.path("commands"), "disasm ^w_malloc$\nquit\n").expect("written");
    let prompt = scratch
        .heapwise(&["jeprof", "--interactive", "--show_bytes", &program, &profile])
        .stdin(std::fs::File::open(scratch.path("commands")).expect("readable"))
        .output()
        .expect("heapwise starts");
    let disassembly = text.lines().collect::<Vec<_>>().join("\n");
    assert!(stdout(&prompt).contains(&disassembly), "{}", stdout(&prompt));
}

#[test]
fn a_prompt_lists_disassembles_and_exports() {
    let scratch = Scratch::new();
    let (program, profile) = profiled(&scratch);
    let commands = "disasm ^w_malloc$\nlist ^w_malloc$\ncallgrind out.kcg\nweblist ^w_malloc$\nquit\n";
    std::fs::write(scratch.path("commands"), commands).expect("written");
    let output = scratch
        .heapwise(&["jeprof", "--interactive", &program, &profile])
        .env("TMPDIR", scratch.path(""))
        // No desktop here: pages stay where they are. No objdump either.
        .env("PATH", "")
        .stdin(std::fs::File::open(scratch.path("commands")).expect("readable"))
        .output()
        .expect("heapwise starts");
    assert!(stdout(&output).contains("ROUTINE ====================== w_malloc in "), "{}", stdout(&output));
    let file = std::fs::read_to_string(scratch.path("out.kcg")).expect("written");
    assert!(callgrind(&file).1 > 0);
    let said = stderr(&output);
    assert!(said.contains("disassembly needs objdump (binutils)"), "{said}");
    let page = said.lines().find_map(|line| line.split("open it in a browser: ").nth(1)).expect("a page");
    let page = page.split(" (").next().expect("its path");
    assert!(std::fs::read_to_string(page).expect("written").contains("<pre>"), "{said}");
}

#[test]
fn a_wrong_program_is_said_once_with_both_build_ids() {
    let scratch = Scratch::new();
    let (_, profile) = profiled(&scratch);
    let other = victims().join("leaky");
    let other = other.to_str().expect("UTF-8");
    for arguments in
        [vec!["jeprof", "--text", other, &profile], vec!["mem_parser", "-t", "-p", other, "-f", &profile]]
    {
        let output = scratch.heapwise(&arguments).output().expect("heapwise starts");
        let said = stderr(&output);
        let lines: Vec<&str> =
            said.lines().filter(|line| line.contains("is not the profiled program")).collect();
        let [line] = lines.as_slice() else { panic!("{arguments:?}: {said}") };
        let ids = line.split_whitespace().map(|word| word.trim_end_matches(','));
        let is_id = |word: &&str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert_eq!(ids.filter(is_id).count(), 2, "{line}");
    }
}

#[test]
fn a_rebuilt_program_is_said_with_both_build_ids_and_the_share_without_names() {
    let scratch = Scratch::new();
    let (program, _) = profiled(&scratch);
    copy_program(&program, scratch.path("app"));
    let run = scratch.heapwise(&["run", "-q", "--exact", "-o", "app.heap", "--", "./app", "5000"]).status();
    assert!(run.expect("heapwise starts").success());
    std::fs::copy(victims().join("leaky"), scratch.path("app")).expect("replaced");
    let output = scratch.heapwise(&["top", "--no-cache", "app.heap"]).output().expect("heapwise starts");
    let said = stderr(&output);
    assert_eq!(said.matches("is another build: its build-id is ").count(), 1, "{said}");
    assert!(said.contains("% of the bytes are in functions without a name: "), "{said}");
    let table = stdout(&output);
    assert!(table.contains(" app+0x") && !table.contains(" w_"), "{table}");
}

/// A line names the package, or else the file, that would name the unnamed bytes.
#[test]
fn the_package_that_would_name_bytes_is_named() {
    let scratch = Scratch::new();
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(scratch.path("app")).arg(victims().join("plain"));
    assert!(strip.status().expect("strip (binutils) is there").success());
    let run = scratch.heapwise(&["run", "-q", "--exact", "-o", "app.heap", "--", "./app", "5000"]).status();
    assert!(run.expect("heapwise starts").success());
    let app = scratch.path("app").display().to_string();
    let tools = scratch.path("tools");
    std::fs::create_dir(&tools).expect("created");
    let said = || {
        let output = scratch.heapwise(&["top", "--no-cache", "app.heap"]).env("PATH", &tools).output();
        let said = stderr(&output.expect("heapwise starts"));
        let line = said.lines().find(|line| line.contains("% of the bytes are in functions without a name"));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let install = |tool: &str, text: &str| {
        let path = tools.join(tool);
        write_script(&path, text);
    };
    let expect = |line: String, remedy: &str| {
        assert!(line.contains(&app) && line.contains(&format!(" % ({remedy})")), "{line}");
    };
    expect(said(), "give its debug file with --debug-path");
    install("rpm", "#!/bin/sh\nprintf app-libs\n");
    expect(said(), "debuginfo-install app-libs");
    install("dpkg-query", "#!/bin/sh\necho \"app1:amd64: $2\"\n");
    expect(said(), "install app1-dbgsym");
    for tool in ["rpm", "dpkg-query"] {
        std::fs::remove_file(tools.join(tool)).expect("removed");
    }
    std::fs::remove_file(&app).expect("removed");
    expect(said(), "the file is not here; give it with --program or --sysroot");
}
