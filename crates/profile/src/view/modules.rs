//! Allocations by binary.

use super::top::{Top, top};
use super::{Row, Totals};
use crate::query::{Granularity, Query};
use crate::{BuildId, CallTree, Profile};

/// Binaries, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Modules {
    /// The whole.
    pub totals: Totals,
    /// One per binary on a stack.
    pub rows: Vec<ModuleRow>,
}

/// Allocations of one binary.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleRow {
    /// Name, flat and cum.
    pub row: Row,
    /// Path as the program saw it, or empty.
    pub path: String,
    /// Its identity; empty when unknown.
    pub build_id: BuildId,
}

/// Allocations of each binary. The query's granularity is not used.
#[must_use]
pub fn modules(profile: &Profile, base: Option<&Profile>, query: &Query) -> Modules {
    let query = Query { granularity: Granularity::Modules, ..query.clone() };
    let Top { totals, rows, .. } = top(&CallTree::compare(profile, base, &query), &query);
    let known = |name: &str| profile.modules.iter().find(|module| module.name() == name);
    let rows = rows.into_iter().map(|row| {
        let module = known(&row.frame.module);
        ModuleRow {
            path: module.map_or_else(String::new, |module| module.path.clone()),
            build_id: module.map_or_else(BuildId::default, |module| module.build_id.clone()),
            row,
        }
    });
    Modules { totals, rows: rows.collect() }
}
