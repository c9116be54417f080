//! The lines at the top left of a graph; users of jeprof and mem-profiler look for `Total MB:`.

use heapwise_profile::view::graph::Graph;

use super::GraphOptions;
use crate::{Language, coverage};

pub(super) fn lines(graph: &Graph, options: &GraphOptions) -> Vec<String> {
    let totals = &graph.totals;
    let amount = |value: f64| options.amounts.format(value, totals.unit);
    let unit = options.amounts.unit(totals.unit);
    let label = if unit.is_empty() { "Total".to_owned() } else { format!("Total {unit}") };
    let of_either_sign = if unit.is_empty() { String::new() } else { format!(" abs({unit})") };
    let mut lines = vec![
        options.program.clone(),
        format!("{label}: {}", amount(totals.grand_total.value)),
        format!("Focusing on: {}", amount(totals.total.value)),
        format!("Dropped nodes with <= {}{of_either_sign}", amount(graph.dropped.node_floor)),
        format!("Dropped edges with <= {}", options.amounts.with_unit(graph.dropped.edge_floor, totals.unit)),
    ];
    if !totals.coverage.gaps.is_empty() {
        lines.push(format!("Covers: {}", coverage::line(&totals.coverage, Language::English)));
    }
    lines.extend(options.remarks.iter().cloned());
    lines
}
