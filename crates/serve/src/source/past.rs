//! A process that has ended and left no segment: the profiles that were kept of it.

use heapwise_profile::Profile;

use super::process::load_kept;
use super::{Facts, Kind, Source};
use crate::error::{HttpError, Result};
use crate::profile_store::ProfileStore;
use crate::profile_store::Stored;

/// The history of a process that is gone.
#[derive(Debug)]
pub(crate) struct PastSource {
    id: String,
    history: ProfileStore,
}

impl PastSource {
    /// Serves a history under the id its process had.
    pub(crate) fn new(id: String, history: ProfileStore) -> Self {
        Self { id, history }
    }
}

impl Source for PastSource {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts {
            pid: self.id.split('-').next().and_then(|pid| pid.parse().ok()),
            ..Facts::new(Kind::Dead, self.history.program(), "ended; these profiles were kept".into(), false)
        })
    }

    fn stored(&self) -> Result<Vec<Stored>> {
        Ok(self.history.list())
    }

    fn load(&self, name: &str, _at: Option<&str>) -> Result<Profile> {
        load_kept(&self.history, name)
    }

    fn current(&self) -> Result<Profile> {
        let newest = self.history.list().into_iter().next();
        let newest = newest.ok_or_else(|| HttpError::missing("no profile of this process was kept"))?;
        self.load(&newest.name, None)
    }
}
