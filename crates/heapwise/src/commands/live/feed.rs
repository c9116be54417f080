//! Reads the target again and again in a thread of its own, so that keys are answered meanwhile.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use heapwise_capture::failure::Outcome;
use heapwise_capture::lease;
use heapwise_capture::recording::open;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::target::Target;
use heapwise_format::segment::Demand;
use heapwise_profile::Profile;
use heapwise_profile::recording::Timeline;

use crate::symbols::SymbolArgs;

/// Time of one point of a recording's curve.
const CURVE_STEP_MS: u64 = 10;

/// One reading of the target.
pub(super) enum Reading {
    /// Its profile, and what a process records.
    Profile(Box<Profile>, Option<Demand>),
    /// Live bytes over the time of a recording.
    Curve(Vec<u64>),
    /// It cannot be read any more; the reason.
    End(String),
}

/// The readings of a target. The thread ends with this value.
pub(super) struct Feed {
    readings: Receiver<Reading>,
    _end: Sender<()>,
}

impl Feed {
    /// Starts reading. A file is read once.
    pub(super) fn start(
        target: Target,
        interval: Duration,
        symbols: SymbolArgs,
        options: ReadOptions,
    ) -> Self {
        let (sender, readings) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        thread::spawn(move || {
            if let Target::Recording { path, .. } = &target
                && let Some(points) = curve(path, &options)
            {
                let _ = sender.send(Reading::Curve(points));
            }
            loop {
                let reading = match read(&target, &symbols, &options) {
                    Ok((profile, demand)) => Reading::Profile(Box::new(profile), demand),
                    Err(failure) => Reading::End(failure.to_string()),
                };
                let is_last = matches!(reading, Reading::End(_)) || !matches!(target, Target::Process(_));
                let is_unheard = sender.send(reading).is_err();
                if is_last || is_unheard || ended.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Self { readings, _end: end }
    }

    /// The readings since the last call; of several of a process the last one counts.
    pub(super) fn newest(&self) -> Vec<Reading> {
        self.readings.try_iter().collect()
    }
}

/// The curve of a recording; `None` where it cannot be read.
fn curve(path: &Path, options: &ReadOptions) -> Option<Vec<u64>> {
    let mut opened = open::open(path, options).ok()?;
    let timeline = opened.recording.read(|recording| Timeline::read(recording, CURVE_STEP_MS))?;
    Some(timeline.steps.iter().map(|step| step.max_live_bytes).collect())
}

fn read(target: &Target, symbols: &SymbolArgs, options: &ReadOptions) -> Outcome<(Profile, Option<Demand>)> {
    let mut profile = target.load(options)?.profile;
    symbols.symbolize(&mut profile);
    let demand = match target {
        Target::Process(found) => {
            let segment = found.open()?;
            let snapshot = segment.snapshot()?;
            Some(lease::demand(&snapshot))
        }
        _ => None,
    };
    Ok((profile, demand))
}
