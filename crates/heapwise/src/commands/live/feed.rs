//! Reads the target again and again in a thread of its own, so that keys are answered meanwhile.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use heapwise_capture::failure::Outcome;
use heapwise_capture::lease;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::target::Target;
use heapwise_format::segment::Demand;
use heapwise_profile::Profile;

use crate::symbols::SymbolArgs;

/// One reading of the target.
pub(super) enum Reading {
    /// Its profile, and what a process records.
    Profile(Box<Profile>, Option<Demand>),
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

    /// The reading that came last since the last call.
    pub(super) fn newest(&self) -> Option<Reading> {
        self.readings.try_iter().last()
    }
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
