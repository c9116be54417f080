//! Finding a name in jemalloc's tree, whole or in part.

use super::names::NAMES;
use super::node::Node;

/// The component of a name that is a number.
const NUMBER: &[u8] = b"#";

/// Where a name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameMatch {
    /// Row of a whole name; `None`: it is the beginning of one.
    pub(super) row: Option<usize>,
    /// Components that matched.
    pub(super) depth: usize,
    /// The number in it.
    pub(super) number: usize,
}

/// The components of a row.
fn components(row: usize) -> impl Iterator<Item = &'static [u8]> {
    NAMES.get(row).map_or(&b""[..], |name| name.text).split(|byte| *byte == b'.')
}

/// Number of components, and the place of the one that is a number.
pub(super) fn shape(row: usize) -> (usize, Option<usize>) {
    (components(row).count(), components(row).position(|component| component == NUMBER))
}

/// Looks for a name by its first `most` components, as jemalloc does: components behind them are
/// ignored.
pub(super) fn find(name: &[u8], most: usize) -> Option<NameMatch> {
    let rows = || (0..NAMES.len()).filter_map(|row| compare(name, most, row));
    rows().find(|found| found.row.is_some()).or_else(|| rows().next())
}

fn compare(name: &[u8], most: usize, row: usize) -> Option<NameMatch> {
    let node = NAMES.get(row)?.node;
    let mut known = components(row);
    let mut given = name.split(|byte| *byte == b'.');
    let mut found = NameMatch { row: None, depth: 0, number: 0 };
    while found.depth < most {
        let Some(component) = given.next() else { break };
        match known.next()? {
            NUMBER => found.number = number(component).filter(|number| node.has(*number))?,
            text if text == component => {}
            _ => return None,
        }
        found.depth += 1;
    }
    if known.next().is_none() && (found.depth < most || given.next().is_none()) {
        found.row = Some(row);
    }
    Some(found)
}

fn number(component: &[u8]) -> Option<usize> {
    core::str::from_utf8(component).ok()?.parse().ok()
}

/// Looks for a name by its row, its number of components and its number.
pub(super) fn by_row(row: usize, depth: usize, number: usize) -> Option<Node> {
    let node = NAMES.get(row)?.node;
    let (whole, place) = shape(row);
    (depth == whole && (place.is_none() || node.has(number))).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(name: &str) -> bool {
        find(name.as_bytes(), 8).is_some_and(|found| found.row.is_some())
    }

    #[test]
    fn whole_names_and_beginnings() {
        assert!(whole("prof.active") && whole("epoch"));
        assert!(!whole("prof") && !whole("prof.active.more") && !whole("") && !whole("prof..active"));
        assert_eq!(find(b"prof", 8), Some(NameMatch { row: None, depth: 1, number: 0 }));
        assert_eq!(find(b"prof.active.more", 8), None);
        assert_eq!(find(b"prof.active.more", 1).map(|found| found.depth), Some(1));
        assert_eq!(find(b"nonsense", 1), None);
    }
}
