//! Allocators that the dynamic linker does not lead to: found, named, hooked at their entry, and
//! left alone where they write files of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heapwise_hooks::binary::Binary;
use heapwise_hooks::family::{Place, Reach, families};
use heapwise_hooks::function::Allocator;

use crate::harness::{Capture, Scratch, copy_program, victims, witness};

/// Dumps in jemalloc's format in a scratch directory, with their text.
fn dumps(scratch: &Scratch) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(scratch.path("")).expect("a directory").flatten();
    let mut dumps: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "heap"))
        .collect();
    dumps.sort();
    dumps.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("text"))).collect()
}

/// Whether a dump is jemalloc's and has live blocks: the first line with numbers is their sum.
fn has_blocks(dump: &str) -> bool {
    let sum = dump.lines().find_map(|line| line.trim().strip_prefix("t*: "));
    sum.is_some_and(|sum| !sum.starts_with("0:"))
}

/// `doctor` on a victim: its output, and whether every allocator is seen.
fn doctor(scratch: &Scratch, victim: &str) -> (String, bool) {
    let mut doctor = scratch.heapwise(&["doctor"]);
    let output = doctor.arg(victims().join(victim)).output().expect("heapwise starts");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.success())
}

#[test]
fn allocators_of_programs_are_named() {
    let scratch = Scratch::new();
    let (text, is_healthy) = doctor(&scratch, "leaky");
    assert!(is_healthy && text.contains("libc"), "{text}");
    let (text, is_healthy) = doctor(&scratch, "own_allocator");
    assert!(is_healthy && text.contains("jemalloc") && text.contains("je_malloc"), "{text}");
    let (text, is_healthy) = doctor(&scratch, "static_program");
    assert!(!is_healthy && text.contains("statically linked"), "{text}");
}

/// A process has the libraries that its program needs, too.
#[test]
fn allocators_of_processes_are_named() {
    let scratch = Scratch::new();
    let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let text = loop {
        let output = scratch.heapwise(&["doctor", &sleeper.id().to_string()]).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        // Until the loader has mapped libc.
        if text.contains("libc.so") {
            break text;
        }
    };
    sleeper.kill().expect("killed");
    sleeper.wait().expect("waited");
    assert!(text.contains("seen: calls go through the dynamic linker"), "{text}");
}

#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn static_allocators_are_named() {
    let scratch = Scratch::new();
    for (victim, allocator) in
        [("static_jemalloc", "jemalloc"), ("static_tcmalloc", "tcmalloc"), ("hidden_jemalloc", "jemalloc")]
    {
        let (text, _) = doctor(&scratch, victim);
        assert!(text.contains(allocator) && text.contains("malloc and"), "{victim}: {text}");
        let stripped = scratch.path(&format!("{victim}.stripped"));
        let mut strip = Command::new("strip");
        let status = strip.arg("-o").arg(&stripped).arg(victims().join(victim)).status();
        assert!(status.expect("strip runs").success());
        let output = scratch.heapwise(&["doctor"]).arg(&stripped).output().expect("heapwise starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.contains(allocator), "{victim}, stripped: {text}");
        assert_eq!(text.contains("symbols were stripped"), victim == "hidden_jemalloc", "{text}");
    }
}

/// A jemalloc in the program obeys `MALLOC_CONF` itself: its dump is not replaced by one of the
/// probe, which saw none of its blocks.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn dumps_of_a_static_jemalloc_stay() {
    for victim in ["static_jemalloc", "hidden_jemalloc"] {
        let scratch = Scratch::new();
        let library = scratch.output_of(&["preload"]);
        let mut program = scratch.command(victims().join(victim));
        program.args(["1", "2000"]).env("LD_PRELOAD", library.trim());
        let status = program.env("MALLOC_CONF", "prof:true,prof_final:true,lg_prof_sample:10").status();
        assert!(status.expect("the program runs").success());
        let dumps = dumps(&scratch);
        let of_jemalloc: Vec<_> = dumps.iter().filter(|(_, text)| has_blocks(text)).collect();
        assert_eq!(of_jemalloc.len(), 1, "{victim}: {dumps:?}");
        if victim == "static_jemalloc" {
            assert_eq!(dumps.len(), 1, "{victim}: the probe leaves MALLOC_CONF to jemalloc");
        }
    }
}

