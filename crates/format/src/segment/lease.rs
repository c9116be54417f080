//! Leases: what each controller wants to be recorded, and who that controller is.
//!
//! A controller never changes the mode of a process for itself. It takes a lease: a slot of the
//! control page with mode, rate, its identity and a heartbeat. [`Demand::strongest`] of the
//! process's own mode and of all leases is in force. A lease ends when its controller gives it up
//! or ends. [`ControlWord::Leases`](super::ControlWord::Leases) has one bit per slot in use; slots
//! are written as the other control words are (see [`write_control`](super::write_control)), but
//! for the heartbeat, which is written at any time.

use super::{Control, Mode};
use crate::paths::ProcessId;

/// Slots for leases.
pub const LEASE_SLOTS: usize = 16;
/// First word of the slots in the control page.
const FIRST_WORD: usize = 128;
/// Words of a slot.
const SLOT_WORDS: usize = 8;
const _: () = assert!((FIRST_WORD + LEASE_SLOTS * SLOT_WORDS) * 8 <= super::PAGE_BYTES);
const _: () = assert!(super::ControlWord::Count as usize <= FIRST_WORD);

/// A word of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum LeaseWord {
    /// Process id of the controller.
    Pid = 0,
    /// Its start time.
    StartTime,
    /// A [`Controller`].
    Controller,
    /// A [`Mode`].
    Mode,
    /// Mean distance of samples in bytes (sampled mode).
    SampleBytes,
    /// `CLOCK_MONOTONIC` nanoseconds of the controller's last sign of life.
    Heartbeat,
}

impl LeaseWord {
    /// All words, in the order of a slot.
    pub const ALL: [LeaseWord; 6] = [
        LeaseWord::Pid,
        LeaseWord::StartTime,
        LeaseWord::Controller,
        LeaseWord::Mode,
        LeaseWord::SampleBytes,
        LeaseWord::Heartbeat,
    ];

    /// Index of this word of a slot in the control page.
    #[must_use]
    pub fn index(self, slot: usize) -> usize {
        FIRST_WORD + slot.min(LEASE_SLOTS - 1) * SLOT_WORDS + self as usize
    }
}

/// The command that holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Controller {
    /// Unknown to this version.
    Other = 0,
    /// `heapwise run`, which started the process.
    Run = 1,
    /// `heapwise collect`, `mem_profiler`.
    Collect = 2,
    /// `heapwise record`.
    Record = 3,
    /// A request to `heapwise serve` for a stretch of time.
    Serve = 4,
    /// `heapwise agent`.
    Agent = 5,
}

impl Controller {
    /// Anything unknown is [`Controller::Other`].
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        match word {
            1 => Controller::Run,
            2 => Controller::Collect,
            3 => Controller::Record,
            4 => Controller::Serve,
            5 => Controller::Agent,
            _ => Controller::Other,
        }
    }

    /// The name of the command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Controller::Run => "run",
            Controller::Collect => "collect",
            Controller::Record => "record",
            Controller::Serve => "serve",
            Controller::Agent => "agent",
            Controller::Other => "another heapwise",
        }
    }
}

/// What is to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Recording mode.
    pub mode: Mode,
    /// Mean distance of samples in bytes, at least 1; only sampled mode uses it.
    pub sample_bytes: u64,
}

impl Demand {
    /// The stronger of two demands: the stronger mode, and of two sampled ones the smaller
    /// distance.
    #[must_use]
    pub fn strongest(self, other: Demand) -> Demand {
        let rank = |demand: &Demand| (demand.mode as u64, u64::MAX - demand.sample_bytes);
        if rank(&other) > rank(&self) { other } else { self }
    }
}

/// A controller's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Process that holds it.
    pub holder: ProcessId,
    /// Its command.
    pub controller: Controller,
    /// What it wants to be recorded.
    pub demand: Demand,
    /// `CLOCK_MONOTONIC` nanoseconds of its last sign of life, by the clock of the process.
    pub heartbeat_ns: u64,
}

