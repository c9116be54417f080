//! A large store made from a real profile: many hosts, two releases, and a leak in the newer
//! release, which runs on a twentieth of the hosts.

use std::sync::Arc;

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::{Profile, Sample, Values};

use crate::content_hash;
use crate::day::MINUTE_NS;
use crate::manifest::Manifest;
use crate::rows::{Amounts, Origin, ProfileRow, Rows, SampleRow};
use crate::segment_writer;
use crate::star;
use crate::store::Store;

/// The site that leaks.
pub const LEAK: &str = "session_cache_insert";
/// One host of this many runs the release that leaks.
const HOSTS_PER_LEAK: usize = 20;
/// Bytes that a leaking process loses a minute. It is less than what large sites vary by.
const LEAK_BYTES: i64 = 48 << 10;
/// Samples that are written at a time.
const CHUNK_ROWS: usize = 1 << 20;

/// Size of the store.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Rows of `samples`, about.
    pub rows: usize,
    /// Stacks of each profile: the largest ones of the real profile.
    pub stacks: usize,
    /// Profiles of each process.
    pub points: usize,
    /// Time of the first profile.
    pub start_ns: i64,
}

/// Fills an empty store; the number of hosts.
pub fn run(store: &Store, profile: Profile, size: Size) -> Outcome<usize> {
    let mut manifest = Manifest::load(store)?;
    if !manifest.segments.is_empty() {
        return Err(Failure::new(format!("{store:?} is not empty; choose a new directory")));
    }
    let base = Base::new(profile, size.stacks)?;
    let hosts = (size.rows / (base.samples.len() * size.points).max(1)).max(HOSTS_PER_LEAK);
    let mut rows = base.tables.clone();
    let mut chunk = 0;
    let mut put = |rows: &mut Rows| -> Outcome {
        chunk += 1;
        let label = format!("generated-{chunk:06}");
        manifest.segments.extend(segment_writer::write(store, rows, &label)?);
        *rows = Rows::default();
        Ok(())
    };
    for point in 0..size.points {
        for host in 0..hosts {
            base.add_profile(&mut rows, host, point, size.start_ns);
            if rows.samples.len() >= CHUNK_ROWS {
                put(&mut rows)?;
            }
        }
    }
    put(&mut rows)?;
    manifest.save(store)?;
    Ok(hosts)
}

/// What every generated profile is made of.
struct Base {
    /// Functions, stacks and frames.
    tables: Rows,
    /// Stack and values of the real profile.
    samples: Vec<(u64, Amounts)>,
    leak: u64,
}

impl Base {
    fn new(mut profile: Profile, stacks: usize) -> Outcome<Self> {
        let none = |_: u64| false;
        profile.extra.clear();
        profile.samples.sort_by(|one, two| two.values.inuse_bytes.total_cmp(&one.values.inuse_bytes));
        profile.samples.truncate(stacks);
        let mut caller = None;
        for name in ["main", "handle_request", LEAK] {
            caller = Some(profile.named_stack_above(caller, name));
        }
        let Some(stack) = caller else { return Err(Failure::new("the profile is empty")) };
        let (values, variance) = (Values::default(), Values::default());
        profile.samples.push(Sample { stack, thread: None, sizes: None, values, variance });
        let mut tables = star::rows(Arc::default(), &profile, &none);
        let leak = tables.samples.pop().map(|row| row.stack_id);
        let leak = leak.ok_or_else(|| Failure::new("the profile has no samples"))?;
        let mut samples: Vec<_> = tables.samples.iter().map(|row| (row.stack_id, row.values)).collect();
        samples.sort_by_key(|(stack_id, values)| (std::cmp::Reverse(values.inuse_bytes), *stack_id));
        tables.samples.clear();
        tables.profiles.clear();
        Ok(Self { tables, samples, leak })
    }

    fn add_profile(&self, rows: &mut Rows, host: usize, point: usize, start_ns: i64) {
        let leaks = host.is_multiple_of(HOSTS_PER_LEAK);
        let name = format!("host-{host:05}");
        let minute = i64::try_from(point).unwrap_or(0) * MINUTE_NS;
        let number = (host as u64) << 32 | point as u64;
        let origin = Arc::new(Origin {
            profile_id: content_hash::of_numbers(&[number]),
            process_id: content_hash::of_parts(&[name.as_bytes()]),
            time_ns: start_ns + minute,
            start_ns,
            service: "shop".into(),
            release: if leaks { "1.1" } else { "1.0" }.into(),
            host: name,
            program: "/usr/bin/shop".into(),
            pid: 1000,
            ..Origin::default()
        });
        let mut sum = Amounts::default();
        let first = rows.samples.len();
        for (at, (stack_id, values)) in self.samples.iter().enumerate() {
            let values = varied(*values, content_hash::of_numbers(&[number, at as u64]));
            sum.inuse_bytes += values.inuse_bytes;
            sum.inuse_objects += values.inuse_objects;
            rows.samples.push(sample(&origin, *stack_id, values));
        }
        if leaks {
            let blocks = i64::try_from(point + 1).unwrap_or(0);
            let values =
                Amounts { inuse_bytes: blocks * LEAK_BYTES, inuse_objects: blocks, ..Amounts::default() };
            sum.inuse_bytes += values.inuse_bytes;
            rows.samples.push(sample(&origin, self.leak, values));
        }
        let stacks = u32::try_from(rows.samples.len() - first).unwrap_or(u32::MAX);
        rows.profiles.push(ProfileRow { origin, sampling_bytes: 0, stacks, values: sum, peak_bytes: 0 });
    }
}

fn sample(origin: &Arc<Origin>, stack_id: u64, values: Amounts) -> SampleRow {
    SampleRow { origin: Arc::clone(origin), stack_id, values, inuse_variance: 0.0 }
}

/// Values that differ by up to 10 % from those of the real profile.
fn varied(values: Amounts, random: u64) -> Amounts {
    let factor = 90 + i64::try_from(random % 21).unwrap_or(0);
    let part = |value: i64| value.saturating_mul(factor) / 100;
    Amounts {
        inuse_bytes: part(values.inuse_bytes),
        inuse_objects: part(values.inuse_objects),
        alloc_bytes: values.alloc_bytes,
        alloc_objects: values.alloc_objects,
    }
}
