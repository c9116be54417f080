//! The binaries that stacks refer to.

/// A module went away: what is known of its addresses no longer holds.
pub(crate) fn generation_changed() {}

/// Starts an empty module table in a fresh segment (again after `fork`).
pub(crate) fn init() {}
