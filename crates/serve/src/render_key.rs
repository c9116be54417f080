//! The key of a response: everything that it depends on.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cpu_budget::{CpuBudget, Generation};
use super::error::Result;
use super::http::Request;
use super::report::{Baseline, Target};
use super::source::Source;
use super::sources::Sources;

/// The account of the list of all sources; no source has an empty id.
pub(crate) const ALL_SOURCES: &str = "";

/// The key of a cached response.
#[derive(Debug)]
pub(crate) struct RenderKey {
    pub text: String,
    /// The source whose budget is charged.
    pub account: String,
    /// Of a response about the state now: its generation.
    pub generation: Option<Generation>,
}

impl RenderKey {
    /// The key of view `what` of a source with the parameters of a request.
    pub(crate) fn new(
        budget: &CpuBudget,
        sources: &Sources,
        request: &Request,
        source: &dyn Source,
        what: &str,
    ) -> Result<Self> {
        let query = &request.query;
        let (of_profile, generation) = match Target::of(source, query)? {
            Target::Stored(stored, _) => (format!("{} {}", stored.name, stored.version), None),
            Target::Now => {
                let generation = generation(budget, request, source.id());
                (format!("now {}", generation.number), Some(generation))
            }
        };
        let of_base = Baseline::of(sources, source, query)?.map(|base| base.version().to_string());
        let of_base = of_base.unwrap_or_default();
        let text = format!("{}\n{what}\n{of_profile}\n{of_base}\n{query:?}", source.id());
        Ok(Self { text, account: source.id().to_owned(), generation })
    }

    /// The key of the list of all sources.
    pub(crate) fn of_all(budget: &CpuBudget, request: &Request) -> Self {
        let generation = generation(budget, request, ALL_SOURCES);
        Self {
            text: format!("all {}", generation.number),
            account: ALL_SOURCES.to_owned(),
            generation: Some(generation),
        }
    }

    /// A key that is never shared.
    pub(crate) fn unique(source: &dyn Source) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self::stored(source, &format!("unique {}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    /// The key of a response about stored profiles.
    pub(crate) fn stored(source: &dyn Source, what: &str) -> Self {
        Self { text: format!("{}\n{what}", source.id()), account: source.id().to_owned(), generation: None }
    }
}

fn generation(budget: &CpuBudget, request: &Request, account: &str) -> Generation {
    if request.wants_new() {
        budget.end(account);
    }
    budget.now(account)
}
