//! The spool: order, restart, bounds, a full disk.

use super::*;

/// A directory that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heapwise-spool-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const AT_ONCE: Duration = Duration::ZERO;

fn next(spool: &Spool, receiver: &str) -> Option<(u64, u64, Vec<u8>)> {
    spool.next(receiver, AT_ONCE).map(|(cursor, bytes)| (cursor.batch, cursor.entries, bytes))
}

#[test]
fn every_receiver_gets_every_batch_in_order() {
    let folder = Folder::new("order");
    let spool = Spool::open(&folder.0, 1000, &["a", "b"]).unwrap();
    spool.append(b"one", 1).unwrap();
    spool.append(b"two", 2).unwrap();
    assert_eq!(next(&spool, "a"), Some((0, 0, b"one".to_vec())));
    spool.advance("a", Cursor { batch: 1, entries: 1 });
    assert_eq!(next(&spool, "a"), Some((1, 1, b"two".to_vec())));
    assert_eq!(next(&spool, "b"), Some((0, 0, b"one".to_vec())));
    spool.advance("a", Cursor { batch: 2, entries: 0 });
    assert_eq!(next(&spool, "a"), None);
    assert_eq!(spool.counts(), SpoolCounts { batches: 2, bytes: 6, dropped: 0 });
    spool.advance("b", Cursor { batch: 1, entries: 0 });
    assert_eq!(spool.counts(), SpoolCounts { batches: 1, bytes: 3, dropped: 0 });
    assert!(!spool.is_sent());
    spool.advance("b", Cursor { batch: 2, entries: 0 });
    assert_eq!(spool.counts(), SpoolCounts::default());
    assert!(spool.is_sent());
}

#[test]
fn a_restart_continues_where_it_was() {
    let folder = Folder::new("restart");
    {
        let spool = Spool::open(&folder.0, 1000, &["a"]).unwrap();
        (0..3).for_each(|number: u8| spool.append(&[number], 4).unwrap());
        spool.advance("a", Cursor { batch: 1, entries: 3 });
        assert!(Spool::open(&folder.0, 1000, &["a"]).is_err(), "two agents with one spool");
    }
    fs::write(folder.0.join("new.tmp"), b"torn").unwrap();
    let spool = Spool::open(&folder.0, 1000, &["a"]).unwrap();
    assert_eq!(next(&spool, "a"), Some((1, 3, vec![1])));
    spool.append(b"new", 1).unwrap();
    spool.advance("a", Cursor { batch: 3, entries: 0 });
    assert_eq!(next(&spool, "a"), Some((3, 0, b"new".to_vec())));
    spool.advance("a", Cursor { batch: 4, entries: 0 });
    drop(spool);
    // Numbers never come again, though the directory has no batch.
    let spool = Spool::open(&folder.0, 1000, &["a"]).unwrap();
    spool.append(b"later", 1).unwrap();
    assert_eq!(next(&spool, "a"), Some((4, 0, b"later".to_vec())));
}

#[test]
fn a_full_spool_drops_the_oldest_and_counts_what_was_not_sent() {
    let folder = Folder::new("full");
    let spool = Spool::open(&folder.0, 10, &["a", "b"]).unwrap();
    spool.append(b"12345", 3).unwrap();
    spool.append(b"12345", 3).unwrap();
    spool.advance("a", Cursor { batch: 2, entries: 0 });
    spool.advance("b", Cursor { batch: 0, entries: 2 });
    assert_eq!(spool.counts().dropped, 0);
    spool.append(b"123456", 1).unwrap();
    // One entry of the first batch and three of the second.
    assert_eq!(spool.counts(), SpoolCounts { batches: 1, bytes: 6, dropped: 4 });
    assert_eq!(next(&spool, "b").map(|(batch, entries, _)| (batch, entries)), Some((2, 0)));
    assert!(!spool.has(1) && spool.has(2));
}

#[test]
fn without_receivers_the_newest_stay() {
    let folder = Folder::new("files");
    let spool = Spool::open(&folder.0, 4, &[]).unwrap();
    (0..5).for_each(|number: u8| spool.append(&[number; 2], 1).unwrap());
    assert_eq!(spool.counts(), SpoolCounts { batches: 2, bytes: 4, dropped: 3 });
}

#[test]
fn a_closed_spool_ends_waits() {
    let folder = Folder::new("closed");
    let spool = Spool::open(&folder.0, 4, &["a"]).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| spool.next("a", Duration::from_secs(600)).is_none());
        spool.close();
        assert!(waits.join().unwrap());
    });
    assert!(spool.wait_closed(Duration::from_secs(600)));
}
