//! Marks: names for moments of a process, written into its segment.

use heapwise_format::bytes::set_text;
use heapwise_format::segment::{Mark, SectionKind, SegmentSink, SegmentSource};

use crate::clock::Clock;
use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::segment_file::process_of;
use crate::segments::SegmentFile;

/// Writes a mark into the segment. The program's own marks fill the table from its start, those of
/// controllers from its end, so that they do not need to synchronize.
pub fn set(segment: &SegmentFile, name: &str) -> Outcome {
    let snapshot = segment.snapshot()?;
    let section = snapshot.header.layout.section(SectionKind::Marks);
    let clock = Clock::of(process_of(&snapshot).pid);
    let failed = |error: std::io::Error| Failure::file(segment.path(), format!("cannot mark: {error}"));
    segment.file().lock().map_err(failed)?;
    let mut bytes = vec![0; section.bytes() as usize];
    segment.read_at(section.offset, &mut bytes);
    let records = bytes.chunks_exact(size_of::<Mark>()).map(Mark::decode).enumerate();
    let free = records.rev().find(|(_, mark)| mark.is_some_and(|mark| mark.time_ns == 0));
    let place = free.and_then(|(row, _)| section.record_offset(row as u64));
    let written = place.map(|offset| {
        let mut text = [0; 56];
        set_text(&mut text, name.as_bytes());
        // The time last: a mark without one is none.
        segment.write_at(offset + 8, &text)?;
        segment.write_at(offset, &clock.now_ns().to_le_bytes())
    });
    segment.file().unlock().map_err(failed)?;
    match written {
        Some(result) => result.map_err(failed),
        None => Err(input_error!("all {} marks of this process are used up", section.capacity)),
    }
}
