//! Tools that heapwise replaces, under their own names and with their own words.

pub(crate) mod jeprof;
mod mem_parser;
mod mem_profiler;
mod mprof;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::failure::Outcome;

/// A tool heapwise can be called as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Baidu's collector.
    MemProfiler,
    /// Baidu's parser.
    MemParser,
    /// skynet-mprof's parser.
    Mprof,
    /// jemalloc's reporter.
    Jeprof,
}

impl Tool {
    /// By program name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "mem_profiler" => Some(Tool::MemProfiler),
            "mem_parser" => Some(Tool::MemParser),
            "mprof" => Some(Tool::Mprof),
            "jeprof" => Some(Tool::Jeprof),
            _ => None,
        }
    }

    /// Runs it; `arguments[0]` is the tool's name.
    pub(crate) fn run(self, arguments: Vec<OsString>) -> Outcome<ExitCode> {
        match self {
            Tool::MemProfiler => mem_profiler::run(arguments),
            Tool::MemParser => mem_parser::run(arguments),
            Tool::Mprof => mprof::run(arguments),
            Tool::Jeprof => jeprof::run(arguments),
        }
    }
}

/// Parses the arguments of a tool; otherwise prints help or a usage error and returns its status.
fn parse<T: clap::Parser>(arguments: Vec<OsString>) -> Result<T, ExitCode> {
    T::try_parse_from(arguments).map_err(|error| {
        let _ = error.print();
        ExitCode::from(error.exit_code() as u8)
    })
}
