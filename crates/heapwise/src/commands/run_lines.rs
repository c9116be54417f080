//! The end of `run` for a program with a script: the lines that hold most.

use heapwise_profile::query::Granularity;
use heapwise_profile::view::top::top;
use heapwise_profile::{CallTree, Profile, Query, quantity, script};

/// Lines that are printed.
const LINES: usize = 3;

/// Prints the lines of a script that hold most, of a profile without native frames; nothing for
/// other programs.
pub(super) fn print(profile: &Profile) {
    if !script::is_followed(profile) {
        return;
    }
    let query = Query { granularity: Granularity::Lines, limit: Some(LINES), ..Query::default() };
    let rows = top(&CallTree::new(profile, &query), &query).rows;
    for (at, row) in rows.iter().enumerate() {
        let name = if at == 0 { "held by" } else { "" };
        say_err!("  {name:<12} {:>9}  {}", quantity::bytes(row.flat.value), row.frame.label);
    }
}
