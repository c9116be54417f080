//! What a report is about: targets, a baseline and a query. The command line, HTTP and jeprof all
//! build one.

use std::sync::Arc;

use heapwise_profile::query::{QueryError, QuerySpec};
use heapwise_profile::{CallTree, Profile, Query, merge};

use crate::target::Target;

/// What a report is about, before anything is read.
#[derive(Debug, Clone)]
pub struct ReportInput<T = Target> {
    /// Where the profile comes from; several add up.
    pub targets: Vec<T>,
    /// Subtracted from the profile.
    pub baseline: Option<T>,
    /// The query.
    pub query: QuerySpec,
}

/// Profiles with symbols, and the query about them.
#[derive(Debug)]
pub struct Report {
    /// The profile.
    pub profile: Arc<Profile>,
    /// What is subtracted from it.
    pub baseline: Option<Arc<Profile>>,
    /// The query, checked against the profile.
    pub query: Query,
}

impl<T> ReportInput<T> {
    /// Reads the profiles with `load`, which also adds symbols, and checks the query.
    pub fn load<E: From<QueryError>>(
        &self,
        mut load: impl FnMut(&T) -> Result<Arc<Profile>, E>,
    ) -> Result<Report, E> {
        let mut profiles = self.targets.iter().map(&mut load).collect::<Result<Vec<_>, E>>()?;
        let profile = match profiles.len() {
            1 => profiles.remove(0),
            _ => Arc::new(merge(profiles.into_iter().map(Arc::unwrap_or_clone).collect())),
        };
        let baseline = self.baseline.as_ref().map(load).transpose()?;
        let query = self.query.resolve(&profile)?;
        Ok(Report { profile, baseline, query })
    }
}

impl Report {
    /// The call tree that most views start from.
    #[must_use]
    pub fn tree(&self) -> CallTree {
        CallTree::compare(&self.profile, self.baseline.as_deref(), &self.query)
    }
}
