//! What the ledger makes of single events, and of any.

use std::collections::HashMap;

use heapwise_format::event::{NO_THREAD, decode};
use heapwise_format::recording::Entries;
use heapwise_format::segment::CallKind;

use super::*;

const BUCKETS: [(u32, u64, CallKind); 6] = [
    (0, 0, CallKind::Malloc),
    (7, 100, CallKind::Malloc),
    (7, 100, CallKind::Realloc),
    (7, 100, CallKind::Malloc),
    (8, 100, CallKind::Malloc),
    (8, 10, CallKind::New),
];

/// The record of a bucket, if there is one.
fn describe(bucket: u32) -> Option<Bucket> {
    let (node, size, kind) = *BUCKETS.get(bucket as usize)?;
    Some(Bucket { node, size, kind: kind as u8, ..Bucket::default() })
}

#[derive(Default)]
struct Book {
    ledger: Ledger,
    frames: Vec<RawFrame>,
}

impl Book {
    fn alloc(&mut self, thread: u32, ms: u64, bucket: u32) {
        assert!(self.ledger.book(thread, ms, &Event::Alloc { bucket }, false, &mut describe));
    }

    /// Frees a block of a bucket and thread.
    fn free(&mut self, thread: u32, ms: u64, (bucket, allocator): (u32, u32), how: Freeing) -> bool {
        self.free_aged(thread, ms, (bucket, allocator), how, 0, false)
    }

    fn free_aged(
        &mut self,
        thread: u32,
        ms: u64,
        (bucket, allocator): (u32, u32),
        how: Freeing,
        age_ms: u64,
        must: bool,
    ) -> bool {
        let event = Event::Free { bucket, thread: allocator, age_ms, how };
        self.ledger.book(thread, ms, &event, must, &mut describe)
    }

    fn take(&mut self) {
        let frames = self.ledger.take_frames();
        self.frames.extend(frames);
    }

    /// All entries, and the recording's buckets.
    fn read(&mut self) -> (Vec<Entry>, Vec<SiteBucket>) {
        self.take();
        let (mut entries, mut buckets) = (Vec::new(), Vec::new());
        for RawFrame { header, payload } in &self.frames {
            match header.kind {
                FrameKind::Events => entries.extend(Entries::new(payload).unwrap()),
                FrameKind::Buckets => {
                    let mut at = 0;
                    buckets.extend(std::iter::from_fn(|| SiteBucket::decode(payload, &mut at)));
                }
                _ => {}
            }
        }
        (entries, buckets)
    }
}

fn fresh(bucket: u32) -> Entry {
    Entry::Alloc { bucket, kind: AllocKind::Fresh }
}

fn freed(bucket: u32) -> Entry {
    Entry::Free { bucket, age: Age::INSTANT }
}

use Freeing::{AtOnce, Missed, Plain};

#[test]
fn buckets_of_one_stack_size_and_thread_are_one() {
    let mut book = Book::default();
    for (thread, bucket) in [(1, 1), (1, 3), (1, 2), (2, 1), (1, 4), (1, 5), (NO_THREAD, 1), (u32::MAX, 1)] {
        book.alloc(thread, 0, bucket);
    }
    assert!(
        book.free(1, 0, (3, 1), Plain) && book.free(1, 0, (3, 1), Plain),
        "blocks of one bucket are alike"
    );
    assert!(book.free(1, 0, (1, NO_THREAD), Plain));
    let (_, buckets) = book.read();
    let site = |node, size, thread| SiteBucket { node, size, thread };
    let expected = [
        site(7, 100, 1),
        site(7, 100, 2),
        site(8, 100, 1),
        site(8, 10, 1),
        site(7, 100, SiteBucket::NO_THREAD),
    ];
    assert_eq!(buckets, expected);
    assert_eq!(book.ledger.live_bytes(), 100 + 100 + 100 + 10 + 100);
    assert_eq!(book.ledger.peak(), (710, 0));
}

