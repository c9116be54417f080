//! A question that is built in, and its options.

use std::time::Duration;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use heapwise_capture::failure::Outcome;

use crate::catalog::Catalog;
use crate::questions::{Resolution, Scope, diff, growth, history, oom, outliers, top};

/// A question that is built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The functions that hold most memory now.
    Top,
    /// What changed between two releases.
    Diff {
        /// The older release.
        old: String,
        /// The newer release.
        new: String,
    },
    /// Sites that grow.
    Growth,
    /// Hosts that hold more than the others.
    Outliers,
    /// Live bytes of one site over time.
    History {
        /// Name of the site.
        site: String,
    },
    /// Processes killed because memory was short.
    Oom,
}

impl Question {
    /// The SQL of the question.
    #[must_use]
    pub fn sql(&self, scope: &Scope) -> String {
        match self {
            Question::Top => top::sql(scope),
            Question::Diff { old, new } => diff::sql(scope, old, new),
            Question::Growth => growth::sql(scope),
            Question::Outliers => outliers::sql(scope),
            Question::History { site } => history::sql(scope, site),
            Question::Oom => oom::sql(scope),
        }
    }

    /// The time before the newest profile that the question covers by default. The present is ten
    /// minutes: an agent sends each process every minute.
    fn usual_time(&self) -> Duration {
        match self {
            Question::Top => Duration::from_secs(600),
            _ => Duration::from_secs(24 * 3600),
        }
    }
}

/// Options of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Only this service.
    pub service: Option<String>,
    /// Time before the end that is covered.
    pub since: Option<Duration>,
    /// End of the time; the newest profile without.
    pub until_ns: Option<i64>,
    /// Resolution of the samples.
    pub resolution: Resolution,
    /// Rows of the answer.
    pub limit: usize,
}

impl Asked {
    /// The scope of a question in a store.
    pub fn scope(&self, catalog: &Catalog, question: &Question) -> Outcome<Scope> {
        let until_ns = match self.until_ns {
            Some(until_ns) => until_ns,
            None => newest_ns(catalog)?.saturating_add(1),
        };
        let since = self.since.unwrap_or(question.usual_time());
        let since_ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        Ok(Scope {
            service: self.service.clone(),
            from_ns: until_ns.saturating_sub(since_ns),
            until_ns,
            resolution: self.resolution,
            limit: self.limit,
        })
    }
}

/// Time of the newest profile; 0 in an empty store.
fn newest_ns(catalog: &Catalog) -> Outcome<i64> {
    let rows = catalog.rows("SELECT max(time_ns) FROM profiles")?;
    let newest = rows.first().map(|batch| batch.column(0).as_primitive::<Int64Type>().clone());
    Ok(newest.filter(|times| times.len() == 1 && times.is_valid(0)).map_or(0, |times| times.value(0)))
}
