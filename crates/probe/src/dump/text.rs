//! The text of a dump: jemalloc's `heap_v2` with the lines of ours that docs/FORMATS.md describes.
//!
//! A record per bucket, that is per stack and block size: jeprof's formula then turns the counts of samples
//! into exactly our estimates. Where several sampling distances were in force no integers would do; then
//! the header says 0, jeprof scales nothing, and the numbers are the estimates, rounded.
#![allow(unsafe_code)]

mod output;
mod tail;

use core::sync::atomic::Ordering;

use heapwise_format::segment::{Bucket, Counter, NodePlace, SectionKind, Tally};

use self::output::Output;
use super::noise::Noise;
use crate::conf::options;
use crate::sys::{self, File};
use crate::{buckets, control, rates, sampler, segment, stack_tree};

/// What a dump holds, estimated.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) live_bytes: u64,
    pub(crate) live_objects: u64,
    /// Stacks that hold something.
    pub(crate) contexts: u64,
    /// Of the runtime, and in none of the above.
    pub(crate) runtime_bytes: u64,
    pub(crate) runtime_objects: u64,
}

impl Summary {
    fn add(&mut self, (objects, bytes): (u64, u64), of_runtime: bool, is_new: impl FnOnce() -> bool) {
        let (all_objects, all_bytes) = if of_runtime {
            (&mut self.runtime_objects, &mut self.runtime_bytes)
        } else {
            self.contexts += u64::from(is_new());
            (&mut self.live_objects, &mut self.live_bytes)
        };
        *all_objects = all_objects.saturating_add(objects);
        *all_bytes = all_bytes.saturating_add(bytes);
    }
}

/// Blocks and bytes, live and ever.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    live: (u64, u64),
    ever: (u64, u64),
}

impl Counts {
    fn is_empty(&self) -> bool {
        self.live.0 == 0 && self.ever.0 == 0
    }

