//! The text of a dump: jemalloc's `heap_v2` with heapwise's lines, which docs/FORMATS.md describes.
//!
//! A record per stack and allocating thread. jeprof scales counts of samples by the mean size of a
//! stack's blocks; the counts are chosen so that the result is the probe's estimate. Where several
//! sampling distances were in force the header says 0, jeprof scales nothing, and the numbers are
//! the estimates, rounded.
#![allow(unsafe_code)]

mod output;
mod tail;

use heapwise_format::bytes::text;
use heapwise_format::segment::{NO_THREAD, NodePlace, SectionKind};

use self::output::Output;
use super::counts::{Counts, each_counted};
use super::runtime_allocs::RuntimeAllocs;
use super::suppressions::Suppressions;
use crate::jemalloc::options::options;
use crate::session::Session;
use crate::sites::tallies::Sum;
use crate::sites::{rates, stack_tree};
use crate::sys::{self, File};
use crate::threads as registry;

/// Estimated totals of a dump.
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

/// Owner of a block.
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
    session: &Session,
    file: &File,
    buffer: &mut [u8],
    threads: &mut [Counts],
    known: Option<&Suppressions>,
) -> (Summary, bool) {
    let mut out = Output::new(file, buffer);
    let rate = common_rate(session);
    out.text(b"heap_v2/").decimal(rate.unwrap_or(0)).text(b"\n");
    write_totals(session, &mut out, threads, rate);
    let mut summary = Summary::default();
    let mut seen = Seen::new(session);
    let runtime = RuntimeAllocs::new();
    each_counted(session, |sum| {
        let printed = printed(session, sum, rate);
        if printed.is_empty() {
            return;
        }
        let (node, thread) = (sum.site.node(), sum.site.thread());
        write_stack(session, &mut out, node);
        write_counts(&mut out, None, &printed);
        out.text(b"\n");
        if thread != NO_THREAD {
            write_counts(&mut out, Some(thread), &printed);
            out.text(b"\n");
        }
        if sum.live != 0 {
            let live = Counts::estimated(sum).live;
            let owner = if runtime.holds(session, node) {
                Owner::Runtime
            } else if known.is_some_and(|known| known.cover(session, node)) {
                Owner::Suppressed
            } else {
                Owner::Program
            };
            summary.add(live, &owner, || seen.insert(node));
        }
    });
    tail::write(session, &mut out, rate);
    (summary, out.finish())
}

/// The sums of everything, and of each thread with its name.
fn write_totals(session: &Session, out: &mut Output<'_>, threads: &mut [Counts], rate: Option<u64>) {
    threads.fill(Counts::new());
    let mut total = Counts::new();
    each_counted(session, |sum| {
        let printed = printed(session, sum, rate);
        total.add(&printed);
        if let Some(thread) = threads.get_mut(usize::from(sum.site.thread())) {
            thread.add(&printed);
        }
    });
    write_counts(out, None, &total);
    out.text(b"\n");
    for (record, counts) in (0..registry::used(session)).zip(threads) {
        write_counts(out, Some(record as u16), counts);
        if let Some(name) = registry::name_in_dumps(session, record).filter(|name| name[0] != 0) {
            out.text(b" ").text(text(&name));
        }
        out.text(b"\n");
    }
}

/// The sampling distance of all that is counted, 0 for exact; `None` when there are several.
fn common_rate(session: &Session) -> Option<u64> {
    if !options().unbias {
        // Unscaled counts of samples, independent of their sampling distances.
        return Some(session.control.sampling_distance());
    }
    let mut first = None;
    let mut mixed = false;
    each_counted(session, |sum| {
        if !Counts::of(sum).is_empty() {
            mixed |= *first.get_or_insert(sum.site.rate()) != sum.site.rate();
        }
    });
    let rate =
        first.map_or_else(|| session.control.sampling_distance(), |rate| rates::of(&session.segment, rate));
    (!mixed).then_some(rate)
}

/// The numbers in the file.
fn printed(session: &Session, sum: &Sum, rate: Option<u64>) -> Counts {
    match rate {
        None => Counts::estimated(sum),
        Some(1..) if options().unbias => Counts::before_scaling(session, sum),
        Some(_) => Counts::of(sum),
    }
}

/// Counts of a thread, or of all.
fn write_counts(out: &mut Output<'_>, thread: Option<u16>, counts: &Counts) {
    let Counts { live, ever } = counts;
    match thread {
        Some(thread) => out.text(b"  t").decimal(thread.into()),
        None => out.text(b"  t*"),
    };
    out.text(b": ").decimal(live.0).text(b": ").decimal(live.1);
    out.text(b" [").decimal(ever.0).text(b": ").decimal(ever.1).text(b"]");
}

/// The places of a stack, leaf first.
pub(crate) fn places(session: &Session, leaf: u32) -> impl Iterator<Item = NodePlace> {
    let mut next = Some(leaf);
    core::iter::from_fn(move || {
        let (place, parent) = place(session, next?)?;
        next = parent;
        Some(place)
    })
}

/// The place of a node, and the node of its caller.
pub(crate) fn place(session: &Session, id: u32) -> Option<(NodePlace, Option<u32>)> {
    let node = stack_tree::node(session, id)?;
    // A parent is older than its child; anything else was scribbled over.
    Some((NodePlace::decode(node.place), (node.parent < id).then_some(node.parent)))
}

/// The addresses of a stack, leaf first. jeprof looks callers up one byte lower, but takes the leaf
/// as it is: so the leaf is written inside its call, and the others so that one byte lower is
/// inside their call.
fn write_stack(session: &Session, out: &mut Output<'_>, leaf: u32) {
    out.text(b"@");
    let inside = places(session, leaf).filter_map(|place| match place {
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
    fn new(session: &Session) -> Self {
        let bytes = (session.segment.section(SectionKind::Nodes).capacity / 8 + 1) as usize;
        match sys::map_private(bytes) {
            Ok(bits) => Self { bits, bytes },
            Err(_) => Self { bits: core::ptr::null_mut(), bytes: 0 },
        }
    }

    /// Whether the node is new. Without memory for the set every node counts as new.
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
