//! Which numbers a request asks for: the profile, its base, a moment, and the question.

use std::sync::Arc;

use heapwise_profile::query::{
    Filter, Granularity, NameStyle, Order, Prune, Query as Question, Regex, ThreadFilter,
};
use heapwise_profile::view::leaks::Verdict;
use heapwise_profile::{CallTree, Profile};

use super::context::Context;
use super::http::Query;
use super::source::{Source, Stored, find_stored};
use super::trouble::{Answer, Trouble};
use crate::commands::leaks::verdict;
use crate::look::metric_by_name;

/// Longest pattern accepted: patterns are compiled, and their size is what compiling costs.
const MOST_PATTERN_BYTES: usize = 2000;

/// The selected profiles, loaded, and the question about them.
pub(crate) struct Selection {
    pub profile: Arc<Profile>,
    pub base: Option<Arc<Profile>>,
    pub question: Question,
    /// Name of the stored profile; `now` for the current state.
    pub name: String,
    /// What may be said of live blocks.
    pub verdict: Verdict,
}

impl Selection {
    /// Loads what a request selects: `profile=`, `base=`, `at=`, and the parameters of the question.
    pub(crate) fn new(context: &Context, source: &dyn Source, query: &Query) -> Answer<Self> {
        let profile = match Subject::of(source, query)? {
            Subject::Stored(stored) => context.shelf.stored(source, &stored, query.given("at"))?,
            Subject::Now => context.shelf.current(source)?,
        };
        let name = query.given("profile").unwrap_or("now").to_owned();
        let base = query
            .given("base")
            .map(|name| context.shelf.stored(source, &find_stored(source, name)?, None))
            .transpose()?;
        let question = question(query, &profile)?;
        let verdict = verdict(&profile);
        Ok(Self { profile, base, question, name, verdict })
    }

    /// The call tree of the question.
    pub(crate) fn tree(&self) -> CallTree {
        CallTree::compare(&self.profile, self.base.as_deref(), &self.question)
    }
}

/// The profile that a request is about.
pub(crate) enum Subject {
    Stored(Stored),
    /// The state of a live process, or of what has nothing stored.
    Now,
}

impl Subject {
    /// The profile named; without a name a live process now, else the newest that is stored.
    pub(crate) fn of(source: &dyn Source, query: &Query) -> Answer<Self> {
        if let Some(name) = query.given("profile") {
            return Ok(Subject::Stored(find_stored(source, name)?));
        }
        if source.facts()?.is_live() {
            return Ok(Subject::Now);
        }
        Ok(source.stored()?.into_iter().next().map_or(Subject::Now, Subject::Stored))
    }
}

/// The question in the parameters of a request.
pub(crate) fn question(query: &Query, profile: &Profile) -> Answer<Question> {
    let metric = match query.given("sample_type") {
        Some(name) => metric_by_name(profile, name).map_err(|why| Trouble::bad(why.to_string()))?,
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
