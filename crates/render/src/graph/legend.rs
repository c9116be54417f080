//! The lines at the top left of a graph; users of jeprof and mem-profiler look for `Total MB:`.

use heapwise_profile::view::graph::Graph;

use super::GraphOptions;
use crate::text::missing;

pub(super) fn lines(graph: &Graph, options: &GraphOptions) -> Vec<String> {
    let summary = &graph.summary;
    let amount = |value: f64| options.amounts.format(value, summary.unit);
    let unit = options.amounts.unit(summary.unit);
    let label = if unit.is_empty() { "Total".to_owned() } else { format!("Total {unit}") };
    let of_either_sign = if unit.is_empty() { String::new() } else { format!(" abs({unit})") };
    let mut lines = vec![
        options.program.clone(),
        format!("{label}: {}", amount(summary.grand_total.value)),
        format!("Focusing on: {}", amount(summary.total.value)),
        format!("Dropped nodes with <= {}{of_either_sign}", amount(graph.dropped.node_floor)),
        format!(
            "Dropped edges with <= {}",
            options.amounts.with_unit(graph.dropped.edge_floor, summary.unit)
        ),
    ];
    lines.extend(missing::lines(summary, options.amounts));
    lines.extend(options.remarks.iter().cloned());
    lines
}
