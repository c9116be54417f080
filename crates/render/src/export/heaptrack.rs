//! heaptrack's interpreted text, version 3, for heaptrack_gui and heaptrack_print.
//!
//! The format is a stream of single events, so the events are made up from the sums: freed blocks
//! come and go first, then what was live at the peak (where known), then what is live at the end.
//! heaptrack thus reports the right totals, leaks and peak; the time axis means nothing.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{LocationId, Profile, Sample, StackId, annotation};

use super::frames::{FrameList, natural};

/// Events a file may have. Beyond, several blocks are written as one of their common size: bytes
/// stay right, counts of blocks do not.
const MOST_EVENTS: f64 = 20e6;

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let command =
        if profile.meta.args.is_empty() { profile.meta.program.clone() } else { profile.meta.args.join(" ") };
    writeln!(out, "v 10400 3\nX {}\nI 1000 0", command.replace(['\n', '\r'], " "))?;
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
    let peak = profile.extra.iter().find(|column| column.name == "at_peak_space");
    let mut accounts = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let mut made = Vec::new();
        match sample.block_bytes {
            Some(size) => made.push(one_size(sample, size, peak.map(|column| column.values[row]))),
            None => mixed_sizes(sample, &mut made),
        }
        for account in made {
            accounts.extend(account.coarsened(blocks_per_event).filter(|part| part.allocated > 0));
        }
    }
    accounts
}

fn one_size(sample: &Sample, size: u64, peak_bytes: Option<f64>) -> Account {
    let live = natural(sample.values.inuse_objects);
    let allocated = natural(sample.values.alloc_objects).max(live);
    let at_peak = peak_bytes.filter(|_| size > 0).map(|bytes| natural(bytes / size as f64));
    let live_at_peak = at_peak.unwrap_or(live).min(allocated);
    Account { stack: sample.stack, size, allocated, live, live_at_peak }
}

/// Live and freed blocks of unknown sizes: as even as integers allow, so that the bytes are right.
fn mixed_sizes(sample: &Sample, accounts: &mut Vec<Account>) {
    let values = &sample.values;
    let (live, live_bytes) = (natural(values.inuse_objects), natural(values.inuse_bytes));
    let freed = natural(values.alloc_objects - values.inuse_objects);
    let freed_bytes = natural(values.alloc_bytes - values.inuse_bytes);
    for (blocks, bytes, is_live) in [(live, live_bytes, true), (freed, freed_bytes, false)] {
        if blocks == 0 && bytes == 0 {
            continue;
        }
        let blocks = blocks.max(1);
        let (size, larger) = (bytes / blocks, bytes % blocks);
        for (count, size) in [(blocks - larger, size), (larger, size.saturating_add(1))] {
            if count > 0 {
                let live = if is_live { count } else { 0 };
                let stack = sample.stack;
                accounts.push(Account { stack, size, allocated: count, live, live_at_peak: live });
            }
        }
    }
}

impl Account {
    /// The account with `blocks` blocks as one of their common size, and the account of what is left.
    fn coarsened(self, blocks: u64) -> impl Iterator<Item = Account> {
        let freed = self.allocated - self.live;
        let part = |count: fn(u64, u64) -> u64, size: u64| {
            let live = count(self.live, blocks);
            let allocated = live + count(freed, blocks);
            let live_at_peak = count(self.live_at_peak, blocks).min(allocated);
            Account { stack: self.stack, size, allocated, live, live_at_peak }
        };
        [part(|all, of| all / of, self.size.saturating_mul(blocks)), part(|all, of| all % of, self.size)]
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
/// count as temporary, so each is freed behind the next block, of another account where there is one.
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

/// What is told once and referred to by number, all from 1.
struct Tables<'a> {
    out: &'a mut dyn Write,
    strings: HashMap<String, usize>,
    pointers: HashMap<LocationId, usize>,
    traces: HashMap<StackId, usize>,
}

impl Tables<'_> {
    /// The number of a stack, whose frames are told first, callers before callees.
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
        // Address 0 is no frame to heaptrack.
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
        let line = text.replace(['\n', '\r'], " ");
        writeln!(self.out, "s {:x} {line}", line.len())?;
        self.strings.insert(text.to_owned(), self.strings.len() + 1);
        Ok(self.strings.len())
    }
}
