//! A recording larger than memory is read in bounded memory: four gigabytes that exist only as a
//! rule.

use heapwise_format::event::{Block, Event, Freeing};
use heapwise_format::paths::ProcessId;
use heapwise_format::recording::{Codec, FrameHeader, FrameKind, PREAMBLE_BYTES, preamble};
use heapwise_format::segment::{Architecture, Header, Layout, PAGE_BYTES, Tally, Tier};
use heapwise_profile::recording::{
    EventAccounting, PointInTime, RawFrame, Recording, RecordingSource, Statistics, Tables, Timeline,
};

/// A file of an opening followed by `times` times the same frames.
struct Endless {
    opening: Vec<u8>,
    repeated: Vec<u8>,
    times: u64,
}

impl RecordingSource for Endless {
    fn len(&self) -> u64 {
        self.opening.len() as u64 + self.repeated.len() as u64 * self.times
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = self.opening.len() as u64;
        let mut done = 0;
        while done < buffer.len() && offset + (done as u64) < self.len() {
            let at = offset + done as u64;
            let rest = match at.checked_sub(start) {
                None => &self.opening[at as usize..],
                Some(inside) => &self.repeated[(inside % self.repeated.len() as u64) as usize..],
            };
            let len = rest.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&rest[..len]);
            done += len;
        }
        done
    }

    fn unpack(&self, codec: Codec, stored: Vec<u8>, _: usize) -> Option<Vec<u8>> {
        (codec == Codec::None).then_some(stored)
    }
}

fn put(bytes: &mut Vec<u8>, frame: &RawFrame) {
    bytes.extend(frame.header.seal(Codec::None, frame.payload.len(), &frame.payload).encode());
    bytes.extend(&frame.payload);
}

/// Highest resident memory of this process so far, in bytes.
fn highest_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// The record of a tally: its number is its stack's, too.
fn record(tally: u32) -> Option<Tally> {
    Some(Tally { node: tally, ..Tally::default() })
}

/// Frames of about a megabyte that leave the heap as they found it, and the sites they use.
fn balanced_frames() -> (Vec<RawFrame>, Vec<RawFrame>) {
    const LIVE: u64 = 1000;
    let mut account = EventAccounting::default();
    let block = |step: u64| Block { tally: 1 + (step * 7919 % 5000) as u32, size: step, by_realloc: false };
    let mut add = |ms, event| assert!(account.add(0, ms, &event, false, &mut record));
    for step in 0..200_000 + LIVE {
        let ms = step / 1000;
        if let Some(born) = step.checked_sub(LIVE) {
            let age_ms = ms - born / 1000;
            add(ms, Event::Free { block: block(born), age_ms, how: Freeing::Plain });
        }
        if step < 200_000 {
            add(ms, Event::Alloc(block(step)));
        }
    }
    assert_eq!(account.totals().unknown_frees, 0);
    let frames = account.take_frames();
    frames.into_iter().partition(|frame| frame.header.kind == FrameKind::Sites)
}

#[test]
#[ignore = "reads 4 GB: run it in release (cargo test --release -p heapwise-profile --test bounded_memory -- --ignored)"]
fn four_gigabytes_in_half_of_one() {
    let mut opening = preamble().to_vec();
    assert_eq!(opening.len(), PREAMBLE_BYTES);
    let mut page = [0; PAGE_BYTES];
    let process = ProcessId { pid: 1, starttime: 1 };
    Header::new(process, Architecture::X86_64, Layout::new(Tier::Tiny)).encode(&mut page);
    put(&mut opening, &RawFrame { header: FrameHeader::new(FrameKind::Process), payload: page.to_vec() });
    let (sites, frames) = balanced_frames();
    sites.iter().for_each(|frame| put(&mut opening, frame));
    let mut repeated = Vec::new();
    frames.iter().for_each(|frame| put(&mut repeated, frame));
    let times = (4 << 30) / repeated.len() as u64 + 1;
    let recording = Recording::open(vec![Endless { opening, repeated, times }]).unwrap();
    let tables = Tables::read(&recording).unwrap();
    let sums = Statistics::read(&recording, &tables, 4).unwrap();
    assert_eq!(sums.sites.iter().map(|site| site.count.allocs).sum::<u64>(), 200_000 * times);
    assert!(!Timeline::read(&recording, 100).unwrap().steps.is_empty());
    let (counts, _) = recording.counts_at(&tables, PointInTime::End, 2).unwrap();
    assert_eq!(counts.live_bytes(), 0);
    let highest = highest_resident_bytes();
    assert!(highest > 0 && highest <= 512 << 20, "{highest} bytes resident");
}
