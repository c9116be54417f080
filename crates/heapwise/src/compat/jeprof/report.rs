//! jeprof's output modes other than the prompt.

use std::io::Read as _;
use std::sync::Arc;

use heapwise_profile::query::{NameStyle, Query};
use heapwise_profile::view::graph::{self, Graph};
use heapwise_profile::view::{list, top};
use heapwise_profile::{CallTree, Metric, Profile, ThreadId, call_tree};
use heapwise_render::export::{self, Format};
use heapwise_render::graph::{self as picture, GraphOptions};
use heapwise_render::text::TextOptions;
use heapwise_render::{Amounts, raster, text};

use super::options::{Mode, Options, Picture, Threads};
use super::{Input, disasm};
use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::output::{self, Overwrite};
use heapwise_profile::quantity;
use heapwise_symbolize::source_text;

/// Writes the report to standard output.
pub(super) fn write(options: &Options, input: &Input) -> Outcome {
    let mut bytes = Vec::new();
    for (label, input) in threads(options, input) {
        let tree = CallTree::new(&input.profile, &input.query);
        match &options.mode {
            Mode::Text => bytes.extend(table(options, &tree, &input.query, &label).into_bytes()),
            _ => picture_or_export(options, &input, &tree, &mut bytes)?,
        }
    }
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(&bytes))
}

/// How jeprof writes numbers.
pub(super) fn style(options: &Options) -> TextOptions {
    let amounts = if options.show_bytes { Amounts::Bytes } else { Amounts::Megabytes };
    TextOptions { amounts, coverage: false, ..TextOptions::default() }
}

/// One report for all threads together, or one for each, by its number in the file. Totals are
/// those of the thread.
fn threads(options: &Options, input: &Input) -> Vec<(String, Input)> {
    let wanted = |number: u64| match options.threads {
        Threads::Merged => false,
        Threads::Each => true,
        Threads::One(one) => one == number,
    };
    if options.threads == Threads::Merged {
        return vec![(String::new(), input.clone())];
    }
    let threads = &input.profile.threads;
    let mut numbers: Vec<u64> =
        threads.iter().map(|thread| thread.number).filter(|number| wanted(*number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| (format!("t{number}"), of_thread(input, number))).collect()
}

/// The samples of one thread.
fn of_thread(input: &Input, number: u64) -> Input {
    let mut profile = Profile::clone(&input.profile);
    let threads = &input.profile.threads;
    let is_its = |thread: Option<ThreadId>| thread.is_some_and(|id| threads[id.index()].number == number);
    profile.retain_samples(|sample| is_its(sample.thread));
    Input { profile: Arc::new(profile), ..input.clone() }
}

fn table(options: &Options, tree: &CallTree, query: &Query, label: &str) -> String {
    let view = top::top(tree, query);
    let style = style(options);
    style.total_line(&view.totals, label) + &text::top::top(&view, &TextOptions { total: false, ..style })
}

fn picture_or_export(options: &Options, input: &Input, tree: &CallTree, out: &mut Vec<u8>) -> Outcome {
    let query = &input.query;
    match &options.mode {
        Mode::List(pattern) => {
            let view = list::list(&input.profile, None, pattern, query);
            out.extend(text::list::list(&view, &source_text::read, &style(options)).into_bytes());
        }
        Mode::Disasm(pattern) => {
            out.extend(disasm::disassemble(input, pattern, query, &style(options))?.into_bytes());
        }
        Mode::Dot => {
            let view = boxes(tree, query)?;
            // The patterns are not in jeprof's legend.
            let legend = GraphOptions { remarks: Vec::new(), ..graph_options(options, input, query) };
            out.extend(picture::dot(&view, &legend).into_bytes());
        }
        Mode::Picture(form) => out.extend(draw(options, input, query, tree, *form)?),
        Mode::Show => show(&draw(options, input, query, tree, Picture::Svg)?, "svg")?,
        Mode::Callgrind => {
            let selection = call_tree::select(&input.profile, query);
            write_export(&selection, Format::Callgrind, query.metric, out)?;
        }
        Mode::Collapsed => {
            let query = Query { names: NameStyle::Collapsed, ..query.clone() };
            out.extend(collapsed(&CallTree::new(&input.profile, &query)).into_bytes());
        }
        Mode::Raw => write_export(&input.profile, Format::Raw, query.metric, out)?,
        Mode::Text | Mode::Interactive | Mode::Symbols => {}
    }
    Ok(())
}

/// A line per stack, callers first; numbers are cut, not rounded.
fn collapsed(tree: &CallTree) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (id, node) in tree.frames_in_stacks().filter(|(_, node)| node.own.value.trunc() != 0.0) {
        let mut names: Vec<&str> =
            tree.leaf_to_root(id).map(|frame| tree.frames.get(frame).label.as_str()).collect();
        names.reverse();
        let _ = writeln!(text, "{} {}", names.join(";"), node.own.value.trunc());
    }
    text
}

/// The boxes of a graph; none is the end, as in jeprof.
fn boxes(tree: &CallTree, query: &Query) -> Outcome<Graph> {
    let view = graph::graph(tree, query);
    if view.nodes.is_empty() {
        return Err(Failure::Gate("No nodes to print".into()));
    }
    Ok(view)
}

fn graph_options(options: &Options, input: &Input, query: &Query) -> GraphOptions {
    GraphOptions {
        amounts: style(options).amounts,
        marks_holders: options.heapcheck,
        ..GraphOptions::new(&input.program, query)
    }
}

/// The call graph as a picture.
pub(super) fn draw(
    options: &Options,
    input: &Input,
    query: &Query,
    tree: &CallTree,
    form: Picture,
) -> Outcome<Vec<u8>> {
    let svg = picture::svg(&boxes(tree, query)?, &graph_options(options, input, query));
    let failed = |error: raster::RasterError| input_error!("cannot draw: {}", error);
    match form {
        Picture::Svg => Ok(svg.into_bytes()),
        Picture::Pdf => raster::pdf(&svg).map_err(failed),
        Picture::PostScript => raster::postscript(&svg).map_err(failed),
        Picture::Png => raster::png(&svg, 2.0).map_err(failed),
    }
}

/// Writes a picture or page to a temporary file and hands it to the desktop.
pub(super) fn show(bytes: &[u8], ending: &str) -> Outcome {
    let path = std::env::temp_dir().join(format!("jeprof-{}.{ending}", std::process::id()));
    output::write_file(&path, Overwrite::Allow, |out| out.write_all(bytes))?;
    let opened = std::process::Command::new("xdg-open").arg(&path).spawn().is_ok();
    let hint = if opened { "opened" } else { "open it in a browser:" };
    say_err!("{hint} {} ({})", path.display(), quantity::bytes(bytes.len() as f64));
    Ok(())
}

fn write_export(profile: &Profile, format: Format, metric: Metric, out: &mut Vec<u8>) -> Outcome {
    export::export(profile, format, metric, out).map_err(|error| input_error!("cannot write: {}", error))
}

/// `--symbols`: reads maps lines, then addresses, from standard input; prints a name for each
/// address.
pub(super) fn symbols(options: &Options) -> Outcome {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| input_error!("cannot read standard input: {}", error))?;
    let program = options.operands.first().ok_or_else(|| input_error!("Did not specify program"))?;
    let resolved = crate::symbols::names_of_addresses(program, &text);
    output::write_result(None, Overwrite::Refuse, |out| {
        resolved.iter().try_for_each(|name| writeln!(out, "{name}"))
    })
}
