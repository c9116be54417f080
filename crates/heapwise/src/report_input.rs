//! The options that every report shares, and the [`ReportInput`] they make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::report_input::{Report, ReportInput};
use heapwise_capture::target::Target;
use heapwise_profile::quantity::parse_duration;
use heapwise_profile::query::{Granularity, LeafCut, NameStyle, NativeFrames, Order, Prune, QuerySpec};
use heapwise_profile::recording::Timeline;
use heapwise_profile::{Profile, script};

use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::output::Overwrite;
use crate::own_code::OwnArgs;
use crate::pattern::parse_pattern;
use crate::progress_bar::ReadArgs;
use crate::symbols::SymbolArgs;
use crate::{symbol_warnings, warnings};

/// Options of every report.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportOptions {
    #[command(flatten)]
    pub metric: MetricArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub own: OwnArgs,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Subtract this profile
    #[arg(long, value_name = "FILE|PID", help_heading = "Filter options")]
    pub base: Option<String>,
    /// Set the step length, a multiple of 10 ms; a time of a recording selects the peak within its
    /// step
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_step, help_heading = "Filter options")]
    pub step: u64,
    /// Show at most N rows (0 = all)
    #[arg(short = 'n', long = "rows", value_name = "N", help_heading = "Output options")]
    pub rows: Option<usize>,
    /// Rank by what a function and its callees hold
    #[arg(long, help_heading = "Output options")]
    pub cum: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output options")]
    pub json: bool,
    /// Write the result to FILE
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    pub output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, help_heading = "Output options")]
    pub force: bool,
}

/// Which number, at which granularity.
#[derive(Debug, Clone, Args)]
#[group(id = "number")]
#[command(next_help_heading = "Metric options")]
pub(crate) struct MetricArgs {
    /// Count bytes in use (the default)
    #[arg(long = "inuse_space", alias = "inuse-space", group = "metric")]
    inuse_space: bool,
    /// Count blocks in use
    #[arg(long = "inuse_objects", alias = "inuse-objects", group = "metric")]
    inuse_objects: bool,
    /// Count bytes ever allocated
    #[arg(long = "alloc_space", alias = "alloc-space", group = "metric")]
    alloc_space: bool,
    /// Count blocks ever allocated
    #[arg(long = "alloc_objects", alias = "alloc-objects", group = "metric")]
    alloc_objects: bool,
    /// Count by any metric of the profile (peak_space, inuse_slack, realloc_growth, …)
    #[arg(long = "sample_index", alias = "sample-index", value_name = "NAME", group = "metric")]
    sample_index: Option<String>,
    /// Count resident bytes of all memory of a running process: heap, mappings, libraries, …
    #[arg(long, conflicts_with_all = ["metric", "usable"])]
    pub(crate) resident: bool,
    /// Count usable instead of requested bytes, as allocators do
    #[arg(long)]
    pub(crate) usable: bool,
    /// Show one row per function (the default, but for Python)
    #[arg(long, group = "granularity")]
    functions: bool,
    /// Show one row per source line (the default for Python)
    #[arg(long, group = "granularity")]
    lines: bool,
    /// Show one row per source file
    #[arg(long, group = "granularity")]
    files: bool,
    /// Show one row per code address
    #[arg(long, group = "granularity")]
    addresses: bool,
    /// Show one row per binary, or package of Python
    #[arg(long, group = "granularity")]
    modules: bool,
    /// Show function names with their parameters
    #[arg(long = "full-names")]
    full_names: bool,
}

/// Which stacks and frames take part.
#[derive(Debug, Clone, Args)]
#[group(id = "filter")]
#[command(next_help_heading = "Filter options")]
pub(crate) struct FilterArgs {
    /// Keep only stacks with a matching frame
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    focus: Option<String>,
    /// Drop stacks with a matching frame
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    ignore: Option<String>,
    /// Remove matching frames from their stacks
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    hide: Option<String>,
    /// Keep only matching frames
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    show: Option<String>,
    /// Keep only allocations of this thread (a number, or a pattern for names)
    #[arg(long, value_name = "TID|RE", value_parser = parse_pattern)]
    thread: Option<String>,
    /// Keep the frames of the allocator and the language runtime
    #[arg(long = "keep-allocator")]
    keep_allocator: bool,
    /// Show native frames around Python lines
    #[arg(long)]
    pub(crate) native: bool,
    /// Draw at most N boxes of a graph
    #[arg(long, value_name = "N", default_value_t = Prune::default().nodecount)]
    nodecount: usize,
    /// Drop boxes below this share of the total
    #[arg(long, value_name = "F", default_value_t = Prune::default().nodefraction)]
    nodefraction: f64,
    /// Drop arrows below this share of the total
    #[arg(long, value_name = "F", default_value_t = Prune::default().edgefraction)]
    edgefraction: f64,
}

/// A step in milliseconds: whole rows of a recording.
pub(crate) fn parse_step(text: &str) -> Result<u64, String> {
    let asked = parse_duration(text)?;
    let step_ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
    let is_whole =
        u128::from(step_ms) * 1_000_000 == asked.as_nanos() && Timeline::step_ms(step_ms) == step_ms;
    if is_whole { Ok(step_ms) } else { Err(format!("`{text}` is not a multiple of 10 ms")) }
}

impl FilterArgs {
    /// Whether native frames around lines of a script are shown.
    pub(crate) fn native(&self) -> NativeFrames {
        if self.native { NativeFrames::Shown } else { NativeFrames::Folded }
    }
}

