//! Interleaved rounds: every system once, then every system again, so that a slow minute of the
//! machine hits all of them alike.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::Bench;
use super::stopwatch::Usage;
use super::system::System;
use super::workload::Workload;
use crate::runner::fresh_folder;
use heapwise_testkit::failure::Failure;

/// How much patience a measurement has.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub rounds: usize,
    /// A single run is ended after this long.
    pub run: Duration,
    /// A system gets no further round once its runs of one workload took this many seconds.
    pub cell: f64,
}

/// Seconds a program must run alone for its ratios to mean anything.
const SHORTEST: f64 = 0.1;

/// One system on one workload.
pub(crate) struct Cell {
    pub system: System,
    pub runs: Vec<Usage>,
    /// Bytes the last run left on disk.
    pub written: u64,
    /// What the first look at the last run's files cost.
    pub report: Option<Usage>,
    /// Why there are no (more) runs.
    pub trouble: Option<String>,
}

/// One workload under every system.
pub(crate) struct Row {
    pub workload: String,
    pub cells: Vec<Cell>,
}

impl Cell {
    fn new(system: System) -> Cell {
        Cell { system, runs: Vec::new(), written: 0, report: None, trouble: None }
    }

    fn spent(&self) -> f64 {
        self.runs.iter().map(|usage| usage.wall).sum()
    }

    /// Ascending values of one measure over the rounds.
    pub(crate) fn sorted(&self, of: impl Fn(&Usage) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The smallest value of one measure.
    pub(crate) fn least(&self, of: impl Fn(&Usage) -> f64) -> Option<f64> {
        self.sorted(of).first().copied()
    }

    /// The middle value of one measure.
    pub(crate) fn median(&self, of: impl Fn(&Usage) -> f64) -> Option<f64> {
        let values = self.sorted(of);
        values.get(values.len() / 2).copied()
    }
}

impl Row {
    /// The run `cell` is a ratio of.
    pub(crate) fn baseline(&self, cell: &Cell) -> Option<&Cell> {
        self.cells.iter().find(|c| c.system.name == cell.system.baseline)
    }

    /// Ratio of the smallest values of one measure. None for a program so short that the figure
    /// would be of its start-up; such a one is there for its memory.
    pub(crate) fn ratio(&self, cell: &Cell, of: impl Fn(&Usage) -> f64 + Copy) -> Option<f64> {
        let base = self.baseline(cell)?;
        let long_enough = base.least(|usage| usage.wall)? >= SHORTEST;
        long_enough.then_some(cell.least(of)? / base.least(of)?)
    }
}

/// Bytes of all files under `folder`.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size =
        |path: &Path| if path.is_dir() { bytes_in(path) } else { path.metadata().map_or(0, |m| m.len()) };
    entries.flatten().map(|entry| size(&entry.path())).sum()
}

fn input(workload: &Workload) -> Result<Stdio, Failure> {
    let Some(path) = &workload.stdin else { return Ok(Stdio::null()) };
    Ok(File::open(path).map_err(|e| Failure::at(path, e))?.into())
}

fn run_once(bench: &Bench, cell: &mut Cell, workload: &Workload) -> Result<(), Failure> {
    let out = bench.folder_of(&cell.system);
    let limit = bench.patience.run;
    fresh_folder(&out)?;
    let mut command = cell.system.command(&bench.heapwise, workload, &out);
    let mut wrapped = bench.stopwatch.wrap(command.current_dir(&out), limit);
    // Beside, for what is in the folder counts as written.
    let complaints = out.with_extension("stderr");
    let file = File::create(&complaints).map_err(|e| Failure::at(&complaints, e))?;
    wrapped.stdin(input(workload)?).stdout(Stdio::null()).stderr(file);
    let usage = bench.stopwatch.run(&mut wrapped)?;
    if usage.wall >= limit.as_secs_f64() {
        cell.trouble = Some(format!("> {} s", limit.as_secs()));
    } else if !usage.status.success() {
        let said = fs::read_to_string(&complaints).unwrap_or_default();
        let last = said.lines().last().unwrap_or("without a word");
        cell.trouble = Some(format!("failed: {}: {last}", usage.status));
    } else {
        cell.runs.push(usage);
        cell.written = bytes_in(&out);
    }
    Ok(())
}

fn first_report(bench: &Bench, cell: &Cell, workload: &Workload) -> Option<Usage> {
    let command = cell.system.report(&bench.heapwise, workload, &bench.folder_of(&cell.system))?;
    let mut wrapped = bench.stopwatch.wrap(&command, bench.patience.run);
    wrapped.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bench.stopwatch.run(&mut wrapped).ok().filter(|usage| usage.status.success())
}

/// Measures `workload` under every system.
pub(crate) fn row(bench: &Bench, workload: &Workload) -> Result<Row, Failure> {
    let fits = |s: &&System| s.only.is_empty() || s.only.contains(&workload.name.as_str());
    let mut cells: Vec<Cell> = bench.systems.iter().filter(fits).map(|s| Cell::new(*s)).collect();
    for _ in 0..bench.patience.rounds {
        for cell in &mut cells {
            if cell.trouble.is_none() && cell.spent() < bench.patience.cell {
                run_once(bench, cell, workload)?;
            }
        }
    }
    for cell in &mut cells {
        if !cell.runs.is_empty() {
            cell.report = first_report(bench, cell, workload);
        }
    }
    Ok(Row { workload: workload.name.clone(), cells })
}
