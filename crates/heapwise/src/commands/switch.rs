//! `start`, `stop`, `reset`, `set`: control what a running process records.

use clap::Args;
use heapwise_format::segment::{Control, IndexKind, Mode};

use crate::failure::Outcome;
use crate::input_error;
use heapwise_capture::control::{self, Applied, Change};
use heapwise_capture::segments::{SegmentEntry, SegmentFile};
use heapwise_capture::{lease, stopped, target};
use heapwise_profile::quantity::parse_rate;

/// What to record and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Capture options")]
pub(crate) struct ModeArgs {
    /// Sample one block per RATE bytes on average (K, M, G)
    #[arg(short = 'c', long = "rate", value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<u64>,
    /// Record every allocation, aggregated inside the program
    #[arg(long, conflicts_with = "rate")]
    pub exact: bool,
    /// Record every event with its time
    #[arg(long, conflicts_with_all = ["rate", "exact"])]
    pub log: bool,
    /// Carry the probe but record nothing
    #[arg(long, conflicts_with_all = ["rate", "exact", "log"])]
    pub off: bool,
    /// Choose a mode by the gs driver's name
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["rate", "exact", "log", "off"])]
    pub mode: Option<GsMode>,
    /// Choose the live-block index of exact mode
    #[arg(long, value_enum, default_value = "auto")]
    pub index: Index,
    /// Record at most N frames of a stack
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Control::MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Check every cached stack against a full walk; abort on a difference
    #[arg(long, hide = true)]
    pub paranoid: bool,
}

/// The gs driver's modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum GsMode {
    /// Nothing
    Closed,
    /// Every block, stacks by the hash index
    MemRecord,
    /// Every block, stacks by the shadow index
    MemFast,
    /// Every event
    LogRecord,
    /// Every event; drop rather than wait when the recorder falls behind
    LogFast,
}

/// Index of live blocks in exact mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Index {
    /// Chosen by allocator
    Auto,
    /// Compact
    Hash,
    /// Fastest
    Shadow,
}

impl ModeArgs {
    /// The requested mode.
    pub(crate) fn mode(&self) -> Mode {
        match self.mode {
            Some(GsMode::Closed) => Mode::Off,
            Some(GsMode::MemRecord | GsMode::MemFast) => Mode::Exact,
            Some(GsMode::LogRecord | GsMode::LogFast) => Mode::Log,
            None if self.off => Mode::Off,
            None if self.exact => Mode::Exact,
            None if self.log => Mode::Log,
            None => Mode::Sampled,
        }
    }

    /// Records every block when no mode is given.
    pub(crate) fn exact_by_default(&mut self) {
        let is_given = self.rate.is_some() || self.log || self.off || self.mode.is_some();
        self.exact |= !is_given;
    }

    /// The requested index.
    pub(crate) fn index(&self) -> IndexKind {
        match (self.mode, self.index) {
            (Some(GsMode::MemRecord), Index::Auto) | (_, Index::Hash) => IndexKind::Hash,
            (Some(GsMode::MemFast), Index::Auto) | (_, Index::Shadow) => IndexKind::Shadow,
            (_, Index::Auto) => IndexKind::Auto,
        }
    }

    /// The requested sampling distance, or the default.
    pub(crate) fn sample_bytes(&self) -> u64 {
        self.rate.unwrap_or(Control::DEFAULT_SAMPLE_BYTES)
    }

    /// As the probe's first orders (`HEAPWISE_CONF`).
    pub(crate) fn conf(&self) -> String {
        format!(
            "mode:{},rate:{},depth:{},index:{}{}",
            self.mode().name(),
            self.sample_bytes(),
            self.depth.unwrap_or(Control::DEFAULT_DEPTH),
            self.index().name(),
            if self.paranoid { ",paranoid:true" } else { "" },
        )
    }

    /// As a change of the control page.
    pub(crate) fn change(&self) -> Change {
        let change = Change::new().mode(self.mode()).sample_bytes(self.sample_bytes()).index(self.index());
        match self.depth {
            Some(depth) => change.max_depth(depth),
            None => change,
        }
    }

    fn names_a_mode(&self) -> bool {
        self.rate.is_some() || self.exact || self.log || self.off || self.mode.is_some()
    }
}

