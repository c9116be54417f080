//! jeprof's own output on dumps of real jemalloc and tcmalloc, against ours, byte for byte.
//!
//! Names are jeprof's own: its `--raw` writes the symbols it found, wrong ones included, and both
//! sides read that. So everything after symbols is compared without exception but those of
//! docs/from-jeprof.md, each of which is a line of [`normalised`]. Symbols themselves are compared
//! in `compat.rs` and in heapwise-symbolize.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::harness::{Scratch, victims};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

const SQL: &str = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
                   insert into t select x, hex(x*x) from c; create index i on t(b); select count(*) from t;";
const LUA: &str = "local t={} for i=1,30000 do t[i]=('x'):rep(i%90) .. i end print(#t)";
const PERL: &str =
    "my %h; for my $i (1..20000) { $h{$i} = [1..5]; push @a, 'x' x ($i % 90); } print scalar(@a)";
const PYTHON: &str = "import json; print(len(json.dumps([{'a': i, 'b': str(i) * 5} for i in range(4000)])))";

/// Columns of a row: `%8s %6s %6s %8s %6s %s`.
const FLAT: Range<usize> = 0..8;
const SUM_PERCENT: Range<usize> = 16..22;
const CUM: Range<usize> = 23..31;

/// Options of reports that must be equal; `BASE` is the first dump of the run.
const OPTIONS: [&str; 67] = [
    "--text",
    "--text --cum",
    "--text --inuse_objects",
    "--text --inuse_objects --cum --show_bytes",
    "--text --alloc_space --show_bytes",
    "--text --alloc_space --cum",
    "--text --alloc_objects",
    "--text --addresses --show_bytes",
    "--text --addresses --alloc_space --cum",
    "--text --files",
    "--text --focus=alloc|fill --show_bytes",
    "--text --focus=main --alloc_objects",
    "--text --ignore=main|lua_ --alloc_space",
    "--text --base=BASE",
    "--text --base=BASE --show_bytes --alloc_space",
    "--text --base=BASE --drop_negative --show_bytes",
    "--text --base=BASE --focus=main --inuse_objects",
    "--collapsed",
    "--collapsed --alloc_space",
    "--collapsed --focus=main",
    "--dot",
    "--dot --alloc_space --nodecount=10",
    "--dot --nodefraction=0.1 --inuse_objects",
    "--dot --focus=main",
    "--text --thread=0 --show_bytes",
    "--text --retain=libc --show_bytes",
    "--text --exclude=libc --show_bytes",
    "--text --show_bytes",
    "--text --show_bytes --cum",
    "--text --alloc_objects --cum",
    "--text --inuse_space --functions",
    "--text --alloc_space --functions --cum --show_bytes",
    "--text --addresses",
    "--text --addresses --inuse_objects",
    "--text --files --alloc_space --show_bytes",
    "--text --files --cum",
    "--text --files --inuse_objects --cum",
    "--text --focus=^main$",
    "--text --focus=^main$ --cum --alloc_space",
    "--text --ignore=^main$ --show_bytes",
    "--text --focus=main --ignore=alloc --show_bytes",
    "--text --focus=(?i)MAIN --alloc_objects",
    r"--text --focus=^(?!main)\w+$ --show_bytes",
    "--text --ignore=(?=m)main --alloc_space",
    "--text --focus=no_such_function",
    "--text --retain=main|alloc --alloc_space",
    "--text --exclude=main --alloc_space --cum",
    "--text --exclude=^(?!main) --show_bytes",
    "--text --retain=^(m)ain --alloc_objects",
    "--text --base=BASE --cum",
    "--text --base=BASE --addresses --show_bytes",
    "--text --base=BASE --alloc_objects --cum",
    "--text --base=BASE --ignore=main --alloc_space",
    "--text --thread=0 --alloc_space --cum",
    "--text --thread=* --show_bytes",
    "--text --thread=0 --inuse_objects --focus=main",
    "--dot --show_bytes",
    "--dot --show_bytes --heapcheck",
    "--dot --cum --alloc_objects",
    "--dot --nodecount=5",
    "--dot --nodefraction=0 --show_bytes --nodecount=20",
    "--dot --ignore=main --alloc_space",
    "--dot --retain=main|alloc --show_bytes",
    "--dot --thread=0 --show_bytes",
    "--collapsed --inuse_objects",
    "--collapsed --alloc_objects --ignore=main",
    "--collapsed --base=BASE",
];

