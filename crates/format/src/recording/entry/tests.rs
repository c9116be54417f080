//! Entries come back as they went in, and from damaged bytes only a prefix of them.

use super::*;
use std::vec;
use std::vec::Vec;

fn sample() -> Vec<Entry> {
    use AllocKind::{FirstRealloc, Fresh, NextRealloc};
    let free = |bucket, age| Entry::Free { bucket, age: Age::from_code(age) };
    vec![
        Entry::Thread(3),
        Entry::Tick(70_000),
        Entry::Alloc { bucket: 1, kind: Fresh },
        Entry::Temporary { bucket: 2, kind: Fresh },
        Entry::Alloc { bucket: 900, kind: FirstRealloc },
        Entry::Temporary { bucket: 901, kind: FirstRealloc },
        Entry::Temporary { bucket: 1 << 20, kind: NextRealloc },
        Entry::Alloc { bucket: u32::MAX, kind: NextRealloc },
        free(u32::MAX, 5),
        free(u32::MAX - 31, 5),
        Entry::MissedFree { bucket: 7, age: Age::from_code(1 << 40) },
        Entry::Gap(12),
        Entry::UnknownFree(1),
        free(2, 0),
        Entry::Alloc { bucket: 70_000, kind: Fresh },
    ]
}

fn payload(state: &mut EntryState, entries: &[Entry]) -> Vec<u8> {
    let mut columns = Columns::<Vec<u8>>::default();
    entries.iter().for_each(|entry| state.encode(*entry, &mut columns));
    let (lengths, parts) = columns.parts();
    [&lengths[..], &parts.concat()].concat()
}

#[test]
fn round_trip_with_and_without_steps() {
    let mut state = EntryState::default();
    let with = payload(&mut state, &sample());
    let without = payload(&mut EntryState { far_steps: 9, steps: 9, ..state }.of_next_frame(), &sample());
    assert!(without.len() > with.len(), "no steps are written for a program that jumps");
    for bytes in [with, without] {
        let mut entries = Entries::new(&bytes).unwrap();
        assert_eq!(entries.by_ref().collect::<Vec<_>>(), sample());
        assert!(entries.is_whole());
    }
}

#[test]
fn cut_at_every_byte_is_noticed() {
    let bytes = payload(&mut EntryState::default(), &sample());
    for cut in 0..bytes.len() {
        if let Some(mut entries) = Entries::new(&bytes[..cut]) {
            let read: Vec<_> = entries.by_ref().collect();
            assert!(sample().starts_with(&read) && read.len() < sample().len());
        }
    }
}

#[test]
fn any_bytes_decode_without_panic() {
    let mut seed = 12345u64;
    for _ in 0..500 {
        let mut bytes: Vec<u8> = (0..160)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 33) as u8
            })
            .collect();
        for (length, column) in [40u32, 30, 30, 20].into_iter().zip(bytes.chunks_exact_mut(4)) {
            column.copy_from_slice(&length.to_le_bytes());
        }
        Entries::new(&bytes).map(Iterator::count);
    }
}
