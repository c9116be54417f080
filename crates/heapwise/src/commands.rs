//! One file per command: its options, and what it does.

pub(crate) mod at;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod leaks;
pub(crate) mod mark;
pub(crate) mod picture;
pub(crate) mod ps;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod switch;
pub(crate) mod timeline;

use std::process::ExitCode;

use report::View;

use crate::args::Command;
use crate::failure::Outcome;
use heapwise_capture::preload;

/// Runs a command.
pub(crate) fn run(command: Command) -> Outcome<ExitCode> {
    match command {
        Command::Run(args) => return run::run(args),
        Command::Ps(args) => ps::run(&args)?,
        Command::Start(args) => switch::start(&args)?,
        Command::Stop(args) => switch::stop(&args)?,
        Command::Reset(args) => switch::reset(&args)?,
        Command::Set(args) => switch::set(&args)?,
        Command::Dump(args) => dump::run(&args)?,
        Command::Stats(args) => stats::run(&args)?,
        Command::Collect(args) => collect::run(&args)?,
        Command::Top(args) => report::run(View::Top, &args)?,
        Command::Tree(args) => report::run(View::Tree, &args)?,
        Command::Peek(args) => report::peek(&args)?,
        Command::List(args) => report::list(&args)?,
        Command::Leaks(args) => leaks::run(&args)?,
        Command::Sizes(args) => report::run(View::Sizes, &args)?,
        Command::Modules(args) => report::run(View::Modules, &args)?,
        Command::Threads(args) => report::run(View::Threads, &args)?,
        Command::Traces(args) => report::run(View::Traces, &args)?,
        Command::Diff(args) => diff::run(args)?,
        Command::Check(args) => check::run(&args)?,
        Command::Graph(args) => picture::graph(&args)?,
        Command::Flame(args) => picture::flame(&args)?,
        Command::Export(args) => export::run(args)?,
        Command::Symbolize(args) => export::symbolize(&args)?,
        Command::Record(args) => record::run(&args)?,
        Command::Mark(args) => mark::run(&args)?,
        Command::Timeline(args) => timeline::run(&args)?,
        Command::At(args) => at::run(*args)?,
        Command::Summary(args) => summary::run(&args)?,
        Command::Preload => println!("{}", preload::path()?.display()),
        Command::Serve(args) => serve::run(args)?,
        Command::Doctor => return doctor::run(),
    }
    Ok(ExitCode::SUCCESS)
}
