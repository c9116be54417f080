//! The report that a request is about: a profile, its baseline, and the query.

use std::sync::Arc;

use heapwise_capture::report_input::{Report, ReportInput};
use heapwise_profile::Profile;

use super::error::{HttpError, Result};
use super::http::QueryString;
use super::profile_cache::ProfileCache;
use super::profile_store::Stored;
use super::query_params::query_spec;
use super::source::{Source, find_stored};
use super::sources::Sources;

/// A profile of a source.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A stored profile; of a recording at this moment or in this window.
    Stored(Stored, Option<String>),
    /// The state of a live process, or of what has nothing stored.
    Now,
}

impl Target {
    /// The profile that a request names; without a name a live process now, else the newest stored
    /// profile.
    pub(crate) fn of(source: &dyn Source, parameters: &QueryString) -> Result<Self> {
        let moment = || parameters.given("at").map(str::to_owned);
        if moment().is_some() && !source.has_moments() {
            return Err(HttpError::bad(
                "at: only recordings have moments; choose a stored profile with profile=, or record the process \
                 with `heapwise record`",
            ));
        }
        if let Some(name) = parameters.given("profile") {
            return Ok(Target::Stored(find_stored(source, name)?, moment()));
        }
        if source.is_live()? {
            return Ok(Target::Now);
        }
        let newest = source.stored()?.into_iter().next();
        Ok(newest.map_or(Target::Now, |stored| Target::Stored(stored, moment())))
    }
}

/// A profile that is subtracted, of this or of another source.
#[derive(Clone)]
pub(crate) struct Baseline {
    source: Arc<dyn Source>,
    stored: Stored,
    moment: Option<String>,
}

impl Baseline {
    /// The baseline that a request names: `base=NAME`, of another source with `base_source=ID`, of
    /// a recording at `base_at=MOMENT`.
    pub(crate) fn of(
        sources: &Sources,
        source: &dyn Source,
        parameters: &QueryString,
    ) -> Result<Option<Self>> {
        let Some(name) = parameters.given("base") else { return Ok(None) };
        let source = sources.find(parameters.given("base_source").unwrap_or(source.id()))?;
        let stored = find_stored(&*source, name)?;
        Ok(Some(Self { source, stored, moment: parameters.given("base_at").map(str::to_owned) }))
    }

    /// Changes when the stored profile does.
    pub(crate) fn version(&self) -> u64 {
        self.stored.version
    }
}

/// Loads the report of a request: `profile=`, `at=`, `base=`, and the parameters of the query.
pub(crate) fn load(
    profiles: &ProfileCache,
    sources: &Sources,
    source: &dyn Source,
    parameters: &QueryString,
) -> Result<Report> {
    load_with(ProfileCache::stored, profiles, sources, source, parameters)
}

/// Loads the report of a request about sizes.
pub(crate) fn load_by_size(
    profiles: &ProfileCache,
    sources: &Sources,
    source: &dyn Source,
    parameters: &QueryString,
) -> Result<Report> {
    load_with(ProfileCache::stored_by_size, profiles, sources, source, parameters)
}

/// How a stored profile is loaded.
type LoadStored = fn(&ProfileCache, &dyn Source, &Stored, Option<&str>) -> Result<Arc<Profile>>;

fn load_with(
    load_stored: LoadStored,
    profiles: &ProfileCache,
    sources: &Sources,
    source: &dyn Source,
    parameters: &QueryString,
) -> Result<Report> {
    let ReportInput { targets, baseline, query } = input(sources, source, parameters)?;
    let own = targets.iter().map(|target| match target {
        Target::Now => profiles.current(source),
        Target::Stored(stored, moment) => load_stored(profiles, source, stored, moment.as_deref()),
    });
    let own = own.collect::<Result<_>>()?;
    let base =
        baseline.map(|base| load_stored(profiles, &*base.source, &base.stored, base.moment.as_deref()));
    Ok(Report::new(own, base.transpose()?, &query, profiles.own.clone())?)
}

fn input(
    sources: &Sources,
    source: &dyn Source,
    parameters: &QueryString,
) -> Result<ReportInput<Target, Baseline>> {
    Ok(ReportInput {
        targets: vec![Target::of(source, parameters)?],
        baseline: Baseline::of(sources, source, parameters)?,
        query: query_spec(parameters)?,
    })
}
