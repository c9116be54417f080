//! What an answer depends on, so that those who ask the same get the same.

use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::http::Query;
use super::moments::Moment;
use super::selection::Subject;
use super::source::{Source, find_stored};
use super::trouble::Answer;

/// Names an answer among all that are kept.
#[derive(Debug)]
pub(crate) struct RenderKey {
    pub text: String,
    /// Of an answer about a live process now: since when it is true.
    pub moment: Option<Moment>,
}

impl RenderKey {
    /// The answer `what` to the parameters of a request.
    pub(crate) fn new(context: &Context, source: &dyn Source, what: &str, query: &Query) -> Answer<Self> {
        let (of_profile, moment) = match Subject::of(source, query)? {
            Subject::Stored(stored) => (format!("{} {}", stored.name, stored.version), None),
            Subject::Now => {
                let moment = context.shelf.moments.now(source.id());
                (format!("now {}", moment.number), Some(moment))
            }
        };
        let of_base = match query.given("base") {
            Some(name) => find_stored(source, name)?.version.to_string(),
            None => String::new(),
        };
        let text = format!("{}\n{what}\n{of_profile}\n{of_base}\n{query:?}", source.id());
        Ok(Self { text, moment })
    }

    /// An answer that nobody else can have.
    pub(crate) fn unique() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self { text: format!("unique {}", NUMBER.fetch_add(1, Ordering::Relaxed)), moment: None }
    }

    /// An answer about profiles that are stored.
    pub(crate) fn stored(text: String) -> Self {
        Self { text, moment: None }
    }
}
