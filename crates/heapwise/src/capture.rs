//! Getting at programs: launching them with the probe, finding those that carry it, controlling them.

pub mod allocator;
pub mod clock;
pub mod control;
pub mod custody;
pub mod drain;
pub mod family;
pub mod following;
pub mod launch;
pub mod ledger;
pub mod offspring;
pub mod preload;
pub mod process;
pub mod segments;
pub mod suitability;
