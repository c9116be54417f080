//! What every endpoint has at hand.

use super::catalog::Catalog;
use super::render_cache::RenderCache;
use super::security::Guard;
use super::shelf::Shelf;

/// The state of a server. Nothing in it is needed to answer a URL again after a restart but the
/// profiles on disk.
pub(crate) struct Context {
    pub catalog: Catalog,
    pub shelf: Shelf,
    pub renders: RenderCache,
    pub guard: Guard,
}
