//! The call graph as a picture: dot text for Graphviz, SVG by our own layout.

mod boxes;
mod dot;
mod legend;
mod svg;

pub use dot::dot;
pub use svg::svg;

use heapwise_profile::Query;
use heapwise_profile::metric::Unit;
use heapwise_profile::query::Regex;

use crate::amount::{Amounts, label};

/// Text of a picture beside the graph.
#[derive(Debug, Clone, Default)]
pub struct GraphOptions {
    /// The program, for the legend.
    pub program: String,
    /// How amounts of memory are written in the legend and in dot text. SVG has a unit with every
    /// amount, unless it is [`Amounts::Bytes`].
    pub amounts: Amounts,
    /// Set boxes apart that hold memory themselves, as jeprof's `--heapcheck` does.
    pub marks_holders: bool,
    /// Further lines of the legend, e.g. the focus.
    pub remarks: Vec<String>,
}

impl GraphOptions {
    /// An amount on a box or an arrow of a picture.
    fn label(&self, value: f64, unit: Unit) -> String {
        match self.amounts {
            Amounts::Bytes => self.amounts.format(value, unit),
            Amounts::Megabytes | Amounts::Human => label(value, unit),
        }
    }

    /// Names the program and the patterns of `query` that selected stacks.
    #[must_use]
    pub fn new(program: &str, query: &Query) -> Self {
        let named = [("Focusing on", &query.filter.focus), ("Ignoring", &query.filter.ignore)];
        let remark = |(what, pattern): (&str, &Option<Regex>)| Some(format!("{what}: {}", pattern.as_ref()?));
        Self {
            program: program.to_owned(),
            amounts: Amounts::default(),
            marks_holders: false,
            remarks: named.into_iter().filter_map(remark).collect(),
        }
    }
}
