//! The command line: commands in groups, each with examples.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use heapwise_capture::preload;

use heapwise_render::{Language, Text, messages};

use crate::commands;
use crate::commands::report::{self, View};
use crate::console;
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

/// The groups of `heapwise --help`; every command is in one of them.
const GROUPS: [(Text, &[&str]); 5] = [
    (
        Text::HelpCapture,
        &["run", "attach", "detach", "collect", "record", "agent", "dump", "mark", "preload"],
    ),
    (Text::HelpControl, &["ps", "start", "stop", "reset", "set", "stats", "doctor"]),
    (
        Text::HelpReports,
        &[
            "top",
            "tree",
            "peek",
            "list",
            "leaks",
            "fragmentation",
            "sizes",
            "modules",
            "threads",
            "traces",
            "diff",
            "summary",
            "live",
        ],
    ),
    (Text::HelpRecordings, &["timeline", "at"]),
    (Text::HelpPictures, &["flame", "graph", "serve", "export", "symbolize", "check"]),
];

/// One subcommand and its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with the probe inside and write its profile
    #[command(after_help = "Examples:\n  \
        heapwise run -- ./app                       count every block; findings when it ends\n  \
        heapwise run -c 512K -- ./server --port 80  sample one block per 512 KiB\n  \
        heapwise run --log -o app.hwr -- ./app      record every event with its time")]
    Run(commands::run::RunArgs),
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
    /// Reset, start, wait, stop and write the profile
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
    let matches = command().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let groups = grouped(&command);
    let command = command.before_help(groups);
    match console::language() {
        Language::English => command,
        language => in_language(command, language),
    }
}

/// The headings of options, in the order in which help shows them.
const HEADINGS: [Text; 5] = [
    Text::HelpMetricOptions,
    Text::HelpFilterOptions,
    Text::HelpOutputOptions,
    Text::HelpSymbolOptions,
    Text::HelpCaptureOptions,
];

/// The command line with its texts in a language.
fn in_language(mut command: clap::Command, language: Language) -> clap::Command {
    command.build();
    let heading = |text: Text| text.text(language);
    let template = format!(
        "{{about-with-newline}}\n{}: {{usage}}\n\n{{before-help}}{}:\n{{options}}{{after-help}}",
        heading(Text::HelpUsage),
        heading(Text::HelpOptions)
    );
    let command = command.about(heading(Text::HelpAbout)).help_template(template);
    let command = command.mut_args(|argument| argument_in(argument, language));
    command.mut_subcommands(move |subcommand| subcommand_in(subcommand, language))
}

/// A subcommand with its texts in a language.
fn subcommand_in(command: clap::Command, language: Language) -> clap::Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = examples.replacen(Text::HelpExamples.pair().0, Text::HelpExamples.text(language), 1);
    let usage = Text::HelpUsage.text(language);
    let template = format!("{{about-with-newline}}\n{usage}: {{usage}}\n\n{{all-args}}{{after-help}}");
    let command = command.about(translated(&about, language)).after_help(examples).help_template(template);
    command.mut_args(|argument| argument_in(argument, language))
}

/// An argument with its help and heading in a language.
fn argument_in(argument: clap::Arg, language: Language) -> clap::Arg {
    let heading = argument.get_help_heading().unwrap_or_default();
    let heading = match HEADINGS.iter().find(|known| known.pair().0 == heading) {
        Some(known) => *known,
        None if argument.is_positional() => Text::HelpArguments,
        None => Text::HelpOptions,
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    argument.help(translated(&help, language)).help_heading(heading.text(language))
}

/// A help text in a language.
fn translated(english: &str, language: Language) -> String {
    messages::help(english, language).unwrap_or(english).to_owned()
}

/// The commands by group, with what they do.
fn grouped(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{}:", title.text(console::language()));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<13} {}", translated(&about, console::language()));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_a_group_and_has_examples() {
        let mut command = Cli::command();
        command.build();
        for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
            let name = subcommand.get_name();
            assert_eq!(
                GROUPS.iter().flat_map(|(_, names)| *names).filter(|known| **known == name).count(),
                1,
                "{name}"
            );
            let examples = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n  ") && examples.contains("heapwise "), "{name}");
        }
    }

    /// Every text of the command line is in the table, and the table has no other.
    #[test]
    fn every_help_text_has_a_chinese_one() {
        let mut command = Cli::command();
        command.build();
        let mut used: Vec<String> = Vec::new();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
            used.extend(arguments.filter_map(|argument| argument.get_help()).map(ToString::to_string));
            let is_of_clap = ["help", "heapwise"].contains(&command.get_name());
            used.extend(command.get_about().filter(|_| !is_of_clap).map(ToString::to_string));
        }
        let missing: Vec<&String> =
            used.iter().filter(|text| messages::help(text, Language::Chinese).is_none()).collect();
        assert!(missing.is_empty(), "crates/render/src/messages/help.rs has no Chinese for {missing:#?}");
        let unused: Vec<&str> =
            messages::help_texts().filter(|text| !used.iter().any(|known| known == text)).collect();
        assert!(unused.is_empty(), "no command has {unused:#?}");
        for text in messages::help_texts() {
            let chinese = messages::help(text, Language::Chinese).unwrap_or_default();
            assert!(!chinese.is_ascii(), "{text}: {chinese}");
        }
    }

    /// A help text says what an option does: it starts with a capital verb and has no full stop at
    /// its end.
    #[test]
    fn help_texts_are_short_sentences() {
        let mut command = Cli::command();
        command.build();
        for subcommand in command.get_subcommands() {
            for argument in subcommand.get_arguments().filter(|argument| !argument.is_positional()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let place = format!("{} --{}", subcommand.get_name(), argument.get_id());
                assert!(help.starts_with(|c: char| c.is_ascii_uppercase()), "{place}: {help}");
                assert!(!help.ends_with('.'), "{place}: {help}");
            }
        }
    }
}
