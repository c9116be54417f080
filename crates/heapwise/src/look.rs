//! The options every report shares, and what they mean: which profile, which number, which part of it.

use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::query::{Filter, Granularity, NameStyle, Order, Prune, Query, Regex, ThreadFilter};
use heapwise_profile::{Metric, Profile};

use crate::failure::{Failure, Outcome};
use crate::output::Overwrite;
use crate::progress_bar::ReadArgs;
use crate::{input_error, notes, symbols};
use heapwise_capture::source;

/// Options of every report.
#[derive(Debug, Clone, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub number: NumberArgs,
    #[command(flatten)]
    pub part: PartArgs,
    #[command(flatten)]
    pub symbols: symbols::SymbolArgs,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Subtract this profile
    #[arg(long, value_name = "FILE|PID")]
    pub base: Option<String>,
    /// Most rows
    #[arg(short = 'n', long = "rows", value_name = "N")]
    pub rows: Option<usize>,
    /// Rank by what a function and its callees hold
    #[arg(long)]
    pub cum: bool,
    /// As data
    #[arg(long)]
    pub json: bool,
    /// File for the result
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long)]
    pub force: bool,
}

/// Which number, at which granularity.
#[derive(Debug, Clone, Args)]
#[group(id = "number")]
pub(crate) struct NumberArgs {
    /// Bytes in use (the default)
    #[arg(long = "inuse_space", alias = "inuse-space", group = "metric")]
    inuse_space: bool,
    /// Blocks in use
    #[arg(long = "inuse_objects", alias = "inuse-objects", group = "metric")]
    inuse_objects: bool,
    /// Bytes ever allocated
    #[arg(long = "alloc_space", alias = "alloc-space", group = "metric")]
    alloc_space: bool,
    /// Blocks ever allocated
    #[arg(long = "alloc_objects", alias = "alloc-objects", group = "metric")]
    alloc_objects: bool,
    /// Any number by name (peak_space, waste_space, realloc_growth, …)
    #[arg(long = "sample_index", alias = "sample-index", value_name = "NAME", group = "metric")]
    sample_index: Option<String>,
    /// One row per function (the default)
    #[arg(long, group = "granularity")]
    functions: bool,
    /// One row per source line
    #[arg(long, group = "granularity")]
    lines: bool,
    /// One row per source file
    #[arg(long, group = "granularity")]
    files: bool,
    /// One row per code address
    #[arg(long, group = "granularity")]
    addresses: bool,
    /// One row per binary
    #[arg(long, group = "granularity")]
    modules: bool,
    /// Function names with their parameters
    #[arg(long = "full-names")]
    full_names: bool,
    /// Keep the allocator's own frames
    #[arg(long = "keep-allocator")]
    keep_allocator: bool,
}

/// Which stacks and frames take part.
#[derive(Debug, Clone, Args)]
#[group(id = "part")]
pub(crate) struct PartArgs {
    /// Only stacks with a frame that matches
    #[arg(long, value_name = "RE")]
    focus: Option<Regex>,
    /// No stacks with a frame that matches
    #[arg(long, value_name = "RE")]
    ignore: Option<Regex>,
    /// Take matching frames out of their stacks
    #[arg(long, value_name = "RE")]
    hide: Option<Regex>,
    /// Keep only matching frames
    #[arg(long, value_name = "RE")]
    show: Option<Regex>,
    /// Only what this thread allocated (number, or a pattern for names)
    #[arg(long, value_name = "TID|RE")]
    thread: Option<String>,
    /// Most boxes of a graph
    #[arg(long, value_name = "N", default_value_t = Prune::default().nodecount)]
    nodecount: usize,
    /// Smallest box, as a share of the total
    #[arg(long, value_name = "F", default_value_t = Prune::default().nodefraction)]
    nodefraction: f64,
    /// Smallest arrow, as a share of the total
    #[arg(long, value_name = "F", default_value_t = Prune::default().edgefraction)]
    edgefraction: f64,
}

/// A profile, what it is compared with, and the question.
#[derive(Debug)]
pub(crate) struct Look {
    /// What is looked at, with symbols.
    pub profile: Profile,
    /// What is subtracted.
    pub base: Option<Profile>,
    /// The question.
    pub query: Query,
}

impl LookArgs {
    /// Loads and symbolises what is looked at. Several targets add up.
    pub(crate) fn load(&self, targets: &[String]) -> Outcome<Look> {
        let mut profiles: Vec<Profile> = targets
            .iter()
            .map(|target| source::load(target, &self.reading.options()))
            .collect::<Result<_, _>>()?;
        let profile = match profiles.len() {
            1 => profiles.remove(0),
            _ => heapwise_profile::merge(profiles),
        };
        self.of(profile)
    }

    /// The same for a profile that is already there.
    pub(crate) fn of(&self, mut profile: Profile) -> Outcome<Look> {
        self.symbols.symbolize(&mut profile);
        notes::of_profile(&profile);
        let base =
            self.base.as_deref().map(|base| source::load(base, &self.reading.options())).transpose()?.map(
                |mut base| {
                    self.symbols.symbolize(&mut base);
                    base
                },
            );
        let query = self.query(&profile)?;
        Ok(Look { profile, base, query })
    }

    fn query(&self, profile: &Profile) -> Outcome<Query> {
        Ok(Query {
            metric: self.number.metric(profile)?,
            granularity: self.number.granularity(),
            names: if self.number.full_names { NameStyle::Full } else { NameStyle::Short },
            filter: self.part.filter()?,
            order: if self.cum { Order::Cum } else { Order::Flat },
            limit: self.rows,
            prune: self.part.prune(),
            keep_allocator: self.number.keep_allocator,
        })
    }

    /// Whether an existing output file may be replaced.
    pub(crate) fn overwrite(&self) -> Overwrite {
        if self.force { Overwrite::Allow } else { Overwrite::Refuse }
    }

    /// The output file.
    pub(crate) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

impl NumberArgs {
    fn metric(&self, profile: &Profile) -> Outcome<Metric> {
        let Some(name) = &self.sample_index else {
            return Ok(match () {
                () if self.inuse_objects => Metric::InuseObjects,
                () if self.alloc_space => Metric::AllocSpace,
                () if self.alloc_objects => Metric::AllocObjects,
                () => Metric::InuseSpace,
            });
        };
        Metric::by_name(profile, name).map_err(Failure::Input)
    }

    fn granularity(&self) -> Granularity {
        match () {
            () if self.lines => Granularity::Lines,
            () if self.files => Granularity::Files,
            () if self.addresses => Granularity::Addresses,
            () if self.modules => Granularity::Modules,
            () => Granularity::Functions,
        }
    }
}

impl PartArgs {
    fn filter(&self) -> Outcome<Filter> {
        let thread = match &self.thread {
            None => None,
            Some(text) => Some(match text.parse() {
                Ok(tid) => ThreadFilter::Tid(tid),
                Err(_) => ThreadFilter::Name(
                    Regex::new(text).map_err(|error| input_error!("--thread {text}: {error}"))?,
                ),
            }),
        };
        Ok(Filter {
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            hide: self.hide.clone(),
            show: self.show.clone(),
            thread,
        })
    }

    fn prune(&self) -> Prune {
        Prune {
            nodecount: self.nodecount,
            nodefraction: self.nodefraction,
            edgefraction: self.edgefraction,
            ..Prune::default()
        }
    }
}
