//! `timeline`: live bytes over time, as a table, a chart, data or a picture.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::ledger::memory_calls::{StackNames, named};
use heapwise_profile::recording::Timeline;
use heapwise_render::timeline::{self, Picture, resident};
use heapwise_render::{json, raster};

use crate::failure::{Failure, Outcome};
use crate::file_error;
use crate::output::{self, Overwrite};
use crate::progress_bar::ReadArgs;
use crate::report_input::parse_step;
use crate::symbols::SymbolArgs;
use crate::warnings;
use heapwise_capture::recording::moment_profile;
use heapwise_capture::recording::open::{self, Opened};

/// Options of `timeline`.
#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Set the step length, a multiple of 10 ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_step, help_heading = "Filter options")]
    step: u64,
    /// Print JSON: `[[ms, bytes], …]`
    #[arg(long, help_heading = "Output options")]
    json: bool,
    /// Show where the resident memory was, line by line, instead of live bytes
    #[arg(long, help_heading = "Output options")]
    resident: bool,
    /// Print a row per step even in a terminal
    #[arg(long, help_heading = "Output options")]
    table: bool,
    /// Draw live bytes, resident bytes, allocation rate and marks as SVG
    #[arg(long, value_name = "FILE", help_heading = "Output options")]
    svg: Option<PathBuf>,
    /// Draw the same picture as PNG
    #[arg(long, value_name = "FILE", help_heading = "Output options")]
    png: Option<PathBuf>,
    /// Write the result to FILE
    #[arg(short, long, value_name = "FILE", help_heading = "Output options")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, help_heading = "Output options")]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl TimelineArgs {
    /// The file of a picture: of its own option, or `--output` with the ending of a picture.
    fn picture<'a>(&'a self, own: Option<&'a Path>, ending: &str) -> Option<&'a Path> {
        let named = self.output.as_deref().filter(|path| path.extension().is_some_and(|end| end == ending));
        own.or(named)
    }

    fn is_picture(&self) -> bool {
        [(&self.svg, "svg"), (&self.png, "png")]
            .iter()
            .any(|(own, ending)| self.picture(own.as_deref(), ending).is_some())
    }
}

/// Width of a chart where the terminal's is unknown.
const DEFAULT_WIDTH: usize = 100;
const CHART_HEIGHT: usize = 12;
/// Pixels per unit of the picture: sharp on today's screens.
const PNG_SCALE: f32 = 2.0;

/// Shows the timeline.
pub(crate) fn run(args: &TimelineArgs) -> Outcome {
    let mut opened = open::open(&args.file, &args.read.options())?;
    warnings::print(&opened.warnings);
    let timeline = opened
        .recording
        .read(|recording| Timeline::read(recording, args.step))
        .ok_or_else(|| file_error!(&args.file, "has no timeline"))?;
    note!("{}", opened.contains());
    warnings::coverage(&moment_profile::coverage(&mut opened));
    let overwrite = if args.force { Overwrite::Allow } else { Overwrite::Refuse };
    if args.resident {
        return show_resident(args, &mut opened, &timeline, overwrite);
    }
    if args.is_picture() {
        let title = format!("{}: {}", name(&args.file), opened.time_span());
        let picture = timeline::svg(&timeline, &Picture { title, marks: &opened.tables.marks });
        return write_picture(args, &picture, overwrite);
    }
    let text = if args.json {
        timeline::data(&timeline).to_string() + "\n"
    } else if args.table || args.output.is_some() || !std::io::stdout().is_terminal() {
        timeline::table(&timeline)
    } else {
        let width = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col));
        timeline::chart(&timeline, width.unwrap_or(DEFAULT_WIDTH), CHART_HEIGHT)
    };
    output::write_result(args.output.as_deref(), overwrite, |out| out.write_all(text.as_bytes()))
}

/// Shows the lines of the ledger over time.
fn show_resident(
    args: &TimelineArgs,
    opened: &mut Opened,
    timeline: &Timeline,
    overwrite: Overwrite,
) -> Outcome {
    let history = opened.recording.read(|recording| recording.ledger_history()).unwrap_or_default();
    if history.moments.is_empty() {
        return Err(file_error!(&args.file, "has no readings of resident memory"));
    }
    if args.is_picture() {
        let title = format!("{}: resident memory", name(&args.file));
        return write_picture(args, &resident::svg(&history, timeline, &title), overwrite);
    }
    let tables = &opened.tables;
    let calls = opened.recording.read(|recording| tables.memory_calls(recording));
    let (mut stacks, calls) = calls.unwrap_or_default();
    let text = if args.json {
        if !calls.is_empty() {
            SymbolArgs::default().symbolize(&mut stacks);
        }
        let mut data = resident::data(&history);
        data["calls"] = json::memory_calls(&named(&calls, &StackNames::new(&stacks)));
        data.to_string() + "\n"
    } else {
        resident::table(&history, &calls)
    };
    output::write_result(args.output.as_deref(), overwrite, |out| out.write_all(text.as_bytes()))
}

fn write_picture(args: &TimelineArgs, picture: &str, overwrite: Overwrite) -> Outcome {
    if let Some(path) = args.picture(args.svg.as_deref(), "svg") {
        output::write_file(path, overwrite, |out| out.write_all(picture.as_bytes()))?;
    }
    if let Some(path) = args.picture(args.png.as_deref(), "png") {
        let pixels = raster::png(picture, PNG_SCALE).map_err(|error| Failure::file(path, error))?;
        output::write_file(path, overwrite, |out| out.write_all(&pixels))?;
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
