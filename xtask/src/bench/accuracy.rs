//! How far a sampled profile is from the exact one of the same program, in total and at its ten
//! largest sites.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Bench;
use super::system::System;
use super::workload::Workload;
use crate::runner::fresh_folder;
use heapwise_testkit::failure::Failure;
use serde_json::Value;

/// Single-threaded programs that allocate the same in every run: only there is the exact profile of
/// one run the truth about another.
const REPEATABLE: [&str; 4] = ["factor", "tree_strings", "maps_exceptions", "big_live"];

/// The system whose profile is taken for the truth.
const TRUTH: &str = "heapwise-exact-hash";

/// The sampled systems judged.
const JUDGED: [&str; 2] = ["heapwise-512K", "heapwise-1K"];

/// Errors of one system on one workload, as fractions, averaged over the runs.
pub(crate) struct Accuracy {
    pub workload: String,
    pub system: &'static str,
    pub runs: usize,
    pub total_error: f64,
    pub site_error: f64,
    pub worst_site_error: f64,
}

/// Total and flat bytes per function.
struct Truth {
    total: f64,
    sites: Vec<(String, f64)>,
}

fn read(heapwise: &Path, file: &Path) -> Option<Truth> {
    let mut command = Command::new(heapwise);
    command.args(["top", "--json", "--alloc_space", "-n", "100000"]).arg(file).stderr(Stdio::null());
    let report: Value = serde_json::from_slice(&command.output().ok()?.stdout).ok()?;
    let site = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["flat"].as_f64()?));
    let mut sites: Vec<(String, f64)> = report["rows"].as_array()?.iter().filter_map(site).collect();
    sites.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Truth { total: report["total"].as_f64()?, sites })
}

fn profile(bench: &Bench, system: &System, workload: &Workload) -> Result<Option<Truth>, Failure> {
    let out = bench.folder_of(system);
    fresh_folder(&out)?;
    let mut command = system.command(&bench.heapwise, workload, &out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|e| Failure::at(&bench.heapwise, e))?;
    Ok(if status.success() { read(&bench.heapwise, &out.join("heapwise.profile")) } else { None })
}

fn relative(measured: f64, truth: f64) -> f64 {
    if truth == 0.0 { 0.0 } else { (measured - truth).abs() / truth }
}

fn judge(truth: &Truth, sampled: &[Truth], workload: &Workload, system: &System) -> Accuracy {
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let totals: Vec<f64> = sampled.iter().map(|s| relative(s.total, truth.total)).collect();
    let mut sites = Vec::new();
    for run in sampled {
        for (name, bytes) in truth.sites.iter().take(10).filter(|(_, bytes)| *bytes > 0.0) {
            let measured = run.sites.iter().find(|(other, _)| other == name).map_or(0.0, |(_, b)| *b);
            sites.push(relative(measured, *bytes));
        }
    }
    Accuracy {
        workload: workload.name.clone(),
        system: system.name,
        runs: sampled.len(),
        total_error: mean(&totals),
        site_error: mean(&sites),
        worst_site_error: sites.iter().copied().fold(0.0, f64::max),
    }
}

/// Judges every sampled heapwise mode on every repeatable workload.
pub(crate) fn compare(bench: &Bench, workloads: &[Workload], runs: usize) -> Result<Vec<Accuracy>, Failure> {
    let mut found = Vec::new();
    let Some(exact) = bench.systems.iter().find(|s| s.name == TRUTH) else { return Ok(found) };
    for workload in workloads.iter().filter(|w| REPEATABLE.contains(&w.name.as_str())) {
        let Some(truth) = profile(bench, exact, workload)? else { continue };
        for system in bench.systems.iter().filter(|s| JUDGED.contains(&s.name)) {
            let mut sampled = Vec::new();
            for _ in 0..runs {
                sampled.extend(profile(bench, system, workload)?);
            }
            if !sampled.is_empty() {
                found.push(judge(&truth, &sampled, workload, system));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_truth() {
        assert_eq!(relative(90.0, 100.0), 0.1);
        assert_eq!(relative(5.0, 0.0), 0.0);
    }
}
