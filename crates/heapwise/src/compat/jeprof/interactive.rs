//! jeprof's prompt: `top[N]`, `list RE`, `weblist RE`, `disasm RE`, `web`, `callgrind [FILE]`,
//! `help`, `quit`.

use std::io::{BufRead, Write};

use heapwise_profile::query::{self, Granularity, Order, Query, Regex};
use heapwise_profile::view::{list, top};
use heapwise_profile::{CallTree, call_tree};
use heapwise_render::export::{self, Format};
use heapwise_render::text::{self, TextOptions};

use super::options::{Options, Picture};
use super::report;
use super::{Input, disasm};
use crate::failure::Outcome;
use crate::output::{self, Overwrite};
use crate::{console, input_error};
use heapwise_symbolize::source_text;

const HELP: &str = "\
Interactive jeprof mode

Commands:
  top[N] [--cum] [--lines] [-ignore]*   rows of the profile (10 unless told)
  text                                  the same
  list RE [-ignore]*                    annotated source of matching functions
  weblist RE [-ignore]*                 the same as a page, shown by the desktop
  disasm RE [-ignore]*                  annotated disassembly of matching functions
  web|gv|evince [focus]* [-ignore]*     call graph, shown by the desktop
  callgrind [FILE]                      callgrind's format
  help                                  this text
  quit                                  or end of input
";

/// Reads commands until `quit` or the end of input.
pub(super) fn run(options: &Options, input: &Input) -> Outcome {
    say_err!("Welcome to jeprof!  For help, type 'help'.");
    let stdin = std::io::stdin();
    let mut line = String::new();
    loop {
        console::text(&mut std::io::stderr(), "(jeprof) ");
        line.clear();
        let read =
            stdin.lock().read_line(&mut line).map_err(|error| input_error!("standard input: {}", error))?;
        if read == 0 || line.trim_start().starts_with("quit") {
            return Ok(());
        }
        if let Err(failure) = command(options, input, line.trim()) {
            say_err!("{failure}");
        }
    }
}

fn command(options: &Options, input: &Input, line: &str) -> Outcome {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
    match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "" => {}
        "help" => console::text(&mut std::io::stderr(), HELP),
        "top" | "text" => print_top(options, input, digits.parse().unwrap_or(10), &Arguments::parse(rest)?)?,
        "list" => print(&listing(options, input, &Arguments::parse(rest)?)?)?,
        "weblist" => {
            let text = listing(options, input, &Arguments::parse(rest)?)?;
            report::show(page(&text).as_bytes(), "html")?;
        }
        "disasm" => print_disassembly(options, input, &Arguments::parse(rest)?)?,
        "web" | "gv" | "evince" => {
            let arguments = Arguments::parse(rest)?;
            let (query, tree) = process(options, input, &arguments, true)?;
            report::show(&report::draw(options, input, &query, &tree, Picture::Svg)?, "svg")?;
        }
        "callgrind" => callgrind(input, rest.trim())?,
        _ => say_err!("Unknown command: try 'help'."),
    }
    Ok(())
}

/// Words after a command: `-word` ignores, any other focuses; several are alternatives.
struct Arguments {
    cum: bool,
    lines: bool,
    focus: Option<Regex>,
    ignore: Option<Regex>,
}

impl Arguments {
    fn parse(text: &str) -> Outcome<Self> {
        let (mut focus, mut ignore) = (Vec::new(), Vec::new());
        let (mut cum, mut lines) = (false, false);
        for word in text.split_whitespace() {
            match word {
                "--cum" | "-cum" => cum = true,
                "--lines" | "-lines" => lines = true,
                _ => match word.strip_prefix('-') {
                    Some(pattern) => ignore.push(pattern),
                    None => focus.push(word),
                },
            }
        }
        let compile = |words: Vec<&str>| -> Outcome<Option<Regex>> {
            let pattern = words.join("|");
            let regex = query::pattern("pattern", &pattern)
                .map_err(|error| input_error!("{}: {}", pattern, error.message))?;
            Ok(Some(regex).filter(|_| !pattern.is_empty()))
        };
        if !ignore.is_empty() {
            say_err!("Ignoring samples in call stacks that match '{}'", ignore.join("|"));
        }
        Ok(Self { cum, lines, focus: compile(focus)?, ignore: compile(ignore)? })
    }
}

/// Applies a command's words, and prints the remaining total after each, as jeprof does.
fn process(
    options: &Options,
    input: &Input,
    arguments: &Arguments,
    focuses: bool,
) -> Outcome<(Query, CallTree)> {
    let mut query = input.query.clone();
    query.order = if arguments.cum { Order::Cum } else { Order::Flat };
    if arguments.lines {
        query.granularity = Granularity::Lines;
    }
    let style = report::style(options);
    let mut tree = CallTree::new(&input.profile, &query);
    let total = tree.grand_total.value;
    let unit = tree.unit;
    let mut said = format!("Total: {}\n", style.amounts.with_unit(total, unit));
    let filters = [
        ("focusing on", arguments.focus.as_ref().filter(|_| focuses)),
        ("ignoring", arguments.ignore.as_ref()),
    ];
    for (what, pattern) in filters {
        let Some(pattern) = pattern else { continue };
        let target = if what == "ignoring" { &mut query.filter.ignore } else { &mut query.filter.focus };
        *target = Some(pattern.clone());
        tree = CallTree::new(&input.profile, &query);
        let left = tree.total().value;
        said += &format!(
            "After {what} '{pattern}': {} of {} ({:.1}%)\n",
            style.amounts.with_unit(left, unit),
            style.amounts.format(total, unit),
            if total == 0.0 { 0.0 } else { left * 100.0 / total }
        );
    }
    print(&said)?;
    Ok((query, tree))
}

fn print_top(options: &Options, input: &Input, rows: usize, arguments: &Arguments) -> Outcome {
    let (mut query, tree) = process(options, input, arguments, false)?;
    query.limit = Some(rows);
    let style = TextOptions { total: false, ..report::style(options) };
    print(&text::top::top(&top::top(&tree, &query), &style))
}

fn listing(options: &Options, input: &Input, arguments: &Arguments) -> Outcome<String> {
    let pattern = arguments.focus.as_ref().ok_or_else(|| input_error!("list needs a pattern"))?;
    let (query, _) = process(options, input, arguments, false)?;
    let view = list::list(&input.profile, None, pattern, &query);
    let style = TextOptions { total: false, ..report::style(options) };
    Ok(text::list::list(&view, &source_text::read, &style))
}

/// Annotated source as a page.
fn page(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<!DOCTYPE html><meta charset=\"utf-8\"><title>jeprof</title><pre>\n{text}</pre>\n")
}

fn print_disassembly(options: &Options, input: &Input, arguments: &Arguments) -> Outcome {
    let pattern = arguments.focus.as_ref().ok_or_else(|| input_error!("disasm needs a pattern"))?;
    let (query, _) = process(options, input, arguments, false)?;
    print(&disasm::disassemble(input, pattern, &query, &report::style(options))?)
}

fn callgrind(input: &Input, file: &str) -> Outcome {
    let path = (!file.is_empty()).then(|| std::path::Path::new(file));
    if path.is_some() {
        say_err!("Writing callgrind file to '{file}'.");
    }
    let selection = call_tree::select(&input.profile, &input.query);
    output::write_result(path, Overwrite::Refuse, |mut out| {
        export::export(&selection, Format::Callgrind, input.query.metric, &mut out)
    })
}

fn print(text: &str) -> Outcome {
    output::write_result(None, Overwrite::Refuse, |out: &mut dyn Write| out.write_all(text.as_bytes()))
}
