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

use heapwise_profile::{LocationId, Profile, StackId, annotation};

use super::accounts::{Account, accounts};
use super::frames::{FrameList, coverage_comment};

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