#[test]
#[ignore = "needs jeprof and programs to profile; long"]
fn reports_of_jemalloc_dumps_equal_jeprofs() {
    let scratch = Scratch::new();
    let ours = victims().join("inlined_templates");
    let ours = ours.to_str().expect("UTF-8");
    let programs: [(&str, &[&str], &str); 6] = [
        ("exact", &[ours, "1000"], "lg_prof_sample:0"),
        ("sampled", &[ours, "3000"], "lg_prof_sample:12,lg_prof_interval:21"),
        ("sqlite", &["/usr/bin/sqlite3", ":memory:", SQL], "lg_prof_sample:12,lg_prof_interval:21"),
        ("lua", &["/usr/bin/lua5.4", "-e", LUA], "lg_prof_sample:10,lg_prof_interval:21"),
        ("perl", &["/usr/bin/perl", "-e", PERL], "lg_prof_sample:12,lg_prof_interval:22"),
        ("python", &["/usr/bin/python3", "-c", PYTHON], "lg_prof_sample:12,lg_prof_interval:22"),
    ];
    for (name, command, options) in programs {
        let conf = format!("prof:true,prof_final:true,prof_accum:true,prof_prefix:{name},{options}");
        run(&scratch, command, "libjemalloc.so.2", &[("MALLOC_CONF", &conf), ("PYTHONMALLOC", "malloc")]);
        Corpus::new(&scratch, command[0], name).compare(&OPTIONS);
    }
}

/// A Rust program that keeps strings in a map and clones of them in a vector.
const RUST: &str = r#"
use std::collections::HashMap;
#[inline(never)]
fn keep(map: &mut HashMap<usize, String>, n: usize) {
    for at in 0..n { map.insert(at, "x".repeat(at % 90 + 1)); }
}
#[inline(never)]
fn copies(map: &HashMap<usize, String>) -> Vec<String> { map.values().filter(|text| text.len() > 40).cloned().collect() }
fn main() {
    let mut map = HashMap::new();
    keep(&mut map, 8000);
    let kept = copies(&map);
    std::thread::spawn(move || { let more: Vec<Box<[u8]>> = (0..500).map(|n| vec![0; n].into()).collect(); std::mem::forget(more); }).join().unwrap();
    println!("{}", kept.len());
    std::mem::forget((map, kept));
}
"#;

/// Compiles a program; its path.
fn compiled(scratch: &Scratch, compiler: &str, arguments: &[&str], name: &str) -> String {
    let status = scratch.command(compiler).args(arguments).args(["-o", name]).status();
    assert!(status.expect("a compiler").success(), "{compiler} {arguments:?}");
    scratch.path(name).display().to_string()
}

