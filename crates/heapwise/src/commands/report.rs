//! `top`, `tree`, `peek`, `list`, `sizes`, `modules`, `threads`, `traces`: views as text or JSON.

use clap::Args;
use heapwise_capture::report_input::Report;
use heapwise_capture::target::Target;
use heapwise_profile::metric::column;
use heapwise_profile::query::{Granularity, Regex};
use heapwise_profile::view::leaks::LeakClass;
use heapwise_profile::view::traces::StackLimit;
use heapwise_profile::view::{self, OwnPlaces};
use heapwise_profile::{Metric, Query};
use heapwise_render::text::gs;
use heapwise_render::{Amounts, Text, TextOptions, json, text};
use serde_json::Value;

use crate::failure::Outcome;
use crate::report_input::ReportOptions;
use crate::{console, output};
use heapwise_symbolize::source_text;

/// Rows of `top` unless `-n` says otherwise.
const DEFAULT_ROWS: usize = 40;
/// Sites of `leaks` unless `-n` says otherwise.
const DEFAULT_SITES: usize = 10;
/// Memory for a list of stacks without `--limit`.
const DEFAULT_LIMIT: u64 = 2 << 30;

/// Options of a report on one or more profiles that add up.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub options: ReportOptions,
    #[command(flatten)]
    pub style: StyleArgs,
}

/// Options of a report about functions that match a pattern.
#[derive(Debug, Clone, Args)]
pub(crate) struct PatternArgs {
    /// Pattern for function names
    #[arg(value_name = "RE")]
    pattern: Regex,
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    targets: Vec<String>,
    #[command(flatten)]
    options: ReportOptions,
    #[command(flatten)]
    style: StyleArgs,
}

/// How numbers are written.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "style")]
#[command(next_help_heading = "Output options")]
pub(crate) struct StyleArgs {
    /// Print sizes in bytes
    #[arg(long = "show_bytes", visible_alias = "bytes")]
    show_bytes: bool,
    /// Print each size with the unit that suits it (the default; for scripts of version 0.1)
    #[arg(long, hide = true, conflicts_with = "show_bytes")]
    human: bool,
    /// Print column names (the default; for scripts of version 0.1)
    #[arg(long, hide = true)]
    header: bool,
    /// Print the standard error of estimates
    #[arg(long)]
    errors: bool,
    /// Print the gs driver's report: `file line:N size:BYTES` in columns
    #[arg(long)]
    gs: bool,
    /// Print the gs driver's report with sites that hold nothing any more
    #[arg(long)]
    zero: bool,
}

impl StyleArgs {
    /// Options of the text renderer for this report.
    pub(crate) fn text(&self) -> TextOptions {
        let amounts = if self.show_bytes { Amounts::Bytes } else { Amounts::Human };
        let width = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col));
        let width = width.ok().filter(|width| *width > 0);
        let (header, own, errors, language) = (true, true, self.errors, console::language());
        TextOptions { amounts, width, header, own, errors, language, ..TextOptions::default() }
    }

    /// Options of the text renderer for a report that is written where `options` say: a terminal
    /// shows colors.
    fn text_for(&self, options: &ReportOptions) -> TextOptions {
        let color = options.output().is_none() && console::has_color();
        TextOptions { color, ..self.text() }
    }
}

/// A view of a report that needs no further argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum View {
    /// Show the largest holders first
    Top,
    /// Show callers and callees of each function
    Tree,
    /// Show what is still held, by allocation site
    Leaks,
    /// Show block sizes
    Sizes,
    /// Show one row per binary, or package of Python
    Modules,
    /// Show one row per thread
    Threads,
    /// Show every stack
    Traces,
}

/// Loads the report of a command and writes one view of it.
pub(crate) fn run(view: View, args: &ReportArgs) -> Outcome {
    let report = load(view, args.options.parse_targets(&args.targets)?, &args.options)?;
    show(view, report, &args.options, &args.style)
}

/// Loads the report of a view.
pub(crate) fn load(view: View, targets: Vec<Target>, options: &ReportOptions) -> Outcome<Report> {
    match view {
        View::Sizes => options.load_by_size(targets),
        _ => options.load_targets(targets),
    }
}

