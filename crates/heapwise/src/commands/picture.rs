//! `graph` and `flame`: pictures, in the form the output file's ending says.

use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::query::Regex;
use heapwise_profile::view::flame::{self, Shape};
use heapwise_profile::view::graph;
use heapwise_render::flame as flames;
use heapwise_render::graph::{self as graphs, GraphOptions};
use heapwise_render::{Amounts, raster};

use crate::console;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::report_input::ReportOptions;
use crate::{file_error, input_error};
use heapwise_capture::report_input::Report;

/// Pixels per unit of a PNG: sharp on a dense screen.
const PNG_SCALE: f32 = 2.0;

/// Options of `graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    targets: Vec<String>,
    #[command(flatten)]
    options: ReportOptions,
}

/// Options of `flame`.
#[derive(Debug, Args)]
pub(crate) struct FlameArgs {
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    targets: Vec<String>,
    #[command(flatten)]
    options: ReportOptions,
    /// Draw allocating functions at the root, their callers below
    #[arg(long)]
    inverted: bool,
    /// Draw only what matching functions call
    #[arg(long, value_name = "RE", conflicts_with = "inverted")]
    callees: Option<Regex>,
    /// Draw only the callers of matching functions
    #[arg(long, value_name = "RE", conflicts_with_all = ["inverted", "callees"])]
    callers: Option<Regex>,
}

/// Draws the call graph: SVG, PNG, PDF or dot.
pub(crate) fn graph(args: &GraphArgs) -> Outcome {
    let report = args.options.load(&args.targets)?;
    let view = graph::graph(&report.tree(), &report.query);
    if view.nodes.is_empty() {
        return Err(input_error!("nothing to draw: no stack is left, or none holds anything"));
    }
    let options = GraphOptions {
        amounts: Amounts::Human,
        ..GraphOptions::new(&title(&report, &args.targets), &report.query)
    };
    let path = output_path(&args.options, &args.targets, "graph.svg");
    let bytes = match ending(&path) {
        "dot" | "gv" => graphs::dot(&view, &options).into_bytes(),
        form => picture(graphs::svg(&view, &options), form, &path)?,
    };
    write(&args.options, &path, &bytes)
}

/// Draws the flame graph: an HTML page, SVG or PNG.
pub(crate) fn flame(args: &FlameArgs) -> Outcome {
    let report = args.options.load(&args.targets)?;
    let tree = report.tree();
    let path = output_path(&args.options, &args.targets, "flame.html");
    let title = title(&report, &args.targets);
    let shape = match (args.inverted, &args.callees, &args.callers) {
        (true, ..) => Shape::BottomUp,
        (_, Some(pattern), _) => Shape::Callees(pattern.clone()),
        (_, _, Some(pattern)) => Shape::Callers(pattern.clone()),
        _ => Shape::TopDown,
    };
    let bytes = match ending(&path) {
        "html" | "htm" => {
            let shown = flame::flame(&tree, &shape, flames::PAGE_DETAIL);
            let turned = flame::flame(&tree, &Shape::BottomUp, flames::PAGE_DETAIL);
            flames::page(&shown, &turned, &title, console::language()).into_bytes()
        }
        form => {
            let shown = flame::flame(&tree, &shape, flames::SVG_DETAIL);
            picture(flames::svg(&shown, &title), form, &path)?
        }
    };
    write(&args.options, &path, &bytes)
}

/// `redis-server (app.hwr@peak)`.
fn title(report: &Report, targets: &[String]) -> String {
    let program = Some(report.profile.meta.title()).filter(|name| !name.is_empty()).unwrap_or("heapwise");
    format!("{program} ({})", targets.iter().map(|target| last_part(target)).collect::<Vec<_>>().join(" + "))
}

fn last_part(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or(target)
}

fn output_path(options: &ReportOptions, targets: &[String], ending: &str) -> PathBuf {
    let name = targets.first().map_or("heapwise", |target| last_part(target));
    options.output.clone().unwrap_or_else(|| format!("{name}.{ending}").into())
}

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

fn picture(svg: String, form: &str, path: &Path) -> Outcome<Vec<u8>> {
    let failed = |error| Failure::file(path, error);
    match form {
        "svg" => Ok(svg.into_bytes()),
        "png" => raster::png(&svg, PNG_SCALE).map_err(failed),
        "pdf" => raster::pdf(&svg).map_err(failed),
        _ => Err(file_error!(path, "unknown form; use an ending like .svg, .png, .pdf, .dot or .html")),
    }
}

fn write(options: &ReportOptions, path: &Path, bytes: &[u8]) -> Outcome {
    output::write_file(path, options.overwrite(), |out| out.write_all(bytes))?;
    note!("wrote {}", path.display());
    Ok(())
}
