//! Batches into a store: once, whole, and by day.

use super::*;
use crate::catalog::Catalog;
use crate::day::DAY_NS;
use crate::manifest::Manifest;
use crate::schema::Table;
use crate::scratch::Scratch;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use heapwise_agent::batch::{Labels, Moment};
use heapwise_profile::{compact, fixture};

/// 2026-11-16T00:00:00Z.
const MIDNIGHT_NS: u64 = 1_794_787_200_000_000_000;
const MINUTE: u64 = 60_000_000_000;

fn entry(pid: u32, minute: u64, text: &str) -> Entry {
    let labels =
        Labels { service: "shop".into(), release: "1.0".into(), host: "h1".into(), ..Labels::default() };
    let time_ns = MIDNIGHT_NS + minute * MINUTE;
    let moment = Moment { time_ns, labels, program: "/bin/shop".into(), pid, ..Moment::default() };
    Entry::new(moment, compact::encode(&fixture::profile(text)))
}

fn batch_of(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.append_to(&mut bytes));
    bytes
}

fn open(scratch: &Scratch) -> Ingest {
    let store = Store::open(&scratch.path().join("store").display().to_string(), None).unwrap();
    Ingest::open(store, &scratch.path().join("data"), Retention::default()).unwrap()
}

fn count(ingest: &Ingest, sql: &str) -> i64 {
    let catalog = Catalog::new(&ingest.store, &ingest.current()).unwrap();
    catalog.rows(sql).unwrap()[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn now_ns() -> i64 {
    MIDNIGHT_NS as i64 + DAY_NS
}

#[test]
fn a_batch_sent_twice_is_stored_once() {
    let scratch = Scratch::new("twice");
    let ingest = open(&scratch);
    let batch = batch_of(&[entry(1, 0, "main;a 10 1\n"), entry(2, 0, "main;a 30 1\nmain;b 5 1\n")]);
    let first = ingest.accept(&batch, now_ns()).unwrap();
    assert_eq!(first, Receipt { accepted: 2, ..Receipt::default() });
    ingest.flush().unwrap();
    let again = batch_of(&[entry(2, 0, "main;a 30 1\nmain;b 5 1\n"), entry(3, 0, "main;b 1 1\n")]);
    let second = ingest.accept(&again, now_ns()).unwrap();
    assert_eq!((second.accepted, second.known), (1, 1));
    ingest.flush().unwrap();
    assert_eq!(count(&ingest, "SELECT count(*) FROM profiles"), 3);
    assert_eq!(count(&ingest, "SELECT sum(inuse_bytes) FROM samples"), 46);
    // `main`, `a` and `b`; stacks ending in `a` and `b`.
    assert_eq!(count(&ingest, "SELECT count(*) FROM functions"), 3);
    assert_eq!(count(&ingest, "SELECT count(*) FROM stacks"), 2);
    assert_eq!(count(&ingest, "SELECT count(*) FROM frames"), 4);
}

#[test]
fn what_was_acknowledged_and_not_flushed_is_replayed() {
    let scratch = Scratch::new("replayed");
    let ingest = open(&scratch);
    ingest.accept(&batch_of(&[entry(1, 0, "main;a 10 1\n")]), now_ns()).unwrap();
    ingest.flush().unwrap();
    ingest.accept(&batch_of(&[entry(2, 1, "main;b 20 1\n")]), now_ns()).unwrap();
    drop(ingest);
    let ingest = open(&scratch);
    let again = ingest.accept(&batch_of(&[entry(2, 1, "main;b 20 1\n")]), now_ns()).unwrap();
    assert_eq!((again.accepted, again.known), (0, 1));
    assert_eq!(ingest.flush().unwrap(), 1);
    assert_eq!(count(&ingest, "SELECT sum(inuse_bytes) FROM samples"), 30);
    assert_eq!(count(&ingest, "SELECT count(*) FROM stacks"), 2);
}

#[test]
fn damaged_and_old_entries_are_told_apart() {
    let scratch = Scratch::new("refused");
    let ingest = open(&scratch);
    let unreadable = Entry::new(Moment { time_ns: MIDNIGHT_NS, pid: 9, ..Moment::default() }, b"?".to_vec());
    let receipt = ingest.accept(&batch_of(&[unreadable, entry(1, 0, "main 1 1\n")]), now_ns()).unwrap();
    assert_eq!((receipt.accepted, receipt.refused), (1, 1));
    let late = now_ns() + 30 * DAY_NS;
    let receipt = ingest.accept(&batch_of(&[entry(2, 0, "main 1 1\n")]), late).unwrap();
    assert_eq!(receipt, Receipt { expired: 1, ..Receipt::default() });
    let whole = batch_of(&[entry(4, 0, "main 1 1\n"), entry(5, 0, "main 1 1\n")]);
    let torn = ingest.accept(&whole[..whole.len() - 1], now_ns()).unwrap();
    assert_eq!((torn.accepted, torn.refused), (1, 1));
    let nothing = ingest.accept(b"?", now_ns());
    assert!(matches!(nothing, Err(Refusal::Unreadable)), "{nothing:?}");
}

#[test]
fn a_directory_has_one_writer() {
    let scratch = Scratch::new("writer");
    let _first = open(&scratch);
    let store = Store::open(&scratch.path().join("store").display().to_string(), None).unwrap();
    let second = Ingest::open(store, &scratch.path().join("data"), Retention::default());
    assert!(second.unwrap_err().to_string().contains("another heapwise-fleet"));
}

/// 20 flushes in two hours of one day: few segments, the same rows, means of hours and of the day.
#[test]
fn compaction_keeps_rows_and_makes_means() {
    let scratch = Scratch::new("compaction");
    let ingest = open(&scratch);
    for minute in 0..20 {
        let bytes = 100 + minute;
        let text = format!("main;a {bytes} 1\n");
        // Ten profiles in the first hour, ten in the second.
        let at = minute + if minute < 10 { 0 } else { 60 };
        ingest.accept(&batch_of(&[entry(1, at, &text)]), now_ns()).unwrap();
        ingest.flush().unwrap();
    }
    assert_eq!(ingest.current().of(Table::Samples).count(), 20);
    let work = ingest.compact(now_ns() + HOUR_NS).unwrap();
    assert_eq!((work.merged, work.rolled_up, work.expired), (40, 3, 0));
    assert_eq!(ingest.current().of(Table::Samples).count(), 1);
    assert_eq!(count(&ingest, "SELECT count(*) FROM samples"), 20);
    assert_eq!(count(&ingest, "SELECT count(*) FROM profiles"), 20);
    // Means: 104.5 and 114.5, of the day 109.5.
    assert_eq!(count(&ingest, "SELECT CAST(sum(inuse_bytes) AS BIGINT) FROM samples_hour"), 219);
    assert_eq!(count(&ingest, "SELECT sum(points) FROM samples_hour"), 20);
    assert_eq!(count(&ingest, "SELECT CAST(sum(inuse_bytes * 2) AS BIGINT) FROM samples_day"), 219);
    assert_eq!(count(&ingest, "SELECT sum(most_bytes - least_bytes) FROM samples_day"), 19);
    // Nothing is due a second time, and the store holds the segments of the manifest alone.
    assert_eq!(ingest.compact(now_ns() + HOUR_NS).unwrap(), compaction::Work::default());
    let files = ingest.store.list().unwrap().into_iter().filter(|name| name.ends_with(".parquet"));
    assert_eq!(files.count(), ingest.current().segments.len());
}

#[test]
fn late_samples_enter_the_roll_ups() {
    let scratch = Scratch::new("late");
    let ingest = open(&scratch);
    ingest.accept(&batch_of(&[entry(1, 0, "main;a 100 1\n")]), now_ns()).unwrap();
    ingest.flush().unwrap();
    ingest.compact(now_ns() + HOUR_NS).unwrap();
    ingest.accept(&batch_of(&[entry(1, 1, "main;a 300 1\n")]), now_ns()).unwrap();
    ingest.flush().unwrap();
    ingest.compact(now_ns() + HOUR_NS).unwrap();
    for table in ["samples_hour", "samples_day"] {
        assert_eq!(count(&ingest, &format!("SELECT count(*) FROM {table}")), 1);
        assert_eq!(count(&ingest, &format!("SELECT CAST(sum(inuse_bytes) AS BIGINT) FROM {table}")), 200);
    }
}

#[test]
fn samples_expire_by_resolution() {
    let scratch = Scratch::new("expiry");
    let ingest = open(&scratch);
    ingest.accept(&batch_of(&[entry(1, 0, "main;a 100 1\n")]), now_ns()).unwrap();
    ingest.flush().unwrap();
    let rows = |table: &str| count(&ingest, &format!("SELECT count(*) FROM {table}"));
    ingest.compact(now_ns() + HOUR_NS).unwrap();
    assert_eq!([rows("samples"), rows("samples_hour"), rows("samples_day")], [1, 1, 1]);
    ingest.compact(now_ns() + 10 * DAY_NS).unwrap();
    assert_eq!([rows("samples"), rows("samples_hour"), rows("samples_day")], [0, 1, 1]);
    ingest.compact(now_ns() + 100 * DAY_NS).unwrap();
    assert_eq!([rows("samples"), rows("samples_hour"), rows("samples_day")], [0, 0, 1]);
    ingest.compact(now_ns() + 800 * DAY_NS).unwrap();
    assert_eq!([rows("samples"), rows("samples_hour"), rows("samples_day")], [0, 0, 0]);
}

/// A file that a flush put before the server was killed, without a manifest that has it.
#[test]
fn strays_of_an_interrupted_flush_are_deleted() {
    let scratch = Scratch::new("strays");
    let ingest = open(&scratch);
    ingest.accept(&batch_of(&[entry(1, 0, "main;a 100 1\n")]), now_ns()).unwrap();
    ingest.flush().unwrap();
    let name = ingest.current().segments[0].name.clone();
    let stray = name.replace(".parquet", "-stray.parquet");
    ingest.store.put(&stray, ingest.store.get(&name).unwrap().unwrap().0).unwrap();
    drop(ingest);
    let ingest = open(&scratch);
    assert!(!ingest.store.list().unwrap().contains(&stray));
    assert_eq!(Manifest::load(&ingest.store).unwrap().segments, ingest.current().segments);
    assert_eq!(count(&ingest, "SELECT count(*) FROM profiles"), 1);
}
