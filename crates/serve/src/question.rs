//! The question in the parameters of a request: which number, which part of the stacks, how many rows.

use heapwise_profile::query::{
    Filter, Granularity, NameStyle, Order, Prune, Query as Question, Regex, ThreadFilter,
};
use heapwise_profile::{Metric, Profile};

use super::http::Query;
use super::trouble::{Answer, Trouble};

/// Longest pattern accepted: patterns are compiled, and their size is what compiling costs.
const MOST_PATTERN_BYTES: usize = 2000;

/// The question in the parameters of a request.
pub(crate) fn question(query: &Query, profile: &Profile) -> Answer<Question> {
    let metric = match query.given("sample_type") {
        Some(name) => Metric::by_name(profile, name).map_err(Trouble::bad)?,
        None => Question::default().metric,
    };
    let thread = match query.given("thread") {
        None => None,
        Some(text) => Some(match text.parse() {
            Ok(tid) => ThreadFilter::Tid(tid),
            Err(_) => ThreadFilter::Name(pattern("thread", text)?),
        }),
    };
    let part = |name: &str| query.given(name).map(|text| pattern(name, text)).transpose();
    Ok(Question {
        metric,
        granularity: granularity(query.given("granularity").unwrap_or("functions"))?,
        names: if query.given("full_names") == Some("1") { NameStyle::Full } else { NameStyle::Short },
        filter: Filter {
            focus: part("focus")?,
            ignore: part("ignore")?,
            hide: part("hide")?,
            show: part("show")?,
            thread,
        },
        order: if query.given("order") == Some("cum") { Order::Cum } else { Order::Flat },
        limit: number(query, "n")?,
        prune: Prune {
            nodecount: number(query, "nodecount")?.unwrap_or(Prune::default().nodecount).min(400),
            ..Prune::default()
        },
        keep_allocator: query.given("keep_allocator") == Some("1"),
    })
}

/// A granularity by the name every tool gives it.
pub(crate) fn granularity(name: &str) -> Answer<Granularity> {
    Ok(match name {
        "functions" => Granularity::Functions,
        "lines" => Granularity::Lines,
        "files" => Granularity::Files,
        "addresses" => Granularity::Addresses,
        "modules" => Granularity::Modules,
        other => {
            return Err(Trouble::bad(format!(
                "no granularity `{other}`; there are functions, lines, files, modules and addresses"
            )));
        }
    })
}

/// A regular expression of a request; matching takes linear time whatever it is.
pub(crate) fn pattern(name: &str, text: &str) -> Answer<Regex> {
    if text.len() > MOST_PATTERN_BYTES {
        return Err(Trouble::bad(format!("{name}: the pattern is longer than {MOST_PATTERN_BYTES} bytes")));
    }
    Regex::new(text).map_err(|why| Trouble::bad(format!("{name}: {}", last_line(&why.to_string()))))
}

/// `regex` explains over several lines and says what is wrong in the last.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text)
}

/// A count in a parameter.
pub(crate) fn number(query: &Query, name: &str) -> Answer<Option<usize>> {
    query
        .given(name)
        .map(|text| text.parse().map_err(|_| Trouble::bad(format!("{name}: `{text}` is not a number"))))
        .transpose()
}
