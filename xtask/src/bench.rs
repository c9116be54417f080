//! `cargo xtask bench`: heapwise side by side with its peers, in one run, written to
//! `docs/BENCHMARKS.md`.

mod accuracy;
mod inputs;
mod jeprof;
mod measure;
mod micro;
mod options;
mod page;
mod redis;
mod stopwatch;
mod system;
mod tools;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};

use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;
use measure::Patience;
use options::Options;
use stopwatch::Stopwatch;
use system::System;

pub(crate) use options::USAGE;

/// What every measurement shares.
struct Bench {
    heapwise: PathBuf,
    systems: Vec<System>,
    stopwatch: Stopwatch,
    out: PathBuf,
    patience: Patience,
}

/// Everything measured.
#[derive(Default)]
struct Results {
    /// Date, machine and versions, as Markdown.
    machine: String,
    rows: Vec<measure::Row>,
    pairs: Vec<micro::Pair>,
    instructions: Vec<micro::Instructions>,
    redis: Vec<redis::Served>,
    accuracy: Vec<accuracy::Accuracy>,
    readers: Option<jeprof::Readers>,
}

fn machine(heapwise: &Path, quick: bool) -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let date = tools::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]).unwrap_or_default();
    let kernel = tools::first_line("uname", &["-sr"]).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let kind = if quick { "quick run" } else { "full run" };
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    let versions: Vec<String> =
        tools::versions(heapwise).iter().map(|(name, version)| format!("{name}: {version}")).collect();
    format!(
        "{date}, {kind}; {processors} × {}, {} memory, {kernel}, load {load} at the start.\n\n{}\n",
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
        versions.join(" · "),
    )
}

impl Bench {
    fn new(root: &Path, scratch: &Path, options: &Options) -> Result<Bench, Failure> {
        let heapwise = match &options.heapwise {
            Some(path) => path.canonicalize().map_err(|e| Failure::at(path, e))?,
            None => runner::build_heapwise(root, Build::Release)?,
        };
        Ok(Bench {
            heapwise,
            systems: system::select(&options.systems, options.quick)?,
            stopwatch: Stopwatch::new(scratch.join("programs/stopwatch"), scratch),
            out: scratch.join("out"),
            patience: options.patience(),
        })
    }

    /// Where the files of `system` go.
    fn folder_of(&self, system: &System) -> PathBuf {
        self.out.join(system.name)
    }
}

/// Measures section by section; the page is saved after each, so that an interrupted run keeps what
/// it has.
fn measure_all(root: &Path, scratch: &Path, options: &Options) -> Result<Results, Failure> {
    let own = workload::own(root, &scratch.join("programs"), options.quick)?;
    let mut wanted = [own.clone(), workload::real(scratch, options.quick)?].concat();
    wanted.retain(|w| options.wants(&w.name));
    if let Some(folder) = &options.programs {
        wanted.extend(workload::of_folder(folder)?);
    }
    let bench = Bench::new(root, scratch, options)?;
    let mut results = Results { machine: machine(&bench.heapwise, options.quick), ..Results::default() };
    for workload in &wanted {
        eprintln!("bench: {}", workload.name);
        results.rows.push(measure::row(&bench, workload)?);
        save(root, options, &results)?;
    }
    if options.wants("pair") {
        eprintln!("bench: pair");
        let count = if options.quick { 200_000 } else { 1_000_000 };
        let program = scratch.join("programs/pair");
        results.pairs = micro::pairs(&bench, &program, count)?;
        results.instructions = micro::instructions(&bench, &program);
        save(root, options, &results)?;
    }
    if options.wants("redis") && tools::has("redis-server") {
        eprintln!("bench: redis");
        let (rounds, requests) = if options.quick { (1, 50_000) } else { (3, 200_000) };
        results.redis = redis::run(&bench, rounds, requests)?;
        save(root, options, &results)?;
    }
    if options.wants("accuracy") {
        eprintln!("bench: accuracy");
        let runs = if options.quick { 2 } else { 10 };
        results.accuracy = accuracy::compare(&bench, &own, runs)?;
        save(root, options, &results)?;
    }
    if options.wants("report") {
        eprintln!("bench: report");
        results.readers = jeprof::compare(&bench, scratch, if options.quick { 1 } else { 5 })?;
        save(root, options, &results)?;
    }
    Ok(results)
}

/// Writes the page, unless it goes to stdout, which gets it once, at the end.
fn save(root: &Path, options: &Options, results: &Results) -> Result<(), Failure> {
    if options.out == Path::new("-") {
        return Ok(());
    }
    let file = root.join(&options.out);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|e| Failure::at(folder, e))?;
    }
    fs::write(&file, page::write(results)).map_err(|e| Failure::at(&file, e))
}

/// The command.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let options = Options::parse(args)?;
    tools::install();
    let scratch = std::env::temp_dir().join(format!("heapwise-bench.{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|e| Failure::at(&scratch, e))?;
    let results = measure_all(root, &scratch, &options);
    // A folder that cannot be removed is no reason to lose the figures.
    let _ = fs::remove_dir_all(&scratch);
    let results = results?;
    if options.out == Path::new("-") {
        print!("{}", page::write(&results));
    } else {
        eprintln!("bench: wrote {}", root.join(&options.out).display());
    }
    Ok(())
}