/// The dump of a jemalloc that is part of the program, without the probe: its own frames are cut at
/// the leaf, as the real jeprof cuts those of a library.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn jeprof_cuts_the_frames_of_a_static_jemalloc() {
    let scratch = Scratch::new();
    let program = victims().join("static_jemalloc");
    let mut command = scratch.command(&program);
    command.args(["1", "2000"]).env("MALLOC_CONF", "prof:true,prof_final:true,lg_prof_sample:0");
    assert!(command.status().expect("the program runs").success());
    let dumps = dumps(&scratch);
    let [(dump, text)] = dumps.as_slice() else { panic!("{dumps:?}") };
    assert!(has_blocks(text), "{text}");
    let (program, dump) = (program.to_str().expect("UTF-8"), dump.to_str().expect("UTF-8"));
    let table = scratch.output_of(&["jeprof", "--text", "--show_bytes", program, dump]);
    for frame in ["prof_backtrace", "prof_", "je_", "malloc_default", "imalloc"] {
        assert!(!table.split_whitespace().any(|word| word.starts_with(frame)), "{frame}: {table}");
    }
    let is_holder = |row: &str| row.ends_with(" w_malloc") && !row.trim_start().starts_with("0 ");
    assert!(table.lines().any(is_holder), "{table}");
    // The real jeprof shows them, and so does its list of frames to cut.
    let kept = scratch.output_of(&["jeprof", "--text", "--keep_runtime", program, dump]);
    assert!(kept.contains(" prof_backtrace_impl"), "{kept}");
}

/// Metrics of reports, and names of what victims count.
const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// What a program counted is what was recorded.
fn assert_exact(capture: &Capture<'_>, focus: &str) {
    assert!(capture.output.status.success(), "{}", capture.stderr());
    assert!(!capture.stderr().contains("not hooked"), "{}", capture.stderr());
    for (metric, witness) in METRICS {
        assert_eq!(
            capture.total_of(metric, focus),
            capture.witness[witness],
            "{metric}: {}",
            capture.stderr()
        );
    }
}

/// The smallest allocator inside an executable: one function.
#[test]
fn a_function_of_the_executable_is_hooked_at_its_entry() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "own_allocator", &[]);
    assert_eq!(capture.total_of("alloc_objects", "^main$"), 2, "{}", capture.stderr());
    let top = scratch.output_of(&["top", capture.profile.to_str().expect("UTF-8")]);
    assert!(!top.contains("not seen"), "{top}");
}

/// A program that takes the place of the started one by `exec` requests its hooks, and with
/// `--children` so does every other.
#[test]
fn programs_that_are_started_by_exec_are_hooked() {
    let scratch = Scratch::new();
    let blocks = |file: &str| {
        let top = scratch.json_of(&["top", "--json", "--alloc_objects", "--focus", "^main$", file]);
        top["total"].as_i64().expect("a total")
    };
    let run = |options: &[&str], script: &str| {
        let mut run = scratch.heapwise(&["run", "-f", "--exact", "-o", "out.hwp"]);
        run.args(options).args(["--", "sh", "-c", script]).arg(victims().join("own_allocator"));
        let output = run.output().expect("heapwise starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = run(&[], r#"exec env X=1 sh -c 'exec "$0"' "$0""#);
    assert_eq!(blocks("out.hwp"), 2, "{said}");
    // A shell is what starts the program that is meant, unless it starts several.
    let said = run(&[], r#""$0"; true"#);
    assert!(said.contains("the only one that sh started") && !said.contains("not recorded"), "{said}");
    assert_eq!(blocks("out.hwp"), 2, "{said}");
    let said = run(&[], r#""$0"; "$0"; true"#);
    assert!(said.contains("children not recorded: 2; --children records each process"), "{said}");
    assert_eq!(blocks("out.hwp"), 0, "{said}");
    let said = run(&["--children"], r#""$0"; true"#);
    let children = std::fs::read_dir(scratch.path("")).expect("files").flatten();
    let children = children.filter_map(|file| file.file_name().into_string().ok());
    let counts: Vec<i64> =
        children.filter(|name| name.starts_with("out.hwp.")).map(|name| blocks(&name)).collect();
    assert_eq!(counts, [2], "{said}");
}

/// A launcher that ends does not hold up a program that requests hooks.
#[test]
fn a_request_for_hooks_does_not_outlive_the_launcher() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut program = scratch.command(victims().join("own_allocator"));
    program.env("LD_PRELOAD", library.trim());
    program.env("HEAPWISE_CONF", "mode:exact,launcher:1-1,hooks:true");
    let output = program.output().expect("it starts");
    assert_eq!(output.stdout, b"1\n");
}

/// Every event of random ones, in several threads, over a fork, a reset and changes of the mode.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn static_allocators_are_counted_exactly() {
    let scratch = Scratch::new();
    for victim in ["static_jemalloc", "hidden_jemalloc", "static_tcmalloc"] {
        for arguments in [&["4", "3000"], &["1", "500"]] {
            assert_exact(&scratch.capture(&["--exact"], victim, arguments), "^w_");
        }
        let sampled = scratch.capture(&["--rate", "4K"], victim, &["4", "3000"]);
        assert!(sampled.output.status.success(), "{}", sampled.stderr());
    }
}

/// Exceptions that operators throw pass through the code of their hooks.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn operators_of_static_allocators_throw() {
    let scratch = Scratch::new();
    for victim in ["operators_jemalloc", "operators_tcmalloc"] {
        for mode in [&["--exact"][..], &["--rate", "64"]] {
            let capture = scratch.capture(mode, victim, &["200"]);
            assert!(capture.output.status.success(), "{victim}: {}", capture.stderr());
            assert_eq!(capture.witness["bad_allocs"], 200, "{victim}");
        }
        assert_exact(&scratch.capture(&["--exact"], victim, &["200"]), "^w_");
    }
}

/// A copy of a program without symbols, and its debug file.
fn strip(scratch: &Scratch, program: &Path) -> (PathBuf, PathBuf) {
    let name = program.file_name().expect("a name").to_string_lossy();
    let [stripped, debug] = ["stripped", "debug"].map(|end| scratch.path(&format!("{name}.{end}")));
    run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&debug));
    run(Command::new("strip").arg("-o").arg(&stripped).arg(program));
    (stripped, debug)
}