impl ReportOptions {
    /// Row limit of a view: that of `-n`, and for text `default` otherwise.
    pub(crate) fn row_limit(&self, default: usize) -> Option<usize> {
        match self.rows {
            Some(0) => None,
            None if !self.json => Some(default),
            rows => rows,
        }
    }

    /// Loads and symbolizes the targets, as the user names them.
    pub(crate) fn load(&self, targets: &[String]) -> Outcome<Report> {
        self.load_targets(self.parse_targets(targets)?)
    }

    /// The targets, as the user names them.
    pub(crate) fn parse_targets(&self, targets: &[String]) -> Outcome<Vec<Target>> {
        let parse = |target: &String| Target::parse_with_step(target, self.step);
        Ok(targets.iter().map(parse).collect::<Result<_, _>>()?)
    }

    /// Loads and symbolizes the targets; several add up.
    pub(crate) fn load_targets(&self, targets: Vec<Target>) -> Outcome<Report> {
        self.load_with(targets, &self.read.options())
    }

    /// As `load_targets`; recordings count blocks of different sizes separately.
    pub(crate) fn load_by_size(&self, targets: Vec<Target>) -> Outcome<Report> {
        let mut options = self.read.options();
        options.by_size = true;
        self.load_with(targets, &options)
    }

    fn load_with(&self, targets: Vec<Target>, options: &ReadOptions) -> Outcome<Report> {
        let parse = |name: &str| Target::parse_with_step(name, self.step);
        let baseline = self.base.as_deref().map(parse).transpose()?;
        let own = self.own.rule()?;
        let input = ReportInput { targets, baseline, query: self.query() };
        let load = |target: &Target| self.load_one(target, options);
        let profiles = input.targets.iter().map(load).collect::<Outcome<_>>()?;
        let baseline = input.baseline.as_ref().map(load).transpose()?;
        let report = Report::new(profiles, baseline, &input.query, own)?;
        let knows = |profile: &Profile| heapwise_profile::usable::is_known(profile);
        if self.metric.usable && !(knows(&report.profile) && report.baseline.as_deref().is_none_or(knows)) {
            return Err(input_error!("--usable: this profile does not know usable sizes"));
        }
        warnings::of_profile(&report.profile);
        Ok(report)
    }

    fn load_one(&self, target: &Target, options: &ReadOptions) -> Outcome<Arc<Profile>> {
        if !self.metric.resident {
            return load_symbolized(target, options, &self.symbols, self.filter.native());
        }
        let mut profile = target.load_resident()?;
        self.symbols.symbolize(&mut profile);
        Ok(Arc::new(profile))
    }

    fn query(&self) -> QuerySpec {
        let (metric, filter) = (&self.metric, &self.filter);
        QuerySpec {
            metric: metric.name().map(str::to_owned),
            granularity: metric.granularity(),
            names: if metric.full_names { NameStyle::Full } else { NameStyle::Short },
            focus: filter.focus.clone(),
            ignore: filter.ignore.clone(),
            hide: filter.hide.clone(),
            show: filter.show.clone(),
            thread: filter.thread.clone(),
            order: if self.cum { Order::Cum } else { Order::FlatThenCum },
            limit: self.rows.filter(|rows| *rows > 0),
            prune: Prune {
                nodecount: filter.nodecount,
                nodefraction: filter.nodefraction,
                edgefraction: filter.edgefraction,
                ..Prune::default()
            },
            leaf_cut: if filter.keep_allocator { LeafCut::Nothing } else { LeafCut::Runtime },
            native: filter.native(),
            usable: metric.usable,
        }
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

/// Reads one profile, adds symbols and prints what is wrong with it.
pub(crate) fn load_target(target: &Target, read: &ReadArgs, symbols: &SymbolArgs) -> Outcome<Arc<Profile>> {
    load_symbolized(target, &read.options(), symbols, NativeFrames::Shown)
}

fn load_symbolized(
    target: &Target,
    options: &ReadOptions,
    symbols: &SymbolArgs,
    native: NativeFrames,
) -> Outcome<Arc<Profile>> {
    let mut loaded = target.load(options)?;
    warnings::print(&loaded.warnings);
    if native == NativeFrames::Folded {
        // Before symbols are searched: frames that are not shown need none.
        script::fold_native(&mut loaded.profile);
    }
    let symbols = symbols.of_target(target);
    symbols.symbolize(&mut loaded.profile);
    symbol_warnings::print(&loaded.profile, &symbols);
    Ok(Arc::new(loaded.profile))
}

impl MetricArgs {
    fn name(&self) -> Option<&str> {
        match &self.sample_index {
            Some(name) => Some(name),
            None if self.inuse_objects => Some("inuse_objects"),
            None if self.alloc_space => Some("alloc_space"),
            None if self.alloc_objects => Some("alloc_objects"),
            None => None,
        }
    }

    fn granularity(&self) -> Option<Granularity> {
        match () {
            () if self.functions => Some(Granularity::Functions),
            () if self.lines => Some(Granularity::Lines),
            () if self.files => Some(Granularity::Files),
            () if self.addresses => Some(Granularity::Addresses),
            () if self.modules => Some(Granularity::Modules),
            () => None,
        }
    }
}

impl From<heapwise_profile::query::QueryError> for Failure {
    fn from(error: heapwise_profile::query::QueryError) -> Self {
        Failure::input(format!("--{error}"))
    }
}
