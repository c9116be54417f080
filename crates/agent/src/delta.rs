//! Allocations since the previous profile of the same process.
//!
//! Our profiles count allocations since recording started. Pyroscope and OTLP receivers add up the
//! profiles of a series, so they get what was allocated in between; live memory stays as it is.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use heapwise_profile::{Line, Location, Profile, Sample};

use crate::batch::{EntryId, Header};

/// Processes whose last values are kept: far more than a host has.
const MOST_PROCESSES: usize = 4096;

/// The last values of a process.
#[derive(Debug, Default)]
struct Last {
    time_ns: u64,
    /// Objects and bytes allocated, by sample.
    allocated: HashMap<u64, (f64, f64)>,
}

/// The last values of every process.
#[derive(Debug)]
pub(crate) struct Deltas {
    /// When the agent started. Allocations of older processes before their first profile are
    /// unknown, and left out.
    since_ns: u64,
    processes: HashMap<EntryId, Last>,
}

impl Deltas {
    pub(crate) fn new(since_ns: u64) -> Self {
        Self { since_ns, processes: HashMap::new() }
    }

    /// Subtracts the previous profile of the process; the start of the time that is covered now.
    pub(crate) fn subtract(&mut self, header: &Header, profile: &mut Profile) -> u64 {
        let process = EntryId::of(&header.labels.host, header.pid, header.start_ns, 0);
        let keys = keys(profile);
        let previous = self.processes.remove(&process);
        let is_whole = previous.is_some() || header.start_ns >= self.since_ns;
        let previous = previous.unwrap_or_else(|| Last {
            time_ns: if is_whole { header.start_ns } else { header.time_ns },
            ..Last::default()
        });
        let mut allocated: HashMap<u64, (f64, f64)> = HashMap::with_capacity(keys.len());
        for (sample, key) in profile.samples.iter().zip(&keys) {
            let sum = allocated.entry(*key).or_default();
            *sum = (sum.0 + sample.values.alloc_objects, sum.1 + sample.values.alloc_bytes);
        }
        for (sample, key) in profile.samples.iter_mut().zip(&keys) {
            let (now, before) = (allocated[key], previous.allocated.get(key).copied().unwrap_or_default());
            // Counts that were reset start at zero again.
            let before = if before.1 > now.1 { (0.0, 0.0) } else { before };
            let share = |now: f64, before: f64| match now > before && is_whole {
                true => (now - before) / now,
                false => 0.0,
            };
            sample.values.alloc_objects *= share(now.0, before.0);
            sample.values.alloc_bytes *= share(now.1, before.1);
        }
        if header.end.is_none() && self.processes.len() < MOST_PROCESSES {
            self.processes.insert(process, Last { time_ns: header.time_ns, allocated });
        }
        previous.time_ns.min(header.time_ns)
    }
}

/// The stack and the thread of each sample. Sizes are left out: the range of a site grows.
fn keys(profile: &Profile) -> Vec<u64> {
    let hash_of_location = |location: &Location| {
        let name = |line: &Line| (&profile.functions[line.function.index()].name, line.line);
        hash_of(&(location.address, location.lines.iter().map(name).collect::<Vec<_>>()))
    };
    let locations: Vec<u64> = profile.locations.iter().map(hash_of_location).collect();
    let mut stacks: Vec<u64> = Vec::with_capacity(profile.stacks.len());
    for node in profile.stacks.ids() {
        let parent = profile.stacks.parent(node).map(|parent| stacks[parent.index()]);
        stacks.push(hash_of(&(parent, locations[profile.stacks.location(node).index()])));
    }
    let key = |sample: &Sample| {
        let thread = sample.thread.map(|id| profile.threads[id.index()].tid);
        hash_of(&(stacks[sample.stack.index()], thread))
    };
    profile.samples.iter().map(key).collect()
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture;

    use super::*;
    use crate::batch::{End, Entry, Labels, Moment};

    fn header(start_ns: u64, time_ns: u64, end: Option<End>) -> Header {
        let labels = Labels { host: "h".into(), ..Labels::default() };
        Entry::new(Moment { time_ns, labels, pid: 7, start_ns, end, ..Moment::default() }, Vec::new()).header
    }

    fn profile(bytes: f64) -> Profile {
        let mut profile = fixture::profile("main;left 4096 3\nmain;right 10 1\n");
        for sample in &mut profile.samples {
            sample.values.alloc_objects = bytes / 10.0;
            sample.values.alloc_bytes = bytes;
        }
        profile
    }

    fn allocated(deltas: &mut Deltas, header: &Header, bytes: f64) -> (u64, f64, f64) {
        let mut profile = profile(bytes);
        let since = deltas.subtract(header, &mut profile);
        let total = profile.total();
        assert_eq!(total.inuse_bytes, 4106.0);
        (since, total.alloc_objects, total.alloc_bytes)
    }

    #[test]
    fn a_process_that_starts_later_counts_from_its_start() {
        let mut deltas = Deltas::new(100);
        assert_eq!(allocated(&mut deltas, &header(150, 200, None), 50.0), (150, 10.0, 100.0));
        assert_eq!(allocated(&mut deltas, &header(150, 300, None), 70.0), (200, 4.0, 40.0));
        // A reset.
        assert_eq!(allocated(&mut deltas, &header(150, 400, None), 20.0), (300, 4.0, 40.0));
        let end = Some(End::Killed(Some(9)));
        assert_eq!(allocated(&mut deltas, &header(150, 500, end), 20.0), (400, 0.0, 0.0));
        assert!(deltas.processes.is_empty());
    }

    #[test]
    fn allocations_before_the_first_profile_of_an_older_process_are_left_out() {
        let mut deltas = Deltas::new(100);
        assert_eq!(allocated(&mut deltas, &header(50, 200, None), 50.0), (200, 0.0, 0.0));
        assert_eq!(allocated(&mut deltas, &header(50, 300, None), 60.0), (200, 2.0, 20.0));
    }
}
