//! `mprof -i F -top=flat|cum [-inuse=false] -png F -svg F -info F`: skynet-mprof's parser.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use heapwise_profile::coverage::Coverage;
use heapwise_profile::query::{Granularity, LeafCut, Order, Prune};
use heapwise_profile::view::{graph, top};
use heapwise_profile::{CallTree, Function, FunctionId, Metric, Profile, Query};
use heapwise_render::graph::{self as picture, GraphOptions};
use heapwise_render::raster;
use heapwise_render::text::mprof;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Overwrite};
use crate::progress_bar::ReadArgs;
use crate::report_input::load_target;
use crate::symbols::SymbolArgs;
use crate::{input_error, warnings};
use heapwise_capture::target::Target;

const USAGE: &str =
    "usage: mprof -i FILE [-top flat|cum] [-inuse=false] [-png FILE] [-svg FILE] [-all] [-info FILE]";

/// The options, in the syntax of Go's `flag` package: `-name value`, `-name=value`, one or two
/// dashes.
#[derive(Debug, Default)]
struct Options {
    input: Option<String>,
    top: Option<String>,
    alloc: bool,
    /// Draw every box, however small.
    all: bool,
    png: Option<PathBuf>,
    svg: Option<PathBuf>,
    info: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[OsString]) -> Outcome<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
        while let Some(argument) = rest.next() {
            let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
            let name = name.ok_or_else(|| input_error!("unexpected `{}`; {}", argument, USAGE))?;
            let (name, inline) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            if name == "inuse" {
                options.alloc =
                    matches!(inline.as_deref(), Some("false" | "0" | "f" | "F" | "FALSE" | "False"));
                continue;
            }
            if name == "all" {
                options.all = !matches!(inline.as_deref(), Some("false" | "0"));
                continue;
            }
            let value = inline.or_else(|| rest.next());
            let value = value.ok_or_else(|| input_error!("-{} needs a value; {}", name, USAGE))?;
            match name {
                "i" => options.input = Some(value),
                "top" => options.top = Some(value).filter(|order| !order.is_empty()),
                "png" => options.png = Some(value.into()),
                "svg" => options.svg = Some(value.into()),
                "info" => options.info = Some(value.into()),
                _ => return Err(input_error!("unknown option -{}; {}", name, USAGE)),
            }
        }
        Ok(options)
    }

    fn query(&self, order: Order) -> Query {
        let metric = if self.alloc { Metric::AllocSpace } else { Metric::InuseSpace };
        Query {
            metric,
            order,
            granularity: Granularity::Lines,
            leaf_cut: LeafCut::Nothing,
            ..Query::default()
        }
    }
}

/// Runs the tool.
pub(super) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let options = Options::parse(&arguments)?;
    let input = options.input.as_deref().ok_or_else(|| Failure::input(USAGE))?;
    let target = Target::parse(input)?;
    let profile = load_target(&target, &ReadArgs::default(), &SymbolArgs::default())?;
    warnings::coverage(&Coverage::of(&profile));
    if let Some(order) = &options.top {
        let profile = with_offsets(&profile);
        print_top(&options, &profile, if order == "flat" { Order::Flat } else { Order::Cum })?;
    }
    if let Some(path) = &options.info {
        let text = mprof::info(&profile);
        output::write_file(path, Overwrite::Allow, |out| out.write_all(text.as_bytes()))?;
    }
    if options.png.is_some() || options.svg.is_some() {
        write_pictures(&options, &with_offsets(&profile))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile with the offset in each name that has no line: the original has a row for each place
/// in a function.
fn with_offsets(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    let Profile { locations, functions, .. } = &mut profile;
    for line in locations.iter_mut().filter_map(|location| location.lines.last_mut()) {
        let function = &functions[line.function.index()];
        let offset = function.backtrace_offset().filter(|_| line.line == 0);
        if let Some(offset) = offset {
            let name = format!("{}+{offset:#x}", function.name);
            functions.push(Function { name, ..function.clone() });
            line.function = FunctionId::new(functions.len() - 1);
        }
    }
    profile
}

fn print_top(options: &Options, profile: &Profile, order: Order) -> Outcome {
    let query = options.query(order);
    let view = top::top(&CallTree::new(profile, &query), &query);
    let table = mprof::top(&view, order, std::io::stdout().is_terminal());
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(table.as_bytes()))
}

fn write_pictures(options: &Options, profile: &Profile) -> Outcome {
    let mut query = options.query(Order::Flat);
    if options.all {
        query.prune = Prune::NOTHING;
    }
    let view = graph::graph(&CallTree::new(profile, &query), &query);
    let program = profile.meta.program.clone();
    let mut legend = GraphOptions::new(&program, &query);
    if view.dropped.nodes > 0 {
        legend.remarks.push(format!("{} smaller places are not drawn; -all draws them", view.dropped.nodes));
    }
    let svg = picture::svg(&view, &legend);
    if let Some(path) = &options.svg {
        output::write_file(path, Overwrite::Allow, |out| out.write_all(svg.as_bytes()))?;
    }
    if let Some(path) = &options.png {
        let png = raster::png(&svg, 2.0).map_err(|error| Failure::file(path, error))?;
        output::write_file(path, Overwrite::Allow, |out| out.write_all(&png))?;
    }
    Ok(())
}
