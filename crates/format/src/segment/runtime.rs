//! The language runtime inside a program, as a word of the counter page.

/// What the probe does with a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RuntimeSupport {
    /// Its stacks are read and blocks of its allocator are recorded.
    Followed = 1,
    /// Built without a global interpreter lock: its arenas are recorded as mappings.
    FreeThreaded = 2,
    /// The probe does not know the version: its arenas are recorded as mappings.
    UnknownVersion = 3,
}

/// CPython of some version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// What the probe does with it.
    pub support: RuntimeSupport,
}

impl Runtime {
    /// The word of the counter page; never 0.
    #[must_use]
    pub fn encode(self) -> u64 {
        u64::from(self.support as u8) << 16 | u64::from(self.major) << 8 | u64::from(self.minor)
    }

    /// The meaning of the word; `None` for no runtime.
    #[must_use]
    pub fn decode(word: u64) -> Option<Self> {
        let support = match word >> 16 {
            1 => RuntimeSupport::Followed,
            2 => RuntimeSupport::FreeThreaded,
            3 => RuntimeSupport::UnknownVersion,
            _ => return None,
        };
        Some(Self { major: (word >> 8) as u8, minor: word as u8, support })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_did() {
        for support in
            [RuntimeSupport::Followed, RuntimeSupport::FreeThreaded, RuntimeSupport::UnknownVersion]
        {
            let runtime = Runtime { major: 3, minor: 11, support };
            assert_eq!(Runtime::decode(runtime.encode()), Some(runtime));
        }
        assert_eq!(Runtime::decode(0), None);
        assert_eq!(Runtime::decode(9 << 16), None);
    }
}
