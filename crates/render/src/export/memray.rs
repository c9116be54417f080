//! memray's capture file, header version 13 (memray 1.20), for `memray flamegraph`, `table`,
//! `tree`, `summary` and `stats`.
//!
//! The format is a stream of single events, which are made up from the sums as for heaptrack: freed
//! blocks come and go first, then the blocks that are live at the peak, then those at the end.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Write},
};

use heapwise_profile::{Profile, StackId};

use super::accounts::{Account, accounts};
use super::frames::{FrameList, NamedFrame};

const MAGIC: &[u8; 7] = b"memray\0";
const HEADER_VERSION: u32 = 13;
/// The version of Python decides how memray reads line tables; those of 3.10 are pairs of bytes.
const PYTHON_VERSION: u32 = 0x030a_0000;
/// All instructions have the first line of their code object.
const LINE_TABLE: [u8; 2] = [0, 0];
const PYTHON_ALLOCATOR_OTHER: u8 = 4;
/// All blocks are of one thread.
const THREAD: u64 = 1;

/// First bytes of records.
mod record {
    pub(super) const TRAILER: u8 = 1;
    pub(super) const CONTEXT_SWITCH: u8 = 12;
    pub(super) const CODE_OBJECT: u8 = 14;
    /// The number of frames minus 1 is in the low four bits.
    pub(super) const FRAME_POP: u8 = 16;
    pub(super) const FRAME_PUSH: u8 = 64;
    /// An address follows; the allocator is `free` or `malloc`.
    pub(super) const FREE: u8 = 0x80 | 15 << 3 | 5;
    pub(super) const MALLOC: u8 = 0x80 | 15 << 3 | 6;
}

/// Freed blocks that are live at once at most: a block that is freed after no or one other
/// allocation is temporary for memray.
const CHURN_BLOCKS: usize = 4;

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let accounts = accounts(profile);
    let list = FrameList::new(profile);
    header(profile, &accounts, out)?;
    out.write_all(&[record::CONTEXT_SWITCH])?;
    out.write_all(&THREAD.to_le_bytes())?;
    let mut file = File {
        out,
        list: &list,
        codes: HashMap::new(),
        pushed: Vec::new(),
        stack: None,
        last_address: 0,
        last_line: 0,
    };
    events(&accounts, &mut file)?;
    out.write_all(&[record::TRAILER])
}

fn header(profile: &Profile, accounts: &[Account], out: &mut dyn Write) -> io::Result<()> {
    let events = |account: &Account| account.allocated.saturating_mul(2) - account.live;
    let count = accounts.iter().map(events).fold(0, u64::saturating_add);
    let end_ms = profile.meta.time_unix_ns.unwrap_or(0) / 1_000_000;
    let start_ms = end_ms.saturating_sub(profile.meta.duration_ns.unwrap_or(0) / 1_000_000);
    let meta = &profile.meta;
    let command = if meta.args.is_empty() { meta.program.clone() } else { meta.args.join(" ") };
    out.write_all(MAGIC)?;
    out.write_all(&HEADER_VERSION.to_le_bytes())?;
    out.write_all(&PYTHON_VERSION.to_le_bytes())?;
    // No native traces, every allocation.
    out.write_all(&[0, 0])?;
    // The number of frames is only informative.
    for number in [count, 0, start_ms, end_ms] {
        out.write_all(&number.to_le_bytes())?;
    }
    text(&command, out)?;
    out.write_all(&meta.pid.unwrap_or(0).to_le_bytes())?;
    // The main thread, and no frames of it to skip.
    out.write_all(&THREAD.to_le_bytes())?;
    out.write_all(&0_u64.to_le_bytes())?;
    // The interpreter's allocator is traced; lifetimes of objects are not.
    out.write_all(&[PYTHON_ALLOCATOR_OTHER, 1, 0])?;
    // Directory of the standard library, list of site-packages, list of sys.path: all unknown.
    out.write_all(&[0, 0, 0])
}

/// See the head of the file for the order. The blocks of an account are freed in the order in which
/// they were allocated.
fn events(accounts: &[Account], file: &mut File<'_>) -> io::Result<()> {
    let mut first = 1;
    let mut all = Vec::with_capacity(accounts.len());
    for account in accounts {
        all.push(Blocks { account, next: first, oldest: first });
        first += account.allocated;
    }
    churn(&mut all, file)?;
    for blocks in &mut all {
        blocks.allocate(file, blocks.account.live_at_peak)?;
    }
    for blocks in &mut all {
        blocks.free(file, blocks.account.live_at_peak.saturating_sub(blocks.account.live))?;
    }
    for blocks in &mut all {
        blocks.allocate(file, blocks.account.live.saturating_sub(blocks.account.live_at_peak))?;
    }
    Ok(())
}

