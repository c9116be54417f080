//! Entries come back as they went in, and from damaged bytes only a prefix of them.

use super::*;
use std::vec;
use std::vec::Vec;

fn sample() -> Vec<Entry> {
    use AllocKind::{FirstRealloc, Fresh, NextRealloc};
    let block = |site, size| SiteBlock { site, size };
    let free = |site, size, age| Entry::Free { block: block(site, size), age: Age::from_code(age) };
    vec![
        Entry::Thread(3),
        Entry::Tick(70_000),
        Entry::Alloc { block: block(1, 0), kind: Fresh },
        Entry::Temporary { block: block(2, 252), kind: Fresh },
        Entry::Mark(7),
        Entry::Alloc { block: block(900, 253), kind: FirstRealloc },
        Entry::Temporary { block: block(901, 65_535), kind: FirstRealloc },
        Entry::Temporary { block: block(1 << 20, 65_536), kind: NextRealloc },
        Entry::Alloc { block: block(u32::MAX, u64::MAX), kind: NextRealloc },
        free(u32::MAX, u64::MAX, 5),
        free(u32::MAX - 31, u64::from(u32::MAX) - 1, 5),
        free(u32::MAX - 31, u64::from(u32::MAX), 5),
        free(u32::MAX - 31, u64::from(u32::MAX), 5),
        Entry::MissedFree { block: block(7, 1 << 40), age: Age::from_code(1 << 40) },
        Entry::MissedFree { block: block(7, 1 << 40), age: Age::exact(5, 1 << 40) },
        Entry::Free { block: block(2, 252), age: Age::exact(1, 1) },
        Entry::Gap(12),
        Entry::UnknownFree(1),
        free(1, 0, 0),
        Entry::Alloc { block: block(70_000, 253), kind: Fresh },
    ]
}

fn state() -> EntryState<Vec<u32>> {
    EntryState::new(vec![0; SIZE_SLOTS])
}

fn payload(state: &mut EntryState<Vec<u32>>, entries: &[Entry]) -> Vec<u8> {
    let (mut columns, mut bytes) = (Columns::<Vec<u8>>::default(), Vec::new());
    entries.iter().for_each(|entry| state.encode(*entry, &mut columns));
    state.write(&columns, &mut bytes);
    assert_eq!((bytes.len(), state.entries(&columns)), (columns.bytes(), entries.len()));
    bytes
}

#[test]
fn round_trip_with_and_without_steps() {
    let mut first = state();
    let with = payload(&mut first, &sample());
    let mut jumping = EntryState { far_steps: 9, blocks: 9, ..first };
    jumping.start_next_frame();
    let without = payload(&mut jumping, &sample());
    assert!(without.len() > with.len(), "no steps are written for a program that jumps");
    let mut separate = EntryState { is_interleaved: false, ..state() };
    for bytes in [with, without, payload(&mut separate, &sample())] {
        let mut entries = Entries::new(&bytes, vec![0; SIZE_SLOTS]).unwrap();
        assert_eq!(entries.by_ref().collect::<Vec<_>>(), sample());
        assert!(entries.is_whole());
    }
}

#[test]
fn a_size_that_repeats_is_one_zero() {
    let block = SiteBlock { site: 5, size: 1 << 30 };
    let entries: Vec<_> = (0..9).map(|_| Entry::Alloc { block, kind: AllocKind::Fresh }).collect();
    let mut state = EntryState { is_interleaved: false, ..state() };
    let mut columns = Columns::<Vec<u8>>::default();
    entries.iter().for_each(|entry| state.encode(*entry, &mut columns));
    assert_eq!(columns.sizes, [MORE_BYTES, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(columns.size_lows.len(), 1);
}

#[test]
fn sizes_that_repeat_are_interleaved_from_the_next_frame_on() {
    let alloc = |size| Entry::Alloc { block: SiteBlock { site: 1, size }, kind: AllocKind::Fresh };
    let (mut state, mut columns) = (state(), Columns::<Vec<u8>>::default());
    for (different, is_interleaved) in [(0, true), (2, true), (9, false), (0, true)] {
        (0..different).for_each(|size| state.encode(alloc(size), &mut columns));
        (different..9).for_each(|_| state.encode(alloc(1), &mut columns));
        state.start_next_frame();
        assert_eq!(state.is_interleaved, is_interleaved, "{different}");
    }
}

#[test]
fn cut_at_every_byte_is_noticed() {
    for is_interleaved in [true, false] {
        let bytes = payload(&mut EntryState { is_interleaved, ..state() }, &sample());
        cut_at_every_byte(&bytes);
    }
}

fn cut_at_every_byte(bytes: &[u8]) {
    for cut in 0..bytes.len() {
        if let Some(mut entries) = Entries::new(&bytes[..cut], vec![0; SIZE_SLOTS]) {
            let read: Vec<_> = entries.by_ref().collect();
            assert!(sample().starts_with(&read) && read.len() < sample().len());
        }
    }
}

#[test]
fn any_bytes_decode_without_panic() {
    let mut seed = 12345u64;
    for _ in 0..500 {
        let mut bytes: Vec<u8> = (0..300)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 33) as u8
            })
            .collect();
        let interleaved = (seed as u32 & 1) << 31;
        let lengths = [60 | interleaved, 30, 30, 60, 20, 20, 20, 20];
        for (length, column) in lengths.into_iter().zip(bytes.chunks_exact_mut(4)) {
            column.copy_from_slice(&length.to_le_bytes());
        }
        Entries::new(&bytes, vec![0; SIZE_SLOTS]).map(Iterator::count);
    }
}
