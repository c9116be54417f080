//! Views as text for terminals, in the layouts of jeprof, pprof, skynet-mprof and the gs driver.

pub mod diff;
pub mod fragmentation;
pub mod gs;
pub mod leaks;
pub mod ledger;
pub mod list;
pub mod memory_calls;
pub mod mprof;
mod own_code;
pub mod sizes;
pub mod table;
pub mod top;
pub mod traces;
pub mod tree;

pub use own_code::place as own_place;

use std::borrow::Cow;

use heapwise_profile::coverage::Coverage;
use heapwise_profile::metric::Unit;
use heapwise_profile::printable::printable;
use heapwise_profile::view::Totals;

use crate::amount::Amounts;
use crate::coverage;
use crate::{Language, Text};

/// Characters of a name that are shown on the narrowest terminal.
const LEAST_NAME: usize = 16;

/// At most `room` characters, `begi…end`.
fn shorten(name: &str, room: usize) -> Cow<'_, str> {
    let len = name.chars().count();
    if len <= room {
        return Cow::Borrowed(name);
    }
    let tail = room / 2;
    let head: String = name.chars().take(room - tail - 1).collect();
    let tail: String = name.chars().skip(len - tail).collect();
    Cow::Owned(format!("{head}…{tail}"))
}

/// How a view is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// How amounts of memory are written.
    pub amounts: Amounts,
    /// Begin with the `Total:` line.
    pub total: bool,
    /// Say behind it what the numbers cover.
    pub coverage: bool,
    /// Language of what the numbers cover.
    pub language: Language,
    /// Name the columns.
    pub header: bool,
    /// Show the standard error of estimates.
    pub errors: bool,
    /// Show the program's own code beside names.
    pub own: bool,
    /// Use the colors of a terminal.
    pub color: bool,
    /// Columns of the terminal; names that do not fit are shortened in the middle.
    pub width: Option<usize>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            amounts: Amounts::default(),
            total: true,
            coverage: true,
            language: Language::English,
            header: false,
            errors: false,
            own: false,
            color: false,
            width: None,
        }
    }
}

impl TextOptions {
    /// The end of a line, which starts at column `start`.
    pub(crate) fn fit<'a>(&self, name: &'a str, start: usize) -> Cow<'a, str> {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(start).max(LEAST_NAME));
        shorten(name, room)
    }

    /// A value in the unit of the totals.
    pub(crate) fn amount(&self, value: f64, totals: &Totals) -> String {
        self.amounts.format(value, totals.unit)
    }

    /// The first line of a report: the total before focus and ignore. `who` is empty, or a thread
    /// as in `Total (t3): …`.
    #[must_use]
    pub fn total_line(&self, totals: &Totals, who: &str) -> String {
        let total = self.amounts.with_unit(totals.grand_total.value, totals.unit);
        let who = if who.is_empty() { String::new() } else { format!(" ({})", printable(who)) };
        let error = match totals.grand_total.standard_error() {
            error if self.errors && error > 0.0 => {
                format!(" ± {}", self.amounts.with_unit(error, totals.unit))
            }
            _ => String::new(),
        };
        let usable = if totals.usable && totals.unit == Unit::Bytes { " usable" } else { "" };
        format!("Total{who}: {total}{usable}{error}\n")
    }

    /// The first lines of a report: the total, and what it covers. Empty without
    /// [`TextOptions::total`].
    #[must_use]
    pub(crate) fn header_lines(&self, totals: &Totals) -> String {
        if self.total { self.total_line(totals, "") + &self.coverage_lines(totals) } else { String::new() }
    }

    /// The lines behind the total: `Covers: …`, and of a comparison `Base covers: …`.
    pub(crate) fn coverage_lines(&self, totals: &Totals) -> String {
        if !self.coverage {
            return String::new();
        }
        let of = |who: Text, what: &Coverage| {
            format!("{}: {}\n", who.text(self.language), coverage::line(what, self.language))
        };
        let base = totals.base_coverage.as_deref().map(|base| of(Text::BaseCovers, base));
        of(Text::CoversTitle, &totals.coverage) + &base.unwrap_or_default()
    }
}
