//! How long a block lived, as exactly as a recording keeps it.

use super::MOMENT_MS;

/// Lifetime of a block: whether it ended within the millisecond of its allocation, else how many slices
/// of [`MOMENT_MS`] lie between. So the slice of every birth is known exactly, and "allocated since A" is exact
/// for every A that is a multiple of ten milliseconds. Whole milliseconds would be most of a file: they
/// are the one part of a recording that does not repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(u64);

impl Age {
    /// Of a block allocated and freed within one millisecond.
    pub const INSTANT: Self = Self(0);

    /// Of a block allocated at `born_ms` and freed at `now_ms`.
    #[inline]
    #[must_use]
    pub fn between(born_ms: u64, now_ms: u64) -> Self {
        // Without a branch: which of the two it is cannot be foreseen.
        let slices = (now_ms / MOMENT_MS).saturating_sub(born_ms / MOMENT_MS);
        Self((1 + slices) * u64::from(born_ms != now_ms))
    }

    /// Slices between birth and end; 0 within one slice.
    #[inline]
    #[must_use]
    pub fn slices(self) -> u64 {
        self.0.saturating_sub(1)
    }

    /// The likeliest number of milliseconds; below 1, 10, 100 … whenever the block's own was likely to be.
    #[inline]
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        /// In the middle, on a logarithmic scale, of what "not at once, yet within ten milliseconds" may mean.
        const WITHIN_A_SLICE: u64 = 3;
        match self.0 {
            0 => 0,
            1 => WITHIN_A_SLICE,
            more => (more - 1).saturating_mul(MOMENT_MS),
        }
    }

    /// The start of the slice of its birth, when it ended at `now_ms`.
    #[inline]
    #[must_use]
    pub fn born_slice_ms(self, now_ms: u64) -> u64 {
        (now_ms / MOMENT_MS).saturating_sub(self.slices()) * MOMENT_MS
    }

    /// The number in the file.
    #[inline]
    #[must_use]
    pub fn code(self) -> u64 {
        self.0
    }

    /// The age that a number in the file stands for.
    #[inline]
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        Self(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_of_birth_is_exact() {
        for born in 0..50 {
            for now in born..born + 50 {
                let age = Age::between(born, now);
                assert_eq!(age.born_slice_ms(now), born / MOMENT_MS * MOMENT_MS, "{born} {now}");
                assert_eq!(age == Age::INSTANT, born == now);
                assert_eq!(Age::from_code(age.code()), age);
                assert!(age.milliseconds().abs_diff(now - born) < 2 * MOMENT_MS);
            }
        }
    }
}
