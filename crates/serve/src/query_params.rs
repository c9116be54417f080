//! The query in the parameters of a request: which metric, which part of the stacks, how many rows.

use heapwise_profile::query::{Granularity, NameStyle, Order, Prune, QueryError, QuerySpec, Regex};

use super::error::{HttpError, Result};
use super::http::QueryString;

/// Most boxes of a graph: laying out more takes seconds.
const MAX_NODES: usize = 400;

/// The query of a request.
pub(crate) fn query_spec(parameters: &QueryString) -> Result<QuerySpec> {
    let text = |name: &str| parameters.given(name).map(str::to_owned);
    let is_set = |name: &str| parameters.given(name) == Some("1");
    let nodecount = number(parameters, "nodecount")?.unwrap_or(Prune::default().nodecount);
    Ok(QuerySpec {
        metric: text("sample_type"),
        granularity: parameters
            .given("granularity")
            .map_or(Ok(Granularity::default()), Granularity::from_name)?,
        names: if is_set("full_names") { NameStyle::Full } else { NameStyle::Short },
        focus: text("focus"),
        ignore: text("ignore"),
        hide: text("hide"),
        show: text("show"),
        thread: text("thread"),
        order: if parameters.given("order") == Some("cum") { Order::Cum } else { Order::Flat },
        limit: number(parameters, "n")?,
        prune: Prune { nodecount: nodecount.min(MAX_NODES), ..Prune::default() },
        keep_allocator: is_set("keep_allocator"),
        usable: is_set("usable"),
    })
}

/// A regular expression in a parameter.
pub(crate) fn pattern(name: &'static str, text: &str) -> Result<Regex> {
    Ok(heapwise_profile::query::pattern(name, text)?)
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