impl Lease {
    /// A controller writes its heartbeat this often.
    pub const HEARTBEAT_NS: u64 = 500_000_000;
    /// After so long without a heartbeat the probe looks whether the holder still runs.
    pub const SILENCE_NS: u64 = 2_000_000_000;
    /// After so long without a heartbeat a holder that the probe cannot look for has ended.
    pub const LONGEST_SILENCE_NS: u64 = 4_000_000_000;

    /// Decodes a slot; `None` for an empty one.
    #[must_use]
    pub fn from_words(word: impl Fn(LeaseWord) -> u64) -> Option<Self> {
        let pid = word(LeaseWord::Pid) as u32;
        (pid != 0).then(|| Self {
            holder: ProcessId { pid, starttime: word(LeaseWord::StartTime) },
            controller: Controller::from_word(word(LeaseWord::Controller)),
            demand: Demand {
                mode: Mode::from_word(word(LeaseWord::Mode)),
                sample_bytes: word(LeaseWord::SampleBytes).clamp(1, Control::MAX_SAMPLE_BYTES),
            },
            heartbeat_ns: word(LeaseWord::Heartbeat),
        })
    }

    /// The value of a word of its slot.
    #[must_use]
    pub fn word(&self, word: LeaseWord) -> u64 {
        match word {
            LeaseWord::Pid => u64::from(self.holder.pid),
            LeaseWord::StartTime => self.holder.starttime,
            LeaseWord::Controller => self.controller as u64,
            LeaseWord::Mode => self.demand.mode as u64,
            LeaseWord::SampleBytes => self.demand.sample_bytes,
            LeaseWord::Heartbeat => self.heartbeat_ns,
        }
    }

    /// Time since the last heartbeat. A heartbeat in the future is as old as it is early.
    #[must_use]
    pub fn silence_ns(&self, now_ns: u64) -> u64 {
        now_ns.abs_diff(self.heartbeat_ns)
    }
}

/// The leases of a control page with their slots; `bits` is the word `Leases`.
pub fn leases(bits: u64, word: impl Fn(usize) -> u64) -> impl Iterator<Item = (usize, Lease)> {
    (0..LEASE_SLOTS)
        .filter(move |slot| bits >> slot & 1 == 1)
        .filter_map(move |slot| Some((slot, Lease::from_words(|part| word(part.index(slot)))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(sample_bytes: u64) -> Demand {
        Demand { mode: Mode::Sampled, sample_bytes }
    }

    #[test]
    fn the_strongest_demand_wins() {
        let demand = |mode| Demand { mode, sample_bytes: 7 };
        let ascending =
            [demand(Mode::Off), sampled(1 << 20), sampled(8), demand(Mode::Exact), demand(Mode::Log)];
        for (rank, weak) in ascending.into_iter().enumerate() {
            for strong in ascending.into_iter().skip(rank) {
                assert_eq!(weak.strongest(strong), strong);
                assert_eq!(strong.strongest(weak), strong);
            }
        }
    }

    #[test]
    fn a_slot_round_trips() {
        let lease = Lease {
            holder: ProcessId { pid: 12, starttime: 1 << 40 },
            controller: Controller::Record,
            demand: Demand { mode: Mode::Log, sample_bytes: 512 },
            heartbeat_ns: 99,
        };
        let mut page = [0; super::super::PAGE_BYTES / 8];
        for part in LeaseWord::ALL {
            page[part.index(3)] = lease.word(part);
        }
        let read = |bits| leases(bits, |index| page[index]).collect::<std::vec::Vec<_>>();
        assert_eq!(read(1 << 3), [(3, lease)]);
        assert_eq!(read(1 << 2 | 1), []);
    }

    #[test]
    fn hostile_words_are_brought_into_range() {
        let lease = Lease::from_words(|_| u64::MAX).expect("not empty");
        assert_eq!(lease.demand, Demand { mode: Mode::Off, sample_bytes: Control::MAX_SAMPLE_BYTES });
        assert_eq!(lease.controller, Controller::Other);
        assert_eq!(lease.silence_ns(5), u64::MAX - 5);
    }
}