    fn add(&mut self, other: &Counts) {
        for (sum, one) in [(&mut self.live, other.live), (&mut self.ever, other.ever)] {
            *sum = (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        }
    }
}

/// Writes everything; what it was, and whether all of it reached the file.
pub(super) fn write(file: &File, buffer: &mut [u8]) -> (Summary, bool) {
    let mut out = Output::new(file, buffer);
    let rate = common_rate();
    out.text(b"heap_v2/").decimal(rate.unwrap_or(0)).text(b"\n");
    let mut total = Counts::default();
    each_bucket(|bucket, counts| total.add(&printed(bucket, counts, rate)));
    write_counts(&mut out, &total);
    let mut summary = Summary::default();
    let mut seen = Seen::new();
    let noise = Noise::new();
    each_bucket(|bucket, counts| {
        let printed = printed(bucket, counts, rate);
        if printed.is_empty() {
            return;
        }
        write_stack(&mut out, bucket.node);
        write_counts(&mut out, &printed);
        if counts.live.0 != 0 {
            let live = estimated(bucket, counts).live;
            summary.add(live, noise.made(bucket.node), || seen.insert(bucket.node));
        }
    });
    tail::write(&mut out, rate);
    (summary, out.finish())
}

/// Calls `with` for each bucket of this period and the sums of its tallies.
fn each_bucket(mut with: impl FnMut(&Bucket, &Counts)) {
    let used = |counter| segment::counter(counter).load(Ordering::Acquire);
    let capacity = segment::section(SectionKind::Buckets).capacity;
    let slabs = used(Counter::Slabs).clamp(1, segment::slabs().max(1));
    let accumulates = options().accum;
    for number in 1..used(Counter::Buckets).min(capacity) {
        let Some(bucket) = buckets::record(number as u32) else { continue };
        if bucket.period != control::period() {
            continue;
        }
        let (mut allocs, mut frees) = (0_u64, 0_u64);
        for slab in 0..slabs {
            if let Some(tally) = segment::read::<Tally>(SectionKind::Tallies, slab * capacity + number) {
                allocs = allocs.wrapping_add(tally.allocs);
                frees = frees.wrapping_add(tally.frees);
            }
        }
        // Read while threads count: a free may be seen before its allocation.
        let live = (allocs.wrapping_sub(frees) as i64).max(0) as u64;
        let ever = if accumulates { allocs.max(live) } else { 0 };
        let bytes = |count: u64| count.saturating_mul(bucket.size);
        with(&bucket, &Counts { live: (live, bytes(live)), ever: (ever, bytes(ever)) });
    }
}

/// The sampling distance of all that is counted, 0 for exact; `None` when there are several.
fn common_rate() -> Option<u64> {
    let mut first = None;
    let mut mixed = false;
    each_bucket(|bucket, counts| {
        if !counts.is_empty() {
            mixed |= *first.get_or_insert(bucket.rate) != bucket.rate;
        }
    });
    let rate = first.map_or_else(control::sampling_distance, rates::of);
    (!mixed).then_some(rate)
}

/// What stands in the file. Sampled blocks of no bytes have no scaled form: jeprof would divide by zero.
fn printed(bucket: &Bucket, counts: &Counts, rate: Option<u64>) -> Counts {
    match rate {
        None => estimated(bucket, counts),
        Some(1..) if bucket.size == 0 => Counts::default(),
        Some(_) => *counts,
    }
}

/// What counts of samples stand for.
fn estimated(bucket: &Bucket, counts: &Counts) -> Counts {
    if bucket.rate == 0 || bucket.size == 0 {
        return *counts;
    }
    let weight = sampler::weighted_bytes(bucket.size, rates::of(bucket.rate));
    let of = |(count, _): (u64, u64)| {
        let bytes = count.saturating_mul(weight);
        ((bytes as f64 / bucket.size as f64 + 0.5) as u64, bytes)
    };
    Counts { live: of(counts.live), ever: of(counts.ever) }
}

fn write_counts(out: &mut Output<'_>, counts: &Counts) {
    let Counts { live, ever } = counts;
    out.text(b"  t*: ").decimal(live.0).text(b": ").decimal(live.1);
    out.text(b" [").decimal(ever.0).text(b": ").decimal(ever.1).text(b"]\n");
}

/// The addresses of a stack, leaf first. jeprof looks callers up one byte lower, but takes the leaf as it is: so the
/// leaf is written inside its call, and the others as what looks right one byte lower.
fn write_stack(out: &mut Output<'_>, leaf: u32) {
    out.text(b"@");
    let mut id = leaf;
    let mut lower = 1;
    while let Some(node) = stack_tree::node(id) {
        let inside = match NodePlace::decode(node.place) {
            NodePlace::Return(address) => Some(address.wrapping_sub(1)),
            NodePlace::Interrupted(address) => Some(address),
            // A name without an address: this text has no place for it.
            NodePlace::Declared { .. } => None,
        };
        if let Some(inside) = inside {
            out.text(b" 0x").hex(inside.wrapping_add(1 - lower));
            lower = 0;
        }
        // A parent is older than its child; anything else was scribbled over.
        if node.parent >= id {
            break;
        }
        id = node.parent;
    }
    out.text(b"\n");
}

/// A set of nodes, one bit each.
struct Seen {
    bits: *mut u8,
    bytes: usize,
}

impl Seen {
    fn new() -> Self {
        let bytes = (segment::section(SectionKind::Nodes).capacity / 8 + 1) as usize;
        match sys::map_private(bytes) {
            Ok(bits) => Self { bits, bytes },
            Err(_) => Self { bits: core::ptr::null_mut(), bytes: 0 },
        }
    }

    /// Whether the node is new; everything is when there was no memory.
    fn insert(&mut self, node: u32) -> bool {
        let (at, mask) = ((node / 8) as usize, 1_u8 << (node % 8));
        if at >= self.bytes {
            return true;
        }
        // SAFETY: inside the mapping, which is ours alone.
        let byte = unsafe { &mut *self.bits.add(at) };
        let new = *byte & mask == 0;
        *byte |= mask;
        new
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        if self.bytes != 0 {
            // SAFETY: mapped by `new`; nothing refers to it any more.
            unsafe { sys::unmap(self.bits, self.bytes) };
        }
    }
}
