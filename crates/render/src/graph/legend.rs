//! The lines at the top left of a graph; users of jeprof and mem-profiler look for `Total MB:`.

use heapwise_profile::view::graph::Graph;

use super::GraphOptions;
use crate::{Language, coverage};

/// Characters of a line about coverage: as wide as a few boxes.
const WIDTH: usize = 64;

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
        lines.extend(wrapped(&format!("Covers: {}", coverage::line(&totals.coverage, Language::English))));
    }
    lines.extend(options.remarks.iter().cloned());
    lines
}

/// The text in lines of at most `WIDTH` characters, unless a word is longer.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_spaces() {
        let text = "every block from the start ".repeat(6);
        let lines = wrapped(text.trim());
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
    }
}