/// Writes one view of a report.
pub(crate) fn show(view: View, report: Report, options: &ReportOptions, style: &StyleArgs) -> Outcome {
    let (tree, query) = (|| report.tree(), &report.query);
    match view {
        View::Top => top(report, options, style),
        View::Tree => {
            let view = view::peek::tree(&tree(), query);
            write(options, || text::tree::tree(&view, &style.text()), || json::tree(&view))
        }
        View::Leaks => {
            let limit = stack_limit(options);
            let (tree, code) = (tree(), report.code());
            let places = OwnPlaces::new(&report.profile, &code, &tree, query);
            let class = LeakClass::of(&report.profile);
            let query = &Query { limit: options.row_limit(DEFAULT_SITES), ..query.clone() };
            let view = view::leaks::leaks(&tree, class, query, limit).with_own(&places);
            write(options, || text::leaks::leaks(&view, &style.text_for(options)), || json::leaks(&view))?;
            say_if_empty(view.groups.is_empty(), query, options, Text::NoRows);
            Ok(())
        }
        View::Sizes => {
            let view = view::sizes::sizes(&report.profile, &tree(), query);
            write(options, || text::sizes::sizes(&view, &style.text()), || json::sizes(&view))
        }
        View::Modules => {
            let view = view::modules::modules(&report.profile, report.baseline.as_deref(), query);
            write(options, || text::table::modules(&view, &style.text()), || json::modules(&view))
        }
        View::Threads => {
            let view = view::threads::threads(&report.profile, query);
            write(options, || text::table::threads(&view, &style.text()), || json::threads(&view))
        }
        View::Traces => {
            let view = view::traces::traces(&tree(), query, stack_limit(options));
            write(options, || text::traces::traces(&view, &style.text()), || json::traces(&view))?;
            let listed = view.stacks.len();
            if view.dropped > 0 && query.limit.is_none_or(|most| listed < most) {
                note!("{} more stacks; --limit SIZE allows more", view.dropped);
            }
            Ok(())
        }
    }
}

/// Stacks that a view may list: a quarter of the memory for a profile, because the list and its
/// text are held at once.
fn stack_limit(options: &ReportOptions) -> StackLimit {
    StackLimit::of_text(options.read.limit_bytes().unwrap_or(DEFAULT_LIMIT) / 4)
}

/// Writes the largest holders first, or the gs driver's report.
fn top(mut report: Report, options: &ReportOptions, style: &StyleArgs) -> Outcome {
    if style.gs || style.zero {
        return gs_report(report, options, style);
    }
    let limit = options.row_limit(DEFAULT_ROWS);
    let is_default = options.rows.is_none() && limit.is_some();
    report.query.limit = limit.filter(|_| !is_default);
    let (tree, code) = (report.tree(), report.code());
    let places = OwnPlaces::new(&report.profile, &code, &tree, &report.query);
    let mut view = view::top::top(&tree, &report.query);
    if is_default {
        view.keep_notable(DEFAULT_ROWS);
    }
    let view = view.with_own(&places);
    let text = || match report.baseline {
        Some(_) => text::diff::diff(&view, &style.text_for(options)),
        None => text::top::top(&view, &style.text_for(options)),
    };
    write(options, text, || json::top(&view))?;
    if view.dropped > 0 && !options.json {
        note!("{} more rows; -n 0 shows all", view.dropped);
    }
    let has_peak = report.profile.extra.iter().any(|extra| extra.name == column::PEAK_SPACE);
    let has_other = report.baseline.is_some() && has_peak && report.query.metric == Metric::InuseSpace;
    let no_rows = if has_other { Text::NoChange } else { Text::NoRows };
    say_if_empty(view.rows.is_empty(), &report.query, options, no_rows);
    Ok(())
}

/// Says why a table has no rows.
fn say_if_empty(is_empty: bool, query: &Query, options: &ReportOptions, no_rows: Text) {
    let is_filtered = query.filter.matches_frames() || query.filter.selects();
    let text = if is_filtered { Text::NoMatch } else { no_rows };
    if is_empty && !options.json {
        note!("{}", console::message(text, &[]));
    }
}

fn gs_report(mut report: Report, options: &ReportOptions, style: &StyleArgs) -> Outcome {
    report.query.granularity = Granularity::Lines;
    let view = view::sites::sites(&report.profile, &report.tree(), &report.query, style.zero);
    write(options, || gs::report(&view), || gs::report_json(&view))
}

/// Shows callers and callees of matching functions.
pub(crate) fn peek(args: &PatternArgs) -> Outcome {
    let report = args.options.load(&args.targets)?;
    let view = view::peek::peek(&report.tree(), &args.pattern, &report.query);
    write(&args.options, || text::tree::tree(&view, &args.style.text()), || json::tree(&view))?;
    args.say_if_unknown(view.entries.is_empty());
    Ok(())
}

impl PatternArgs {
    /// Says that the pattern matches nothing.
    fn say_if_unknown(&self, is_empty: bool) {
        if is_empty && !self.options.json {
            note!("{}", console::message(Text::NoFunction, &[("pattern", self.pattern.as_str())]));
        }
    }
}

/// Shows the source of matching functions with the bytes of each line.
pub(crate) fn list(args: &PatternArgs) -> Outcome {
    let report = args.options.load(&args.targets)?;
    let view = view::list::list(&report.profile, report.baseline.as_deref(), &args.pattern, &report.query);
    write(
        &args.options,
        || text::list::list(&view, &source_text::read, &args.style.text()),
        || json::list(&view),
    )?;
    args.say_if_unknown(view.functions.is_empty());
    Ok(())
}

/// Writes a view where the options say, in the requested form; the other form is not computed.
pub(crate) fn write(
    options: &ReportOptions,
    text: impl FnOnce() -> String,
    data: impl FnOnce() -> Value,
) -> Outcome {
    output::write_result(options.output(), options.overwrite(), |out| {
        let text = if options.json { console::json(&data()) } else { text() };
        out.write_all(text.as_bytes())
    })
}
