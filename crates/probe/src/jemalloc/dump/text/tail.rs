//! The part after the records: the mappings, and lines that jeprof skips.

use heapwise_format::bytes::text;
use heapwise_format::segment::{Counter, Module, SectionKind};

use super::Output;
use crate::atomics::Ordering;
use crate::session::Session;
use crate::sys::{self, File};
use crate::{clock, threads};

pub(super) fn write(session: &Session, out: &mut Output<'_>, rate: Option<u64>) {
    // By the path jemalloc prefers: it also works in a thread whose leader has ended.
    let maps = File::open(c"/proc/thread-self/maps", libc::O_RDONLY)
        .or_else(|_| File::open(c"/proc/self/maps", libc::O_RDONLY));
    if let Ok(maps) = maps {
        out.text(b"\nMAPPED_LIBRARIES:\n").copy(&maps);
    }
    line(out, b"version 2").text(b"\n");
    let mut program = [0; 1024];
    line(out, b"program ");
    escaped(out, sys::read_link(c"/proc/self/exe", &mut program));
    line(out, b"source heapwise probe").text(b"\n");
    match rate.unwrap_or_else(|| session.control.sampling_distance()) {
        0 => line(out, b"sampling exact").text(b"\n"),
        mean => line(out, b"sampling poisson ").decimal(mean).text(b"\n"),
    };
    line(out, b"pid ").decimal(u64::from(sys::pid())).text(b"\n");
    line(out, b"time ").decimal(clock::realtime_ns()).text(b"\n");
    let count = |counter| session.segment.counter(counter).load(Ordering::Relaxed);
    let duration = clock::monotonic_ns().saturating_sub(count(Counter::PeriodStart));
    line(out, b"duration ").decimal(duration).text(b"\n");
    line(out, b"lost 0");
    for counter in [
        Counter::Truncated,
        Counter::Broken,
        Counter::Reentrant,
        Counter::UntrackedBlocks,
        Counter::UntrackedBytes,
        Counter::LostThreads,
        Counter::LostModules,
    ] {
        out.text(b" ").decimal(count(counter));
    }
    out.text(b"\n");
    write_threads(session, out);
    write_modules(session, out);
}

/// Ids and names of the threads that have their own lines.
fn write_threads(session: &Session, out: &mut Output<'_>) {
    for record in 0..threads::used(session) {
        if let Some(thread) = threads::thread_record(session, record) {
            line(out, b"thread ").decimal(record.into()).text(b" ").decimal(thread.tid.into());
            out.text(b" ");
            escaped(out, text(&thread.name));
        }
    }
}

fn line<'a, 'b>(out: &'a mut Output<'b>, text: &[u8]) -> &'a mut Output<'b> {
    out.text(b"# heapwise ").text(text)
}

fn write_modules(session: &Session, out: &mut Output<'_>) {
    let capacity = session.segment.section(SectionKind::Modules).capacity;
    let used = session.segment.counter(Counter::Modules).load(Ordering::Acquire).min(capacity);
    let page = sys::page_bytes();
    for index in 0..used {
        let Some(module) = session.segment.read::<Module>(SectionKind::Modules, index) else { continue };
        let Some(id) = module.build_id.get(..module.build_id_len as usize).filter(|id| !id.is_empty()) else {
            continue;
        };
        line(out, b"build-id ");
        for byte in id {
            out.hex_digit(u64::from(byte >> 4)).hex_digit(u64::from(*byte));
        }
        // To whole pages, as the mappings above have it.
        let before = module.start % page;
        let end = module.end.next_multiple_of(page);
        out.text(b" ").hex(module.start - before).text(b"-").hex(end);
        out.text(b" ").hex(module.file_offset.wrapping_sub(before)).text(b" ");
        let len = module.path.iter().position(|byte| *byte == 0).unwrap_or(module.path.len());
        escaped(out, module.path.get(..len).unwrap_or(&[]));
    }
}

/// A text to the end of its line.
fn escaped(out: &mut Output<'_>, text: &[u8]) {
    for byte in text {
        match byte {
            b'\t' => out.text(b"\\t"),
            b'\n' => out.text(b"\\n"),
            b'\r' => out.text(b"\\r"),
            b'\\' => out.text(b"\\\\"),
            other => out.text(&[*other]),
        };
    }
    out.text(b"\n");
}
