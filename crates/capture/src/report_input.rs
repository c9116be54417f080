//! What a report is about: targets, a baseline and a query. The command line, HTTP and jeprof all
//! build one.

use std::sync::Arc;

use heapwise_profile::own_code::{CodeFrames, OwnRule};
use heapwise_profile::query::{NativeFrames, QueryError, QuerySpec};
use heapwise_profile::{CallTree, Profile, Query, merge, script};

use crate::target::Target;

/// What a report is about, before anything is read. The server and jeprof have targets of their
/// own.
#[derive(Debug, Clone)]
pub struct ReportInput<T = Target, B = T> {
    /// Where the profile comes from; several add up.
    pub targets: Vec<T>,
    /// Subtracted from the profile.
    pub baseline: Option<B>,
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
    /// Which code is the program's own.
    pub own: OwnRule,
}

impl Report {
    /// Sum of a further column of the base, 0 without one.
    #[must_use]
    pub fn base_sum(&self, column: &str) -> f64 {
        let columns = self.baseline.iter().flat_map(|base| &base.extra);
        columns.filter(|known| known.name == column).flat_map(|known| &known.values).sum()
    }

    /// The report of loaded profiles, which add up. Checks the query against them.
    pub fn new(
        profiles: Vec<Arc<Profile>>,
        baseline: Option<Arc<Profile>>,
        query: &QuerySpec,
        own: OwnRule,
    ) -> Result<Self, QueryError> {
        let fold = |profile| folded(profile, query.native);
        let mut profiles: Vec<Arc<Profile>> = profiles.into_iter().map(fold).collect();
        let baseline = baseline.map(fold);
        let profile = match profiles.len() {
            1 => profiles.remove(0),
            _ => Arc::new(merge(profiles.into_iter().map(Arc::unwrap_or_clone).collect())),
        };
        let query = query.resolve(&profile)?;
        Ok(Self { profile, baseline, query, own })
    }

    /// The frames of the profile, by whether they are the program's own code.
    #[must_use]
    pub fn code(&self) -> CodeFrames {
        CodeFrames::new(&self.profile, &self.own)
    }

    /// The call tree that most views start from.
    #[must_use]
    pub fn tree(&self) -> CallTree {
        CallTree::compare(&self.profile, self.baseline.as_deref(), &self.query)
    }
}

/// The profile without the native frames that the query leaves out.
fn folded(mut profile: Arc<Profile>, native: NativeFrames) -> Arc<Profile> {
    if native == NativeFrames::Folded && script::is_followed(&profile) {
        script::fold_native(Arc::make_mut(&mut profile));
    }
    profile
}
