//! What every endpoint has at hand.

use super::catalog::Catalog;
use super::http::{Request, Response, Terms};
use super::render_cache::RenderCache;
use super::render_key::RenderKey;
use super::security::Guard;
use super::shelf::Shelf;
use super::source::{Order, Source};
use super::trouble::Answer;

/// The state of a server. Nothing in it is needed to answer a URL again after a restart but the
/// profiles on disk.
pub(crate) struct Context {
    pub catalog: Catalog,
    pub shelf: Shelf,
    pub renders: RenderCache,
    pub guard: Guard,
}

impl Context {
    /// Tells a process something; who asks next sees what came of it.
    pub(crate) fn order(&self, source: &dyn Source, order: &Order) -> Answer<()> {
        source.order(order)?;
        self.shelf.moments.end(source.id());
        Ok(())
    }

    /// The kept answer of `key`, or a new one, whose cost puts off the next look at what it is about.
    pub(crate) fn rendered(
        &self,
        request: &Request,
        key: &RenderKey,
        render: impl FnOnce() -> Answer,
    ) -> Response {
        let response = self.renders.get(&key.text, || {
            self.shelf.moments.charge(&key.account, || {
                let response = render().unwrap_or_else(Response::from);
                response.prepare(&Terms::of(request, false));
                response
            })
        });
        match key.moment {
            Some(moment) => response.with("Age", moment.age().as_secs().to_string()),
            None => response,
        }
    }
}
