//! The command line: what the user typed.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::commands;

#[derive(Debug, Parser)]
#[command(
    name = "heapwise",
    version,
    about = "Heap profiler for Linux: who is holding the memory?",
    after_help = "Try: heapwise run -- python3 -c 'x=[str(i)*10 for i in range(10**6)]'",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One subcommand and its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with the probe inside and write its profile
    Run(commands::run::RunArgs),
    /// List processes that carry the probe
    Ps(commands::ps::PsArgs),
    /// Start recording in a running process
    Start(commands::switch::StartArgs),
    /// Stop recording; what was recorded stays readable
    Stop(commands::switch::StopArgs),
    /// Forget what was recorded so far
    Reset(commands::switch::ResetArgs),
    /// Change rate or mode of a running process
    Set(commands::switch::SetArgs),
    /// Write the profile of a process to a file
    Dump(commands::dump::DumpArgs),
    /// Counters of the probe and statistics of the allocator
    Stats(commands::stats::StatsArgs),
    /// Reset, start, wait, stop and write the profile
    Collect(commands::collect::CollectArgs),
    /// Record every event of a running process with its time
    Record(commands::record::RecordArgs),
    /// Give the present moment of a process a name
    Mark(commands::mark::MarkArgs),
    /// Live bytes of a recording over time
    Timeline(commands::timeline::TimelineArgs),
    /// Any report on a recording at one moment (305ms, peak, end, A..B, a mark)
    At(Box<commands::at::AtArgs>),
    /// What in a recording deserves a look
    Summary(commands::summary::SummaryArgs),
    /// Largest holders first
    Top(commands::report::ReportArgs),
    /// Callers and callees of each function
    Tree(commands::report::ReportArgs),
    /// Callers and callees of matching functions
    Peek(commands::report::PatternArgs),
    /// Source of matching functions with the bytes of each line
    List(commands::report::PatternArgs),
    /// Call graph as SVG, PNG, PDF or dot
    Graph(commands::picture::GraphArgs),
    /// Flame graph as a page, SVG or PNG
    Flame(commands::picture::FlameArgs),
    /// What is still held, by allocating site
    Leaks(commands::leaks::LeaksArgs),
    /// Sizes of blocks
    Sizes(commands::report::ReportArgs),
    /// One row per binary
    Modules(commands::report::ReportArgs),
    /// One row per thread
    Threads(commands::report::ReportArgs),
    /// Every stack
    #[command(visible_alias = "raw")]
    Traces(commands::report::ReportArgs),
    /// What changed between two profiles
    Diff(commands::diff::DiffArgs),
    /// Write a profile in the format of another tool
    Export(commands::export::ExportArgs),
    /// Put the symbols into a profile, so that it opens anywhere
    Symbolize(commands::export::SymbolizeArgs),
    /// Gate for CI: exit 1 when a limit does not hold
    Check(commands::check::CheckArgs),
    /// Print the path of the preload library
    Preload,
    /// Show processes and files on a web page, and to tools over HTTP
    Serve(commands::serve::ServeArgs),
    /// What works on this machine, and why not
    Doctor,
}

/// Parses the arguments.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    Cli::try_parse_from(arguments).map(|cli| cli.command)
}
