//! `mprof -i F -top=flat|cum [-inuse=false] -png F -svg F -info F`: skynet-mprof's parser.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use heapwise_profile::query::{Granularity, LeafCut, Order};
use heapwise_profile::view::{graph, top};
use heapwise_profile::{CallTree, Metric, Profile, Query};
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
    "usage: mprof -i FILE [-top flat|cum] [-inuse=false] [-png FILE] [-svg FILE] [-info FILE]";

/// The options, in the syntax of Go's `flag` package: `-name value`, `-name=value`, one or two
/// dashes.
#[derive(Debug, Default)]
struct Options {
    input: Option<String>,
    top: Option<String>,
    alloc: bool,
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
            let name = name.ok_or_else(|| input_error!("unexpected `{argument}`; {USAGE}"))?;
            let (name, inline) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            if name == "inuse" {
                options.alloc =
                    matches!(inline.as_deref(), Some("false" | "0" | "f" | "F" | "FALSE" | "False"));
                continue;
            }
            let value = inline.or_else(|| rest.next());
            let value = value.ok_or_else(|| input_error!("-{name} needs a value; {USAGE}"))?;
            match name {
                "i" => options.input = Some(value),
                "top" => options.top = Some(value).filter(|order| !order.is_empty()),
                "png" => options.png = Some(value.into()),
                "svg" => options.svg = Some(value.into()),
                "info" => options.info = Some(value.into()),
                _ => return Err(input_error!("unknown option -{name}; {USAGE}")),
            }
        }
        Ok(options)
    }

    fn query(&self, order: Order) -> Query {
        let metric = if self.alloc { Metric::AllocSpace } else { Metric::InuseSpace };
        Query {
            metric,
            order,
            granularity: Granularity::Functions,
            leaf_cut: LeafCut::Nothing,
            ..Query::default()
        }
    }
}

/// Runs the tool.
pub(super) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let options = Options::parse(&arguments)?;
    let input = options.input.as_deref().ok_or_else(|| Failure::Input(USAGE.into()))?;
    let target = Target::parse(input)?;
    let profile = load_target(&target, &ReadArgs::default(), &SymbolArgs::default())?;
    warnings::losses(&profile.meta.losses);
    if let Some(order) = &options.top {
        print_top(&options, &profile, if order == "flat" { Order::Flat } else { Order::Cum })?;
    }
    if let Some(path) = &options.info {
        let text = mprof::info(&profile);
        output::write_file(path, Overwrite::Allow, |out| out.write_all(text.as_bytes()))?;
    }
    if options.png.is_some() || options.svg.is_some() {
        write_pictures(&options, &profile)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_top(options: &Options, profile: &Profile, order: Order) -> Outcome {
    let query = options.query(order);
    let view = top::top(&CallTree::new(profile, &query), &query);
    let table = mprof::top(&view, order, std::io::stdout().is_terminal());
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(table.as_bytes()))
}

fn write_pictures(options: &Options, profile: &Profile) -> Outcome {
    let query = options.query(Order::Flat);
    let view = graph::graph(&CallTree::new(profile, &query), &query);
    let program = profile.meta.program.clone();
    let svg = picture::svg(&view, &GraphOptions::new(&program, &query));
    if let Some(path) = &options.svg {
        output::write_file(path, Overwrite::Allow, |out| out.write_all(svg.as_bytes()))?;
    }
    if let Some(path) = &options.png {
        let png = raster::png(&svg, 2.0).map_err(|error| Failure::file(path, error))?;
        output::write_file(path, Overwrite::Allow, |out| out.write_all(&png))?;
    }
    Ok(())
}
