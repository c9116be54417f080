//! The call graph as a picture: dot text for Graphviz, SVG by our own layout.

mod boxes;
mod dot;
mod legend;
mod svg;

pub use dot::dot;
pub use svg::svg;

use heapwise_profile::query::Regex;
use heapwise_profile::{Profile, Query};

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

impl GraphOptions {
    /// Names the program of `profile`, and what `query` left out of it.
    #[must_use]
    pub fn of(profile: &Profile, query: &Query) -> Self {
        let filter = &query.filter;
        let patterns = [
            ("Focus", &filter.focus),
            ("Ignored", &filter.ignore),
            ("Hidden", &filter.hide),
            ("Shown", &filter.show),
        ];
        let remark = |(what, pattern): &(&str, &Option<Regex>)| {
            pattern.as_ref().map(|pattern| format!("{what}: {pattern}"))
        };
        Self {
            program: profile.meta.program.clone(),
            amounts: Amounts::default(),
            remarks: patterns.iter().filter_map(remark).collect(),
        }
    }
}
