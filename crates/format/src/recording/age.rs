//! Lifetime of a block, in the precision of a recording.

use super::TIMELINE_ROW_MS;

/// Lifetime of a block: freed within the millisecond of its allocation, else the number of timeline
/// rows of [`TIMELINE_ROW_MS`] in between. So the row of every allocation is known, and "allocated
/// since A" is exact for every A that is a multiple of ten milliseconds. Milliseconds would be most
/// of a file: they are the one part of a recording that does not repeat. They are kept for
/// allocations in rows with a mark, so that "allocated since mark A" is exact, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(u64);

impl Age {
    /// Of a block allocated and freed within one millisecond.
    pub const INSTANT: Self = Self(0);
    /// Set when the other bits are milliseconds.
    const EXACT: u64 = 1 << 63;

    /// Of a block allocated at `born_ms` and freed at `now_ms`.
    #[inline]
    #[must_use]
    pub fn between(born_ms: u64, now_ms: u64) -> Self {
        // Without a branch, which would be mispredicted often.
        let rows = (now_ms / TIMELINE_ROW_MS).saturating_sub(born_ms / TIMELINE_ROW_MS);
        Self((1 + rows) * u64::from(born_ms != now_ms))
    }

    /// The lifetime to the millisecond.
    #[must_use]
    pub fn exact(born_ms: u64, now_ms: u64) -> Self {
        Self(Self::EXACT | now_ms.saturating_sub(born_ms))
    }

    /// The age in milliseconds, if it is exact.
    #[inline]
    #[must_use]
    pub fn exact_ms(self) -> Option<u64> {
        (self.0 & Self::EXACT != 0).then_some(self.0 & !Self::EXACT)
    }

    /// The most likely number of milliseconds. It is below 1, 10, 100 … when the block's exact age
    /// probably was.
    #[inline]
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        /// The middle, on a logarithmic scale, of "another millisecond, yet within ten".
        const WITHIN_A_ROW: u64 = 3;
        match self.0 {
            0 => 0,
            1 => WITHIN_A_ROW,
            exact if exact & Self::EXACT != 0 => exact & !Self::EXACT,
            more => (more - 1).saturating_mul(TIMELINE_ROW_MS),
        }
    }

    /// The millisecond in which a block was allocated that was freed at `now_ms`, or the start of
    /// its row.
    #[inline]
    #[must_use]
    pub fn born_ms(self, now_ms: u64) -> u64 {
        match self.exact_ms() {
            Some(ms) => now_ms.saturating_sub(ms),
            None if self.0 == 0 => now_ms,
            None => (now_ms / TIMELINE_ROW_MS).saturating_sub(self.0 - 1) * TIMELINE_ROW_MS,
        }
    }

    /// The number in the column of ages. The kind of the entry determines which of the two kinds it
    /// is.
    #[inline]
    #[must_use]
    pub fn code(self) -> u64 {
        self.0 & !Self::EXACT
    }

    /// The age of a number in the column of ages.
    #[inline]
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        Self(code & !Self::EXACT)
    }

    /// The age of a number that is in milliseconds.
    #[inline]
    #[must_use]
    pub fn from_exact_code(code: u64) -> Self {
        Self(code | Self::EXACT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_an_allocation_is_exact() {
        for born in 0..50 {
            for now in born..born + 50 {
                let age = Age::between(born, now);
                let row = if born == now { born } else { born / TIMELINE_ROW_MS * TIMELINE_ROW_MS };
                assert_eq!(age.born_ms(now), row, "{born} {now}");
                assert_eq!(age == Age::INSTANT, born == now);
                assert_eq!(Age::from_code(age.code()), age);
                assert!(age.milliseconds().abs_diff(now - born) < 2 * TIMELINE_ROW_MS);
                let exact = Age::exact(born, now);
                assert_eq!((exact.born_ms(now), exact.milliseconds()), (born, now - born));
                assert_eq!(Age::from_exact_code(exact.code()), exact);
            }
        }
    }
}