/// Blocks that were freed and not live at the peak; they exceed the peak only if one of them does.
fn churn(all: &mut [Blocks<'_>], file: &mut File<'_>) -> io::Result<()> {
    let bytes = |blocks: &Blocks<'_>| blocks.account.live_at_peak.saturating_mul(blocks.account.size);
    let peak = all.iter().map(bytes).fold(0, u64::saturating_add);
    let mut live = VecDeque::new();
    let mut live_bytes = 0_u64;
    for number in 0..all.len() {
        let Account { live: at_end, live_at_peak, allocated, size, .. } = *all[number].account;
        for _ in 0..allocated - at_end.max(live_at_peak) {
            while live.len() == CHURN_BLOCKS || live_bytes.saturating_add(size) > peak {
                let Some(oldest) = live.pop_front() else { break };
                live_bytes = live_bytes.saturating_sub(free(all, oldest, file)?);
            }
            all[number].allocate(file, 1)?;
            live.push_back(number);
            live_bytes = live_bytes.saturating_add(size);
        }
    }
    live.into_iter().try_for_each(|number| free(all, number, file).map(drop))
}

/// Frees the oldest block of an account; its size.
fn free(all: &mut [Blocks<'_>], number: usize, file: &mut File<'_>) -> io::Result<u64> {
    all[number].free(file, 1)?;
    Ok(all[number].account.size)
}

/// Numbers of the blocks of an account; a block's number is its address in units of eight bytes.
struct Blocks<'a> {
    account: &'a Account,
    next: u64,
    oldest: u64,
}

impl Blocks<'_> {
    fn allocate(&mut self, file: &mut File<'_>, times: u64) -> io::Result<()> {
        for _ in 0..times {
            file.enter(self.account.stack)?;
            file.address(record::MALLOC, self.next)?;
            varint(self.account.size, file.out)?;
            self.next += 1;
        }
        Ok(())
    }

    fn free(&mut self, file: &mut File<'_>, times: u64) -> io::Result<()> {
        for _ in 0..times {
            file.address(record::FREE, self.oldest)?;
            self.oldest += 1;
        }
        Ok(())
    }
}

/// The state that a reader has at this point of the file.
struct File<'a> {
    out: &'a mut dyn Write,
    list: &'a FrameList<'a>,
    codes: HashMap<&'a NamedFrame<'a>, u32>,
    /// The thread's frames, the root first.
    pushed: Vec<u32>,
    stack: Option<StackId>,
    last_address: u64,
    last_line: u32,
}

impl<'a> File<'a> {
    /// Makes `stack` the thread's stack: pops the frames that differ, pushes those that are new.
    fn enter(&mut self, stack: StackId) -> io::Result<()> {
        if self.stack.replace(stack) == Some(stack) {
            return Ok(());
        }
        let mut codes = Vec::new();
        for frame in self.list.root_to_leaf(stack) {
            codes.push(self.code(frame)?);
        }
        let common = codes.iter().zip(&self.pushed).take_while(|(new, old)| new == old).count();
        let mut left = self.pushed.len() - common;
        while left > 0 {
            let popped = left.min(16);
            self.out.write_all(&[record::FRAME_POP | (popped - 1) as u8])?;
            left -= popped;
        }
        for code in &codes[common..] {
            self.out.write_all(&[record::FRAME_PUSH])?;
            varint(u64::from(*code), self.out)?;
            // The first instruction.
            varint(0, self.out)?;
        }
        self.pushed = codes;
        Ok(())
    }

    /// The number of the code object for a frame. A code object has one line.
    fn code(&mut self, frame: &'a NamedFrame<'a>) -> io::Result<u32> {
        if let Some(number) = self.codes.get(frame) {
            return Ok(*number);
        }
        let number = u32::try_from(self.codes.len()).unwrap_or(u32::MAX);
        self.out.write_all(&[record::CODE_OBJECT])?;
        varint(u64::from(number), self.out)?;
        text(&frame.name, self.out)?;
        text(if frame.file.is_empty() { frame.module } else { frame.file }, self.out)?;
        delta(u64::from(frame.line), u64::from(self.last_line), self.out)?;
        self.last_line = frame.line;
        varint(LINE_TABLE.len() as u64, self.out)?;
        self.out.write_all(&LINE_TABLE)?;
        self.codes.insert(frame, number);
        Ok(number)
    }

    fn address(&mut self, kind: u8, address: u64) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        delta(address, self.last_address, self.out)?;
        self.last_address = address;
        Ok(())
    }
}

fn text(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let end = text.find('\0').unwrap_or(text.len());
    out.write_all(&text.as_bytes()[..end])?;
    out.write_all(&[0])
}

/// A difference in zigzag form.
fn delta(new: u64, old: u64, out: &mut dyn Write) -> io::Result<()> {
    let difference = new.wrapping_sub(old) as i64;
    varint(((difference << 1) ^ (difference >> 63)) as u64, out)
}

fn varint(mut rest: u64, out: &mut dyn Write) -> io::Result<()> {
    while rest > 0x7f {
        out.write_all(&[rest as u8 | 0x80])?;
        rest >>= 7;
    }
    out.write_all(&[rest as u8])
}
