//! `top`, `tree`, `peek`, `list`, `sizes`, `modules`, `threads`, `traces`: views as text or data.

use clap::Args;
use heapwise_profile::query::{Granularity, Regex};
use heapwise_profile::{CallTree, view};
use heapwise_render::text::gs;
use heapwise_render::{Amounts, TextOptions, json, text};
use serde_json::Value;

use crate::failure::Outcome;
use crate::look::{Look, LookArgs};
use crate::{output, source_text};

const MEGABYTE: f64 = 1_048_576.0;

/// Rows of `top` unless told otherwise; the rest is a question away.
const DEFAULT_ROWS: usize = 40;

/// Options of a report on one or more profiles that add up.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub look: LookArgs,
    #[command(flatten)]
    pub style: StyleArgs,
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    pub targets: Vec<String>,
}

/// Options of a report about functions that match a pattern.
#[derive(Debug, Clone, Args)]
pub(crate) struct PatternArgs {
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    style: StyleArgs,
    /// Pattern for function names
    #[arg(value_name = "RE")]
    pattern: Regex,
    /// Files, pids or program names; several add up
    #[arg(required = true, value_name = "FILE|PID")]
    targets: Vec<String>,
}

/// How numbers are written.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "style")]
pub(crate) struct StyleArgs {
    /// Sizes in bytes
    #[arg(long = "show_bytes", visible_alias = "bytes")]
    show_bytes: bool,
    /// Each size with the unit that suits it [default for a total below 1 MB]
    #[arg(long, conflicts_with = "show_bytes")]
    human: bool,
    /// Name the columns
    #[arg(long)]
    header: bool,
    /// Show the standard error of estimates
    #[arg(long)]
    errors: bool,
    /// The gs driver's report: `file line:N size:BYTES`
    #[arg(long)]
    gs: bool,
    /// The same with sites that hold nothing any more
    #[arg(long)]
    zero: bool,
}

impl StyleArgs {
    /// As the renderer takes them, for numbers of the size that is looked at.
    pub(crate) fn text(&self, look: &Look) -> TextOptions {
        // In megabytes, as jeprof has them, all rows of a small program would be 0.0.
        let is_small = look.profile.total().get(look.query.metric) < MEGABYTE;
        let amounts = match (self.show_bytes, self.human || is_small) {
            (true, _) => Amounts::Bytes,
            (_, true) => Amounts::Human,
            _ => Amounts::Megabytes,
        };
        TextOptions { amounts, header: self.header, errors: self.errors, ..TextOptions::default() }
    }
}

impl Look {
    /// The call tree that most views start from.
    pub(crate) fn tree(&self) -> CallTree {
        CallTree::compare(&self.profile, self.base.as_ref(), &self.query)
    }
}

/// Largest holders first.
pub(crate) fn top(args: &ReportArgs) -> Outcome {
    if args.style.gs || args.style.zero {
        return gs_report(args);
    }
    let mut look = args.look.load(&args.targets)?;
    look.query.limit = match args.look.rows {
        Some(0) => None,
        None if !args.look.json => Some(DEFAULT_ROWS),
        rows => rows,
    };
    let view = view::top::top(&look.tree(), &look.query);
    let text = || match look.base {
        Some(_) => text::diff::diff(&view, &args.style.text(&look)),
        None => text::top::top(&view, &args.style.text(&look)),
    };
    write(&args.look, text, || json::top(&view))?;
    if view.dropped > 0 && !args.look.json {
        eprintln!("heapwise: {} more rows; -n 0 shows all", view.dropped);
    }
    Ok(())
}

fn gs_report(args: &ReportArgs) -> Outcome {
    let mut look = args.look.load(&args.targets)?;
    look.query.granularity = Granularity::Lines;
    let tree = look.tree();
    let view = view::sites::sites(&look.profile, &tree, &look.query, args.style.zero);
    write(&args.look, || gs::report(&view), || gs::report_json(&view))
}

/// Callers and callees of each function.
pub(crate) fn tree(args: &ReportArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::peek::tree(&look.tree(), &look.query);
    write(&args.look, || text::tree::tree(&view, &args.style.text(&look)), || json::tree(&view))
}

/// Callers and callees of matching functions.
pub(crate) fn peek(args: &PatternArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::peek::peek(&look.tree(), &args.pattern, &look.query);
    write(&args.look, || text::tree::tree(&view, &args.style.text(&look)), || json::tree(&view))
}

/// Source of matching functions with the bytes of each line.
pub(crate) fn list(args: &PatternArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::list::list(&look.profile, look.base.as_ref(), &args.pattern, &look.query);
    write(
        &args.look,
        || text::list::list(&view, &source_text::read, &args.style.text(&look)),
        || json::list(&view),
    )
}

/// Sizes of blocks.
pub(crate) fn sizes(args: &ReportArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::sizes::sizes(&look.profile, &look.tree(), &look.query);
    write(&args.look, || text::sizes::sizes(&view, &args.style.text(&look)), || json::sizes(&view))
}

/// Per binary.
pub(crate) fn modules(args: &ReportArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::modules::modules(&look.profile, look.base.as_ref(), &look.query);
    write(&args.look, || text::table::modules(&view, &args.style.text(&look)), || json::modules(&view))
}

/// Per thread.
pub(crate) fn threads(args: &ReportArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::threads::threads(&look.profile, &look.query);
    write(&args.look, || text::table::threads(&view, &args.style.text(&look)), || json::threads(&view))
}

/// Every stack.
pub(crate) fn traces(args: &ReportArgs) -> Outcome {
    let look = args.look.load(&args.targets)?;
    let view = view::traces::traces(&look.tree(), &look.query);
    write(&args.look, || text::traces::traces(&view, &args.style.text(&look)), || json::traces(&view))
}

/// Writes a view to where the options say, in the form that is asked for: the other is not made.
pub(crate) fn write(look: &LookArgs, text: impl FnOnce() -> String, data: impl FnOnce() -> Value) -> Outcome {
    output::write_result(look.output(), look.overwrite(), |out| {
        if look.json { writeln!(out, "{}", data()) } else { out.write_all(text().as_bytes()) }
    })
}
