//! Nanoseconds of one malloc/free pair, by thread count, and instructions where seconds are too
//! noisy.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use super::Bench;
use super::system::System;
use super::workload::Workload;
use crate::runner::fresh_folder;
use heapwise_testkit::failure::Failure;

/// One line of the `pair` program under one system.
pub(crate) struct Pair {
    pub system: &'static str,
    /// `tight` or `set`.
    pub kind: String,
    pub threads: u32,
    pub nanoseconds: f64,
}

/// Instructions of one pair (mean of both kinds, one thread), counted by callgrind.
pub(crate) struct Instructions {
    pub system: &'static str,
    pub per_pair: f64,
}

fn pair_workload(program: &Path, threads: u32, pairs: u64) -> Workload {
    Workload {
        name: "pair".into(),
        program: program.to_path_buf(),
        args: vec![threads.to_string(), pairs.to_string()],
        env: Vec::new(),
        stdin: None,
    }
}

fn parse(system: &System, line: &str) -> Option<Pair> {
    let mut words = line.strip_prefix("pair ")?.split_whitespace();
    let (kind, threads, nanoseconds) = (words.next()?, words.next()?, words.next()?);
    let (threads, nanoseconds) = (threads.parse().ok()?, nanoseconds.parse().ok()?);
    Some(Pair { system: system.name, kind: kind.into(), threads, nanoseconds })
}

/// The pair program under every system, up to twice as many threads as there are processors.
pub(crate) fn pairs(bench: &Bench, program: &Path, count: u64) -> Result<Vec<Pair>, Failure> {
    let processors = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
    let workload = pair_workload(program, processors * 2, count);
    let mut found = Vec::new();
    for system in bench.systems.iter().filter(|s| s.only.is_empty()) {
        let out = bench.folder_of(system);
        fresh_folder(&out)?;
        let printed = out.join("pairs");
        let file = File::create(&printed).map_err(|e| Failure::at(&printed, e))?;
        let command = system.command(&bench.heapwise, &workload, &out);
        let mut wrapped = bench.stopwatch.wrap(&command, bench.patience.run);
        bench.stopwatch.run(wrapped.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()))?;
        // Cut short or not, every line is a finished measurement.
        let text = fs::read_to_string(&printed).map_err(|e| Failure::at(&printed, e))?;
        found.extend(text.lines().filter_map(|line| parse(system, line)));
    }
    Ok(found)
}

/// Instructions callgrind counts in one run of `pairs` pairs of each kind and round.
fn count(bench: &Bench, system: &System, program: &Path, pairs: u64) -> Option<u64> {
    let out = bench.folder_of(system);
    fresh_folder(&out).ok()?;
    let pair = pair_workload(program, 1, pairs);
    let mut args = vec!["--tool=callgrind".into(), "--callgrind-out-file=/dev/null".into()];
    args.push(pair.program.to_string_lossy().into_owned());
    args.extend(pair.args.iter().cloned());
    let traced = Workload { program: "valgrind".into(), args, ..pair };
    let output = system.command(&bench.heapwise, &traced, &out).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().rev().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}

/// Rounds times kinds of the `pair` program: pairs per unit of its argument.
const PAIRS_PER_UNIT: f64 = 10.0;

/// Instructions a pair: two runs of different length, so that start-up cancels out.
pub(crate) fn instructions(bench: &Bench, program: &Path) -> Vec<Instructions> {
    const SHORT: u64 = 2_000;
    const LONG: u64 = 22_000;
    let measure = |system: &System| {
        let short = count(bench, system, program, SHORT)?;
        let long = count(bench, system, program, LONG)?;
        let per_pair = long.saturating_sub(short) as f64 / ((LONG - SHORT) as f64 * PAIRS_PER_UNIT);
        Some(Instructions { system: system.name, per_pair })
    };
    let counted = |s: &&System| s.name == "none" || s.is_heapwise();
    bench.systems.iter().filter(counted).filter_map(measure).collect()
}
