//! The agent: rounds of profiles of every process with the probe, and deliveries beside them.

mod lives;
mod round;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_capture::segment_lock::SegmentLock;
use heapwise_capture::stale_segments;
use heapwise_symbolize::Options as SymbolOptions;

use crate::budget::{Budget, Pace};
use crate::cost::Meter;
use crate::delivery::{Delivery, DeliveryCounts};
use crate::followed::now_ns;
use crate::identity::Names;
use crate::listener;
use crate::policy::AttachPolicy;
use crate::receiver::Receiver;
use crate::request;
use crate::spool::Spool;
use crate::status::Status;
use round::Rounds;

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time between two profiles of a process.
    pub every: Duration,
    /// Mean distance of samples in processes that do not record; `None` leaves them so.
    pub sample_bytes: Option<u64>,
    /// What the agent may take of the host.
    pub budget: Budget,
    /// Names for every process.
    pub names: Names,
    /// Which processes get the probe.
    pub policy: AttachPolicy,
    /// Where symbols are looked for; `None` leaves addresses to the receivers.
    pub symbols: Option<SymbolOptions>,
    /// Directory of the spool, the status file and the cursors.
    pub spool: PathBuf,
    /// Most bytes of the spool.
    pub spool_bytes: u64,
    /// Receivers, each kind at most once.
    pub receivers: Vec<Receiver>,
    /// Headers of every request: tenant, authorization.
    pub headers: Vec<(String, String)>,
    /// Where `/metrics` listens.
    pub listen: Option<SocketAddr>,
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    rounds: Rounds,
    spool: Arc<Spool>,
    pace: Pace,
    meter: Meter,
    budget: Budget,
    deliveries: Vec<(&'static str, Arc<Mutex<DeliveryCounts>>)>,
    /// What `/metrics` shows.
    shown: Arc<Mutex<Status>>,
    address: Option<SocketAddr>,
    directory: PathBuf,
    /// Other commands keep segments of ended processes meanwhile.
    lock: Option<SegmentLock>,
}

/// Leases need a heartbeat twice a second. Without pidfds, ends of processes are noticed with the
/// next round.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

impl Agent {
    /// Opens the spool, binds the address and starts a thread for each receiver.
    ///
    /// # Errors
    /// When the spool or the address cannot be used.
    pub fn start(settings: Settings) -> Outcome<Self> {
        let names: Vec<&str> = settings.receivers.iter().map(Receiver::name).collect();
        let spool = Spool::open(&settings.spool, settings.spool_bytes, &names)
            .map_err(|error| Failure::file(&settings.spool, error))?;
        let spool = Arc::new(spool);
        let shown = Arc::new(Mutex::new(Status { budget: settings.budget, ..Status::default() }));
        let address = match settings.listen {
            None => None,
            Some(address) => {
                let bound = listener::start(address, Arc::clone(&shown));
                Some(bound.map_err(|error| Failure::new(format!("cannot listen on {address}: {error}")))?)
            }
        };
        let deliveries = start_deliveries(&settings, &spool)?;
        Ok(Self {
            pace: Pace::new(settings.every),
            meter: Meter::new(),
            budget: settings.budget,
            directory: settings.spool.clone(),
            rounds: Rounds::new(settings, Arc::clone(&spool)),
            lock: Some(SegmentLock::take()),
            spool,
            deliveries,
            shown,
            address,
        })
    }

    /// Where `/metrics` listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes profiles until `stop` is set; `report` gets the status after each round.
    pub fn run(&mut self, stop: &AtomicBool, mut report: impl FnMut(&Status)) {
        while !stop.load(Ordering::Relaxed) {
            report(&self.round());
            let due = Instant::now() + self.pace.interval();
            while !stop.load(Ordering::Relaxed) && Instant::now() < due {
                let left = due.saturating_duration_since(Instant::now());
                if self.rounds.wait(left.min(LONGEST_WAIT)) {
                    self.publish();
                }
            }
        }
    }

    /// Takes a profile of each process once, and waits until the receivers have them or `wait` is
    /// over; whether they have them.
    pub fn run_once(&mut self, wait: Duration, mut report: impl FnMut(&Status)) -> bool {
        self.round();
        let due = Instant::now() + wait;
        while !self.spool.is_sent() && Instant::now() < due {
            thread::sleep(Duration::from_millis(10));
        }
        report(&self.publish());
        self.spool.is_sent()
    }

    fn round(&mut self) -> Status {
        self.rounds.take();
        self.lock = None;
        stale_segments::collect();
        self.lock = Some(SegmentLock::take());
        let cost = self.meter.measure(self.pace.interval());
        let excess = self.pace.adapt(&cost, &self.budget);
        self.rounds.status.cost = cost;
        self.rounds.status.excess = excess;
        self.publish()
    }

    /// Completes the status, and shows it in `/metrics` and the status file.
    fn publish(&mut self) -> Status {
        let counts =
            |counts: &Mutex<DeliveryCounts>| counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut status = Status {
            budget: self.budget,
            interval: self.pace.interval(),
            is_slowed: self.pace.is_slowed(),
            spool: self.spool.counts(),
            receivers: self.deliveries.iter().map(|(name, shared)| (*name, counts(shared))).collect(),
            ..self.rounds.status.clone()
        };
        {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            status.scrapes = shown.scrapes;
            shown.clone_from(&status);
        }
        // On a full disk the file keeps an older status.
        let _ = status.write(&self.directory);
        status
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.spool.close();
    }
}

type Counted = (&'static str, Arc<Mutex<DeliveryCounts>>);

fn start_deliveries(settings: &Settings, spool: &Arc<Spool>) -> Outcome<Vec<Counted>> {
    let since_ns = now_ns();
    let mut started = Vec::new();
    for receiver in settings.receivers.clone() {
        let (name, counts) = (receiver.name(), Arc::new(Mutex::new(DeliveryCounts::default())));
        let delivery = Delivery {
            receiver: name,
            encoder: receiver.encoder(&settings.headers, since_ns),
            spool: Arc::clone(spool),
            counts: Arc::clone(&counts),
            seed: since_ns ^ u64::from(std::process::id()),
            limit: request::LIMIT,
        };
        let thread = thread::Builder::new().name(name.into()).spawn(move || delivery.run());
        thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        started.push((name, counts));
    }
    Ok(started)
}
