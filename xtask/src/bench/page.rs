//! `docs/BENCHMARKS.md`: the tables, the machine, the method.

use std::fmt::Write as _;

use super::Results;
use super::jeprof::{Reader, Readers};
use super::measure::{Cell, Row};
use super::stopwatch::Usage;

/// One Markdown table.
struct Table {
    text: String,
}

impl Table {
    fn new(header: &[String]) -> Table {
        let rule: Vec<&str> =
            header.iter().enumerate().map(|(i, _)| if i == 0 { "---" } else { "---:" }).collect();
        Table { text: format!("| {} |\n|{}|\n", header.join(" | "), rule.join("|")) }
    }

    fn row(&mut self, cells: &[String]) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| t.to_string()).collect()
}

/// Systems as rows, workloads as columns: one figure each, chosen by `figure`.
fn grid(rows: &[Row], mean: bool, figure: impl Fn(&Row, &Cell) -> Option<f64>, digits: usize) -> String {
    let mut header = words(&["system"]);
    header.extend(rows.iter().map(|row| row.workload.clone()));
    if mean {
        header.extend(words(&["mean", "worst"]));
    }
    let mut table = Table::new(&header);
    for name in system_names(rows) {
        let mut cells = vec![name.to_string()];
        let mut values = Vec::new();
        for row in rows {
            let cell = row.cells.iter().find(|c| c.system.name == name);
            let value = cell.and_then(|cell| figure(row, cell));
            let trouble = cell.and_then(|cell| cell.trouble.clone()).unwrap_or_else(|| "–".into());
            cells.push(value.map_or(trouble, |v| format!("{v:.digits$}")));
            values.extend(value);
        }
        if mean {
            let count = values.len().max(1) as f64;
            cells.push(format!("{:.digits$}", values.iter().sum::<f64>() / count));
            cells.push(format!("{:.digits$}", values.iter().copied().fold(0.0, f64::max)));
        }
        table.row(&cells);
    }
    table.text
}

