//! Rows of the tables before they are columns.

use std::sync::Arc;

/// The process and moment of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Stable: the same profile sent twice has the same id.
    pub profile_id: u64,
    /// The same number for all profiles of a process.
    pub process_id: u64,
    /// Time of the profile, nanoseconds since the epoch.
    pub time_ns: i64,
    /// Start of the process, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Name of the service.
    pub service: String,
    /// Version of the service.
    pub release: String,
    /// Name of the host.
    pub host: String,
    /// Id of the container, or empty.
    pub container: String,
    /// Path of the program.
    pub program: String,
    /// Number of the process on its host.
    pub pid: u32,
    /// How the process ended; empty while it runs.
    pub end: String,
}

/// A row of `profiles`.
#[derive(Debug, Clone)]
pub struct ProfileRow {
    /// Process and moment.
    pub origin: Arc<Origin>,
    /// Mean sampling distance; 0 for exact.
    pub sampling_bytes: u64,
    /// Rows of `samples`.
    pub stacks: u32,
    /// Sums over the samples.
    pub values: Amounts,
    /// Highest number of live bytes; 0 when unknown.
    pub peak_bytes: i64,
}

/// The four shared metrics as whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// Bytes in use.
    pub inuse_bytes: i64,
    /// Blocks in use.
    pub inuse_objects: i64,
    /// Bytes ever allocated.
    pub alloc_bytes: i64,
    /// Blocks ever allocated.
    pub alloc_objects: i64,
}

/// A row of `samples`.
#[derive(Debug, Clone)]
pub struct SampleRow {
    /// Process and moment.
    pub origin: Arc<Origin>,
    /// The allocating stack.
    pub stack_id: u64,
    /// Its values.
    pub values: Amounts,
    /// Variance of the bytes in use; 0 when exact.
    pub inuse_variance: f64,
}

/// A row of `functions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionRow {
    /// Hash of the other columns but the line.
    pub fn_id: u64,
    /// Short name, the key of comparisons between builds.
    pub name: String,
    /// Demangled name with parameters.
    pub full_name: String,
    /// Mangled name, or empty.
    pub system_name: String,
    /// Source file, or empty.
    pub file: String,
    /// Line of the declaration; 0 when unknown.
    pub start_line: u32,
    /// Last component of the binary's path, or empty.
    pub module: String,
}

/// A row of `stacks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackRow {
    /// Hash of functions and lines from root to leaf.
    pub stack_id: u64,
    /// Number of frames.
    pub depth: u16,
    /// The innermost function outside the allocator.
    pub leaf_fn: u64,
    /// Hash of `site`.
    pub site_id: u64,
    /// The first function of the program's own code.
    pub site: String,
}

/// A row of `frames`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameRow {
    /// The stack.
    pub stack_id: u64,
    /// 0 is the innermost frame.
    pub pos: u16,
    /// The function.
    pub fn_id: u64,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether the function was inlined into the frame of the next position.
    pub is_inlined: bool,
    /// Whether no inner frame has a function of this name.
    pub is_first: bool,
}

/// Rows of all tables that are filled from profiles.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Rows of `profiles`.
    pub profiles: Vec<ProfileRow>,
    /// Rows of `samples`.
    pub samples: Vec<SampleRow>,
    /// Rows of `functions`.
    pub functions: Vec<FunctionRow>,
    /// Rows of `stacks`.
    pub stacks: Vec<StackRow>,
    /// Rows of `frames`.
    pub frames: Vec<FrameRow>,
}

impl Rows {
    /// Adds the rows of another value.
    pub fn append(&mut self, mut other: Rows) {
        self.profiles.append(&mut other.profiles);
        self.samples.append(&mut other.samples);
        self.functions.append(&mut other.functions);
        self.stacks.append(&mut other.stacks);
        self.frames.append(&mut other.frames);
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty() && self.samples.is_empty()
    }

    /// Memory that the rows take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.samples.len() * size_of::<SampleRow>()
            + self.frames.len() * size_of::<FrameRow>()
            + self.profiles.len() * 512
            + self.functions.len() * 512
            + self.stacks.len() * 128
    }
}
