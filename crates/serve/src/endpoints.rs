//! What other tools expect under their own addresses, and the API of the page.

pub(crate) mod api;
pub(crate) mod debug_pprof;
pub(crate) mod flags;
pub(crate) mod hotspots;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod pprof;

mod current;
mod display;
