//! The call graph as a picture: dot text for Graphviz, SVG by our own layout.

mod boxes;
mod dot;
mod legend;
mod svg;

pub use dot::dot;
pub use svg::svg;

use crate::amount::Amounts;

/// What a picture says beside the graph.
#[derive(Debug, Clone, Default)]
pub struct GraphOptions {
    /// The program, for the legend.
    pub program: String,
    /// How amounts of memory are written in the legend and in dot text.
    pub amounts: Amounts,
    /// Further lines of the legend, e.g. the focus.
    pub remarks: Vec<String>,
}