/// Options of `start`.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    mode: ModeArgs,
    /// Pids or program names
    #[arg(required = true, value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// Options of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Pids or program names
    #[arg(required = true, value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// Options of `reset`.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    /// Reset even where another command relies on what is recorded
    #[arg(short, long)]
    force: bool,
    /// Pids or program names
    #[arg(required = true, value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// Options of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    mode: ModeArgs,
    /// Pids or program names
    #[arg(required = true, value_name = "PID|NAME")]
    targets: Vec<String>,
}

/// Starts recording.
pub(crate) fn start(args: &StartArgs) -> Outcome {
    refuse_log(&args.mode)?;
    change_all(&args.targets, &args.mode.change(), &format!("recording ({})", describe(&args.mode)))
}

/// Stops recording; what was recorded stays readable as it is now.
pub(crate) fn stop(args: &StopArgs) -> Outcome {
    for found in target::processes(&args.targets)? {
        let segment = open_live(&found)?;
        stopped::save(&segment)?;
        change(&found, &segment, &Change::new().mode(Mode::Off), "stopped")?;
    }
    Ok(())
}

/// Clears what was recorded.
pub(crate) fn reset(args: &ResetArgs) -> Outcome {
    let processes = target::processes(&args.targets)?;
    for found in &processes {
        let others = lease::of_others(&open_live(found)?)?;
        if let Some(other) = others.first().filter(|_| !args.force) {
            return Err(input_error!(
                "{}: {} relies on what is recorded; use -f to reset it all the same",
                found.process.pid,
                lease::describe(other)
            ));
        }
    }
    change_all(&args.targets, &Change::new().reset(), "reset")
}

/// Changes rate, mode or depth.
pub(crate) fn set(args: &SetArgs) -> Outcome {
    refuse_log(&args.mode)?;
    if args.mode.names_a_mode() {
        return change_all(&args.targets, &args.mode.change(), &format!("set to {}", describe(&args.mode)));
    }
    match args.mode.depth {
        Some(depth) => change_all(&args.targets, &Change::new().max_depth(depth), "depth set"),
        None => Err(input_error!("nothing to set; give --rate, --exact, --log, --off or --depth")),
    }
}

fn describe(mode: &ModeArgs) -> String {
    match mode.mode() {
        Mode::Sampled => format!("one block per {} bytes", mode.sample_bytes()),
        other => other.name().to_owned(),
    }
}

/// Events are of no use without a recorder.
fn refuse_log(mode: &ModeArgs) -> Outcome {
    match mode.mode() {
        Mode::Log => Err(input_error!("log mode needs a recorder; use `heapwise record PID` for it")),
        _ => Ok(()),
    }
}

fn change_all(targets: &[String], change: &Change, done: &str) -> Outcome {
    target::processes(targets)?
        .iter()
        .try_for_each(|found| self::change(found, &open_live(found)?, change, done))
}

fn change(found: &SegmentEntry, segment: &SegmentFile, change: &Change, done: &str) -> Outcome {
    let pid = found.process.pid;
    match control::apply(segment, change)? {
        Applied::Yes => note!("{pid}: {done}"),
        Applied::Pending => note!("{pid}: {done}, from the program's next allocation on"),
    }
    let snapshot = segment.snapshot()?;
    let own = snapshot.control().map(|control| control.own_demand());
    let demand = lease::demand(&snapshot);
    if own.is_some_and(|own| own != demand) {
        let holder = lease::held(&snapshot).into_iter().find(|lease| lease.demand == demand);
        let holder = holder.map_or_else(String::new, |lease| format!(" for {}", lease::describe(&lease)));
        note!("{pid}: still recording ({}){holder}", demand.mode.name());
    }
    Ok(())
}

/// Opens the segment of a running process.
pub(crate) fn open_live(found: &SegmentEntry) -> Outcome<SegmentFile> {
    if found.alive {
        return Ok(found.open()?);
    }
    if found.is_alive() {
        return Err(input_error!(
            "process {} replaced itself by exec with a program that does not carry the probe; \
             its state before can still be read: heapwise top {}",
            found.process.pid,
            found.process.pid
        ));
    }
    Err(input_error!(
        "process {} has ended; its last state can still be read: heapwise top {}",
        found.process.pid,
        found.process.pid
    ))
}
