//! Parameters of a view: which number, at which granularity, of which part of the profile.

mod pattern;
mod spec;

pub use pattern::{Regex, is_linear};
pub use spec::{QueryError, QuerySpec, exactly, pattern};

use crate::{Metric, Profile, ThreadId};

/// One query. The default is that of `heapwise top`: live bytes per function, all of them.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The number looked at.
    pub metric: Metric,
    /// Subject of a row or a box.
    pub granularity: Granularity,
    /// How functions are spelled.
    pub names: NameStyle,
    /// Which stacks and frames take part.
    pub filter: Filter,
    /// Ranking of rows.
    pub order: Order,
    /// Most rows wanted; `None` for all.
    pub limit: Option<usize>,
    /// Pruning limits of a graph or tree.
    pub prune: Prune,
    /// Which innermost frames are cut off.
    pub leaf_cut: LeafCut,
    /// Whether native frames around lines of a script are shown.
    pub native: NativeFrames,
    /// Count usable instead of requested bytes, where the profile has them
    /// ([`crate::usable::is_known`]).
    pub usable: bool,
}

/// Whether native frames around lines of a script are shown. Applied when profiles are loaded
/// ([`crate::script::fold_native`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NativeFrames {
    /// No: their memory counts for the innermost line.
    #[default]
    Folded,
    /// Yes.
    Shown,
}

/// Subject of a row or a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// A function, all its overloads and instances together under [`NameStyle::Short`].
    #[default]
    Functions,
    /// A source line within a function.
    Lines,
    /// A source file.
    Files,
    /// A code address.
    Addresses,
    /// A binary, or a package of Python.
    Modules,
}

/// How functions are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameStyle {
    /// Without parameters, template arguments and return types.
    #[default]
    Short,
    /// As the symbol was demangled.
    Full,
    /// Exactly as `jeprof` shortens and decorates them (`f (inline)`, `0x…` when unknown).
    Jeprof,
    /// As `jeprof --collapsed` spells them: in full, inlined ones marked `f()[inline]`.
    Collapsed,
}

impl NameStyle {
    /// Whether an inlined function is another frame than the same function called.
    #[must_use]
    pub(crate) fn marks_inlined(self) -> bool {
        self.is_jeprofs()
    }

    /// Whether names are those of `jeprof`: a place without one is its address.
    pub(crate) fn is_jeprofs(self) -> bool {
        matches!(self, NameStyle::Jeprof | NameStyle::Collapsed)
    }
}

/// Which innermost frames are cut off, so that reports begin with the code that allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeafCut {
    /// `malloc`, `operator new`, everything they call, and the language runtime around them.
    #[default]
    Runtime,
    /// Exactly the functions that `jeprof` cuts.
    Jeprof,
    /// None.
    Nothing,
}

/// Ranking of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By what a function allocated itself; equal rows by name, as jeprof ranks them.
    #[default]
    Flat,
    /// By what a function allocated itself; equal rows by what it and its callees allocated.
    FlatThenCum,
    /// By what it and its callees allocated.
    Cum,
}

/// Which stacks and frames take part. Patterns match function names, source files and `file:line`;
/// under [`NameStyle::Jeprof`] what `jeprof` matches.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only stacks with a matching frame.
    pub focus: Option<Regex>,
    /// No stacks with a matching frame.
    pub ignore: Option<Regex>,
    /// Matching frames are taken out of their stacks.
    pub hide: Option<Regex>,
    /// Frames that do not match are taken out of their stacks.
    pub show: Option<Regex>,
    /// Only what these threads allocated.
    pub thread: Option<ThreadFilter>,
}

impl Filter {
    /// Whether samples are selected by their stacks or threads, so that totals are those of a part.
    #[must_use]
    pub fn selects(&self) -> bool {
        self.focus.is_some() || self.ignore.is_some() || self.thread.is_some()
    }

    /// Whether patterns select stacks or frames.
    #[must_use]
    pub fn matches_frames(&self) -> bool {
        [&self.focus, &self.ignore, &self.hide, &self.show].into_iter().any(Option::is_some)
    }

    /// Whether samples of a thread take part.
    #[must_use]
    pub(crate) fn passes_thread(&self, profile: &Profile, thread: Option<ThreadId>) -> bool {
        let thread = thread.map(|id| &profile.threads[id.index()]);
        match (&self.thread, thread) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ThreadFilter::Tid(tid)), Some(thread)) => thread.tid == *tid,
            (Some(ThreadFilter::Name(pattern)), Some(thread)) => pattern.is_match(&thread.name),
        }
    }
}

/// Selects threads.
#[derive(Debug, Clone)]
pub enum ThreadFilter {
    /// The thread with this id (the kernel's, or the source's own number).
    Tid(u64),
    /// Threads whose name matches.
    Name(Regex),
}

/// Pruning limits of a graph or tree, with the defaults of jeprof and pprof.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prune {
    /// Most nodes drawn.
    pub nodecount: usize,
    /// Nodes whose cum is at most this share of the total are dropped.
    pub nodefraction: f64,
    /// Edges of at most this share of the total are dropped.
    pub edgefraction: f64,
    /// Most edges into and out of a node, beyond what reachability needs.
    pub maxdegree: usize,
}

impl Default for Prune {
    fn default() -> Self {
        Self { nodecount: 80, nodefraction: 0.005, edgefraction: 0.001, maxdegree: 8 }
    }
}

impl Prune {
    /// Leaves nothing out.
    pub const NOTHING: Prune =
        Prune { nodecount: usize::MAX, nodefraction: 0.0, edgefraction: 0.0, maxdegree: usize::MAX };
}
