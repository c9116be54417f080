//! The call graph as a picture: dot text for Graphviz, SVG by our own layout.

mod boxes;
mod dot;
mod legend;
mod svg;

pub use dot::dot;
pub use svg::svg;

use heapwise_profile::Query;
use heapwise_profile::query::Regex;

use crate::amount::Amounts;

/// Text of a picture beside the graph.
#[derive(Debug, Clone, Default)]
pub struct GraphOptions {
    /// The program, for the legend.
    pub program: String,
    /// How amounts of memory are written in the legend and in dot text.
    pub amounts: Amounts,
    /// Further lines of the legend, e.g. the focus.
    pub remarks: Vec<String>,
}

impl GraphOptions {
    /// Names the program and the patterns of `query` that selected stacks.
    #[must_use]
    pub fn new(program: &str, query: &Query) -> Self {
        let named = [("Focusing on", &query.filter.focus), ("Ignoring", &query.filter.ignore)];
        let remark = |(what, pattern): (&str, &Option<Regex>)| Some(format!("{what}: {}", pattern.as_ref()?));
        Self {
            program: program.to_owned(),
            amounts: Amounts::default(),
            remarks: named.into_iter().filter_map(remark).collect(),
        }
    }
}
