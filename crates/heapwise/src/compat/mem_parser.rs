//! `mem_parser -p BIN -f F.heap (-s|-t) [-o OUT]`: a `.heap` file as text or as an SVG call graph.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use heapwise_profile::view::{graph, top};
use heapwise_profile::{CallTree, Profile, Query};
use heapwise_render::graph::{self as picture, GraphOptions};
use heapwise_render::{TextOptions, text};

use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::progress_bar::ReadArgs;
use crate::report_input::load_target;
use crate::symbols::SymbolArgs;
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
    /// File for the result [default: stdout for -t, FILE.svg for -s]
    #[arg(short = 'o', value_name = "OUT")]
    output: Option<PathBuf>,
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
    let symbols = SymbolArgs { program: Some(options.program.clone()), ..SymbolArgs::default() };
    let profile = load_target(&Target::parse(&options.file)?, &ReadArgs::default(), &symbols)?;
    if options.text {
        write_text(&options, &profile)?
    } else {
        write_svg(&options, &profile)?
    }
    Ok(ExitCode::SUCCESS)
}

fn write_text(options: &Options, profile: &Profile) -> Outcome {
    let query = Query::default();
    let view = top::top(&CallTree::new(profile, &query), &query);
    let table = text::top::top(&view, &TextOptions::default());
    output::write_result(options.output.as_deref(), Overwrite::Allow, |out| out.write_all(table.as_bytes()))
}

fn write_svg(options: &Options, profile: &Profile) -> Outcome {
    let query = Query::default();
    let view = graph::graph(&CallTree::new(profile, &query), &query);
    let program = options.program.display().to_string();
    let svg = picture::svg(&view, &GraphOptions::new(&program, &query));
    let path = options.output.clone().unwrap_or_else(|| format!("{}.svg", options.file).into());
    output::write_file(&path, Overwrite::Allow, |out| out.write_all(svg.as_bytes()))?;
    say!("{}", path.display());
    Ok(())
}