#[test]
fn a_realloc_is_a_free_and_an_allocation_by_its_kind() {
    let mut book = Book::default();
    book.alloc(1, 0, 1);
    book.alloc(1, 0, 2); // of no block
    assert!(book.free(1, 0, (1, 1), Plain));
    book.alloc(2, 0, 4); // another thread between the two events
    book.alloc(1, 0, 2); // of a block by malloc
    assert!(book.free(1, 0, (2, 1), Plain));
    book.alloc(1, 0, 2); // of a block by realloc, though of the same bucket of the recording
    assert!(book.free(1, 0, (2, 1), AtOnce));
    book.alloc(1, 0, 2);
    let kinds: Vec<Entry> = book.read().0.into_iter().filter(|entry| *entry != freed(1)).collect();
    let alloc = |kind| Entry::Alloc { bucket: 1, kind };
    let expected = [
        fresh(1),
        fresh(1),
        Entry::Thread(2),
        fresh(2),
        Entry::Thread(1),
        alloc(AllocKind::FirstRealloc),
        Entry::Temporary { bucket: 1, kind: AllocKind::NextRealloc },
        alloc(AllocKind::NextRealloc),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn only_what_is_freed_at_once_is_temporary() {
    let mut book = Book::default();
    let temporary = Entry::Temporary { bucket: 1, kind: AllocKind::Fresh };
    book.alloc(0, 5, 1);
    assert!(book.free(0, 5, (1, 0), AtOnce));
    book.alloc(0, 5, 1);
    assert!(book.free(0, 5, (1, 0), Plain), "another of the bucket");
    book.alloc(0, 5, 1);
    assert!(book.free_aged(0, 6, (1, 0), AtOnce, 1, false), "a millisecond later");
    book.alloc(0, 6, 1);
    book.take();
    assert!(book.free(0, 6, (1, 0), AtOnce), "it is in a frame already");
    let later = Entry::Free { bucket: 1, age: Age::between(5, 6) };
    let expected = [temporary, fresh(1), freed(1), fresh(1), Entry::Tick(1), later, fresh(1), freed(1)];
    assert_eq!(book.read().0, expected);
    assert_eq!(book.ledger.live_bytes(), 0);
}

#[test]
fn missed_and_unknown_frees_are_told_apart() {
    let mut book = Book::default();
    book.alloc(0, 0, 2);
    assert!(book.free(0, 0, (2, 0), Plain));
    book.alloc(0, 30, 1);
    assert!(book.free_aged(0, 60, (1, 0), Missed, 30, false));
    assert!(book.ledger.book(0, 60, &Event::Unknown, false, &mut describe));
    assert!(book.free_aged(0, 60, (1, 0), Plain, 61, false), "older than the recording");
    assert!(book.ledger.book(0, 60, &Event::Gap(5), false, &mut describe));
    let totals = book.ledger.totals();
    assert_eq!((totals.unknown_frees, totals.missed_frees, totals.gap_events), (2, 1, 5));
    let missed = Entry::MissedFree { bucket: 1, age: Age::between(30, 60) };
    let end = [missed, Entry::UnknownFree(1), Entry::UnknownFree(1), Entry::Gap(5)];
    assert!(book.read().0.ends_with(&end));
    assert_eq!((book.ledger.totals().frees, book.ledger.live_bytes()), (2, 0));
}

#[test]
fn what_cannot_be_described_is_counted_as_missing() {
    let mut book = Book::default();
    for bucket in [0, 6, 2_097_151] {
        book.alloc(1, 0, bucket);
        assert!(book.free(1, 0, (bucket, 1), AtOnce) && book.free(1, 0, (bucket, 2), Plain));
    }
    let (entries, buckets) = book.read();
    assert_eq!(entries[..3], [Entry::Gap(1), Entry::UnknownFree(1), Entry::UnknownFree(1)]);
    let totals = Totals { unknown_frees: 6, gap_events: 3, ..Totals::default() };
    assert_eq!((buckets.len(), book.ledger.totals()), (0, totals));
}

#[test]
fn a_free_before_its_allocation_waits_or_is_owed() {
    let mut book = Book::default();
    assert!(!book.free(1, 4, (1, 2), Plain), "it can wait");
    assert_eq!(book.read().0, [], "nothing was booked");
    assert!(book.free_aged(1, 4, (1, 2), Plain, 0, true));
    assert!(book.free(2, 4, (4, 2), Plain), "a thread's own does not wait");
    book.alloc(3, 5, 1);
    book.alloc(2, 5, 1);
    book.alloc(2, 5, 4);
    assert_eq!((book.ledger.live_bytes(), book.ledger.totals().frees), (0, 0), "not settled yet");
    let (entries, buckets) = book.read();
    assert_eq!(buckets.iter().map(|bucket| bucket.thread).collect::<Vec<_>>(), [2, 2, 3]);
    let tail = [
        fresh(3),
        Entry::Thread(2),
        fresh(1),
        Entry::Thread(1),
        freed(1),
        Entry::Thread(2),
        fresh(2),
        freed(2),
    ];
    assert!(entries.ends_with(&tail), "{entries:?}");
    assert_eq!((book.ledger.live_bytes(), book.ledger.totals().frees), (100, 2));
}

#[test]
fn what_is_owed_for_too_long_was_never_seen() {
    let mut book = Book::default();
    assert!(book.free_aged(1, 4, (1, 2), Missed, 0, true));
    assert!(book.free_aged(1, 900, (1, 2), Plain, 0, true));
    book.ledger.pass(1000);
    assert_eq!(book.ledger.totals().unknown_frees, 0);
    book.ledger.pass(1100);
    assert_eq!(book.ledger.totals().unknown_frees, 1);
    book.alloc(2, 1100, 1);
    assert!(book.free_aged(1, 1100, (1, 2), Plain, 0, true));
    book.ledger.end();
    assert_eq!((book.ledger.totals().unknown_frees, book.ledger.totals().frees), (2, 1));
    assert_eq!(book.ledger.live_bytes(), 0);
}

#[test]
fn many_sites_are_found_again() {
    let (mut ledger, mut seen) = (Ledger::default(), HashMap::new());
    let mut seed = 1u64;
    for _ in 0..if cfg!(miri) { 3_000 } else { 100_000 } {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (bucket, thread) = (1 + (seed >> 33) as u32 % 5_000, (seed >> 50) as u32 % 8);
        let record = |bucket: u32| describe(1).map(|record| Bucket { node: bucket, ..record });
        assert!(ledger.book(thread, 0, &Event::Alloc { bucket }, false, &mut { record }));
        *seen.entry((bucket, thread as u16)).or_insert(0u64) += 1;
    }
    let counts = ledger.sites.counts();
    for (bucket, count) in ledger.sites.from(0).zip(counts.rows()).skip(1) {
        assert_eq!(seen.remove(&(bucket.node, bucket.thread)), Some(count.allocs));
    }
    assert!(seen.is_empty());
}

#[test]
fn any_events_leave_books_that_balance() {
    let mut seed = 9u64;
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        let (mut book, mut counts, mut ms) = (Book::default(), crate::recording::Counts::default(), 0);
        for _ in 0..if cfg!(miri) { 200 } else { 4_000 } {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = seed >> 60 << 60 | (seed >> 40 & 7) << 34 | (seed >> 33 & 3) << 21 | seed >> 20 & 7;
            let Some(event) = decode(&word.to_le_bytes(), &mut 0) else { continue };
            ms += u64::from(seed >> 56 & 15 == 0) * 50;
            let thread = (seed >> 45) as u32 & 3;
            let hostile = |bucket| describe(bucket).map(|b| Bucket { size: b.size << (round % 60), ..b });
            book.ledger.book(thread, ms, &event, seed >> 50 & 1 == 0, &mut { hostile });
        }
        book.ledger.end();
        let (entries, _) = book.read();
        for entry in &entries {
            counts.add(entry);
            assert!(counts.rows().iter().all(|count| count.frees <= count.allocs));
        }
        let totals = book.ledger.totals();
        assert_eq!(counts.rows().iter().map(|count| count.allocs).sum::<u64>(), totals.allocs);
        assert_eq!(counts.rows().iter().map(|count| count.frees).sum::<u64>(), totals.frees);
        let checkpoint = book.ledger.checkpoint();
        assert_eq!(crate::recording::Counts::decode(&checkpoint.payload, counts.rows().len()), Some(counts));
    }
}

/// A page is full in time, whatever entries its size is looked at by: here every other one says whose turn it is.
#[test]
fn pages_stay_small_when_threads_take_turns() {
    for first in [1, 2] {
        let mut book = Book::default();
        (0..first).for_each(|_| book.alloc(9, 0, 1));
        let events = if cfg!(miri) { 0 } else { 600_000 };
        (0..events).for_each(|event| book.alloc(event % 2, 0, 1));
        book.take();
        let pages = book.frames.iter().filter(|frame| frame.header.kind == FrameKind::Events);
        assert!(pages.clone().all(|page| page.payload.len() < 11 << 17), "{first}");
        assert!(cfg!(miri) || pages.count() > 1, "{first}");
    }
}
