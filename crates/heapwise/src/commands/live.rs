//! `live`: the largest holders of a process or a file on the terminal, kept up to date.

mod feed;
mod model;
mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use heapwise_capture::control::{self, Change};
use heapwise_capture::segments::SegmentEntry;
use heapwise_capture::stopped;
use heapwise_capture::target::Target;
use heapwise_format::segment::Mode;
use heapwise_profile::quantity::{self, parse_duration};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::feed::Feed;
use self::model::{Command, Model};
use super::switch;
use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::own_code::OwnArgs;
use crate::progress_bar::ReadArgs;
use crate::symbols::SymbolArgs;

/// Options of `live`.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Process, profile or recording
    #[arg(value_name = "PID|FILE")]
    target: String,
    /// Read the process this often
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, help_heading = "Output options")]
    interval: Duration,
    #[command(flatten)]
    own: OwnArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Longest time until a new reading is on the screen.
const FRAME: Duration = Duration::from_millis(100);

/// Shows the view until the user leaves it.
pub(crate) fn run(args: LiveArgs) -> Outcome {
    if !io::stdout().is_terminal() {
        return Err(input_error!("live needs a terminal; `heapwise top` prints the same once"));
    }
    let target = Target::parse(&args.target)?;
    let process = match &target {
        Target::Process(found) => Some(found.clone()),
        _ => None,
    };
    let feed = Feed::start(target, args.interval, args.symbols, args.read.options());
    let mut model = Model::new(args.target, process.is_some(), args.own.rule()?);
    let mut terminal = ratatui::try_init().map_err(|error| terminal_failure(&error))?;
    let outcome = follow(&mut terminal, &mut model, &feed, process.as_ref());
    ratatui::restore();
    outcome
}

fn terminal_failure(error: &io::Error) -> Failure {
    input_error!("the terminal: {}", error)
}

fn follow(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    feed: &Feed,
    process: Option<&SegmentEntry>,
) -> Outcome {
    loop {
        feed.newest().into_iter().for_each(|reading| model.update(reading));
        terminal.draw(|frame| screen::draw(frame, model)).map_err(|error| terminal_failure(&error))?;
        if !event::poll(FRAME).map_err(|error| terminal_failure(&error))? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(|error| terminal_failure(&error))? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match (model.press(key.code), process) {
            (Some(Command::Quit), _) => return Ok(()),
            (Some(Command::Record(mode, rate)), Some(found)) => model.say(&record(found, mode, rate)),
            _ => {}
        }
    }
}

/// Changes what the process records; says what happened.
fn record(found: &SegmentEntry, mode: Mode, rate: u64) -> String {
    let change = Change::new().mode(mode).sample_bytes(rate);
    let done = switch::open_live(found).and_then(|segment| {
        if mode == Mode::Off {
            stopped::save(&segment)?;
        }
        Ok(control::apply(&segment, &change)?)
    });
    match (done, mode) {
        (Err(failure), _) => failure.to_string(),
        (Ok(_), Mode::Sampled) => format!("one block per {} bytes", quantity::bytes(rate as f64)),
        (Ok(_), mode) => format!("recording: {}", mode.name()),
    }
}
