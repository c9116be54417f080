//! How the program of a profile ended.

/// How the program ended, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramEnd {
    /// The source does not record it.
    #[default]
    Unknown,
    /// It was running when the profile was taken.
    Running,
    /// It called `exit` or returned from `main`.
    Exited {
        /// Its exit status, where a parent process read it.
        status: Option<u8>,
    },
    /// A signal ended it.
    Killed {
        /// The signal, where a parent process read it.
        signal: Option<u8>,
    },
    /// It replaced itself by another program (`exec`).
    Replaced,
}

impl ProgramEnd {
    /// As one number, in segments, recordings and profiles; 0 is [`ProgramEnd::Unknown`].
    #[must_use]
    pub fn code(self) -> u64 {
        let with =
            |kind: u64, value: Option<u8>| kind | value.map_or(0, |value| 0x100 | u64::from(value) << 16);
        match self {
            ProgramEnd::Unknown => 0,
            ProgramEnd::Running => 1,
            ProgramEnd::Exited { status } => with(2, status),
            ProgramEnd::Killed { signal } => with(3, signal),
            ProgramEnd::Replaced => 4,
        }
    }

    /// The inverse of [`ProgramEnd::code`]; unknown codes are [`ProgramEnd::Unknown`].
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        let value = (code & 0x100 != 0).then_some((code >> 16) as u8);
        match code & 0xff {
            1 => ProgramEnd::Running,
            2 => ProgramEnd::Exited { status: value },
            3 => ProgramEnd::Killed { signal: value },
            4 => ProgramEnd::Replaced,
            _ => ProgramEnd::Unknown,
        }
    }

    /// Whether the program has ended, so that no block of it can be freed any more.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, ProgramEnd::Unknown | ProgramEnd::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        let ends = [
            ProgramEnd::Unknown,
            ProgramEnd::Running,
            ProgramEnd::Exited { status: None },
            ProgramEnd::Exited { status: Some(0) },
            ProgramEnd::Exited { status: Some(255) },
            ProgramEnd::Killed { signal: None },
            ProgramEnd::Killed { signal: Some(9) },
            ProgramEnd::Replaced,
        ];
        for end in ends {
            assert_eq!(ProgramEnd::from_code(end.code()), end);
        }
        assert_eq!(ProgramEnd::from_code(u64::MAX), ProgramEnd::Unknown);
    }
}