/// A copy of a program without symbols that names its debug file.
fn strip_with_link(scratch: &Scratch, program: &Path) -> PathBuf {
    let (stripped, debug) = strip(scratch, program);
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&stripped));
    stripped
}

fn run(command: &mut Command) {
    assert!(command.status().expect("it runs").success(), "{command:?}");
}

/// Without its symbol table an executable still exports `malloc` and the other functions of C, and
/// its debug file has the rest.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn a_stripped_program_is_counted_by_its_debug_file() {
    let scratch = Scratch::new();
    for victim in ["hidden_jemalloc", "static_jemalloc", "static_tcmalloc"] {
        assert_counted(&scratch, &strip_with_link(&scratch, &victims().join(victim)), &["2", "1000"]);
    }
}

/// What a program counted in its own functions is what was recorded, and every block that it freed
/// was known.
fn assert_counted(scratch: &Scratch, program: &Path, arguments: &[&str]) {
    let mut command = scratch.heapwise(&["run", "-f", "--exact", "-o", "out.hwp", "--"]);
    let output = command.arg(program).args(arguments).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("no hooked function allocated"), "{said}");
    let counted = witness(&output);
    for (metric, name) in METRICS {
        let top = scratch.json_of(&["top", "--json", &format!("--{metric}"), "--focus", "^w_", "out.hwp"]);
        assert_eq!(top["total"].as_i64(), Some(counted[name]), "{metric}: {said}");
    }
}

/// Compiles a program over the sources of mimalloc that a crate has.
fn compile_with_mimalloc(scratch: &Scratch, source: &str, version: &str, flags: &[&str]) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--manifest-path"]);
    let metadata = cargo.arg(tests.join("rust_programs/Cargo.toml")).output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let mut packages = metadata["packages"].as_array().expect("packages").iter();
    let package = packages.find(|package| package["name"] == "libmimalloc-sys").expect("a dependency");
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    let sources = manifest.parent().expect("a folder").join("c_src/mimalloc").join(version);
    let program = scratch.path("over_mimalloc");
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-pthread", "-w"]).args(flags).arg("-I").arg(sources.join("include"));
    compiler.arg(tests.join("programs").join(source)).arg(sources.join("src/static.c"));
    run(compiler.arg("-o").arg(&program));
    program
}

/// Calls of `malloc` and its relatives are calls of mimalloc's own functions.
const RENAMED: [&str; 6] = [
    "-Dmalloc=mi_malloc",
    "-Dcalloc=mi_calloc",
    "-Drealloc=mi_realloc",
    "-Dfree=mi_free",
    "-Dposix_memalign=mi_posix_memalign",
    "-Dmalloc_usable_size=mi_usable_size",
];

