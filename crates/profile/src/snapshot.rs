//! From a shared segment (live, or left behind by a dead process) to a [`Profile`].
//!
//! Sans-IO: the caller supplies [`SegmentSource`], a positioned read. The probe may be writing
//! while this reads: every count is a recent lower bound, records are only read up to the count
//! published after them, and every index is checked, so a torn or hostile segment gives an
//! incomplete profile and never a crash.

mod live_blocks;
mod mappings;
mod memory_calls;
mod samples;
mod sizes;
mod stacks;
mod tallies;
#[cfg(test)]
mod tests;
mod window;

pub use live_blocks::{IndexedBlock, TallySite};
pub use mappings::{MappingPurpose, RecordedMapping};
pub(crate) use samples::unknown_stack;
pub use window::Baseline;

use heapwise_format::bytes::{text, u64_at};
use heapwise_format::segment::{
    ARENA_WORDS, COUNTERS_OFFSET, Control, Counter, FrozenBy, Header, HeaderError, IndexKind, LEASE_SLOTS,
    Layout, Lease, MOST_ARENAS, Mode, PAGE_BYTES, Runtime, SectionKind, SegmentSource, State, leases,
};

use crate::{
    Began, Inherited, Losses, Meta, Profile, ProgramEnd, Recorded, Sampling, Shortage, Shortages, StackId,
    Values,
};

/// A segment opened for reading: its header and its counters at one moment.
#[derive(Debug)]
pub struct Snapshot<'a, S> {
    source: &'a S,
    /// Header, which identifies the process.
    pub header: Header,
    counters: Vec<u8>,
    control: Option<Control>,
    leases: [Option<Lease>; LEASE_SLOTS],
}

impl<'a, S: SegmentSource> Snapshot<'a, S> {
    /// Reads the three leading pages.
    ///
    /// # Errors
    /// When the source is not a segment of this version.
    pub fn open(source: &'a S) -> Result<Self, HeaderError> {
        let mut pages = vec![0; COUNTERS_OFFSET + PAGE_BYTES];
        let got = source.read_at(0, &mut pages);
        pages.truncate(got);
        let header = Header::decode(&pages)?;
        let control = pages.get(PAGE_BYTES..).and_then(Control::from_page);
        let counters = pages.get(COUNTERS_OFFSET..).unwrap_or_default().to_vec();
        let word = |index: usize| u64_at(&pages, PAGE_BYTES + index * 8).unwrap_or(0);
        let bits = control.map_or(0, |control| control.leases);
        let mut slots = [None; LEASE_SLOTS];
        for (slot, lease) in leases(bits, word) {
            slots[slot] = Some(lease);
        }
        Ok(Self { source, header, counters, control, leases: slots })
    }

