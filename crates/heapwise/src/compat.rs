//! Tools that heapwise replaces, under their own names and with their own words.

mod mem_profiler;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::failure::Outcome;

/// A tool heapwise can be called as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Baidu's collector.
    MemProfiler,
}

impl Tool {
    /// By program name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "mem_profiler" => Some(Tool::MemProfiler),
            _ => None,
        }
    }

    /// Runs it; `arguments[0]` is the tool's name.
    pub fn run(self, arguments: Vec<OsString>) -> Outcome<ExitCode> {
        match self {
            Tool::MemProfiler => mem_profiler::run(arguments),
        }
    }
}
