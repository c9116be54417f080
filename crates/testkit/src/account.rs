//! Two accounts of one run: the victim's own and heapwise's.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What is compared: the metric of a report, and the victim's word for it.
pub const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// A line `witness NAME VALUE` of a victim's output.
pub fn witness(output: &str, name: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("witness ")?.strip_prefix(name)?.trim().parse().ok())
}

/// Total of `metric` over the victim's frames in a profile or recording. `heapwise` is the
/// executable with its surroundings.
pub fn total(mut heapwise: Command, file: &Path, metric: &str, focus: &str) -> Result<u64, String> {
    let output = heapwise
        .args(["top", "--json", &format!("--{metric}"), "--focus", focus])
        .arg(file)
        .output()
        .map_err(|error| error.to_string())?;
    let report = serde_json::from_slice::<serde_json::Value>(&output.stdout).ok();
    report.and_then(|report| report["total"].as_u64()).ok_or_else(|| {
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{} does not open: {}: {problem}", file.display(), output.status)
    })
}

/// Events that a recording says are missing.
pub fn lost(mut heapwise: Command, file: &Path) -> Result<u64, String> {
    let output = heapwise.args(["top", "--json"]).arg(file).output().map_err(|error| error.to_string())?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let gaps = report["coverage"]["gaps"].as_array().ok_or("a report without its coverage")?;
    let lost = gaps.iter().find(|gap| gap["kind"] == "lost_events");
    Ok(lost.and_then(|gap| gap["events"].as_u64()).unwrap_or(0))
}

/// The first metric in which the accounts differ.
pub fn compare(heapwise: impl Fn() -> Command, file: &Path, output: &str) -> Result<(), String> {
    for (metric, name) in METRICS {
        let own = witness(output, name).ok_or_else(|| format!("the victim said nothing of {name}"))?;
        let found = total(heapwise(), file, metric, "^w_")?;
        if found != own {
            return Err(format!("{metric}: heapwise has {found}, the program counted {own}"));
        }
    }
    Ok(())
}

/// The file that `tortured` keeps: its pid, then allocations begun and done of each thread.
fn words(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
}

/// Whose account the file is; 0 before it says.
pub fn pid(path: &Path) -> u64 {
    words(path).first().copied().unwrap_or(0)
}

/// Sums over threads: allocations begun, allocations done.
pub fn begun_and_done(path: &Path) -> (u64, u64) {
    let words = words(path);
    let sum = |offset: usize| words.iter().skip(1 + offset).step_by(2).sum();
    (sum(0), sum(1))
}
