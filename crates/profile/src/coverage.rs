//! What the numbers of a profile cover: which part of the program's life, how blocks were chosen,
//! what is missing and why. Renderers put it into words (`render/src/coverage.rs`).

use heapwise_format::segment::{Runtime, RuntimeSupport};

use crate::metric::column;
use crate::naming::Naming;
use crate::unattributed::{self, Cause};
use crate::{
    Began, Cut, Inherited, Location, Metric, Profile, ProgramEnd, Recorded, Sampling, Shortages, Values,
    script,
};

/// What the numbers of a profile cover.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coverage {
    /// Format of the source.
    pub source: String,
    /// How blocks were chosen.
    pub sampling: Sampling,
    /// When recording began.
    pub began: Began,
    /// Time covered, nanoseconds.
    pub duration_ns: Option<u64>,
    /// How the program ended.
    pub end: ProgramEnd,
    /// The language runtime whose frames are in the stacks.
    pub runtime: Option<Runtime>,
    /// Missing and incomplete data, the gravest first; empty when nothing is known to be missing.
    pub gaps: Vec<Gap>,
    /// Sum of all samples.
    pub counted: Values,
    /// Share of the bytes that functions with names allocated; `None` before symbols were searched,
    /// and without bytes.
    pub named: Option<f64>,
    /// Process id, if known.
    pub pid: Option<u32>,
}

/// One kind of missing or incomplete data, with its amount.
#[derive(Debug, Clone, PartialEq)]
pub enum Gap {
    /// Recording was never on.
    NeverRecorded,
    /// The end of the file is missing, or damaged.
    Cut(Cut),
    /// An allocator inside the executable, of which this is a function, is not hooked.
    OwnAllocator(String),
    /// A language runtime whose stacks and objects are not read: its arenas are mappings.
    Runtime(Runtime),
    /// Blocks allocated before recording began.
    Earlier {
        /// Nanoseconds between the start of the program and the start of recording.
        after_ns: u64,
        /// Blocks among them that were freed while recording.
        frees: u64,
    },
    /// Blocks allocated before the counts were reset.
    BeforeReset {
        /// Nanoseconds between the start of the program and the reset.
        after_ns: u64,
    },
    /// Blocks allocated since recording was switched off.
    Stopped {
        /// Nanoseconds between that and the snapshot.
        ns: u64,
    },
    /// Blocks allocated while recording was off.
    Paused {
        /// Times that it was.
        times: u64,
    },
    /// Memory of the parent process, which a forked process has too.
    Inherited(Inherited),
    /// Events that are missing in the recording.
    LostEvents {
        /// How many.
        events: u64,
        /// Why there was no room for them.
        shortages: Shortages,
    },
    /// Blocks that are not counted as live, though they may be.
    Untracked {
        /// How many.
        blocks: u64,
        /// Their bytes.
        bytes: u64,
        /// Why there was no room for them.
        shortages: Shortages,
    },
    /// Memory that is counted without its stack or label.
    Unattributed {
        /// The table without room.
        cause: Cause,
        /// The memory.
        values: Values,
        /// Why there was no room.
        shortages: Shortages,
    },
    /// Blocks sampled inside the probe itself, which are not counted.
    InsideProbe {
        /// How many.
        samples: u64,
    },
    /// Frees of blocks that no hooked function allocated.
    UnhookedBlocks {
        /// How many.
        frees: u64,
    },
    /// Stacks cut at the depth limit: callers beyond it are missing.
    CutStacks {
        /// How many were captured.
        stacks: u64,
    },
    /// Stacks that end in code without unwind information, or pass through such code.
    BrokenStacks {
        /// How many sites have one.
        stacks: u64,
    },
    /// Threads without a record: their blocks are counted without a thread.
    Threads(u64),
    /// Binaries without a record: addresses in them stay numbers.
    Modules(u64),
    /// Marks of the program that had no room.
    Marks(u64),
    /// The numbers at the peak were counted shortly before or after it.
    BelowPeak {
        /// Live bytes when they were.
        counted: u64,
        /// Live bytes at the peak.
        peak: u64,
    },
}