    /// What was opened.
    #[must_use]
    pub fn source(&self) -> &'a S {
        self.source
    }

    /// A counter.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        u64_at(&self.counters, counter as usize * 8).unwrap_or(0)
    }

    /// Last statistics of an arena from the allocator: bytes handed out, in pages with live blocks,
    /// resident; `None` for one that is not in use.
    #[must_use]
    pub fn arena(&self, index: usize) -> Option<[u64; 3]> {
        let word = |field| u64_at(&self.counters, (ARENA_WORDS + index * 3 + field) * 8);
        let numbers = [word(0)?, word(1)?, word(2)?];
        (index < MOST_ARENAS && numbers != [0; 3]).then_some(numbers)
    }

    /// The control page: the process's own settings.
    #[must_use]
    pub fn control(&self) -> Option<Control> {
        self.control
    }

    /// Leases of controllers by slot. Those of controllers that were killed are among them.
    #[must_use]
    pub fn lease_slots(&self) -> [Option<Lease>; LEASE_SLOTS] {
        self.leases
    }

    /// State of the probe.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_word(self.counter(Counter::State))
    }

    /// Mode in force.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::from_word(self.counter(Counter::Mode))
    }

    /// The live-block index in force, where every block is recorded.
    #[must_use]
    pub fn index(&self) -> Option<IndexKind> {
        let index = IndexKind::from_word(self.counter(Counter::Index));
        (matches!(self.mode(), Mode::Exact | Mode::Log) && index != IndexKind::Auto).then_some(index)
    }

    /// Live bytes now, exact or estimated; never below zero.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        (self.counter(Counter::LiveBytes) as i64).max(0) as u64
    }

    /// The current value of a counter, for counters that change while the tables are read.
    fn counter_now(&self, counter: Counter) -> u64 {
        let mut word = [0; 8];
        match self.source.read_at((COUNTERS_OFFSET + counter as usize * 8) as u64, &mut word) {
            8 => u64::from_le_bytes(word),
            _ => self.counter(counter),
        }
    }

    /// Losses. Dropped events are missing from a recording; the tallies count them.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Losses {
            dropped_events: self.counter(Counter::LostEvents),
            truncated_stacks: self.counter(Counter::Truncated),
            broken_stacks: self.counter(Counter::Broken),
            reentrant_events: self.counter(Counter::Reentrant),
            untracked_blocks: self.counter(Counter::UntrackedBlocks),
            untracked_bytes: self.counter(Counter::UntrackedBytes),
            unrecorded_threads: self.counter(Counter::LostThreads),
            unrecorded_modules: self.counter(Counter::LostModules),
            unknown_frees: self.counter(Counter::UnknownFrees),
            lost_marks: self.counter(Counter::LostMarks),
        }
    }

    /// Everything counted in the current period, as a profile without symbols.
    #[must_use]
    pub fn profile(&self) -> Profile {
        // Tallies first: the stacks that they refer to were stored before them.
        self.profile_of(&tallies::read(self))
    }

    /// Sum of everything counted in the current period. Exact: threads add to the counters in
    /// steps, to their tallies at every event.
    #[must_use]
    pub fn totals(&self) -> Values {
        tallies::read(self).iter().fold(Values::default(), |sum, site| sum + site.values().0)
    }

    /// Highest number of live bytes, which is at least the number now (`live`).
    #[must_use]
    pub fn peak_bytes(&self, live: f64) -> u64 {
        self.counter(Counter::PeakBytes).max(live as u64)
    }

    /// A profile of modules and stacks without samples, and the stack of each node.
    #[must_use]
    pub fn stacks(&self) -> (Profile, Vec<Option<StackId>>) {
        let mut profile = Profile { meta: self.meta(), ..Profile::default() };
        let nodes = stacks::read(self, &mut profile);
        (profile, nodes)
    }

    fn meta(&self) -> Meta {
        let seen = self.counter(Counter::LastSeen).max(self.header.start_monotonic_ns);
        let recording_start = self.counter(Counter::RecordingStart).max(self.counter(Counter::PeriodStart));
        let period_start = recording_start.max(self.header.start_monotonic_ns);
        let sampling = match self.mode() {
            Mode::Sampled => Sampling::Poisson { mean_bytes: self.counter(Counter::SampleBytes).max(1) },
            Mode::Off | Mode::Exact | Mode::Log => Sampling::Exact,
        };
        Meta {
            program: lossy(self.header.exe()),
            args: self
                .header
                .cmdline
                .split(|byte| *byte == 0)
                .filter(|argument| !argument.is_empty())
                .map(lossy)
                .collect(),
            pid: Some(self.header.process.pid),
            source: "heapwise segment".into(),
            sampling,
            time_unix_ns: Some(
                self.header.start_realtime_ns.saturating_add(seen - self.header.start_monotonic_ns),
            ),
            duration_ns: Some(seen.saturating_sub(period_start)),
            peak_bytes: Some(self.counter(Counter::PeakBytes)),
            end: ProgramEnd::from_code(self.counter(Counter::End)),
            recorded: self.recorded(seen),
            losses: self.losses(),
            cut: None,
            comments: Vec::new(),
        }
    }

    /// When counting began.
    #[must_use]
    pub fn began(&self) -> Began {
        let period_start = self.counter(Counter::PeriodStart);
        let start = self.counter(Counter::RecordingStart);
        let age = self.counter(Counter::AgeAtAttach);
        let since_program = |at: u64| at.saturating_sub(self.header.start_monotonic_ns).saturating_add(age);
        let is_first_period = self.counter(Counter::Period) <= 1;
        match () {
            () if start == 0 => Began::Never,
            () if start > period_start || is_first_period && age > 0 => {
                Began::Late { after_ns: since_program(start) }
            }
            () if is_first_period => Began::WithProgram,
            () => Began::Reset { after_ns: since_program(period_start) },
        }
    }

    /// The recorded part of the program's life, last seen at `seen`.
    fn recorded(&self, seen: u64) -> Recorded {
        let (bytes, parent) = (self.counter(Counter::InheritedBytes), self.header.parent_pid);
        Recorded {
            began: self.began(),
            stopped_ns: self.stopped_at().map(|stop| seen.saturating_sub(stop)),
            pauses: self.counter(Counter::Pauses),
            inherited: (bytes > 0).then_some(Inherited { bytes, parent }),
            shortages: self.shortages_of_tables(),
            event_shortages: self.shortages_of_log(),
            own_allocator: String::new(),
            entry_hooks: self.counter(Counter::EntryHooks),
            runtime: Runtime::decode(self.counter(Counter::Runtime)),
        }
    }

    /// `CLOCK_MONOTONIC` nanoseconds when recording was switched off; `None` while it is on, and
    /// when it was never on.
    #[must_use]
    pub fn stopped_at(&self) -> Option<u64> {
        let was_on = self.counter(Counter::RecordingStart) != 0;
        (was_on && self.mode() == Mode::Off).then(|| self.counter(Counter::StoppedNanos))
    }

    /// Why blocks, stacks or sites had no room.
    fn shortages_of_tables(&self) -> Shortages {
        let lost = [Counter::LostTallies, Counter::LostNodes, Counter::UntrackedBlocks];
        let lost = lost
            .map(|counter| self.counter(counter))
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        self.shortages(lost, [Counter::NoSpaceLosses, Counter::FrozenLosses], Shortage::Table)
    }

    /// Why events of the log had no room.
    fn shortages_of_log(&self) -> Shortages {
        let causes = [Counter::NoSpaceEvents, Counter::FrozenEvents];
        self.shortages(self.counter(Counter::LostEvents), causes, Shortage::SlowRecorder)
    }

    /// The causes of `lost`: no space, a frozen segment, and the cause of the rest.
    fn shortages(&self, lost: u64, [no_space, frozen]: [Counter; 2], rest: Shortage) -> Shortages {
        let (no_space, frozen) = (self.counter(no_space), self.counter(frozen));
        let why_frozen = match FrozenBy::from_word(self.counter(Counter::FrozenBy)) {
            FrozenBy::Seccomp => Shortage::Sandbox,
            FrozenBy::AddressLimit => Shortage::AddressSpace,
            FrozenBy::LockedMemory => Shortage::LockedMemory,
            FrozenBy::Nothing => rest,
        };
        let others = lost.saturating_sub(no_space).saturating_sub(frozen);
        [(no_space, Shortage::FileSystem), (frozen, why_frozen), (others, rest)]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .fold(Shortages::default(), |set, (_, shortage)| set.with(shortage))
    }

    fn layout(&self) -> &Layout {
        &self.header.layout
    }

    /// Reads up to `count` records of a section starting at `first`; fewer when the file is
    /// shorter. Memory is bounded by the contents of the file: reading goes in blocks and stops at
    /// the first short one. For tables that are filled from the front: a block of zeros is their
    /// end, for any counter value of a hostile sparse file.
    fn records(&self, kind: SectionKind, first: u64, count: u64) -> Vec<u8> {
        const BLOCK_BYTES: u64 = 1 << 20;
        let record_bytes = self.layout().section(kind).record_bytes.max(1);
        let step = (BLOCK_BYTES / record_bytes).max(1);
        let mut bytes = Vec::new();
        let (mut at, mut left) = (first, count);
        while left > 0 {
            let wanted = left.min(step);
            let block = self.block(kind, at, wanted);
            let is_hole = block.iter().all(|byte| *byte == 0);
            bytes.extend_from_slice(&block);
            if (block.len() as u64) < wanted * record_bytes || is_hole {
                break;
            }
            at += wanted;
            left -= wanted;
        }
        bytes
    }

    /// Reads `count` records at once; fewer at the end of the section or of the file. `count` is
    /// small, because the buffer is allocated before the file is read.
    fn block(&self, kind: SectionKind, first: u64, count: u64) -> Vec<u8> {
        let section = self.layout().section(kind);
        let count = count.min(section.capacity.saturating_sub(first));
        let Some(at) = section.record_offset(first) else { return Vec::new() };
        let mut bytes = vec![0; (count * section.record_bytes) as usize];
        let got = self.source.read_at(at, &mut bytes).min(bytes.len());
        bytes.truncate(got);
        bytes
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(text(bytes)).into_owned()
}
