//! Views as text for terminals, in the layouts that users of jeprof, pprof, skynet-mprof and the
//! gs driver know.

pub mod diff;
pub mod gs;
pub mod leaks;
pub mod list;
pub mod mprof;
pub mod sizes;
pub mod table;
pub mod top;
pub mod traces;
pub mod tree;

use heapwise_profile::view::Summary;

use crate::amount::Amounts;

/// How a view is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// How amounts of memory are written.
    pub amounts: Amounts,
    /// Begin with the `Total:` line.
    pub total: bool,
    /// Name the columns.
    pub header: bool,
    /// Show the standard error of estimates.
    pub errors: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { amounts: Amounts::default(), total: true, header: false, errors: false }
    }
}

impl TextOptions {
    /// A value of the summary's unit.
    pub(crate) fn amount(&self, value: f64, summary: &Summary) -> String {
        self.amounts.format(value, summary.unit)
    }

    /// The first line of a report: what there is before focus and ignore. `who` is empty, or a
    /// thread as in `Total (t3): …`.
    #[must_use]
    pub fn total_line(&self, summary: &Summary, who: &str) -> String {
        let total = self.amounts.with_unit(summary.grand_total.value, summary.unit);
        let who = if who.is_empty() { String::new() } else { format!(" ({who})") };
        let error = match summary.grand_total.standard_error() {
            error if self.errors && error > 0.0 => {
                format!(" ± {}", self.amounts.with_unit(error, summary.unit))
            }
            _ => String::new(),
        };
        format!("Total{who}: {total}{error}\n")
    }
}
