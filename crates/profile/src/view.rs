//! Views: answers as plain data. Renderers turn them into text, pictures and JSON.

mod calls;
pub mod flame;
pub mod graph;
pub mod leaks;
pub mod list;
pub mod locations;
pub mod modules;
pub mod own_place;
pub mod peek;
pub mod sites;
pub mod sizes;
pub mod threads;
pub mod top;
pub mod traces;

use std::sync::Arc;

use crate::call_tree::Missing;
use crate::coverage::Coverage;
use crate::metric::Unit;
use crate::{CallTree, Frame, Weight};

pub use own_place::{OwnPlace, OwnPlaces};

/// Totals that every view contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Name of the metric, e.g. `inuse_space`.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Sum of all samples.
    pub grand_total: Weight,
    /// Sum of those that pass the filter: what percentages refer to.
    pub total: Weight,
    /// Whether values are differences to a base.
    pub compared: bool,
    /// Whether bytes are usable instead of requested ones.
    pub usable: bool,
    /// Unattributed and possibly missing memory.
    pub missing: Missing,
    /// Coverage of the profile.
    pub coverage: Arc<Coverage>,
    /// Coverage of the base.
    pub base_coverage: Option<Arc<Coverage>>,
}

impl Totals {
    /// The totals of a call tree.
    #[must_use]
    pub fn of(tree: &CallTree) -> Self {
        Self {
            metric: tree.metric.clone(),
            unit: tree.unit,
            grand_total: tree.grand_total,
            total: tree.total(),
            compared: tree.compared,
            usable: tree.usable,
            missing: tree.missing,
            coverage: tree.coverage.clone(),
            base_coverage: tree.base_coverage.clone(),
        }
    }

    /// Value of 100 %: the total, or against a base the base's total, because a difference near
    /// zero is not a useful scale.
    #[must_use]
    pub fn whole(&self) -> f64 {
        if self.total.base == 0.0 { self.total.value } else { self.total.base }
    }
}

/// A row of a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Frame of the row.
    pub frame: Arc<Frame>,
    /// Allocated there.
    pub flat: Weight,
    /// Allocated there and in callees.
    pub cum: Weight,
    /// The program's own code that it is allocated for, where a view looks for it.
    pub own: Option<OwnPlace>,
}
