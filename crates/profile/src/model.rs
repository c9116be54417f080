//! The [`Profile`]: plain tables that refer to each other by typed ids.

mod cut;
mod losses;
mod module;
mod program_end;
mod recorded;
mod shortage;
mod size;
mod stack_table;
mod symbol;
mod symbol_problem;

pub use cut::{Cut, CutReason, CutShare, Position};
pub use heapwise_format::segment::{Runtime, RuntimeLanguage, RuntimeSupport};
pub use losses::Losses;
pub use module::{BuildId, Module};
pub use program_end::ProgramEnd;
pub use recorded::{Began, Inherited, Recorded};
pub use shortage::{Shortage, Shortages};
pub use size::{SizeBin, SizeHistogram, SizeRange};
pub use stack_table::StackTable;
pub use symbol::{Function, Line, Location};
pub use symbol_problem::{BinaryProblems, SymbolProblem};

use crate::{FunctionId, LocationId, StackId, ThreadId, Values, metric::Unit};

/// A heap profile at one moment: allocation sites, their amounts, and what is still live.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Where it comes from and how far it can be trusted.
    pub meta: Meta,
    /// Mapped binaries; the main program first.
    pub modules: Vec<Module>,
    /// Distinct code addresses (or named frames of sources that have no addresses).
    pub locations: Vec<Location>,
    /// Distinct functions, known after symbolisation.
    pub functions: Vec<Function>,
    /// Call stacks as a prefix tree of locations.
    pub stacks: StackTable,
    /// Threads that samples refer to; empty when the source has no threads.
    pub threads: Vec<Thread>,
    /// The measurements. Several may share a stack (other thread, other block size, other rate).
    pub samples: Vec<Sample>,
    /// Further columns, one value per sample each (same length as `samples`).
    pub extra: Vec<ExtraColumn>,
    /// Blocks of the whole process by size, where samples mix sizes.
    pub sizes: SizeHistogram,
    /// Problems of binaries that the symbolizer met. Files do not store them.
    pub symbol_problems: Vec<BinaryProblems>,
}

impl Profile {
    /// Keeps the samples that `keeps` selects, with their further columns. The histogram of sizes,
    /// which is that of the whole process, is dropped with the first sample.
    pub fn retain_samples(&mut self, keeps: impl Fn(&Sample) -> bool) {
        let kept: Vec<bool> = self.samples.iter().map(keeps).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let mut rows = kept.iter();
        self.samples.retain(|_| rows.next().is_some_and(|kept| *kept));
        for column in &mut self.extra {
            let mut rows = kept.iter();
            column.values.retain(|_| rows.next().is_some_and(|kept| *kept));
        }
        self.sizes = SizeHistogram::default();
    }
}

/// Bytes of a node of the stack table: its location, its parent, its place in the hash index.
const STACK_NODE_BYTES: usize = 24;

/// One measurement: a stack, and what was allocated there.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Leaf of the allocating stack.
    pub stack: StackId,
    /// Allocating thread, where known.
    pub thread: Option<ThreadId>,
    /// Requested sizes of its blocks, where known.
    pub sizes: Option<SizeRange>,
    /// Unbiased values: for a sampled profile each object is already weighted by 1/p.
    pub values: Values,
    /// Estimated variance of each of `values`; all zero when exact.
    pub variance: Values,
}

impl Sample {
    /// Requested size of each block, when all blocks of this sample have the same.
    #[must_use]
    pub fn block_bytes(&self) -> Option<u64> {
        self.sizes.and_then(SizeRange::single)
    }
}

/// A named metric beyond the four shared ones.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraColumn {
    /// Metric name: one of [`crate::metric::column`], or a name of the source's own.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    /// One value per sample.
    pub values: Vec<f64>,
}

/// A thread of the profiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Kernel thread id, or the source's own number.
    pub tid: u64,
    /// Number in text profiles: the N of `tN`.
    pub number: u64,
    /// Name, possibly empty.
    pub name: String,
}

/// How the samples were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Sampling {
    /// Every allocation.
    #[default]
    Exact,
    /// One allocation per `mean_bytes` on average (Poisson by bytes).
    Poisson {
        /// Mean distance in requested bytes.
        mean_bytes: u64,
    },
}

/// Where a profile comes from and how far it can be trusted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta {
    /// Path of the profiled executable, if known.
    pub program: String,
    /// Command line, if known.
    pub args: Vec<String>,
    /// Process id, if known.
    pub pid: Option<u32>,
    /// Format of the source: `heapwise segment`, `jemalloc heap_v2`, `pprof`, …
    pub source: String,
    /// How samples were chosen.
    pub sampling: Sampling,
    /// Wall-clock time of the snapshot, nanoseconds since the epoch.
    pub time_unix_ns: Option<u64>,
    /// Time covered, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Highest number of live bytes, if the source has it.
    pub peak_bytes: Option<u64>,
    /// How the program ended.
    pub end: ProgramEnd,
    /// Which part of the program's life was recorded.
    pub recorded: Recorded,
    /// Losses while recording.
    pub losses: Losses,
    /// Where an incomplete file ends; `None` for a complete one.
    pub cut: Option<Cut>,
    /// Remarks a reader should see (`bytes are usable bytes`, …).
    pub comments: Vec<String>,
}

impl Meta {
    /// The name that the program was started by, or that of its file: `redis-server`, whose file
    /// is `redis-check-rdb`.
    #[must_use]
    pub fn title(&self) -> &str {
        let last = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().len();
        let started = self.args.first().and_then(|name| name.split(' ').next()).unwrap_or_default();
        let name = if last(started) > 0 { started } else { &self.program };
        &name[name.len() - last(name)..]
    }
}

impl Profile {
    /// Sum of all samples.
    #[must_use]
    pub fn total(&self) -> Values {
        self.samples.iter().fold(Values::default(), |sum, sample| sum + sample.values)
    }

    /// Adds a stack of one frame that has only a name.
    pub fn named_stack(&mut self, name: &str) -> StackId {
        self.named_stack_above(None, name)
    }

    /// Adds a frame that has only a name, called from a stack.
    pub fn named_stack_above(&mut self, caller: Option<StackId>, name: &str) -> StackId {
        self.functions.push(Function { name: name.to_owned(), ..Function::default() });
        let function = FunctionId::new(self.functions.len() - 1);
        self.locations.push(Location { lines: vec![Line { function, line: 0 }], ..Location::default() });
        self.stacks.child(caller, LocationId::new(self.locations.len() - 1))
    }

    /// Bytes of memory that the tables take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let lines: usize = self.locations.iter().map(|location| location.lines.len()).sum();
        let names: usize = self.functions.iter().map(|function| function.name.len() + 96).sum();
        let columns: usize = self.extra.iter().map(|column| column.values.len() * size_of::<f64>()).sum();
        self.samples.len() * size_of::<Sample>()
            + self.locations.len() * size_of::<Location>()
            + lines * size_of::<Line>()
            + names
            + columns
            + self.stacks.len() * STACK_NODE_BYTES
    }

    /// A further column by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ExtraColumn> {
        self.extra.iter().find(|column| column.name == name)
    }
}