/// Programs of each kind: Rust, C that is and is not position-independent, stripped, with a file of
/// debug information, with a library that is loaded later.
#[test]
#[ignore = "needs jeprof, rustc and gcc; long"]
fn reports_of_every_kind_of_program_equal_jeprofs() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("kept.rs"), RUST).expect("written");
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/plain.c");
    let plain = plain.to_str().expect("UTF-8");
    let rust = compiled(&scratch, "rustc", &["-g", "-O", "kept.rs"], "rust");
    let fixed = compiled(&scratch, "gcc", &["-g", "-O1", "-no-pie", plain], "fixed");
    let stripped = compiled(&scratch, "gcc", &["-O1", "-s", plain], "stripped");
    // Its names are in a file of their own.
    let split = compiled(&scratch, "gcc", &["-g", "-O1", plain], "split");
    for arguments in [
        &["--only-keep-debug", "split", "split.debug"][..],
        &["--strip-all", "split"],
        &["--add-gnu-debuglink=split.debug", "split"],
    ] {
        assert!(scratch.command("objcopy").args(arguments).status().expect("binutils").success());
    }
    let plugins = victims().join("dlopen_close").display().to_string();
    for (name, command) in [
        ("rust", vec![rust.as_str()]),
        ("fixed", vec![fixed.as_str(), "3000"]),
        ("stripped", vec![stripped.as_str(), "3000"]),
        ("split", vec![split.as_str(), "3000"]),
        ("plugins", vec![plugins.as_str()]),
    ] {
        let conf = format!(
            "prof:true,prof_final:true,prof_accum:true,prof_prefix:{name},lg_prof_sample:8,lg_prof_interval:19"
        );
        run(&scratch, &command, "libjemalloc.so.2", &[("MALLOC_CONF", &conf)]);
        let corpus = Corpus::new(&scratch, command[0], name);
        // "names of the base": the library of the first dump is gone in the last.
        let is_compared = |options: &&str| name != "plugins" || !options.contains("--base");
        corpus.compare(&OPTIONS.into_iter().filter(is_compared).collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs jeprof and programs to profile; long"]
fn reports_of_tcmalloc_dumps_equal_jeprofs_too() {
    let scratch = Scratch::new();
    let ours = victims().join("inlined_templates");
    let ours = ours.to_str().expect("UTF-8");
    for (name, command) in [
        ("ours", [ours, "1000"].as_slice()),
        ("sqlite", &["/usr/bin/sqlite3", ":memory:", SQL]),
        ("lua", &["/usr/bin/lua5.4", "-e", LUA]),
    ] {
        let environment = [("HEAPPROFILE", name), ("HEAP_PROFILE_ALLOCATION_INTERVAL", "2000000")];
        run(&scratch, command, "libtcmalloc.so.4", &environment);
        let corpus = Corpus::new(&scratch, command[0], name);
        // "the youngest frame of a tcmalloc dump": its address is one too high in the original.
        let compared = OPTIONS.into_iter().filter(|options| !options.contains("--addresses"));
        corpus.compare(&compared.collect::<Vec<_>>());
    }
}

/// Runs a program over another allocator. The same blocks are sampled in each run: jemalloc seeds
/// its random numbers with an address, and scripts hash with a seed.
fn run(scratch: &Scratch, command: &[&str], library: &str, environment: &[(&str, &str)]) {
    let library = Path::new(LIBRARIES).join(library);
    assert!(library.exists(), "install libjemalloc2 and libgoogle-perftools4");
    // The variables are those of the program alone, not of `setarch`.
    let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
    let output = scratch
        .command("setarch")
        .args(["--addr-no-randomize", "env", "PERL_HASH_SEED=0", "PYTHONHASHSEED=0"])
        .args(variables)
        .arg(format!("LD_PRELOAD={}", library.display()))
        .args(command)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The dumps of one run, with names.
struct Corpus<'a> {
    scratch: &'a Scratch,
    base: PathBuf,
    last: PathBuf,
}

impl<'a> Corpus<'a> {
    fn new(scratch: &'a Scratch, program: &str, prefix: &str) -> Self {
        let dumps = numbered_dumps(scratch, prefix);
        let first = dumps.first().expect("a dump");
        let last = dumps.last().expect("a dump");
        let named = |dump: &Path| with_names(scratch, program, dump);
        Self { scratch, base: named(first), last: named(last) }
    }

    /// Compares the reports of all these options, and shows every difference.
    fn compare(&self, options: &[&str]) {
        let differing: Vec<String> = options.iter().filter_map(|options| self.difference(options)).collect();
        assert!(differing.is_empty(), "{} of {}: {}", differing.len(), options.len(), differing.join("\n"));
    }

    fn difference(&self, options: &str) -> Option<String> {
        // "`--retain`, `--exclude` look at the outermost of functions inlined into each other".
        let removes = options.contains("--retain") || options.contains("--exclude");
        if removes && !options.contains("=libc") && self.has_inlined_functions() {
            return None;
        }
        let base = self.base.to_str().expect("UTF-8");
        let arguments: Vec<String> = options.split(' ').map(|option| option.replace("BASE", base)).collect();
        let output = |mut command: std::process::Command| {
            // Perl's hashes have another order in each run, and jeprof adds fractions in it.
            command.args(&arguments).arg(&self.last).env("PERL_HASH_SEED", "0");
            let output = command.output().expect("install libjemalloc-dev");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let theirs = output(self.scratch.command("jeprof"));
        // "allocator frames of Rust's and C++'s libraries": cut as jeprof cuts.
        let ours = output(self.scratch.heapwise(&["jeprof", "--keep_runtime"]));
        let case = format!("{options} {}", self.last.display());
        if options.starts_with("--collapsed") {
            // A filter may leave nothing; without one there are stacks.
            assert!(!theirs.is_empty() || options.contains("--ignore"), "{case}");
            return other_stack(&ours, &theirs).map(|stack| format!("{case}: {stack}"));
        }
        let mut theirs = normalised(&theirs, options, &ours);
        let mut ours = comparable(&ours, options);
        if options.contains("--addresses") {
            // Ties are ordered by label, which differs for places without a name.
            theirs.sort();
            ours.sort();
        }
        let only = |rows: &[String], others: &[String]| {
            rows.iter().filter(|row| !others.contains(row)).cloned().collect::<Vec<_>>()
        };
        let (here, there) = (only(&ours, &theirs), only(&theirs, &ours));
        (ours != theirs).then(|| format!("{case}: only here {here:#?}, only in jeprof's {there:#?}"))
    }
}

impl Corpus<'_> {
    fn has_inlined_functions(&self) -> bool {
        let text = std::fs::read_to_string(&self.last).expect("readable");
        let symbols = text.split("\n---\n").next().unwrap_or_default();
        symbols.lines().any(|line| line.starts_with("0x") && line.contains("--"))
    }
}

/// The dumps of one run, in order.
fn numbered_dumps(scratch: &Scratch, prefix: &str) -> Vec<PathBuf> {
    let directory = std::fs::read_dir(scratch.path("")).expect("readable");
    let mut dumps: Vec<PathBuf> = directory
        .map(|entry| entry.expect("readable").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{prefix}.")) && name.ends_with(".heap")
        })
        .collect();
    dumps.sort_by_key(|path| numbers_of(path));
    dumps
}

/// What orders the dumps of one run: the numbers in their names.
fn numbers_of(dump: &Path) -> Vec<u64> {
    let name = dump.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// The dump behind the symbols that the original finds for it.
fn with_names(scratch: &Scratch, program: &str, dump: &Path) -> PathBuf {
    let output = scratch
        .command("jeprof")
        .arg("--raw")
        .arg(program)
        .arg(dump)
        .output()
        .expect("install libjemalloc-dev");
    let symbols = String::from_utf8_lossy(&output.stdout);
    // "`--raw` of a local file": jeprof dies behind the symbols.
    let (symbols, _) = symbols.split_once("\n---\n").expect("the end of the symbols");
    // "an address outside every symbol gets the nearest name": the allocator's own `operator new`.
    let symbols = symbols.replace(" malloc_usable_size<", " operator new(unsigned long)<");
    // "names without lines": a place without a name is `?? ?` there, and its address here.
    let named = symbols.lines().filter(|line| !line.ends_with(" ??") && !line.contains(" 0x"));
    let symbols: Vec<String> = named.map(without_qualified_self).collect();
    let symbols = symbols.join("\n");
    let named = dump.with_extension("raw");
    let profile = std::fs::read(dump).expect("readable");
    std::fs::write(&named, [symbols.as_bytes(), b"\n---\n--- heap\n", &profile].concat()).expect("written");
    named
}

/// "Rust's `<A as T>::fmt` is `::fmt`": both sides read names without the brackets.
fn without_qualified_self(line: &str) -> String {
    let Some((address, chain)) = line.split_once(' ').filter(|(address, _)| address.starts_with("0x")) else {
        return line.to_owned();
    };
    let plain = |name: &str| match name.starts_with('<') {
        true => name.replace(['<', '>', ' '], ""),
        false => name.to_owned(),
    };
    let names: Vec<String> = chain.split("--").map(plain).collect();
    format!("{address} {}", names.join("--"))
}

/// The original's output as ours must be, for the cases of docs/from-jeprof.md.
fn normalised(theirs: &str, options: &str, ours: &str) -> Vec<String> {
    // "a total of 0: nothing", and no graph of no boxes either.
    let is_nothing =
        if options.starts_with("--dot") { !ours.contains("\nN1 [") } else { ours.starts_with("Total: 0") };
    if theirs.is_empty() && is_nothing {
        return comparable(ours, options);
    }
    let lines = comparable(theirs, options);
    if options.contains("--addresses") || options.contains("--files") {
        // "names without lines": `?` for the file.
        let file = |line: String| match line.strip_suffix(" ?") {
            Some(rest) => nameless(rest).unwrap_or_else(|| format!("{rest} ??:?")),
            None => line,
        };
        return lines.into_iter().map(file).collect();
    }
    lines
}

/// A row of a place without a name: `--raw` files have its address for a name, which is then there
/// twice.
fn nameless(row: &str) -> Option<String> {
    let (rest, name) = row.rsplit_once(' ')?;
    let rest = rest.strip_suffix(name.strip_prefix("0x")?)?;
    Some(format!("{rest}{name}"))
}

/// What is compared of an output: all of a table; of graphs the boxes.
fn comparable(text: &str, options: &str) -> Vec<String> {
    if options.starts_with("--dot") {
        return boxes(text);
    }
    // "a total of 0: nothing", of one thread among others.
    let is_nothing = |line: &&str| line.starts_with("Total (t") && line.ends_with(": 0 B");
    let lines = text.lines().filter(|line| !is_nothing(line)).map(str::to_owned).collect();
    if options.starts_with("--text") { with_ties_by_name(lines, options.contains("--cum")) } else { lines }
}

/// The boxes of a graph, without the arrows ("graphs: recursion") and without their numbers, which
/// are those of the rows, ties included.
fn boxes(text: &str) -> Vec<String> {
    let unnumbered = |line: &str| match line.split_once(" [label=") {
        Some((_, label)) => without_same_cum(label),
        None => line.to_owned(),
    };
    let mut boxes: Vec<String> = text.lines().filter(|line| !line.contains(" -> ")).map(unnumbered).collect();
    boxes.sort();
    boxes
}

/// A box whose two sums read the same: jeprof adds fractions in an order of its own, so that they
/// may differ in the last bit.
fn without_same_cum(label: &str) -> String {
    if let Some((before, after)) = label.split_once("\\rof ")
        && let Some((cum, rest)) = after.split_once("\\r")
        && before.ends_with(&format!("\\n{cum}"))
    {
        return format!("{before}\\r{rest}");
    }
    label.to_owned()
}

/// Fractions are added in the order of a hash there, so that equal rows may differ in their last
/// bit, and be ranked by it: rows of the same number are ordered by name, and their running sum is
/// omitted.
fn with_ties_by_name(mut lines: Vec<String>, by_cum: bool) -> Vec<String> {
    let rank = if by_cum { CUM } else { FLAT };
    for ties in lines.chunk_by_mut(|one, next| one.get(rank.clone()) == next.get(rank.clone())) {
        if ties.len() > 1 && ties[0].len() > SUM_PERCENT.end {
            ties.iter_mut().for_each(|row| row.replace_range(SUM_PERCENT, ""));
            ties.sort_unstable();
        }
    }
    lines
}

/// Folded stacks come in the order of a hash, several lines for one stack of names
/// ("`--collapsed`"), each without its fraction: sums may differ by less than the number of lines.
fn other_stack(ours: &str, theirs: &str) -> Option<String> {
    let mut sums: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
    for (stack, value) in theirs.lines().filter_map(|line| line.rsplit_once(' ')) {
        let sum = sums.entry(stack).or_default();
        sum.0 += value.parse::<i64>().expect("a number");
        sum.1 += 1;
    }
    for (stack, value) in ours.lines().filter_map(|line| line.rsplit_once(' ')) {
        sums.entry(stack).or_default().2 += value.parse::<i64>().expect("a number");
    }
    let mut differing = sums.into_iter().filter(|(_, (theirs, lines, ours))| (theirs - ours).abs() >= *lines);
    let describe = |(stack, (theirs, lines, ours)): (&str, (i64, i64, i64))| {
        format!("{theirs} in {lines} lines, {ours} here: {stack}")
    };
    differing.next().map(describe)
}
