//! The same report from the same dump: jeprof, and heapwise under its name, with the cache of
//! symbols empty and full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::stopwatch::Usage;
use super::{Bench, inputs, tools};
use heapwise_testkit::failure::Failure;

/// jeprof needs most of a minute for the dump, more on a slow machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The fastest of the runs of one reader.
pub(crate) struct Reader {
    pub name: String,
    pub usage: Usage,
}

/// Everything measured on one dump.
pub(crate) struct Readers {
    /// How large the dump is.
    pub bytes: u64,
    pub stacks: usize,
    pub readers: Vec<Reader>,
}

/// Reports of a dump of clang compiling a C++ file; `None` where clang or jemalloc is not
/// installed.
pub(crate) fn compare(bench: &Bench, scratch: &Path, rounds: usize) -> Result<Option<Readers>, Failure> {
    let Some(dump) = dump_of_clang(scratch)? else { return Ok(None) };
    let text = fs::read_to_string(&dump).map_err(|e| Failure::at(&dump, e))?;
    let program = fs::canonicalize("/usr/bin/clang++").map_err(|e| Failure::at(Path::new("clang++"), e))?;
    let cache = scratch.join("symbol-cache");
    let ours = |words: &[&str]| {
        let mut command = Command::new(&bench.heapwise);
        command.args(words).env("XDG_CACHE_HOME", &cache);
        command
    };
    let dump_name = dump.display().to_string();
    let jeprof = || {
        let mut command = Command::new("jeprof");
        command.arg("--text").arg(&program).arg(&dump);
        command
    };
    let same_words = ["jeprof", "--text", &program.display().to_string(), &dump_name];
    let mut readers = vec![Reader { name: "jeprof --text".into(), usage: time(bench, jeprof())? }];
    let mut cold = Vec::new();
    for _ in 0..rounds {
        let _ = fs::remove_dir_all(&cache);
        cold.push(time(bench, ours(&same_words))?);
    }
    readers.extend(fastest("heapwise jeprof --text, cold", cold));
    let looks: [(&str, &[&str]); 8] = [
        ("heapwise jeprof --text, warm", &same_words),
        ("heapwise top, warm", &["top", "--alloc_space", &dump_name]),
        ("heapwise tree, warm", &["tree", "--alloc_space", &dump_name]),
        ("heapwise peek, warm", &["peek", "--alloc_space", "SmallVector", &dump_name]),
        ("heapwise list, warm", &["list", "--alloc_space", "SmallVector", &dump_name]),
        ("heapwise leaks, warm", &["leaks", &dump_name]),
        ("heapwise graph, warm", &["graph", "--alloc_space", "-f", "-o", "/dev/stdout", &dump_name]),
        ("heapwise export -f folded, warm", &["export", "-f", "folded", "--alloc_space", &dump_name]),
    ];
    for (name, words) in looks {
        let runs = (0..rounds).map(|_| time(bench, ours(words))).collect::<Result<Vec<_>, _>>()?;
        readers.extend(fastest(name, runs));
    }
    let stacks = text.lines().filter(|line| line.starts_with('@')).count();
    Ok(Some(Readers { bytes: text.len() as u64, stacks, readers }))
}

fn fastest(name: &str, runs: Vec<Usage>) -> Option<Reader> {
    let best = runs.into_iter().min_by(|a, b| a.wall.total_cmp(&b.wall));
    best.map(|usage| Reader { name: name.into(), usage })
}

fn time(bench: &Bench, command: Command) -> Result<Usage, Failure> {
    let mut wrapped = bench.stopwatch.wrap(&command, LIMIT);
    bench.stopwatch.run(wrapped.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn dump_of_clang(scratch: &Path) -> Result<Option<PathBuf>, Failure> {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !tools::has("clang++") || !tools::has("jeprof") || !library.exists() {
        return Ok(None);
    }
    let source = scratch.join("report.cpp");
    fs::write(&source, inputs::cpp()).map_err(|e| Failure::at(&source, e))?;
    let conf = "prof:true,prof_final:true,prof_accum:true,lg_prof_sample:12,prof_prefix:report";
    let ran = Command::new("clang++")
        .args(["-O1", "-c", "-o", "report.o"])
        .arg(&source)
        .current_dir(scratch)
        .env("LD_PRELOAD", library)
        .env("MALLOC_CONF", conf)
        .status();
    ran.map_err(|e| Failure::at(&source, e))?;
    // The driver forks the compiler on some versions: the largest dump is the compiler's.
    let dumps =
        fs::read_dir(scratch).map_err(|e| Failure::at(scratch, e))?.flatten().map(|entry| entry.path());
    let dumps = dumps.filter(|path| path.extension().is_some_and(|extension| extension == "heap"));
    Ok(dumps.max_by_key(|path| path.metadata().map_or(0, |metadata| metadata.len())))
}