fn system_names(rows: &[Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for cell in rows.iter().flat_map(|row| &row.cells) {
        if !names.contains(&cell.system.name) {
            names.push(cell.system.name);
        }
    }
    names
}

/// Every figure of every cell: what the grids leave out.
fn details(rows: &[Row]) -> String {
    let mut table = Table::new(&words(&[
        "workload",
        "system",
        "runs",
        "wall min s",
        "wall median s",
        "spread %",
        "ratio min",
        "ratio median",
        "CPU ratio",
        "peak RSS MB",
        "written MB",
    ]));
    let wall = |usage: &Usage| usage.wall;
    for row in rows {
        for cell in row.cells.iter().filter(|cell| !cell.runs.is_empty()) {
            let walls = cell.sorted(wall);
            let (least, most) = (walls[0], walls[walls.len() - 1]);
            let median = cell.median(wall).unwrap_or(least);
            let base = row.baseline(cell).and_then(|b| b.median(wall)).unwrap_or(median);
            table.row(&[
                row.workload.clone(),
                cell.system.name.to_string(),
                cell.runs.len().to_string(),
                format!("{least:.3}"),
                format!("{median:.3}"),
                format!("{:.0}", (most - least) / least * 100.0),
                row.ratio(cell, wall).map_or("–".into(), |r| format!("{r:.2}")),
                format!("{:.2}", median / base),
                row.ratio(cell, |u| u.cpu).map_or("–".into(), |r| format!("{r:.2}")),
                cell.least(|u| u.peak_rss as f64).map_or("–".into(), |b| megabytes(b as u64)),
                megabytes(cell.written),
            ]);
        }
    }
    table.text
}

fn reports(rows: &[Row]) -> String {
    let mut table = Table::new(&words(&["workload", "system", "file MB", "seconds", "peak RSS MB"]));
    for row in rows {
        for cell in &row.cells {
            let Some(report) = cell.report else { continue };
            table.row(&[
                row.workload.clone(),
                cell.system.name.to_string(),
                megabytes(cell.written),
                format!("{:.3}", report.wall),
                megabytes(report.peak_rss),
            ]);
        }
    }
    table.text
}

fn pairs(results: &Results) -> String {
    let mut threads: Vec<u32> = results.pairs.iter().map(|p| p.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut header = words(&["system"]);
    for kind in ["tight", "set"] {
        header.extend(threads.iter().map(|t| format!("{kind} ×{t}")));
    }
    header.push("instructions".into());
    let mut table = Table::new(&header);
    let mut names: Vec<&str> = Vec::new();
    names.extend(results.pairs.iter().map(|p| p.system));
    names.dedup();
    for name in names {
        let mut cells = vec![name.to_string()];
        for kind in ["tight", "set"] {
            for count in &threads {
                let found =
                    results.pairs.iter().find(|p| p.system == name && p.kind == kind && p.threads == *count);
                cells.push(found.map_or("–".into(), |p| format!("{:.1}", p.nanoseconds)));
            }
        }
        let counted = results.instructions.iter().find(|i| i.system == name);
        cells.push(counted.map_or("–".into(), |i| format!("{:.0}", i.per_pair)));
        table.row(&cells);
    }
    table.text
}

fn redis(results: &Results) -> String {
    let mut table = Table::new(&words(&["system", "requests/s", "ratio", "p99 ms", "peak RSS MB"]));
    let base = results.redis.iter().find(|s| s.system == "none").map_or(1.0, |s| s.requests);
    for served in &results.redis {
        table.row(&[
            served.system.to_string(),
            format!("{:.0}", served.requests),
            format!("{:.2}", served.requests / base),
            format!("{:.2}", served.p99),
            megabytes(served.peak_rss),
        ]);
    }
    table.text
}

fn accuracy(results: &Results) -> String {
    let mut table = Table::new(&words(&[
        "workload",
        "system",
        "runs",
        "error of total",
        "mean error of top 10",
        "worst of top 10",
    ]));
    let percent = |fraction: f64| format!("{:.2} %", fraction * 100.0);
    for a in &results.accuracy {
        table.row(&[
            a.workload.clone(),
            a.system.to_string(),
            a.runs.to_string(),
            percent(a.total_error),
            percent(a.site_error),
            percent(a.worst_site_error),
        ]);
    }
    table.text
}

fn report_times(readers: &Readers) -> String {
    let mut table = Table::new(&words(&["reader", "ms", "times as fast as jeprof", "CPU ms", "MB"]));
    let first = readers.readers.first().map_or(0.0, |reader| reader.usage.wall);
    for Reader { name, usage } in &readers.readers {
        table.row(&[
            name.clone(),
            format!("{:.0}", usage.wall * 1e3),
            format!("{:.0}", first / usage.wall),
            format!("{:.0}", usage.cpu * 1e3),
            megabytes(usage.peak_rss),
        ]);
    }
    table.text
}

const METHOD: &str = "\
Each workload runs under every system in turn, and again, for the number of rounds shown; a ratio is the smallest \
wall time over the smallest of the same allocator without a profiler (glibc, jemalloc or tcmalloc), `ratio median` \
the same of the medians, and the spread is (longest − shortest) / shortest. Times include everything the user waits for: \
start-up, the wrapper, writing the result. CPU is user and system time of all processes of the run. Peak RSS is \
that of the largest process of the run. A system whose runs of a workload took too long gets fewer rounds. \
`cargo xtask bench` reproduces this page.\n";

/// The whole page.
pub(crate) fn write(results: &Results) -> String {
    let mut page = format!("# Benchmarks\n\n{}\n{}\n", results.machine, METHOD);
    let rows = &results.rows;
    if !rows.is_empty() {
        write_workloads(&mut page, rows);
    }
    let mut section = |title: &str, note: &str, body: String| write_section(&mut page, title, note, &body);
    if !results.pairs.is_empty() {
        section(
            "One malloc/free pair",
            "Nanoseconds by threads; instructions counted by callgrind.",
            pairs(results),
        );
    }
    if !results.redis.is_empty() {
        section(
            "redis-server",
            "Best of the rounds, mean of five commands. Debian links it to jemalloc.",
            redis(results),
        );
    }
    if !results.accuracy.is_empty() {
        section("Accuracy of sampling", "Against the exact profile of the same program.", accuracy(results));
    }
    if let Some(readers) = &results.readers {
        let size = format!("{} stacks, {} MB", readers.stacks, megabytes(readers.bytes));
        let note = format!(
            "A jemalloc dump of clang compiling a C++ file ({size}), from the file to the whole report."
        );
        section("Reports of a large dump", &note, report_times(readers));
    }
    if !rows.is_empty() {
        section("All figures", "", details(rows));
    }
    page
}

fn write_section(page: &mut String, title: &str, note: &str, body: &str) {
    // Writing to a String cannot fail.
    let _ = write!(page, "## {title}\n\n{note}{}{body}\n", if note.is_empty() { "" } else { "\n\n" });
}

/// The sections with a row per workload and a column per system.
fn write_workloads(page: &mut String, rows: &[Row]) {
    let mut section = |title: &str, note: &str, body: String| write_section(page, title, note, &body);
    let wall = grid(rows, true, |r, c| r.ratio(c, |u| u.wall), 2);
    section("Wall time", "Ratio to the same program unprofiled.", wall);
    let cpu = grid(rows, true, |r, c| r.ratio(c, |u| u.cpu), 2);
    section("Processor time", "Ratio, all processes of the run.", cpu);
    let rss = |_: &Row, c: &Cell| c.least(|u| u.peak_rss as f64 / 1e6);
    section("Peak memory", "MB of the largest process.", grid(rows, false, rss, 1));
    let written = |_: &Row, c: &Cell| (!c.runs.is_empty()).then_some(c.written as f64 / 1e6);
    section("Written", "MB on disk after the run.", grid(rows, false, written, 2));
    section("First report", "From the file to the first table of text.", reports(rows));
}