impl Gap {
    /// The name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Gap::NeverRecorded => "never_recorded",
            Gap::Cut(_) => "cut",
            Gap::OwnAllocator(_) => "own_allocator",
            Gap::Runtime(_) => "runtime",
            Gap::Earlier { .. } => "earlier_blocks",
            Gap::BeforeReset { .. } => "before_reset",
            Gap::Stopped { .. } => "stopped",
            Gap::Paused { .. } => "paused",
            Gap::Inherited(_) => "inherited",
            Gap::LostEvents { .. } => "lost_events",
            Gap::Untracked { .. } => "untracked",
            Gap::Unattributed { .. } => "unattributed",
            Gap::InsideProbe { .. } => "inside_probe",
            Gap::UnhookedBlocks { .. } => "unhooked_blocks",
            Gap::CutStacks { .. } => "cut_stacks",
            Gap::BrokenStacks { .. } => "broken_stacks",
            Gap::Threads(_) => "threads",
            Gap::Modules(_) => "modules",
            Gap::Marks(_) => "marks",
            Gap::BelowPeak { .. } => "below_peak",
        }
    }

    /// Whether an unknown number of blocks is missing in totals of `metric`: no bound can be given.
    #[must_use]
    pub fn is_unbounded(&self, metric: Metric) -> bool {
        match self {
            Gap::NeverRecorded
            | Gap::Cut(_)
            | Gap::OwnAllocator(_)
            | Gap::Runtime(_)
            | Gap::Earlier { .. }
            | Gap::Stopped { .. }
            | Gap::Paused { .. } => true,
            Gap::LostEvents { .. } => !matches!(metric, Metric::AllocObjects | Metric::InuseObjects),
            // The user wanted to know what happened since.
            Gap::BeforeReset { .. }
            | Gap::Inherited(_)
            | Gap::Untracked { .. }
            | Gap::Unattributed { .. }
            | Gap::InsideProbe { .. }
            | Gap::UnhookedBlocks { .. }
            | Gap::CutStacks { .. }
            | Gap::BrokenStacks { .. }
            | Gap::Threads(_)
            | Gap::Modules(_)
            | Gap::Marks(_)
            | Gap::BelowPeak { .. } => false,
        }
    }
}

impl Coverage {
    /// The coverage of a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let meta = &profile.meta;
        let mut gaps = Vec::new();
        gaps.extend(meta.cut.clone().map(Gap::Cut));
        add_life(&mut gaps, &meta.recorded, meta.losses.unknown_frees);
        add_losses(&mut gaps, profile);
        Self {
            source: meta.source.clone(),
            sampling: meta.sampling,
            began: meta.recorded.began,
            duration_ns: meta.duration_ns,
            end: meta.end,
            runtime: meta.recorded.runtime.filter(|_| script::is_followed(profile)),
            gaps,
            counted: profile.total(),
            named: named(profile),
            pid: meta.pid,
        }
    }

    /// The coverage of one metric of a profile: numbers at the peak have a gap of their own.
    #[must_use]
    pub fn of_metric(profile: &Profile, metric: Metric) -> Self {
        let mut coverage = Self::of(profile);
        if let Metric::Extra(number) = metric
            && let Some(shown) = profile.extra.get(usize::from(number))
            && [column::PEAK_SPACE, column::PEAK_OBJECTS].contains(&shown.name.as_str())
        {
            coverage.gaps.extend(below_peak(profile));
        }
        coverage
    }

    /// Whether nothing is known to be missing, and something was counted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.gaps.is_empty() && self.counted != Values::default()
    }
}

/// The difference between the peak and what the samples were counted at.
fn below_peak(profile: &Profile) -> Option<Gap> {
    let counted = profile.extra.iter().find(|extra| extra.name == column::PEAK_SPACE)?;
    let counted = counted.values.iter().sum::<f64>().round() as u64;
    let peak = profile.meta.peak_bytes?;
    (counted < peak).then_some(Gap::BelowPeak { counted, peak })
}

/// Share of the live bytes with names, or of the allocated bytes if none are live.
fn named(profile: &Profile) -> Option<f64> {
    let is_named = |location: &Location| location.module.is_some() && !location.lines.is_empty();
    if profile.symbol_problems.is_empty() && !profile.locations.iter().any(is_named) {
        return None;
    }
    let naming = Naming::of(profile);
    let (total, unnamed) = (naming.total, naming.unnamed_values());
    let (total, unnamed) = match total.inuse_bytes > 0.0 {
        true => (total.inuse_bytes, unnamed.inuse_bytes),
        false => (total.alloc_bytes, unnamed.alloc_bytes),
    };
    (total > 0.0).then(|| 1.0 - unnamed / total)
}

