//! The heapwise executable: parse, run one command, turn its outcome into an exit status.
//!
//! Called under the name of a tool it replaces (`mem_profiler`, `mem_parser`, …) it behaves as that
//! tool.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod console;

mod allocator_settings;
mod args;
mod commands;
mod compat;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod report_input;

mod output;
mod own_code;
mod pattern;
mod progress_bar;
mod symbol_warnings;
mod symbols;
mod warnings;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use failure::Outcome;
use heapwise_profile::printable::printable;

/// The whole command line, for completions and manual pages.
#[doc(hidden)]
#[must_use]
pub fn command() -> clap::Command {
    args::command()
}

/// Runs the command in the arguments of this process.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let name = program_name(&arguments);
    let outcome = match compat::Tool::from_name(&name) {
        Some(tool) => tool.run(arguments),
        // `heapwise mem_parser …` is the same as a link of that name.
        None => match arguments.get(1).and_then(|name| compat::Tool::from_name(&name.to_string_lossy())) {
            Some(tool) => {
                arguments.remove(0);
                tool.run(arguments)
            }
            None => run(arguments),
        },
    };
    outcome.unwrap_or_else(|failure| {
        note!("{}", failure.line(console::language()));
        ExitCode::from(failure.status())
    })
}

/// What `heapwise` alone shows on a terminal.
const FIRST_STEPS: &str = "\
Heap profiler for Linux: who is holding the memory?

  heapwise run -- ./app                record every block; what stands out when it ends
  heapwise top PID                     who holds the memory of a process, now
  heapwise run --log -- ./app          with the time dimension; then heapwise summary FILE
  heapwise diff before.hwp after.hwp   what grew
  heapwise serve                       the same on a web page

heapwise --help lists all commands, and heapwise COMMAND --help has examples.
";

fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    if arguments.len() == 1 && std::io::stdout().is_terminal() {
        console::text(&mut std::io::stdout(), FIRST_STEPS);
        return Ok(ExitCode::SUCCESS);
    }
    match args::parse(arguments) {
        Ok(command) => command.run(),
        Err(error) => {
            // clap prints help to stdout with status 0, usage errors to stderr with status 2.
            let message = error.render().to_string();
            match message.lines().all(|line| matches!(printable(line), Cow::Borrowed(_))) {
                true => drop(error.print()),
                false => message.lines().for_each(|line| say_err!("{line}")),
            }
            Ok(ExitCode::from(error.exit_code() as u8))
        }
    }
}

fn program_name(arguments: &[OsString]) -> String {
    let path = arguments.first().map(Path::new).and_then(Path::file_name);
    path.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
