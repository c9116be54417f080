//! The state that every endpoint uses.

use std::sync::Arc;

use super::error::{HttpError, Result};
use super::http::{Negotiation, Request, Response};
use super::memory_budget::MemoryBudget;
use super::profile_cache::ProfileCache;
use super::render_cache::RenderCache;
use super::render_key::{ALL_SOURCES, RenderKey};
use super::security::Guard;
use super::source::{ControlCommand, Source};
use super::sources::Sources;

/// The state of a server. Only the stored profiles are needed to answer a URL again after a
/// restart.
pub(crate) struct Context {
    pub sources: Sources,
    pub profiles: ProfileCache,
    pub renders: RenderCache,
    pub memory: Arc<MemoryBudget>,
    pub guard: Guard,
}

impl Context {
    /// Controls a process; the next request sees the effect.
    pub(crate) fn control(&self, source: &dyn Source, command: &ControlCommand) -> Result<()> {
        source.control(command)?;
        self.profiles.budget.end(source.id());
        self.profiles.budget.end(ALL_SOURCES);
        Ok(())
    }

    /// The response, or an error in the place of one that is too large.
    fn bounded(&self, response: Response) -> Response {
        if response.body.len() <= self.memory.response() {
            return response;
        }
        drop(response);
        HttpError::too_large(self.memory.response()).into()
    }

    /// The cached response of `key`, or a new one, whose CPU time is charged to its source.
    pub(crate) fn rendered(
        &self,
        request: &Request,
        key: &RenderKey,
        render: impl FnOnce() -> Result,
    ) -> Response {
        let response = self.renders.get(&key.text, || {
            self.profiles.budget.charge(&key.account, || {
                let response = self.bounded(render().unwrap_or_else(Response::from));
                response.prepare(&Negotiation::of(request, false));
                response
            })
        });
        match key.generation {
            Some(generation) => response.with("Age", generation.age().as_secs().to_string()),
            None => response,
        }
    }
}
