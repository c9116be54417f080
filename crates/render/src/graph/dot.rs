//! The graph in Graphviz's language, laid out as jeprof writes it.

use heapwise_profile::printable::printable;
use heapwise_profile::view::graph::{Call, Graph};
use heapwise_profile::view::{Row, Totals};

use super::{GraphOptions, legend};
use crate::amount::percent;

/// The graph as dot text.
#[must_use]
pub fn dot(graph: &Graph, options: &GraphOptions) -> String {
    let totals = &graph.totals;
    let mut out = format!(
        "digraph \"{}; {}\" {{\n",
        escape(&options.program),
        options.amounts.with_unit(totals.grand_total.value, totals.unit),
    );
    out += "node [width=0.375,height=0.25];\n";
    let legend: String = legend::lines(graph, options).iter().map(|line| escape(line) + "\\l").collect();
    out += &format!("Legend [shape=box,fontsize=24,shape=plaintext,label=\"{legend}\"];\n");
    for (at, row) in graph.nodes.iter().enumerate() {
        out += &node(at + 1, row, totals, options);
    }
    for call in &graph.edges {
        out += &edge(call, totals, options);
    }
    out += "}\n";
    out
}

fn node(number: usize, row: &Row, totals: &Totals, options: &GraphOptions) -> String {
    let whole = totals.whole();
    let amount = |value: f64| options.amounts.format(value, totals.unit);
    let mut label = escape(&row.frame.label);
    for separator in [" ", "::"] {
        label = label.replace(separator, "\\n");
    }
    let (flat, cum) = (row.flat.value, row.cum.value);
    let of_cum = if is_same(flat, cum) {
        String::new()
    } else {
        format!("\\rof {} ({})", amount(cum), percent(cum, whole))
    };
    let size = 8.0 + if whole == 0.0 { 0.0 } else { 50.0 * (flat / whole).abs().sqrt() };
    // jeprof's: a background for what holds memory, a triple border for less than before.
    let style = match flat {
        flat if options.marks_holders && flat > 0.0 => ",style=filled,fillcolor=gray",
        flat if options.marks_holders && flat < 0.0 => ",peripheries=3",
        _ => "",
    };
    format!(
        "N{number} [label=\"{label}\\n{} ({}){of_cum}\\r\",shape=box,fontsize={size:.1}{style}];\n",
        amount(flat),
        percent(flat, whole),
    )
}

fn edge(call: &Call, totals: &Totals, options: &GraphOptions) -> String {
    let value = call.weight.value;
    let whole = totals.whole();
    let share = if whole == 0.0 { 0.0 } else { (3.0 * value / whole).abs().min(1.0) };
    // Graphviz fails on very large weights.
    let weight = value.abs().powf(0.7).min(100_000.0) as u32;
    let dashed = if call.residual { ",dashed" } else { "" };
    format!(
        "N{} -> N{} [label={}, weight={weight}, style=\"setlinewidth({:.6}){dashed}\"];\n",
        call.from + 1,
        call.to + 1,
        options.amounts.format(value, totals.unit),
        (2.0 * share).max(1.0),
    )
}

fn escape(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Whether two sums of the same fractions, added in different orders, are equal.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::{CallTree, Query, view};

    use super::*;

    #[test]
    fn jeprof_s_dot() {
        let query = Query::default();
        let tree = CallTree::new(&profile("main;ns::f;malloc 3145728 1\nmain 1048576 1"), &query);
        let options = GraphOptions { program: "app".to_owned(), ..GraphOptions::default() };
        let text = dot(&view::graph::graph(&tree, &query), &options);
        assert_eq!(
            text,
            "digraph \"app; 4.0 MB\" {\n\
             node [width=0.375,height=0.25];\n\
             Legend [shape=box,fontsize=24,shape=plaintext,label=\"app\\lTotal MB: 4.0\\lFocusing on: 4.0\\lDropped nodes with <= 0.0 abs(MB)\\lDropped edges with <= 0.0 MB\\l\"];\n\
             N1 [label=\"main\\n1.0 (25.0%)\\rof 4.0 (100.0%)\\r\",shape=box,fontsize=33.0];\n\
             N2 [label=\"ns\\nf\\n3.0 (75.0%)\\r\",shape=box,fontsize=51.3];\n\
             N1 -> N2 [label=3.0, weight=35351, style=\"setlinewidth(2.000000)\"];\n\
             }\n"
        );
    }
}