/// mimalloc in a program in C: called by its own names, and in place of `malloc`.
#[test]
#[ignore = "compiles mimalloc of a crate from the registry"]
fn mimalloc_of_c_programs_is_counted_exactly() {
    let scratch = Scratch::new();
    let renamed = [&["-O2"][..], &RENAMED].concat();
    for flags in [&*renamed, &["-O2", "-DMI_MALLOC_OVERRIDE"]] {
        let program = compile_with_mimalloc(&scratch, "plain.c", "v2", flags);
        assert_counted(&scratch, &program, &["20000"]);
        assert_counted(&scratch, &strip_with_link(&scratch, &program), &["20000"]);
    }
}

/// What a program says of the usable sizes of its blocks is what was recorded, to the byte.
fn assert_usable(scratch: &Scratch, program: &Path, mode: &[&str]) {
    let mut command = scratch.heapwise(&["run", "-f", "-o", "out.hwp"]);
    let output = command.args(mode).arg("--").arg(program).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let counted = witness(&output);
    for (metric, name) in METRICS {
        let total = |more: &[&str]| {
            let arguments = ["top", "--json", &format!("--{metric}"), "--focus", "^w_", "out.hwp"];
            scratch.json_of(&[&arguments[..], more].concat())["total"].as_i64()
        };
        assert_eq!(total(&[]), Some(counted[name]), "{mode:?} {metric}: {said}");
        if let Some(usable) = counted.get(&format!("usable.{name}")) {
            assert!(*usable > counted[name] + counted[name] / 100, "{counted:?}");
            assert_eq!(total(&["--usable"]), Some(*usable), "{mode:?} {metric} usable: {said}");
        }
    }
}

const EXACT: [&[&str]; 2] = [&["--exact"], &["--exact", "--index", "hash"]];

/// Aligned blocks and blocks that were resized in place have more room than their size says.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn usable_sizes_over_static_allocators_are_the_allocators() {
    let scratch = Scratch::new();
    for victim in ["usable_jemalloc", "usable_tcmalloc"] {
        for mode in EXACT {
            assert_usable(&scratch, &victims().join(victim), mode);
        }
    }
}

#[test]
#[ignore = "compiles mimalloc of a crate from the registry"]
fn usable_sizes_over_mimalloc_are_mimallocs() {
    let scratch = Scratch::new();
    let renamed = [&["-O2"][..], &RENAMED].concat();
    for version in ["v2", "v3"] {
        for flags in [&*renamed, &["-O2", "-DMI_MALLOC_OVERRIDE"]] {
            let program = compile_with_mimalloc(&scratch, "usable_sizes.c", version, flags);
            EXACT.iter().for_each(|mode| assert_usable(&scratch, &program, mode));
        }
    }
}

/// Private heaps of mimalloc: functions whose first argument is the heap.
#[test]
#[ignore = "compiles mimalloc of a crate from the registry"]
fn blocks_of_private_heaps_are_counted_exactly() {
    let scratch = Scratch::new();
    for version in ["v2", "v3"] {
        for level in ["-O1", "-O2", "-O3"] {
            let program = compile_with_mimalloc(&scratch, "over_mimalloc/heaps.c", version, &[level]);
            EXACT.iter().for_each(|mode| assert_usable(&scratch, &program, mode));
        }
    }
}

/// Functions that link-time optimization inlined cannot be hooked. The report names the allocator.
#[test]
#[ignore = "compiles mimalloc of a crate from the registry"]
fn an_inlined_allocator_is_named() {
    let scratch = Scratch::new();
    let flags = [&["-O3", "-flto", "-fvisibility=hidden"][..], &RENAMED].concat();
    let program = compile_with_mimalloc(&scratch, "plain.c", "v2", &flags);
    let mut run = scratch.heapwise(&["run", "-f", "--exact", "-o", "out.hwp", "--"]);
    let output = run.arg(&program).arg("20000").output().expect("runs");
    assert!(output.status.success());
    let top = scratch.output_of(&["top", "out.hwp"]);
    assert!(top.contains("not seen") && top.contains("mimalloc"), "{top}");
}

