//! What an answer depends on, so that those who ask the same get the same.

use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::http::Request;
use super::moments::Moment;
use super::selection::Subject;
use super::source::{Source, find_stored};
use super::trouble::Answer;

/// Names an answer among all that are kept.
#[derive(Debug)]
pub(crate) struct RenderKey {
    pub text: String,
    /// Whose allowance pays for it: the id of a source.
    pub account: String,
    /// Of an answer about now: since when it is true.
    pub moment: Option<Moment>,
}

impl RenderKey {
    /// The answer `what` about a source to the parameters of a request.
    pub(crate) fn new(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Answer<Self> {
        let query = &request.query;
        let (of_profile, moment) = match Subject::of(source, query)? {
            Subject::Stored(stored) => (format!("{} {}", stored.name, stored.version), None),
            Subject::Now => {
                let moment = moment(context, request, source.id());
                (format!("now {}", moment.number), Some(moment))
            }
        };
        let of_base = match query.given("base") {
            Some(name) => find_stored(source, name)?.version.to_string(),
            None => String::new(),
        };
        let text = format!("{}\n{what}\n{of_profile}\n{of_base}\n{query:?}", source.id());
        Ok(Self { text, account: source.id().to_owned(), moment })
    }

    /// The answer about all sources together. None has an empty id.
    pub(crate) fn of_all(context: &Context, request: &Request) -> Self {
        let moment = moment(context, request, "");
        Self { text: format!("all {}", moment.number), account: String::new(), moment: Some(moment) }
    }

    /// An answer that nobody else can have.
    pub(crate) fn unique(source: &dyn Source) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self::stored(source, &format!("unique {}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    /// An answer about profiles that are stored.
    pub(crate) fn stored(source: &dyn Source, what: &str) -> Self {
        Self { text: format!("{}\n{what}", source.id()), account: source.id().to_owned(), moment: None }
    }
}

fn moment(context: &Context, request: &Request, account: &str) -> Moment {
    let moments = &context.shelf.moments;
    if request.wants_new() {
        moments.end(account);
    }
    moments.now(account)
}
