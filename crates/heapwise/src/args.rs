//! The command line: every command, with examples.

mod help;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args as _, CommandFactory, FromArgMatches, Parser, Subcommand};

use heapwise_capture::preload;

use crate::commands;
use crate::commands::report::{self, View};
use crate::commands::run::RunArgs;
use crate::failure::Outcome;

#[derive(Debug, Parser)]
#[command(
    name = "heapwise",
    version,
    about = "Heap profiler for Linux: who is holding the memory?",
    after_help = "Try: heapwise run -- python3 -c 'x=[str(i)*10 for i in range(10**6)]'\n\
                  `heapwise COMMAND --help` shows options and examples of a command.",
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
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
    #[command(after_help = "Examples:\n  \
        heapwise run -- ./app                       count every block; findings when it ends\n  \
        heapwise run -c 512K -- ./server --port 80  sample one block per 512 KiB\n  \
        heapwise run --log -o app.hwr -- ./app      record every event with its time")]
    Run(RunArgs),
    /// Bring the probe into a running process and start recording
    #[command(after_help = "Examples:\n  \
        heapwise attach 4711            sample what it allocates from now on\n  \
        heapwise attach --exact 4711    record every block from now on")]
    Attach(commands::attach::AttachArgs),
    /// Stop recording in an attached process and restore its code
    #[command(after_help = "Examples:\n  heapwise detach 4711")]
    Detach(commands::attach::DetachArgs),
    /// List processes that carry the probe
    #[command(after_help = "Examples:\n  heapwise ps\n  heapwise ps --json")]
    Ps(commands::ps::PsArgs),
    /// Start recording in a running process
    #[command(after_help = "Examples:\n  \
        heapwise start 4711                 at the rate it was started with\n  \
        heapwise start --exact redis-server")]
    Start(commands::switch::StartArgs),
    /// Stop recording; what was recorded stays readable
    #[command(after_help = "Examples:\n  heapwise stop 4711")]
    Stop(commands::switch::StopArgs),
    /// Clear what was recorded so far
    #[command(after_help = "Examples:\n  heapwise reset 4711")]
    Reset(commands::switch::ResetArgs),
    /// Change the rate or mode of a running process
    #[command(after_help = "Examples:\n  heapwise set --rate 64K 4711\n  heapwise set --exact 4711")]
    Set(commands::switch::SetArgs),
    /// Write the profile of a process to a file
    #[command(after_help = "Examples:\n  heapwise dump 4711\n  heapwise dump -o now.heap redis-server")]
    Dump(commands::dump::DumpArgs),
    /// Print the probe's counters and the allocator's statistics
    #[command(after_help = "Examples:\n  heapwise stats 4711\n  heapwise stats --json")]
    Stats(commands::stats::StatsArgs),
    /// Record a running process for a time and write what it allocated
    #[command(after_help = "Examples:\n  heapwise collect -s 60 4711      what a minute of work allocates")]
    Collect(commands::collect::CollectArgs),
    /// Record every event of a running process with its time
    #[command(after_help = "Examples:\n  \
        heapwise record -o app.hwr 4711            until Ctrl-C\n  \
        heapwise record --ring 30s -o app.hwr 4711   keep the last 30 s in memory")]
    Record(commands::record::RecordArgs),
    /// Take profiles of every process of this host for ever, and send them to a server
    #[command(after_help = "Examples:\n  \
        heapwise agent --listen 127.0.0.1:9464               metrics for Prometheus\n  \
        heapwise agent --pyroscope http://localhost:4040     profiles for Pyroscope\n  \
        heapwise agent --fleet http://fleet:8095 --attach-name 'shop*'")]
    Agent(Box<commands::agent::AgentArgs>),
    /// Name the present moment of a process, for `at`
    #[command(after_help = "Examples:\n  heapwise mark 4711 warmed-up")]
    Mark(commands::mark::MarkArgs),
    /// Show live bytes of a recording over time
    #[command(
        after_help = "Examples:\n  heapwise timeline app.hwr\n  heapwise timeline --svg app.svg app.hwr"
    )]
    Timeline(commands::timeline::TimelineArgs),
    /// Show any report on a recording at one moment (305ms, peak, end, A..B, a mark)
    #[command(after_help = "Examples:\n  \
        heapwise at app.hwr peak                who held the memory at the peak\n  \
        heapwise at app.hwr 2s..5s leaks        allocated in that window and still live\n  \
        heapwise at app.hwr warmed-up tree      at a mark")]
    At(Box<commands::at::AtArgs>),
    /// Show the largest holders on the terminal, kept up to date
    #[command(after_help = "Examples:\n  heapwise live 4711\n  heapwise live -i 5s redis-server")]
    Live(commands::live::LiveArgs),
    /// Show what stands out, at most five findings
    #[command(
        after_help = "Examples:\n  heapwise summary app.hwp\n  heapwise summary 4711\n  heapwise summary --json app.hwr"
    )]
    Summary(commands::summary::SummaryArgs),
    /// Show the largest holders first
    #[command(after_help = "Examples:\n  \
        heapwise top app.heap\n  \
        heapwise top --cum --focus parse 4711\n  \
        heapwise top --resident 4711        all memory: heap, mappings, libraries\n  \
        heapwise top --alloc_objects --lines app.hwr@peak")]
    Top(commands::report::ReportArgs),
    /// Show callers and callees of each function
    #[command(after_help = "Examples:\n  heapwise tree app.heap")]
    Tree(commands::report::ReportArgs),
    /// Show callers and callees of matching functions
    #[command(after_help = "Examples:\n  heapwise peek '^json::parse' app.heap")]
    Peek(commands::report::PatternArgs),
    /// Show the source of matching functions with the bytes of each line
    #[command(after_help = "Examples:\n  heapwise list '^json::parse$' app.heap")]
    List(commands::report::PatternArgs),
    /// Draw the call graph as SVG, PNG, PDF or dot
    #[command(
        after_help = "Examples:\n  heapwise graph -o app.svg app.heap\n  heapwise graph --nodecount 40 -o app.pdf app.heap"
    )]
    Graph(commands::picture::GraphArgs),
    /// Draw the flame graph as a page, SVG or PNG
    #[command(
        after_help = "Examples:\n  heapwise flame -o app.html app.heap\n  heapwise flame --base old.heap -o growth.html new.heap"
    )]
    Flame(commands::picture::FlameArgs),
    /// Show what is still held, by allocation site
    #[command(
        after_help = "Examples:\n  heapwise leaks app.heap\n  heapwise leaks --suppressions known.supp app.heap"
    )]
    Leaks(commands::leaks::LeaksArgs),
    /// Show which sites keep sparse heap pages resident
    #[command(
        after_help = "Examples:\n  heapwise fragmentation 4711\n  heapwise fragmentation --json redis-server"
    )]
    Fragmentation(commands::fragmentation::FragmentationArgs),
    /// Show block sizes
    #[command(after_help = "Examples:\n  heapwise sizes app.heap")]
    Sizes(commands::report::ReportArgs),
    /// Show one row per binary, or package of Python
    #[command(after_help = "Examples:\n  heapwise modules app.heap")]
    Modules(commands::report::ReportArgs),
    /// Show one row per thread
    #[command(after_help = "Examples:\n  heapwise threads app.hwr")]
    Threads(commands::report::ReportArgs),
    /// Show every stack
    #[command(visible_alias = "raw", after_help = "Examples:\n  heapwise traces --focus parse app.heap")]
    Traces(commands::report::ReportArgs),
    /// Show what changed between two profiles
    #[command(
        after_help = "Examples:\n  heapwise diff old.heap new.heap\n  heapwise diff app.hwr@1s app.hwr@peak"
    )]
    Diff(commands::diff::DiffArgs),
    /// Write a profile in the format of another tool
    #[command(
        after_help = "Examples:\n  heapwise export -f pprof -o app.pb.gz app.heap\n  heapwise export -f folded app.heap"
    )]
    Export(commands::export::ExportArgs),
    /// Put symbols into a profile, so that it opens on any machine
    #[command(
        after_help = "Examples:\n  heapwise symbolize app.heap\n  heapwise symbolize --program ./app -o named.heap app.heap"
    )]
    Symbolize(commands::export::SymbolizeArgs),
    /// Exit with status 1 when a limit does not hold, 3 when data are missing, for CI
    #[command(
        after_help = "Examples:\n  heapwise check --max-leaked 0 app.heap\n  heapwise check --base old.heap --max-growth 1M new.heap"
    )]
    Check(commands::check::CheckArgs),
    /// Print the path of the preload library
    #[command(after_help = "Examples:\n  LD_PRELOAD=$(heapwise preload) ./server")]
    Preload,
    /// Serve processes and files on a web page, and to other tools over HTTP
    #[command(after_help = "Examples:\n  \
        heapwise serve                    every process with the probe, on 127.0.0.1:8090\n  \
        heapwise serve --port 0 app.hwr   a recording, on a free port")]
    Serve(commands::serve::ServeArgs),
    /// Check what works on this machine, and why not; show the allocators of a program or process
    #[command(after_help = "Examples:\n  \
        heapwise doctor\n  \
        heapwise doctor ./server            which allocators it has, and which of them are seen\n  \
        heapwise doctor 4711")]
    Doctor(commands::doctor::DoctorArgs),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> Outcome<ExitCode> {
        match self {
            Command::Run(args) => return commands::run::run(args),
            Command::Attach(args) => commands::attach::attach(&args)?,
            Command::Detach(args) => commands::attach::detach(&args)?,
            Command::Ps(args) => commands::ps::run(&args)?,
            Command::Start(args) => commands::switch::start(&args)?,
            Command::Stop(args) => commands::switch::stop(&args)?,
            Command::Reset(args) => commands::switch::reset(&args)?,
            Command::Set(args) => commands::switch::set(&args)?,
            Command::Dump(args) => commands::dump::run(&args)?,
            Command::Stats(args) => commands::stats::run(&args)?,
            Command::Collect(args) => commands::collect::run(&args)?,
            Command::Top(args) => report::run(View::Top, &args)?,
            Command::Tree(args) => report::run(View::Tree, &args)?,
            Command::Peek(args) => report::peek(&args)?,
            Command::List(args) => report::list(&args)?,
            Command::Leaks(args) => commands::leaks::run(&args)?,
            Command::Fragmentation(args) => commands::fragmentation::run(&args)?,
            Command::Sizes(args) => report::run(View::Sizes, &args)?,
            Command::Modules(args) => report::run(View::Modules, &args)?,
            Command::Threads(args) => report::run(View::Threads, &args)?,
            Command::Traces(args) => report::run(View::Traces, &args)?,
            Command::Diff(args) => commands::diff::run(args)?,
            Command::Check(args) => commands::check::run(&args)?,
            Command::Graph(args) => commands::picture::graph(&args)?,
            Command::Flame(args) => commands::picture::flame(&args)?,
            Command::Export(args) => commands::export::run(args)?,
            Command::Symbolize(args) => commands::export::symbolize(&args)?,
            Command::Record(args) => commands::record::run(&args)?,
            Command::Agent(args) => return commands::agent::run(*args),
            Command::Mark(args) => commands::mark::run(&args)?,
            Command::Timeline(args) => commands::timeline::run(&args)?,
            Command::At(args) => commands::at::run(*args)?,
            Command::Summary(args) => commands::summary::run(&args)?,
            Command::Live(args) => commands::live::run(args)?,
            Command::Preload => say!("{}", preload::path()?.display()),
            Command::Serve(args) => commands::serve::run(args)?,
            Command::Doctor(args) => return commands::doctor::run(&args),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Parses the arguments.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    if let Some(run) = parse_run(&arguments) {
        return Ok(run);
    }
    let matches = command().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

/// `heapwise run` without mistakes and requests for help. Describing the other commands takes
/// longer than all else before the program starts.
fn parse_run(arguments: &[OsString]) -> Option<Command> {
    let own = arguments.get(1..).filter(|own| own.first().is_some_and(|name| name == "run"))?;
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let matches = command.try_get_matches_from(own).ok()?;
    RunArgs::from_arg_matches(&matches).ok().map(Command::Run)
}

/// The whole command line, with its help.
pub(crate) fn command() -> clap::Command {
    help::complete(Cli::command())
}
