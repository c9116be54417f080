//! The query in the parameters of a request: which metric, which part of the stacks, how many rows.

use heapwise_profile::query::{
    self, Granularity, LeafCut, NameStyle, NativeFrames, Order, Prune, QueryError, QuerySpec, Regex,
};

use super::bounds::MOST_ROWS;
use super::error::{HttpError, Result};
use super::http::QueryString;

/// Most boxes of a graph: laying out more takes seconds.
const MAX_NODES: usize = 400;

/// The query of a request.
pub(crate) fn query_spec(parameters: &QueryString) -> Result<QuerySpec> {
    let text = |name: &str| parameters.given(name).map(str::to_owned);
    let pattern = |name: &'static str| text(name).map(|text| linear(name, text)).transpose();
    let is_set = |name: &str| parameters.given(name) == Some("1");
    let nodecount = number(parameters, "nodecount")?.unwrap_or(Prune::default().nodecount);
    Ok(QuerySpec {
        metric: text("sample_type"),
        granularity: parameters.given("granularity").map(Granularity::from_name).transpose()?,
        names: if is_set("full_names") { NameStyle::Full } else { NameStyle::Short },
        focus: pattern("focus")?,
        ignore: pattern("ignore")?,
        hide: pattern("hide")?,
        show: pattern("show")?,
        thread: pattern("thread")?,
        order: if parameters.given("order") == Some("cum") { Order::Cum } else { Order::FlatThenCum },
        limit: number(parameters, "n")?.map(|rows| rows.min(MOST_ROWS)),
        prune: Prune { nodecount: nodecount.min(MAX_NODES), ..Prune::default() },
        leaf_cut: if is_set("keep_allocator") { LeafCut::Nothing } else { LeafCut::Runtime },
        native: if is_set("native") { NativeFrames::Shown } else { NativeFrames::Folded },
        usable: is_set("usable"),
    })
}

/// A regular expression in a parameter.
pub(crate) fn pattern(name: &'static str, text: &str) -> Result<Regex> {
    let text = linear(name, text.to_owned())?;
    Ok(query::pattern(name, &text)?)
}

/// Refuses patterns that backtrack: a request must not occupy the server for minutes.
fn linear(name: &'static str, text: String) -> Result<String> {
    query::pattern(name, &text)?;
    if query::is_linear(&text) {
        return Ok(text);
    }
    Err(HttpError::bad(format!("{name}: lookaround and backreferences are for the command line only")))
}

/// A count in a parameter.
pub(crate) fn number(parameters: &QueryString, name: &str) -> Result<Option<usize>> {
    parameters
        .given(name)
        .map(|text| text.parse().map_err(|_| HttpError::bad(format!("{name}: `{text}` is not a number"))))
        .transpose()
}

impl From<QueryError> for HttpError {
    fn from(error: QueryError) -> Self {
        HttpError::bad(error.to_string())
    }
}
