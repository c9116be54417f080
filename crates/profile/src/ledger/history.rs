//! The main lines of the ledger over time.

use super::{Ledger, LineKind};

/// The main lines of a process at several times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerHistory {
    /// Names of the lines, in the order in which a chart stacks them.
    pub names: Vec<String>,
    /// The readings, in the order of time.
    pub moments: Vec<LedgerMoment>,
}

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerMoment {
    /// Milliseconds since the start.
    pub ms: u64,
    /// Resident bytes of each line of [`LedgerHistory::names`].
    pub bytes: Vec<u64>,
}

impl LedgerMoment {
    /// Resident bytes of all lines.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Distinct lines at most. Further ones, which only a damaged file has, are added to the last.
const MOST_NAMES: usize = 32;
/// Readings at most: 18 hours of two a second. Beyond that, of two the larger one is kept.
const MOST_MOMENTS: usize = 1 << 17;

impl LedgerHistory {
    /// Adds one line of a reading. The lines of a reading come one after another.
    pub fn add(&mut self, ms: u64, name: &str, bytes: u64) {
        let line = self.line(name);
        let width = self.names.len();
        if self.moments.last().is_none_or(|last| last.ms != ms) {
            if self.moments.len() >= MOST_MOMENTS {
                *self = self.thinned(MOST_MOMENTS / 2);
            }
            self.moments.push(LedgerMoment { ms, bytes: vec![0; width] });
        }
        let moment = self.moments.last_mut().and_then(|last| last.bytes.get_mut(line));
        if let Some(sum) = moment {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Adds the main lines of a ledger.
    pub fn push(&mut self, ms: u64, ledger: &Ledger) {
        for (name, bytes) in ledger.main_lines(0) {
            self.add(ms, name, bytes);
        }
    }

    /// The place of a line. Unexplained memory stays the last one.
    fn line(&mut self, name: &str) -> usize {
        if let Some(known) = self.names.iter().position(|known| known == name) {
            return known;
        }
        if self.names.len() >= MOST_NAMES {
            return MOST_NAMES - 1;
        }
        let unexplained = LineKind::Unexplained.title();
        let is_before_last = self.names.last().is_some_and(|last| last == unexplained);
        let place = self.names.len() - usize::from(is_before_last);
        self.names.insert(place, name.to_owned());
        for moment in &mut self.moments {
            moment.bytes.insert(place, 0);
        }
        place
    }

    /// At most `most` readings: of each group the one with the most resident bytes.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let group = self.moments.len().div_ceil(most.max(1)).max(1);
        let highest = |moments: &[LedgerMoment]| moments.iter().max_by_key(|one| one.resident()).cloned();
        Self { names: self.names.clone(), moments: self.moments.chunks(group).filter_map(highest).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_appear_later_have_been_zero() {
        let mut history = LedgerHistory::default();
        for (ms, name, bytes) in
            [(1, "heap", 10), (1, "unexplained", 2), (5, "heap", 20), (5, "files", 7), (5, "unexplained", 1)]
        {
            history.add(ms, name, bytes);
        }
        assert_eq!(history.names, ["heap", "files", "unexplained"]);
        let rows: Vec<_> = history.moments.iter().map(|one| (one.ms, one.bytes.clone())).collect();
        assert_eq!(rows, [(1, vec![10, 0, 2]), (5, vec![20, 7, 1])]);
        assert_eq!(history.thinned(1).moments, history.moments[1..]);
    }

    #[test]
    fn a_damaged_file_has_a_bounded_number_of_lines_and_readings() {
        let mut history = LedgerHistory::default();
        (0..1000).for_each(|n| history.add(1, &n.to_string(), 1));
        assert_eq!((history.names.len(), history.moments[0].resident()), (MOST_NAMES, 1000));
        (0..3 * MOST_MOMENTS as u64).for_each(|ms| history.add(ms, "0", 1));
        assert!(history.moments.len() <= MOST_MOMENTS);
    }
}
