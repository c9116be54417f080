//! jeprof's output modes other than the prompt.

use std::io::Read as _;

use heapwise_profile::query::{NameStyle, Query, ThreadFilter};
use heapwise_profile::view::{graph, list, top};
use heapwise_profile::{CallTree, Metric, Profile};
use heapwise_render::export::{self, Format};
use heapwise_render::graph::{self as picture, GraphOptions};
use heapwise_render::text::TextOptions;
use heapwise_render::{Amounts, raster, text};

use super::Input;
use super::options::{Mode, Options, Picture, Threads};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Overwrite};
use crate::{input_error, source_text};
use heapwise_profile::quantity;

/// Writes the report to standard output.
pub(super) fn write(options: &Options, input: &Input) -> Outcome {
    let mut bytes = Vec::new();
    for (label, filter) in threads(options, &input.profile) {
        let mut query = input.query.clone();
        query.filter.thread = filter;
        let tree = CallTree::new(&input.profile, &query);
        match &options.mode {
            Mode::Text => bytes.extend(table(options, &tree, &query, &label).into_bytes()),
            _ => picture_or_export(options, input, &query, &tree, &mut bytes)?,
        }
    }
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(&bytes))
}

/// How jeprof writes numbers.
pub(super) fn style(options: &Options) -> TextOptions {
    let amounts = if options.show_bytes { Amounts::Bytes } else { Amounts::Megabytes };
    TextOptions { amounts, ..TextOptions::default() }
}

/// One report for all threads together, or one for each.
fn threads(options: &Options, profile: &Profile) -> Vec<(String, Option<ThreadFilter>)> {
    let wanted = |tid: u64| match options.threads {
        Threads::Merged => false,
        Threads::Each => true,
        Threads::One(one) => one == tid,
    };
    if options.threads == Threads::Merged {
        return vec![(String::new(), None)];
    }
    let mut tids: Vec<u64> =
        profile.threads.iter().map(|thread| thread.tid).filter(|tid| wanted(*tid)).collect();
    tids.sort_unstable();
    tids.dedup();
    tids.into_iter().map(|tid| (format!("t{tid}"), Some(ThreadFilter::Tid(tid)))).collect()
}

fn table(options: &Options, tree: &CallTree, query: &Query, label: &str) -> String {
    let view = top::top(tree, query);
    let style = style(options);
    style.total_line(&view.totals, label) + &text::top::top(&view, &TextOptions { total: false, ..style })
}

fn picture_or_export(
    options: &Options,
    input: &Input,
    query: &Query,
    tree: &CallTree,
    out: &mut Vec<u8>,
) -> Outcome {
    match &options.mode {
        Mode::List(pattern) => {
            let view = list::list(&input.profile, None, pattern, query);
            out.extend(text::list::list(&view, &source_text::read, &style(options)).into_bytes());
        }
        Mode::Dot => {
            // The patterns are not in jeprof's legend.
            let legend = GraphOptions { remarks: Vec::new(), ..GraphOptions::new(&input.program, query) };
            out.extend(picture::dot(&graph::graph(tree, query), &legend).into_bytes());
        }
        Mode::Picture(form) => out.extend(draw(input, query, tree, *form)?),
        Mode::Show => show(&draw(input, query, tree, Picture::Svg)?)?,
        Mode::Callgrind => write_export(&input.profile, Format::Callgrind, query.metric, out)?,
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

/// The call graph as a picture.
pub(super) fn draw(input: &Input, query: &Query, tree: &CallTree, form: Picture) -> Outcome<Vec<u8>> {
    let view = graph::graph(tree, query);
    if view.nodes.is_empty() {
        return Err(Failure::Gate("No nodes to print".into()));
    }
    let svg = picture::svg(&view, &GraphOptions::new(&input.program, query));
    let failed = |error| input_error!("cannot draw: {error}");
    match form {
        Picture::Svg => Ok(svg.into_bytes()),
        Picture::Pdf => raster::pdf(&svg).map_err(failed),
        Picture::Png => raster::png(&svg, 2.0).map_err(failed),
    }
}

/// Writes a picture to a temporary file and hands it to the desktop.
pub(super) fn show(svg: &[u8]) -> Outcome {
    let path = std::env::temp_dir().join(format!("jeprof-{}.svg", std::process::id()));
    output::write_file(&path, Overwrite::Allow, |out| out.write_all(svg))?;
    let opened = std::process::Command::new("xdg-open").arg(&path).spawn().is_ok();
    let hint = if opened { "opened" } else { "open it in a browser:" };
    say_err!("{hint} {} ({})", path.display(), quantity::bytes(svg.len() as f64));
    Ok(())
}

fn write_export(profile: &Profile, format: Format, metric: Metric, out: &mut Vec<u8>) -> Outcome {
    export::export(profile, format, metric, out).map_err(|error| input_error!("cannot write: {error}"))
}

/// `--symbols`: reads maps lines, then addresses, from standard input; prints a name for each
/// address.
pub(super) fn symbols(options: &Options) -> Outcome {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| input_error!("cannot read standard input: {error}"))?;
    let program = options.operands.first().ok_or_else(|| input_error!("Did not specify program"))?;
    let resolved = crate::symbols::names_of_addresses(program, &text);
    output::write_result(None, Overwrite::Refuse, |out| {
        resolved.iter().try_for_each(|name| writeln!(out, "{name}"))
    })
}
