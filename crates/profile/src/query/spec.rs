//! A query in the words of a user, and the one way to turn it into a [`Query`].
//!
//! The command line, HTTP parameters and jeprof's options all fill in a [`QuerySpec`]; names and
//! patterns are checked in one place, so that they mean the same everywhere.

use super::{
    Filter, Granularity, LeafCut, NameStyle, NativeFrames, Order, Prune, Query, Regex, ThreadFilter,
};
use crate::{Metric, Profile, script, usable};

/// Longest pattern accepted: patterns are compiled, and their size is what compiling costs.
const MAX_PATTERN_BYTES: usize = 2000;

/// A query before it is checked against a profile.
#[derive(Debug, Clone, Default)]
pub struct QuerySpec {
    /// Name of the metric; live bytes when none.
    pub metric: Option<String>,
    /// Subject of a row or a box; when none, lines where a script runs, else functions.
    pub granularity: Option<Granularity>,
    /// How functions are spelled.
    pub names: NameStyle,
    /// Keep only stacks with a matching frame.
    pub focus: Option<String>,
    /// Drop stacks with a matching frame.
    pub ignore: Option<String>,
    /// Remove matching frames from their stacks.
    pub hide: Option<String>,
    /// Keep only matching frames.
    pub show: Option<String>,
    /// A thread id, or a pattern for thread names.
    pub thread: Option<String>,
    /// Ranking of rows.
    pub order: Order,
    /// Maximum number of rows; `None` for all.
    pub limit: Option<usize>,
    /// Pruning limits of a graph or tree.
    pub prune: Prune,
    /// Which innermost frames are cut off.
    pub leaf_cut: LeafCut,
    /// Whether native frames around lines of a script are shown.
    pub native: NativeFrames,
    /// Count usable instead of requested bytes.
    pub usable: bool,
}

/// Why a [`QuerySpec`] is not a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// The field that is wrong, as users name it: `focus`, `thread`, …
    pub field: &'static str,
    /// The error, in one line.
    pub message: String,
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for QueryError {}

impl QuerySpec {
    /// The query about `profile`.
    pub fn resolve(&self, profile: &Profile) -> Result<Query, QueryError> {
        let metric = match self.metric.as_deref() {
            Some(name) => Metric::by_name(profile, name)
                .map_err(|message| QueryError { field: "sample_index", message })?,
            None => Metric::default(),
        };
        if self.usable && !usable::is_known(profile) {
            let message = "this profile does not know usable sizes".to_owned();
            return Err(QueryError { field: "usable", message });
        }
        let pattern =
            |field, text: &Option<String>| text.as_deref().map(|text| pattern(field, text)).transpose();
        Ok(Query {
            metric,
            granularity: self.granularity.unwrap_or_else(|| Granularity::usual(profile, self.native)),
            names: self.names,
            filter: Filter {
                focus: pattern("focus", &self.focus)?,
                ignore: pattern("ignore", &self.ignore)?,
                hide: pattern("hide", &self.hide)?,
                show: pattern("show", &self.show)?,
                thread: self.thread.as_deref().map(thread).transpose()?,
            },
            order: self.order,
            limit: self.limit,
            prune: self.prune,
            leaf_cut: self.leaf_cut,
            native: self.native,
            usable: self.usable,
        })
    }
}

/// Compiles a pattern.
pub fn pattern(field: &'static str, text: &str) -> Result<Regex, QueryError> {
    let failed = |message| QueryError { field, message };
    if text.len() > MAX_PATTERN_BYTES {
        return Err(failed(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes")));
    }
    Regex::new(text).map_err(failed)
}

/// A pattern that matches exactly this name.
#[must_use]
pub fn exactly(name: &str) -> String {
    format!("^{}$", regex::escape(name))
}

fn thread(text: &str) -> Result<ThreadFilter, QueryError> {
    match text.parse() {
        Ok(tid) => Ok(ThreadFilter::Tid(tid)),
        Err(_) => pattern("thread", text).map(ThreadFilter::Name),
    }
}

impl Granularity {
    /// The granularity of a query that names none.
    fn usual(profile: &Profile, native: NativeFrames) -> Self {
        match native {
            NativeFrames::Folded if script::is_followed(profile) => Granularity::Lines,
            _ => Granularity::Functions,
        }
    }

    /// Every granularity by the name all tools give it.
    pub(crate) const NAMED: [(&'static str, Granularity); 5] = [
        ("functions", Granularity::Functions),
        ("lines", Granularity::Lines),
        ("files", Granularity::Files),
        ("modules", Granularity::Modules),
        ("addresses", Granularity::Addresses),
    ];

    /// The granularity of a name.
    pub fn from_name(name: &str) -> Result<Self, QueryError> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, granularity)| *granularity).ok_or_else(|| {
            let known: Vec<&str> = Self::NAMED.iter().map(|(name, _)| *name).collect();
            QueryError {
                field: "granularity",
                message: format!("no granularity `{name}`; there are {}", known.join(", ")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(spec: QuerySpec) -> Result<Query, QueryError> {
        spec.resolve(&Profile::default())
    }

    #[test]
    fn what_is_wrong_is_named() {
        let focus = QuerySpec { focus: Some("(".into()), ..QuerySpec::default() };
        assert_eq!(resolve(focus).unwrap_err().to_string(), "focus: error: unclosed group");
        let metric = QuerySpec { metric: Some("colour".into()), ..QuerySpec::default() };
        assert_eq!(resolve(metric).unwrap_err().field, "sample_index");
        let long = QuerySpec { hide: Some("a".repeat(MAX_PATTERN_BYTES + 1)), ..QuerySpec::default() };
        assert_eq!(resolve(long).unwrap_err().field, "hide");
        let usable = QuerySpec { usable: true, ..QuerySpec::default() };
        assert_eq!(resolve(usable).unwrap_err().field, "usable");
        assert!(Granularity::from_name("colours").unwrap_err().message.contains("lines, files"));
    }

    #[test]
    fn a_thread_is_a_number_or_a_pattern() {
        let of = |text: &str| {
            let spec = QuerySpec { thread: Some(text.into()), ..QuerySpec::default() };
            resolve(spec).unwrap().filter.thread
        };
        assert!(matches!(of("17"), Some(ThreadFilter::Tid(17))));
        assert!(matches!(of("worker-.*"), Some(ThreadFilter::Name(_))));
    }

    #[test]
    fn exact_names_match_themselves_only() {
        let pattern = Regex::new(&exactly("operator()(int*)")).unwrap();
        assert!(pattern.is_match("operator()(int*)") && !pattern.is_match("operator()(int*)x"));
    }
}
