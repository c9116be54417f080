//! The text of a dump: jemalloc's `heap_v2` with the lines of ours that docs/FORMATS.md describes.
//!
//! A record per bucket, that is per stack and block size: jeprof's formula then turns the counts of samples
//! into exactly our estimates. Where several sampling distances were in force no integers would do; then
//! the header says 0, jeprof scales nothing, and the numbers are the estimates, rounded.
#![allow(unsafe_code)]

mod output;
mod tail;

use heapwise_format::bytes::text;
use heapwise_format::segment::{Bucket, NodePlace, SectionKind};

use self::output::Output;
use super::counts::{Counts, each_counted};
use super::runtime_allocs::RuntimeAllocs;
use super::suppressions::Suppressions;
use crate::jemalloc::options::options;
use crate::sys::{self, File};
use crate::{control, rates, sampler, segment, stack_tree, thread};

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
    /// Known, and in none of the above.
    pub(crate) suppressed_bytes: u64,
    pub(crate) suppressed_objects: u64,
}

/// Whose a block is.
enum Owner {
    Program,
    Runtime,
    Suppressed,
}

impl Summary {
    fn add(&mut self, (objects, bytes): (u64, u64), owner: &Owner, is_new: impl FnOnce() -> bool) {
        let (all_objects, all_bytes) = match owner {
            Owner::Runtime => (&mut self.runtime_objects, &mut self.runtime_bytes),
            Owner::Suppressed => (&mut self.suppressed_objects, &mut self.suppressed_bytes),
            Owner::Program => {
                self.contexts += u64::from(is_new());
                (&mut self.live_objects, &mut self.live_bytes)
            }
        };
        *all_objects = all_objects.saturating_add(objects);
        *all_bytes = all_bytes.saturating_add(bytes);
    }
}

/// Writes everything; what it was, and whether all of it reached the file.
pub(super) fn write(
    file: &File,
    buffer: &mut [u8],
    threads: &mut [Counts],
    known: Option<&Suppressions>,
) -> (Summary, bool) {
    let mut out = Output::new(file, buffer);
    let rate = common_rate();
    out.text(b"heap_v2/").decimal(rate.unwrap_or(0)).text(b"\n");
    write_totals(&mut out, threads, rate);
    let mut summary = Summary::default();
    let mut seen = Seen::new();
    let runtime = RuntimeAllocs::new();
    each_counted(|bucket, counts| {
        let printed = printed(bucket, counts, rate);
        if printed.is_empty() {
            return;
        }
        write_stack(&mut out, bucket.node);
        write_counts(&mut out, None, &printed);
        out.text(b"\n");
        if let Some(thread) = bucket.owner.checked_sub(1) {
            write_counts(&mut out, Some(thread), &printed);
            out.text(b"\n");
        }
        if counts.live.0 != 0 {
            let live = estimated(bucket, counts).live;
            let owner = if runtime.holds(bucket.node) {
                Owner::Runtime
            } else if known.is_some_and(|known| known.cover(bucket.node)) {
                Owner::Suppressed
            } else {
                Owner::Program
            };
            summary.add(live, &owner, || seen.insert(bucket.node));
        }
    });
    tail::write(&mut out, rate);
    (summary, out.finish())
}

/// The sums of everything, and of each thread with its name.
fn write_totals(out: &mut Output<'_>, threads: &mut [Counts], rate: Option<u64>) {
    threads.fill(Counts::new());
    let mut total = Counts::new();
    each_counted(|bucket, counts| {
        let printed = printed(bucket, counts, rate);
        total.add(&printed);
        if let Some(thread) = threads.get_mut(usize::from(bucket.owner)) {
            thread.add(&printed);
        }
    });
    write_counts(out, None, &total);
    out.text(b"\n");
    for (slab, counts) in (0..thread::slabs_used()).zip(threads).skip(1) {
        if thread::owner(slab).is_none() {
            continue;
        }
        write_counts(out, Some((slab - 1) as u8), counts);
        if let Some(name) = thread::name_in_dumps(slab).filter(|name| name[0] != 0) {
            out.text(b" ").text(text(&name));
        }
        out.text(b"\n");
    }
}

/// The sampling distance of all that is counted, 0 for exact; `None` when there are several.
fn common_rate() -> Option<u64> {
    if !options().unbias {
        // Counts of samples as they are, whatever distances they were taken at.
        return Some(control::sampling_distance());
    }
    let mut first = None;
    let mut mixed = false;
    each_counted(|bucket, counts| {
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

/// Counts of a thread, or of all.
fn write_counts(out: &mut Output<'_>, thread: Option<u8>, counts: &Counts) {
    let Counts { live, ever } = counts;
    match thread {
        Some(thread) => out.text(b"  t").decimal(thread.into()),
        None => out.text(b"  t*"),
    };
    out.text(b": ").decimal(live.0).text(b": ").decimal(live.1);
    out.text(b" [").decimal(ever.0).text(b": ").decimal(ever.1).text(b"]");
}

/// The places of a stack, leaf first.
pub(crate) fn places(leaf: u32) -> impl Iterator<Item = NodePlace> {
    let mut id = Some(leaf);
    core::iter::from_fn(move || {
        let here = id?;
        let node = stack_tree::node(here)?;
        // A parent is older than its child; anything else was scribbled over.
        id = (node.parent < here).then_some(node.parent);
        Some(NodePlace::decode(node.place))
    })
}

/// The addresses of a stack, leaf first. jeprof looks callers up one byte lower, but takes the leaf as it is: so the
/// leaf is written inside its call, and the others as what looks right one byte lower.
fn write_stack(out: &mut Output<'_>, leaf: u32) {
    out.text(b"@");
    let inside = places(leaf).filter_map(|place| match place {
        NodePlace::Return(address) => Some(address.wrapping_sub(1)),
        NodePlace::Interrupted(address) => Some(address),
        // A name without an address: this text has no place for it.
        NodePlace::Declared { .. } => None,
    });
    for (depth, inside) in inside.enumerate() {
        out.text(b" 0x").hex(inside.wrapping_add(u64::from(depth != 0)));
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
