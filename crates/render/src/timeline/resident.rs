//! The main lines of the ledger over time: as a table, as data, as a picture.

use heapwise_profile::ledger::{CallSite, LedgerHistory};
use heapwise_profile::quantity;
use heapwise_profile::recording::Timeline;
use serde_json::{Value, json};

use super::picture::{self, Axes, RATE_LEGEND};
use super::rate::Rates;
use crate::text::TextOptions;
use crate::text::table::Table;

/// One row per reading: time, resident bytes, each line, and what `madvise` returned since the
/// reading before.
#[must_use]
pub fn table(history: &LedgerHistory, calls: &[CallSite]) -> String {
    let mut rows = Table::default();
    let returned: Vec<(&str, Vec<u64>)> = [("returned", false), ("returned by the allocator", true)]
        .map(|(name, is_allocator)| (name, returned(history, calls, is_allocator)))
        .into_iter()
        .filter(|(_, column)| column.iter().any(|bytes| *bytes > 0))
        .collect();
    let names = history.names.iter().map(String::as_str).chain(returned.iter().map(|(name, _)| *name));
    rows.push(["ms", "resident"].into_iter().chain(names).map(str::to_owned));
    for (row, moment) in history.moments.iter().enumerate() {
        let bytes = |bytes: &u64| quantity::bytes(*bytes as f64);
        let first = [moment.ms.to_string(), bytes(&moment.resident())];
        let last = returned.iter().map(|(_, column)| bytes(&column[row]));
        rows.push(first.into_iter().chain(moment.bytes.iter().map(bytes)).chain(last));
    }
    let mut out = String::new();
    rows.write(&mut out, &TextOptions::default());
    out
}

/// Bytes returned by `madvise` between each reading and the one before; those after the last
/// reading are added to it.
fn returned(history: &LedgerHistory, calls: &[CallSite], is_allocator: bool) -> Vec<u64> {
    let mut sums = vec![0_u64; history.moments.len()];
    for call in calls.iter().filter(|call| call.stack.is_none() == is_allocator) {
        let row = history.moments.partition_point(|moment| moment.ms < call.last_ms);
        if let Some(sum) = sums.get_mut(row.min(history.moments.len().saturating_sub(1))) {
            *sum = sum.saturating_add(call.bytes);
        }
    }
    sums
}

/// `{"names": […], "rows": [[ms, bytes of each line …], …]}`.
#[must_use]
pub fn data(history: &LedgerHistory) -> Value {
    let row = |moment: &heapwise_profile::ledger::LedgerMoment| {
        let cells: Vec<u64> = std::iter::once(moment.ms).chain(moment.bytes.iter().copied()).collect();
        cells
    };
    json!({ "names": history.names, "rows": history.moments.iter().map(row).collect::<Vec<_>>() })
}

/// Colors of the lines from the bottom up: distinct also for color-blind readers, then repeated.
const COLORS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];
/// Readings drawn at most.
const MOST_MOMENTS: usize = 1000;

/// Stacked areas, one per line, and the allocation rate, as SVG.
#[must_use]
pub fn svg(history: &LedgerHistory, timeline: &Timeline, title: &str) -> String {
    let history = history.thinned(MOST_MOMENTS);
    let highest = history.moments.iter().map(|moment| moment.resident()).max().unwrap_or(1);
    let first_ms = history.moments.first().map_or(0, |moment| moment.ms);
    let end_ms = history.moments.last().map_or(1, |moment| moment.ms).max(first_ms + 1);
    let axes = Axes::new(first_ms, end_ms, highest);
    let mut out = picture::opening(title);
    axes.grid(&mut out);
    let mut floor: Vec<u64> = vec![0; history.moments.len()];
    for (line, name) in history.names.iter().enumerate() {
        let below: Vec<String> = points(&history, &axes, &floor).collect();
        for (sum, moment) in floor.iter_mut().zip(&history.moments) {
            *sum = sum.saturating_add(moment.bytes.get(line).copied().unwrap_or(0));
        }
        let above: Vec<String> = points(&history, &axes, &floor).collect();
        let outline: Vec<&str> =
            above.iter().map(String::as_str).chain(below.iter().rev().map(String::as_str)).collect();
        let color = COLORS[line % COLORS.len()];
        let label = crate::svg::escape(name);
        out += &format!(
            "<polygon fill=\"{color}\" fill-opacity=\"0.8\" points=\"{}\"><title>{label}</title></polygon>\n",
            outline.join(" ")
        );
    }
    Rates::new(timeline, MOST_MOMENTS).draw(&mut out, &axes);
    let entries =
        history.names.iter().enumerate().map(|(line, name)| (name.as_str(), COLORS[line % COLORS.len()]));
    let entries: Vec<(&str, &str)> = entries.chain([RATE_LEGEND]).collect();
    picture::legend(&mut out, &entries);
    out + "</svg>\n"
}

fn points<'a>(
    history: &'a LedgerHistory,
    axes: &'a Axes,
    heights: &'a [u64],
) -> impl Iterator<Item = String> + 'a {
    let point = |(moment, bytes): (&heapwise_profile::ledger::LedgerMoment, &u64)| {
        format!("{:.1},{:.1}", axes.x(moment.ms), axes.y(*bytes))
    };
    history.moments.iter().zip(heights).map(point)
}

#[cfg(test)]
mod tests {
    use heapwise_profile::StackId;
    use heapwise_profile::ledger::CallKind;
    use heapwise_profile::recording::Step;

    use super::*;

    fn specimen() -> LedgerHistory {
        let mut history = LedgerHistory::default();
        for ms in [0, 500, 1000] {
            history.add(ms, "heap", 1 << 20);
            history.add(ms, "a<b", ms << 10);
        }
        history
    }

    #[test]
    fn every_line_has_a_column_an_area_and_a_name() {
        let history = specimen();
        let text = table(&history, &[]);
        assert!(text.lines().next().is_some_and(|head| head.contains("heap") && head.contains("a<b")));
        assert_eq!(text.lines().count(), 4);
        assert_eq!(data(&history)["rows"][1], json!([500, 1 << 20, 512_000]));
        let call = |stack, last_ms, bytes| CallSite {
            kind: CallKind::DontNeed,
            stack,
            count: 1,
            bytes,
            first_ms: last_ms,
            last_ms,
        };
        let program = Some(StackId(0));
        let calls = [call(program, 1, 4096), call(program, 500, 4096), call(None, 9999, 1 << 20)];
        let text = table(&history, &calls);
        let cells = |row: usize| {
            let line = text.lines().nth(row).unwrap_or_default();
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(4).collect::<Vec<_>>()
        };
        assert_eq!(cells(0), ["returned", "returned by the allocator"]);
        assert_eq!(
            [cells(1), cells(2), cells(3)],
            [["0 B", "0 B"], ["8.00 KiB", "0 B"], ["0 B", "1.00 MiB"]]
        );
        let step = |n: u64| Step { start_ms: n * 500, alloc_bytes: n << 20, ..Step::default() };
        let timeline = Timeline { step_ms: 500, steps: (0..3).map(step).collect() };
        let drawn = svg(&history, &timeline, "t & u");
        assert!(drawn.contains("<polyline") && drawn.contains("4.00 MiB/s"), "{drawn}");
        assert_eq!(drawn.matches("<polygon").count(), 2);
        assert!(drawn.contains("a&lt;b") && drawn.contains("t &amp; u"));
    }
}
