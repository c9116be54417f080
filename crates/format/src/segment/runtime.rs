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
    /// Its stacks are read. Its objects are in memory that it divides itself: blocks and mappings
    /// of that memory are recorded, not the objects.
    LinesOnly = 4,
}

/// The language of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RuntimeLanguage {
    /// CPython.
    Python = 0,
    /// Lua.
    Lua = 1,
    /// LuaJIT.
    LuaJit = 2,
    /// Ruby.
    Ruby = 3,
}

impl RuntimeLanguage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RuntimeLanguage::Python => "Python",
            RuntimeLanguage::Lua => "Lua",
            RuntimeLanguage::LuaJit => "LuaJIT",
            RuntimeLanguage::Ruby => "Ruby",
        }
    }
}

/// A runtime of some version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    /// The language that it runs.
    pub language: RuntimeLanguage,
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// What the probe does with it.
    pub support: RuntimeSupport,
}

impl Runtime {
    /// Whether stacks have its frames.
    #[must_use]
    pub fn has_lines(self) -> bool {
        matches!(self.support, RuntimeSupport::Followed | RuntimeSupport::LinesOnly)
    }

    /// The word of the counter page; never 0.
    #[must_use]
    pub fn encode(self) -> u64 {
        let language = u64::from(self.language as u8) << 24;
        language | u64::from(self.support as u8) << 16 | u64::from(self.major) << 8 | u64::from(self.minor)
    }

    /// The meaning of the word; `None` for no runtime.
    #[must_use]
    pub fn decode(word: u64) -> Option<Self> {
        let language = match word >> 24 {
            0 => RuntimeLanguage::Python,
            1 => RuntimeLanguage::Lua,
            2 => RuntimeLanguage::LuaJit,
            3 => RuntimeLanguage::Ruby,
            _ => return None,
        };
        let support = match word >> 16 & 0xff {
            1 => RuntimeSupport::Followed,
            2 => RuntimeSupport::FreeThreaded,
            3 => RuntimeSupport::UnknownVersion,
            4 => RuntimeSupport::LinesOnly,
            _ => return None,
        };
        Some(Self { language, major: (word >> 8) as u8, minor: word as u8, support })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_did() {
        for support in [
            RuntimeSupport::Followed,
            RuntimeSupport::FreeThreaded,
            RuntimeSupport::UnknownVersion,
            RuntimeSupport::LinesOnly,
        ] {
            for language in [
                RuntimeLanguage::Python,
                RuntimeLanguage::Lua,
                RuntimeLanguage::LuaJit,
                RuntimeLanguage::Ruby,
            ] {
                let runtime = Runtime { language, major: 3, minor: 11, support };
                assert_eq!(Runtime::decode(runtime.encode()), Some(runtime));
            }
        }
        assert_eq!(Runtime::decode(0), None);
        assert_eq!(Runtime::decode(9 << 16), None);
        assert_eq!(Runtime::decode(1 << 16 | 9 << 24), None);
    }
}
