//! `mem_parser -p BIN -f F.heap (-s|-t) [-o OUT]`: a `.heap` file as text or as an SVG call graph.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use heapwise_profile::coverage::Coverage;
use heapwise_profile::view::{graph, top};
use heapwise_profile::{CallTree, Profile, Query};
use heapwise_render::graph::{self as picture, GraphOptions};
use heapwise_render::{TextOptions, text};

use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::progress_bar::ReadArgs;
use crate::report_input::load_target;
use crate::symbols::SymbolArgs;
use crate::warnings;
use heapwise_capture::recording::open::is_recording;
use heapwise_capture::target::Target;

#[derive(Debug, Parser)]
#[command(name = "mem_parser", about = "Shows a .heap file as text or as an SVG call graph")]
#[command(group(ArgGroup::new("form").required(true).args(["svg", "text"])))]
struct Options {
    /// The program the profile is of
    #[arg(short = 'p', value_name = "BIN")]
    program: PathBuf,
    /// The profile
    #[arg(short = 'f', value_name = "FILE")]
    file: String,
    /// As an SVG call graph
    #[arg(short = 's')]
    svg: bool,
    /// As text
    #[arg(short = 't')]
    text: bool,
    /// File for the result; - is stdout, the default
    #[arg(short = 'o', value_name = "OUT")]
    output: Option<PathBuf>,
}

impl Options {
    /// The output file; `None` for stdout.
    fn output(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Runs the tool.
pub(super) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let options: Options = match super::parse(arguments) {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    if !options.program.is_file() {
        return Err(crate::failure::Failure::file(
            &options.program,
            "no such program; -p names the profiled one",
        ));
    }
    if heapwise_symbolize::build_id_of(&options.program).is_err() {
        return Err(crate::failure::Failure::file(
            &options.program,
            "not an ELF program; -p names the profiled one",
        ));
    }
    let symbols = SymbolArgs { program: Some(options.program.clone()), ..SymbolArgs::default() };
    let profile = load_target(&target(&options.file)?, &ReadArgs::default(), &symbols)?;
    warnings::coverage(&Coverage::of(&profile));
    if options.text {
        write_text(&options, &profile)?
    } else {
        write_svg(&options, &profile)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile `-f`: a file, also where a process has its name.
fn target(name: &str) -> Outcome<Target> {
    match Path::new(name) {
        path if path.is_file() && !is_recording(path) => Ok(Target::File(path.to_owned())),
        _ => Ok(Target::parse(name)?),
    }
}

fn write_text(options: &Options, profile: &Profile) -> Outcome {
    let query = Query::default();
    let view = top::top(&CallTree::new(profile, &query), &query);
    let table = text::top::top(&view, &TextOptions { coverage: false, ..TextOptions::default() });
    output::write_result(options.output(), Overwrite::Allow, |out| out.write_all(table.as_bytes()))
}

fn write_svg(options: &Options, profile: &Profile) -> Outcome {
    let query = Query::default();
    let view = graph::graph(&CallTree::new(profile, &query), &query);
    let program = options.program.display().to_string();
    let svg = picture::svg(&view, &GraphOptions::new(&program, &query));
    output::write_result(options.output(), Overwrite::Allow, |out| out.write_all(svg.as_bytes()))
}
