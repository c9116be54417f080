//! Sums of a profile as blocks of one size, for formats that are streams of single events.

use heapwise_profile::{Profile, Sample, StackId, metric::column};

use super::frames::natural;

/// Events a file may have. Beyond, several blocks are written as one of their common size: bytes
/// stay right, counts of blocks do not.
const MOST_EVENTS: f64 = 20e6;

/// Blocks of one size from one stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Account {
    pub(super) stack: StackId,
    pub(super) size: u64,
    pub(super) allocated: u64,
    pub(super) live: u64,
    pub(super) live_at_peak: u64,
}

/// The accounts of all samples.
pub(super) fn accounts(profile: &Profile) -> Vec<Account> {
    let blocks =
        |sample: &Sample| natural(sample.values.alloc_objects.max(sample.values.inuse_objects)) as f64;
    // Each block is at most two events.
    let events = profile.samples.iter().map(blocks).sum::<f64>() * 2.0;
    let blocks_per_event = natural((events / MOST_EVENTS).ceil()).max(1);
    let columns = [column::PEAK_OBJECTS, column::PEAK_SPACE].map(|name| profile.column(name));
    let mut accounts = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let [peak_blocks, peak_bytes] =
            columns.map(|column| column.map(|column| natural(column.values[row])));
        let made = match sample.block_bytes() {
            Some(size) => vec![one_size(sample, size, peak_bytes)],
            None => mixed_sizes(sample, peak_blocks.zip(peak_bytes)),
        };
        for account in made {
            accounts.extend(account.coarsened(blocks_per_event).filter(|part| part.allocated > 0));
        }
    }
    accounts
}

fn one_size(sample: &Sample, size: u64, peak_bytes: Option<u64>) -> Account {
    let live = natural(sample.values.inuse_objects);
    let allocated = natural(sample.values.alloc_objects).max(live);
    let at_peak = peak_bytes.and_then(|bytes| bytes.checked_div(size));
    let live_at_peak = at_peak.unwrap_or(live).min(allocated);
    Account { stack: sample.stack, size, allocated, live, live_at_peak }
}

/// Blocks and their bytes.
type Amount = (u64, u64);

/// Blocks of unknown sizes in groups that are live at the end, at the peak, at both or at neither.
fn mixed_sizes(sample: &Sample, at_peak: Option<Amount>) -> Vec<Account> {
    let values = &sample.values;
    let live = (natural(values.inuse_objects), natural(values.inuse_bytes));
    let all = (natural(values.alloc_objects).max(live.0), natural(values.alloc_bytes).max(live.1));
    let unchanged = Groups { both: live, freed: (all.0 - live.0, all.1 - live.1), ..Groups::default() };
    let groups = at_peak.and_then(|peak| Groups::new(all, live, peak)).unwrap_or(unchanged);
    [
        (groups.both, true, true),
        (groups.only_peak, true, false),
        (groups.only_end, false, true),
        (groups.freed, false, false),
    ]
    .into_iter()
    .flat_map(|(amount, at_peak, at_end)| even(sample.stack, amount, at_peak, at_end))
    .collect()
}

/// Blocks by when they are live.
#[derive(Default)]
struct Groups {
    both: Amount,
    only_peak: Amount,
    only_end: Amount,
    freed: Amount,
}

impl Groups {
    /// Assumes that the blocks live at the peak and at the end are the same as far as their numbers
    /// allow; `None` when they contradict each other.
    fn new(all: Amount, live: Amount, peak: Amount) -> Option<Self> {
        let (both, only_peak, only_end) = match (less(peak, live), less(live, peak)) {
            (Some(more), _) => (live, more, (0, 0)),
            (None, Some(more)) => (peak, (0, 0), more),
            (None, None) => ((0, 0), peak, live),
        };
        let freed = [both, only_peak, only_end].into_iter().try_fold(all, less)?;
        Some(Self { both, only_peak, only_end, freed })
    }
}

/// The difference; `None` when bytes remain without blocks.
fn less(one: Amount, other: Amount) -> Option<Amount> {
    let left = (one.0.checked_sub(other.0)?, one.1.checked_sub(other.1)?);
    (left.0 > 0 || left.1 == 0).then_some(left)
}

/// Sizes as even as integers allow, so that the bytes are right.
fn even(stack: StackId, (blocks, bytes): Amount, at_peak: bool, at_end: bool) -> Vec<Account> {
    if blocks == 0 && bytes == 0 {
        return Vec::new();
    }
    let blocks = blocks.max(1);
    let (size, larger) = (bytes / blocks, bytes % blocks);
    let account = |(count, size): (u64, u64)| Account {
        stack,
        size,
        allocated: count,
        live: if at_end { count } else { 0 },
        live_at_peak: if at_peak { count } else { 0 },
    };
    let parts = [(blocks - larger, size), (larger, size.saturating_add(1))];
    parts.into_iter().filter(|(count, _)| *count > 0).map(account).collect()
}

impl Account {
    /// The account with `blocks` blocks combined into one of their total size, and the rests of
    /// live and of freed blocks as one block each, so that the number of events has a bound.
    fn coarsened(self, blocks: u64) -> impl Iterator<Item = Account> {
        let freed = self.allocated - self.live;
        let (live, allocated) = (self.live / blocks, self.live / blocks + freed / blocks);
        let most = Account {
            size: self.size.saturating_mul(blocks),
            allocated,
            live,
            live_at_peak: (self.live_at_peak / blocks).min(allocated),
            ..self
        };
        let rest = |count: u64, live: u64, is_at_peak: bool| Account {
            size: self.size.saturating_mul(count),
            allocated: u64::from(count > 0),
            live,
            live_at_peak: u64::from(is_at_peak && count > 0),
            ..self
        };
        let (live_rest, freed_rest) = (self.live % blocks, freed % blocks);
        let at_peak_rest = self.live_at_peak % blocks;
        [
            most,
            rest(live_rest, u64::from(live_rest > 0), at_peak_rest > 0),
            rest(freed_rest, 0, at_peak_rest > live_rest),
        ]
        .into_iter()
    }
}
