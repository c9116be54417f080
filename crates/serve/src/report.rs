//! The report that a request is about: a profile, its baseline, and the query.

use heapwise_capture::report_input::{Report, ReportInput};

use super::error::{HttpError, Result};
use super::http::QueryString;
use super::profile_cache::ProfileCache;
use super::profile_store::Stored;
use super::query_params::query_spec;
use super::source::{Source, find_stored};

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

/// What a request is about: `profile=`, `at=`, `base=`, and the parameters of the query.
pub(crate) fn input(source: &dyn Source, parameters: &QueryString) -> Result<ReportInput<Target>> {
    let baseline = parameters.given("base").map(|name| find_stored(source, name)).transpose()?;
    Ok(ReportInput {
        targets: vec![Target::of(source, parameters)?],
        baseline: baseline.map(|stored| Target::Stored(stored, None)),
        query: query_spec(parameters)?,
    })
}

/// Loads the report of a request.
pub(crate) fn load(profiles: &ProfileCache, source: &dyn Source, parameters: &QueryString) -> Result<Report> {
    input(source, parameters)?.load(|target| match target {
        Target::Stored(stored, moment) => profiles.stored(source, stored, moment.as_deref()),
        Target::Now => profiles.current(source),
    })
}

/// Loads the report of a request about sizes.
pub(crate) fn load_by_size(
    profiles: &ProfileCache,
    source: &dyn Source,
    parameters: &QueryString,
) -> Result<Report> {
    input(source, parameters)?.load(|target| match target {
        Target::Stored(stored, moment) => profiles.stored_by_size(source, stored, moment.as_deref()),
        Target::Now => profiles.current(source),
    })
}