/// Parts of the program's life that were not recorded.
fn add_life(gaps: &mut Vec<Gap>, recorded: &Recorded, frees: u64) {
    if !recorded.own_allocator.is_empty() {
        gaps.push(Gap::OwnAllocator(recorded.own_allocator.clone()));
    }
    let is_followed = |runtime: &Runtime| runtime.support == RuntimeSupport::Followed;
    gaps.extend(recorded.runtime.filter(|runtime| !is_followed(runtime)).map(Gap::Runtime));
    match recorded.began {
        Began::Never => gaps.push(Gap::NeverRecorded),
        Began::Late { after_ns } => gaps.push(Gap::Earlier { after_ns, frees }),
        Began::Reset { after_ns } => gaps.push(Gap::BeforeReset { after_ns }),
        Began::Unknown | Began::WithProgram => {}
    }
    if let Some(ns) = recorded.stopped_ns {
        gaps.push(Gap::Stopped { ns });
    }
    if recorded.pauses > 0 {
        gaps.push(Gap::Paused { times: recorded.pauses });
    }
    gaps.extend(recorded.inherited.filter(|inherited| inherited.bytes > 0).map(Gap::Inherited));
}

/// Data that was lost while recording was on.
fn add_losses(gaps: &mut Vec<Gap>, profile: &Profile) {
    let (losses, recorded) = (&profile.meta.losses, &profile.meta.recorded);
    let (shortages, events) = (recorded.shortages, recorded.event_shortages);
    let (blocks, bytes) = (losses.untracked_blocks, losses.untracked_bytes);
    let mut add = |count: u64, gap: Gap| {
        if count > 0 {
            gaps.push(gap);
        }
    };
    let dropped = losses.dropped_events;
    add(dropped, Gap::LostEvents { events: dropped, shortages: events });
    add(blocks, Gap::Untracked { blocks, bytes, shortages });
    for (cause, values) in unattributed::unattributed(profile).iter() {
        let is_some = u64::from(values != Values::default());
        add(is_some, Gap::Unattributed { cause, values, shortages });
    }
    if profile.meta.sampling != Sampling::Exact {
        add(losses.reentrant_events, Gap::InsideProbe { samples: losses.reentrant_events });
    }
    add(unhooked(profile), Gap::UnhookedBlocks { frees: unhooked(profile) });
    add(losses.truncated_stacks, Gap::CutStacks { stacks: losses.truncated_stacks });
    add(losses.broken_stacks, Gap::BrokenStacks { stacks: losses.broken_stacks });
    add(losses.unrecorded_threads, Gap::Threads(losses.unrecorded_threads));
    add(losses.unrecorded_modules, Gap::Modules(losses.unrecorded_modules));
    add(losses.lost_marks, Gap::Marks(losses.lost_marks));
}

/// Frees of blocks that neither a time without recording nor a loss explains.
fn unhooked(profile: &Profile) -> u64 {
    let (losses, recorded) = (&profile.meta.losses, &profile.meta.recorded);
    let is_whole = recorded.began == Began::WithProgram
        && recorded.pauses == 0
        && recorded.stopped_ns.is_none()
        && recorded.inherited.is_none();
    let lost = losses.untracked_blocks.saturating_add(losses.dropped_events);
    if is_whole { losses.unknown_frees.saturating_sub(lost) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    fn names(profile: &Profile) -> Vec<&'static str> {
        Coverage::of(profile).gaps.iter().map(Gap::name).collect()
    }

    #[test]
    fn a_whole_profile_has_no_gaps() {
        let mut whole = profile("main 1 1");
        assert!(names(&whole).is_empty());
        whole.meta.recorded.began = Began::WithProgram;
        assert!(names(&whole).is_empty());
        assert_eq!(Coverage::of(&whole).counted, whole.total());
    }

    #[test]
    fn frees_of_lost_blocks_are_not_called_frees_of_earlier_ones() {
        let mut lost = profile("main 1 1");
        lost.meta.recorded.began = Began::WithProgram;
        lost.meta.losses.untracked_blocks = 10;
        lost.meta.losses.unknown_frees = 7;
        assert_eq!(names(&lost), ["untracked"]);
        lost.meta.losses.unknown_frees = 12;
        assert_eq!(names(&lost), ["untracked", "unhooked_blocks"]);
        lost.meta.recorded.began = Began::Late { after_ns: 5 };
        lost.meta.losses.untracked_blocks = 0;
        assert_eq!(Coverage::of(&lost).gaps, [Gap::Earlier { after_ns: 5, frees: 12 }]);
    }
}
