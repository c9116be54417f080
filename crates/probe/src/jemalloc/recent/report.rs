//! The two texts in JSON, in jemalloc's shapes.

use heapwise_format::segment::NodePlace;

use super::ring::{CAPACITY, Record};
use crate::jemalloc::options::options;
use crate::json::Sink;
use crate::{dump, sys, threads};

/// `experimental.prof_recent.alloc_dump`: the last blocks, oldest first.
pub(crate) fn write_recent(sink: &mut Sink<'_>) {
    let session = sink.session();
    let (most, distance) = (session.recent.most(), session.control.sampling_distance());
    let numbers = session.recent.ring.numbers();
    sink.open(b"{").key(b"sample_interval").number(distance.max(1));
    sink.key(b"recent_alloc_max");
    if most < 0 {
        sink.word(b"-1")
    } else {
        sink.number(most as u64)
    };
    sink.key(b"recent_alloc").open(b"[");
    let few = if most < 0 { CAPACITY } else { most as u64 };
    let start = numbers.start.max(numbers.end.saturating_sub(few));
    for number in start..numbers.end {
        if let Some(record) = record(sink, number) {
            write_block(sink, &record);
        }
    }
    sink.close(b"]").close(b"}");
}

fn record(sink: &Sink<'_>, number: u64) -> Option<Record> {
    let session = sink.session();
    session.recent.ring.record(&session.segment, number)
}

fn write_block(sink: &mut Sink<'_>, record: &Record) {
    sink.open(b"{").key(b"size").number(record.size).key(b"usize").number(record.usable);
    sink.key(b"released").boolean(record.freed_ns != 0);
    write_thread(sink, record.thread, b"alloc_thread_uid", b"alloc_thread_name");
    sink.key(b"alloc_time").number(record.born_ns).key(b"alloc_trace");
    write_trace(sink, record.node);
    if record.freed_ns != 0 {
        write_thread(sink, record.freed_thread, b"dalloc_thread_uid", b"dalloc_thread_name");
        // The stack of a free is not taken.
        sink.key(b"dalloc_time").number(record.freed_ns).key(b"dalloc_trace").open(b"[").close(b"]");
    }
    sink.close(b"}");
}

fn write_thread(sink: &mut Sink<'_>, thread: u32, uid: &[u8], name: &[u8]) {
    let Some(number) = thread.checked_sub(1) else { return };
    sink.key(uid).number(u64::from(number));
    if let Some(text) = threads::name_in_dumps(sink.session(), number) {
        sink.key(name).string(heapwise_format::bytes::text(&text));
    }
}

fn write_trace(sink: &mut Sink<'_>, leaf: u32) {
    sink.open(b"[");
    let mut next = Some(leaf);
    while let Some((place, parent)) = next.and_then(|node| dump::place(sink.session(), node)) {
        if let NodePlace::Return(address) | NodePlace::Interrupted(address) = place {
            sink.address(address);
        }
        next = parent;
    }
    sink.close(b"]");
}

/// `prof_log`: the blocks that were recorded and freed since `start`. Trace 0 is the trace of
/// frees, whose stacks are not captured; block `n` has trace `n + 1`.
pub(super) fn write_log(sink: &mut Sink<'_>, start: u64, now: u64) {
    let session = sink.session();
    let (numbers, lg_sample) = (session.recent.ring.numbers(), session.prof.lg_sample());
    let block = |sink: &Sink<'_>, number: u64| {
        record(sink, number)
            .filter(|record| record.freed_ns != 0 && record.born_ns >= start && record.freed_ns <= now)
    };
    sink.open(b"{").key(b"info").open(b"{").key(b"duration").number(now.saturating_sub(start));
    sink.key(b"version").string(crate::mallctl::VERSION.to_bytes());
    sink.key(b"lg_sample_rate").number(u64::from(lg_sample));
    sink.key(b"prof_time_resolution").string(if options().high_resolution { b"high" } else { b"default" });
    sink.key(b"pid").number(u64::from(sys::pid())).close(b"}");
    sink.key(b"threads").open(b"[");
    for record in 0..threads::used(sink.session()) {
        let name = threads::name_in_dumps(sink.session(), record).unwrap_or_default();
        sink.open(b"{").key(b"thr_uid").number(u64::from(record));
        sink.key(b"thr_name").string(heapwise_format::bytes::text(&name)).close(b"}");
    }
    sink.close(b"]").key(b"stack_traces").open(b"[").open(b"[").close(b"]");
    for number in numbers.clone() {
        if let Some(record) = block(sink, number) {
            write_trace(sink, record.node);
        }
    }
    sink.close(b"]").key(b"allocations").open(b"[");
    let mut trace = 0;
    for number in numbers {
        let Some(record) = block(sink, number) else { continue };
        trace += 1;
        sink.open(b"{").key(b"alloc_thread").number(u64::from(record.thread));
        sink.key(b"free_thread").number(u64::from(record.freed_thread));
        sink.key(b"alloc_trace").number(trace).key(b"free_trace").number(0);
        sink.key(b"alloc_timestamp").number(record.born_ns);
        sink.key(b"free_timestamp").number(record.freed_ns);
        sink.key(b"usize").number(record.usable).close(b"}");
    }
    sink.close(b"]").close(b"}");
}
