//! The part of the program's life that was recorded, and reasons of losses.

use heapwise_format::segment::Runtime;

use super::Shortages;

/// Which part of the program's life was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// When recording began.
    pub began: Began,
    /// Nanoseconds between the end of recording and the snapshot; `None` while recording is on.
    pub stopped_ns: Option<u64>,
    /// Times that recording was switched off and on again.
    pub pauses: u64,
    /// Live memory of the parent process, which a forked process inherited.
    pub inherited: Option<Inherited>,
    /// Why there was no room for blocks, stacks or sites.
    pub shortages: Shortages,
    /// Why there was no room for events in the log.
    pub event_shortages: Shortages,
    /// Function of an allocator inside the executable, which the hooks do not reach; empty without
    /// one.
    pub own_allocator: String,
    /// Functions hooked at their entry: those of allocators inside the executable.
    pub entry_hooks: u64,
    /// The language runtime inside the program.
    pub runtime: Option<Runtime>,
}

/// When recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Began {
    /// The source does not record it.
    #[default]
    Unknown,
    /// Recording was never on.
    Never,
    /// With the program.
    WithProgram,
    /// Later: blocks allocated before are missing.
    Late {
        /// Nanoseconds between the start of the program and the start of recording.
        after_ns: u64,
    },
    /// With the last reset of the counts: blocks allocated before are missing.
    Reset {
        /// Nanoseconds between the start of the program and the reset.
        after_ns: u64,
    },
}

/// Memory that a process inherited by `fork`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inherited {
    /// Live bytes of the parent at the fork that no sample shows.
    pub bytes: u64,
    /// The parent's pid.
    pub parent: u32,
}

impl Recorded {
    /// Everything but the text, as files store it. New numbers are appended.
    #[must_use]
    pub fn numbers(&self) -> [u64; 11] {
        let (began, after_ns) = match self.began {
            Began::Unknown => (0, 0),
            Began::Never => (1, 0),
            Began::WithProgram => (2, 0),
            Began::Late { after_ns } => (3, after_ns),
            Began::Reset { after_ns } => (4, after_ns),
        };
        let Inherited { bytes, parent } = self.inherited.unwrap_or_default();
        let stopped = self.stopped_ns.is_some().into();
        [
            began,
            after_ns,
            stopped,
            self.stopped_ns.unwrap_or(0),
            self.pauses,
            bytes,
            parent.into(),
            self.shortages.0,
            self.event_shortages.0,
            self.entry_hooks,
            self.runtime.map_or(0, Runtime::encode),
        ]
    }

    /// What is known of the sum of two profiles: what either lacks.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let rank = |began: Began| match began {
            Began::WithProgram => (0, 0),
            Began::Never => (1, 0),
            Began::Unknown => (2, 0),
            Began::Reset { after_ns } => (3, after_ns),
            Began::Late { after_ns } => (4, after_ns),
        };
        let [first, second] =
            if rank(self.began) >= rank(other.began) { [self, other] } else { [other, self] };
        let inherited = |recorded: &Self| recorded.inherited.map_or(0, |inherited| inherited.bytes);
        let bytes = inherited(self).saturating_add(inherited(other));
        let parent = first.inherited.or(second.inherited).map_or(0, |inherited| inherited.parent);
        Self {
            began: first.began,
            stopped_ns: self.stopped_ns.max(other.stopped_ns),
            pauses: self.pauses.saturating_add(other.pauses),
            inherited: Some(Inherited { bytes, parent })
                .filter(|inherited| *inherited != Inherited::default()),
            shortages: Shortages(self.shortages.0 | other.shortages.0),
            event_shortages: Shortages(self.event_shortages.0 | other.event_shortages.0),
            own_allocator: match self.own_allocator.is_empty() {
                true => other.own_allocator.clone(),
                false => self.own_allocator.clone(),
            },
            entry_hooks: self.entry_hooks.min(other.entry_hooks),
            runtime: self.runtime.or(other.runtime),
        }
    }

    /// The inverse of [`Recorded::numbers`]; numbers that an older file does not have are 0.
    #[must_use]
    pub fn from_numbers(numbers: &[u64], own_allocator: String) -> Self {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        let after_ns = at(1);
        let inherited = Inherited { bytes: at(5), parent: at(6) as u32 };
        Self {
            began: match at(0) {
                1 => Began::Never,
                2 => Began::WithProgram,
                3 => Began::Late { after_ns },
                4 => Began::Reset { after_ns },
                _ => Began::Unknown,
            },
            stopped_ns: (at(2) != 0).then_some(at(3)),
            pauses: at(4),
            inherited: Some(inherited).filter(|inherited| *inherited != Inherited::default()),
            shortages: Shortages(at(7)),
            event_shortages: Shortages(at(8)),
            own_allocator,
            entry_hooks: at(9),
            runtime: Runtime::decode(at(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shortage;

    use super::*;

    #[test]
    fn numbers_come_back() {
        let late = Recorded {
            began: Began::Late { after_ns: 5 },
            stopped_ns: Some(0),
            pauses: 2,
            inherited: Some(Inherited { bytes: 7, parent: 8 }),
            shortages: Shortages::default().with(Shortage::Sandbox).with(Shortage::Table),
            event_shortages: Shortages::default().with(Shortage::SlowRecorder),
            own_allocator: "je_malloc".into(),
            entry_hooks: 3,
            runtime: Runtime::decode(0x1_030b),
        };
        let all = [Began::Unknown, Began::Never, Began::WithProgram, Began::Reset { after_ns: 9 }]
            .map(|began| Recorded { began, ..Recorded::default() });
        for recorded in all.into_iter().chain([late]) {
            let own_allocator = recorded.own_allocator.clone();
            assert_eq!(Recorded::from_numbers(&recorded.numbers(), own_allocator), recorded);
        }
        assert_eq!(Recorded::from_numbers(&[], String::new()), Recorded::default());
    }
}
