//! The probe's own tests that need several modules: threads at once, loom models, the unwinder from
//! outside.

#[cfg(test)]
mod interleavings;
#[cfg(all(test, loom))]
pub(crate) mod models;
pub mod test_api;
