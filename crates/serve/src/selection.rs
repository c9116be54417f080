//! Which numbers a request asks for: the profile, its base, a moment, and the question (question.rs).

use std::sync::Arc;

use heapwise_profile::query::Query as Question;
use heapwise_profile::view::leaks::Verdict;
use heapwise_profile::{CallTree, Profile};

use super::context::Context;
use super::http::Query;
use super::question::question;
use super::source::{Source, Stored, find_stored};
use super::trouble::Answer;

/// The selected profiles, loaded, and the question about them.
pub(crate) struct Selection {
    pub profile: Arc<Profile>,
    pub base: Option<Arc<Profile>>,
    pub question: Question,
    /// Name of the stored profile; `now` for the current state.
    pub name: String,
    /// What may be said of live blocks.
    pub verdict: Verdict,
}

impl Selection {
    /// Loads what a request selects: `profile=`, `base=`, `at=`, and the parameters of the question.
    pub(crate) fn new(context: &Context, source: &dyn Source, query: &Query) -> Answer<Self> {
        let profile = match Subject::of(source, query)? {
            Subject::Stored(stored) => context.shelf.stored(source, &stored, query.given("at"))?,
            Subject::Now => context.shelf.current(source)?,
        };
        let name = query.given("profile").unwrap_or("now").to_owned();
        let base = query
            .given("base")
            .map(|name| context.shelf.stored(source, &find_stored(source, name)?, None))
            .transpose()?;
        let question = question(query, &profile)?;
        let verdict = Verdict::of(&profile);
        Ok(Self { profile, base, question, name, verdict })
    }

    /// The call tree of the question.
    pub(crate) fn tree(&self) -> CallTree {
        CallTree::compare(&self.profile, self.base.as_deref(), &self.question)
    }
}

/// The profile that a request is about.
pub(crate) enum Subject {
    Stored(Stored),
    /// The state of a live process, or of what has nothing stored.
    Now,
}

impl Subject {
    /// The profile named; without a name a live process now, else the newest that is stored.
    pub(crate) fn of(source: &dyn Source, query: &Query) -> Answer<Self> {
        if let Some(name) = query.given("profile") {
            return Ok(Subject::Stored(find_stored(source, name)?));
        }
        if source.is_live()? {
            return Ok(Subject::Now);
        }
        Ok(source.stored()?.into_iter().next().map_or(Subject::Now, Subject::Stored))
    }
}
