//! heaptrack's interpreted text, version 3, for heaptrack_gui and heaptrack_print.
//!
//! The format is a stream of single events, so the events are made up from the sums: freed blocks
//! come and go first, then what was live at the peak (where known), then what is live at the end.
//! heaptrack thus reports the right totals, leaks and peak; the time axis means nothing.

use heapwise_profile::printable::printable;
use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{LocationId, Profile, Sample, StackId, annotation, metric::column};

use super::frames::{FrameList, coverage_comment, natural};

/// Events a file may have. Beyond, several blocks are written as one of their common size: bytes
/// stay right, counts of blocks do not.
const MOST_EVENTS: f64 = 20e6;

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let command =
        if profile.meta.args.is_empty() { profile.meta.program.clone() } else { profile.meta.args.join(" ") };
    writeln!(out, "v 10400 3\nX {}\nI 1000 0", printable(&command))?;
    writeln!(out, "# {}", coverage_comment(profile))?;
    let mut tables =
        Tables { out, strings: HashMap::new(), pointers: HashMap::new(), traces: HashMap::new() };
    let accounts = accounts(profile);
    let frames = FrameList::new(profile);
    for account in &accounts {
        let trace = tables.trace(profile, &frames, account.stack)?;
        writeln!(tables.out, "a {:x} {trace:x}", account.size)?;
    }
    write_events(&accounts, out)?;
    let duration_ms = profile.meta.duration_ns.unwrap_or(0) / 1_000_000;
    writeln!(out, "c {duration_ms:x}")
}

/// Blocks of one size from one stack.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Account {
    stack: StackId,
    size: u64,
    allocated: u64,
    live: u64,
    live_at_peak: u64,
}

fn accounts(profile: &Profile) -> Vec<Account> {
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

/// See the head of the file for the order.
fn write_events(accounts: &[Account], out: &mut dyn Write) -> io::Result<()> {
    write_churn(accounts, out)?;
    let mut repeat = |sign: char, account: usize, times: u64| -> io::Result<()> {
        (0..times).try_for_each(|_| writeln!(out, "{sign} {account:x}"))
    };
    for (number, account) in accounts.iter().enumerate() {
        repeat('+', number, account.live_at_peak)?;
    }
    for (number, account) in accounts.iter().enumerate() {
        repeat('-', number, account.live_at_peak.saturating_sub(account.live))?;
    }
    for (number, account) in accounts.iter().enumerate() {
        repeat('+', number, account.live.saturating_sub(account.live_at_peak))?;
    }
    Ok(())
}

/// Blocks that were freed and not live at the peak. A free right behind its own allocation would
/// count as temporary, so each is freed behind the next block, of another account where there is
/// one.
fn write_churn(accounts: &[Account], out: &mut dyn Write) -> io::Result<()> {
    let mut left: Vec<(usize, u64)> = accounts
        .iter()
        .enumerate()
        .map(|(number, account)| (number, account.allocated - account.live.max(account.live_at_peak)))
        .collect();
    let mut before: Option<usize> = None;
    loop {
        left.retain(|(_, times)| *times > 0);
        if left.is_empty() {
            break;
        }
        for (number, times) in &mut left {
            writeln!(out, "+ {number:x}")?;
            if let Some(before) = before.replace(*number) {
                writeln!(out, "- {before:x}")?;
            }
            *times -= 1;
        }
    }
    before.map_or(Ok(()), |last| writeln!(out, "- {last:x}"))
}

/// Items that are written once and referred to by number, all from 1.
struct Tables<'a> {
    out: &'a mut dyn Write,
    strings: HashMap<String, usize>,
    pointers: HashMap<LocationId, usize>,
    traces: HashMap<StackId, usize>,
}

impl Tables<'_> {
    /// The number of a stack. Its frames are written first, callers before callees.
    fn trace(&mut self, profile: &Profile, frames: &FrameList<'_>, stack: StackId) -> io::Result<usize> {
        let unknown: Vec<StackId> =
            profile.stacks.leaf_to_root(stack).take_while(|node| !self.traces.contains_key(node)).collect();
        for node in unknown.into_iter().rev() {
            let parent = profile.stacks.parent(node).map_or(0, |parent| self.traces[&parent]);
            let pointer = self.pointer(profile, frames, profile.stacks.location(node))?;
            writeln!(self.out, "t {pointer:x} {parent:x}")?;
            self.traces.insert(node, self.traces.len() + 1);
        }
        Ok(self.traces[&stack])
    }

    fn pointer(&mut self, profile: &Profile, frames: &FrameList<'_>, id: LocationId) -> io::Result<usize> {
        if let Some(number) = self.pointers.get(&id) {
            return Ok(*number);
        }
        let location = &profile.locations[id.index()];
        // heaptrack does not accept address 0 as a frame.
        let address = match location.lookup_address() {
            0 => annotation::NAMED_FRAMES + (id.index() as u64 + 1) * annotation::NAMED_FRAME_STRIDE,
            address => address,
        };
        let at = frames.at(id);
        let module = self.string(at.first().map_or("", |frame| frame.module))?;
        let mut fields = String::new();
        if !location.lines.is_empty() {
            for frame in at {
                let (name, file) = (self.string(&frame.name)?, self.string(frame.file)?);
                fields += &format!(" {name:x} {file:x} {:x}", frame.line);
            }
        }
        writeln!(self.out, "i {address:x} {module:x}{fields}")?;
        self.pointers.insert(id, self.pointers.len() + 1);
        Ok(self.pointers.len())
    }

    /// 0 is the empty string.
    fn string(&mut self, text: &str) -> io::Result<usize> {
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(number) = self.strings.get(text) {
            return Ok(*number);
        }
        let line = printable(text);
        writeln!(self.out, "s {:x} {line}", line.len())?;
        self.strings.insert(text.to_owned(), self.strings.len() + 1);
        Ok(self.strings.len())
    }
}