/// A debug file is found by the build-id, and one of another build is not used: its addresses are
/// not those of the program.
#[test]
#[ignore = "needs libjemalloc-dev and libgoogle-perftools-dev"]
fn debug_files_are_found_by_build_id() {
    let scratch = Scratch::new();
    let (stripped, debug) = strip(&scratch, &victims().join("hidden_jemalloc"));
    let note = scratch.path("note");
    run(Command::new("objcopy").args(["-O", "binary", "-j", ".note.gnu.build-id"]).arg(&stripped).arg(&note));
    let note = std::fs::read(note).expect("a note");
    let id: String = note[note.len() - 20..].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = scratch.path("root/usr/lib/debug/.build-id").join(&id[..2]);
    let place = folder.join(format!("{}.debug", &id[2..]));
    std::fs::create_dir_all(folder).expect("made");
    let is_reached = || {
        let binary = Binary::read(&stripped, &scratch.path("root")).expect("a program");
        let found = families(&binary, Place::Executable);
        found.iter().any(|family| family.allocator == Allocator::Jemalloc && family.reach == Reach::Entry)
    };
    assert!(!is_reached(), "without the debug file");
    std::fs::copy(&debug, &place).expect("copied");
    assert!(is_reached(), "with it");
    let (_, other) = strip(&scratch, &victims().join("static_jemalloc"));
    std::fs::copy(other, place).expect("copied");
    assert!(!is_reached(), "with that of another program");
}

/// Rust programs with the allocators of crates.
#[test]
#[ignore = "builds tests/rust_programs with crates from the registry"]
fn allocators_of_rust_programs_are_counted_exactly() {
    let scratch = Scratch::new();
    let built = build_rust_programs("rust_programs", &[]);
    for program in ["jemalloc", "mimalloc"] {
        let path = built.join(program);
        record_libc(&scratch, &path, "libc.hwp");
        assert_counted_beside_libc(&scratch, &path);
        // libc reads lines with the path of the program, so the path is that of the stripped copy.
        let stripped = strip_with_link(&scratch, &path);
        record_libc(&scratch, &stripped, "libc.hwp");
        assert_counted_beside_libc(&scratch, &stripped);
    }
}

/// jemalloc in place of `malloc`: blocks that libc and the standard library allocate by `malloc`
/// are jemalloc's too. They are those of libc's allocator in the program whose jemalloc has a
/// prefix.
#[test]
#[ignore = "builds tests/rust_programs with crates from the registry"]
fn a_rust_program_whose_malloc_is_jemalloc_is_counted_exactly() {
    let scratch = Scratch::new();
    let prefixed = build_rust_programs("rust_programs", &[]).join("jemalloc");
    let features = ["--features", "unprefixed"];
    let unprefixed = build_rust_programs("rust_unprefixed", &features).join("jemalloc");
    // libc reads lines with the path of the program: one path for both.
    let program = scratch.path("program");
    copy_program(prefixed, &program);
    record_libc(&scratch, &program, "libc.hwp");
    std::fs::remove_file(&program).expect("removed");
    copy_program(unprefixed, &program);
    assert_counted_beside_libc(&scratch, &program);
}

/// What a program counted is what was recorded, without the blocks of `libc.hwp`.
fn assert_counted_beside_libc(scratch: &Scratch, program: &Path) {
    let output = scratch.heapwise(&["run", "-f", "--exact", "-o", "all.hwp", "--"]).arg(program).output();
    let output = output.expect("heapwise runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !stderr.contains("not hooked"), "{stderr}");
    let counted = witness(&output);
    for (metric, name) in METRICS {
        let total = |file: &str| {
            let top = scratch.json_of(&["top", "--json", &format!("--{metric}"), file]);
            top["total"].as_i64().expect("a total")
        };
        assert_eq!(total("all.hwp") - total("libc.hwp"), counted[name], "{metric}: {stderr}");
    }
}

/// Builds `tests/rust_programs`; the directory of its programs.
fn build_rust_programs(folder: &str, features: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rust_programs/Cargo.toml");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--manifest-path"]).arg(sources).args(features);
    let status = cargo.env("CARGO_TARGET_DIR", &built).status().expect("cargo runs");
    assert!(status.success());
    built.join("release")
}

/// Writes a profile of the blocks of libc: a probe that is only preloaded sees no others.
fn record_libc(scratch: &Scratch, program: &Path, profile: &str) {
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(program);
    command.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", "mode:exact,keep_segment:true");
    let child = command.stdout(Stdio::null()).spawn().expect("the program starts");
    let pid = child.id().to_string();
    child.wait_with_output().expect("it ends");
    scratch.output_of(&["dump", "-f", "-o", profile, &pid]);
}
