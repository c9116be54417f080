//! Deliveries to servers that fail, stall, refuse, and come back.

use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::fake_server::{FakeServer, Reply, Seen};
use super::*;
use crate::batch::EntryId;
use crate::receiver::Receiver;
use crate::receiver::sample::entry;

/// A spool in a directory that ends with the test.
struct Host {
    folder: PathBuf,
}

impl Host {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("heapwise-delivery-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self { folder }
    }

    fn agent(&self, server: &FakeServer, receiver: fn(crate::request::Address) -> Receiver) -> Running {
        self.agent_with_limit(server, receiver, 1 << 20)
    }

    fn agent_with_limit(
        &self,
        server: &FakeServer,
        receiver: fn(crate::request::Address) -> Receiver,
        limit_bytes: u64,
    ) -> Running {
        let receiver = receiver(format!("http://{}", server.address).parse().unwrap());
        let name = receiver.name();
        let spool = Arc::new(Spool::open(&self.folder, limit_bytes, &[name]).unwrap());
        let counts = Arc::new(Mutex::new(DeliveryCounts::default()));
        let delivery = Delivery {
            receiver: name,
            encoder: receiver.encoder(&[], 0),
            spool: Arc::clone(&spool),
            counts: Arc::clone(&counts),
            seed: 1,
            limit: Duration::from_secs(2),
        };
        Running { spool, counts, thread: Some(thread::spawn(move || delivery.run())) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A delivery thread; dropping it is the end of the agent.
struct Running {
    spool: Arc<Spool>,
    counts: Arc<Mutex<DeliveryCounts>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn counts(&self) -> DeliveryCounts {
        self.counts.lock().unwrap().clone()
    }

    /// Waits for a condition, for much longer than it takes on a busy machine.
    fn wait(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_true(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.counts());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.spool.close();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn append(spool: &Spool, entries: &[Entry]) {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.append_to(&mut bytes));
    spool.append(&bytes, entries.len() as u64).unwrap();
}

fn ids(seen: &Seen) -> Vec<EntryId> {
    batch::read(&seen.body).map(|entry| entry.unwrap().header.id).collect()
}

#[test]
fn a_request_is_sent_again_until_it_is_accepted() {
    let script = [Reply::Status(503), Reply::Close, Reply::Stall, Reply::Status(429), Reply::Status(200)];
    let (host, server) = (Host::new("again"), FakeServer::start(&script));
    let agent = host.agent(&server, Receiver::Fleet);
    append(&agent.spool, &[entry(1, 1, None), entry(2, 1, None)]);
    agent.wait("sent", |agent| agent.spool.is_sent());
    assert_eq!(agent.counts(), DeliveryCounts { sent: 2, failures: 4, ..DeliveryCounts::default() });
    assert_eq!(agent.spool.counts().dropped, 0);
    let requests: Vec<Seen> = server.seen.try_iter().collect();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| *request == requests[0]), "the same request each time");
    assert_eq!(requests[0].line, "POST /v1/batches HTTP/1.1");
}

#[test]
fn what_is_rejected_is_counted_and_not_sent_again() {
    let script = [Reply::Status(400), Reply::Status(200)];
    let (host, server) = (Host::new("rejected"), FakeServer::start(&script));
    let agent = host.agent(&server, Receiver::Fleet);
    append(&agent.spool, &[entry(1, 1, None), entry(2, 1, None)]);
    append(&agent.spool, &[entry(3, 1, None)]);
    agent.wait("sent", |agent| agent.spool.is_sent());
    let expected = DeliveryCounts { sent: 1, rejected: 2, ..DeliveryCounts::default() };
    assert_eq!(agent.counts(), expected);
    assert_eq!(server.seen.try_iter().count(), 2);
}

#[test]
fn a_restarted_agent_sends_what_was_not_acknowledged() {
    let (host, first) = (Host::new("restart"), FakeServer::start(&[Reply::Status(200), Reply::Status(500)]));
    let entries = [entry(1, 1, None), entry(2, 1, None), entry(3, 1, None)];
    {
        let agent = host.agent(&first, Receiver::Pyroscope);
        append(&agent.spool, &entries);
        agent.wait("one accepted, one failed", |agent| {
            let counts = agent.counts();
            counts.sent == 1 && counts.failures > 0
        });
    }
    let second = FakeServer::start(&[Reply::Status(200)]);
    let agent = host.agent(&second, Receiver::Pyroscope);
    agent.wait("sent", |agent| agent.spool.is_sent());
    assert_eq!(agent.counts().sent, 2);
    let has = |request: &Seen, entry: &Entry| {
        let id = entry.header.id.to_string();
        request.body.windows(id.len()).any(|part| part == id.as_bytes())
    };
    let requests: Vec<Seen> = second.seen.try_iter().collect();
    assert_eq!(requests.len(), 2);
    assert!(has(&requests[0], &entries[1]) && has(&requests[1], &entries[2]));
}

#[test]
fn within_the_bound_nothing_is_lost_and_beyond_it_the_oldest() {
    let (host, down) = (Host::new("bound"), FakeServer::start(&[Reply::Status(503)]));
    let entries: Vec<Entry> = (0..10).map(|minute| entry(1, minute, None)).collect();
    let mut size = Vec::new();
    entries[0].append_to(&mut size);
    let limit = size.len() as u64 * 9 / 2;
    let dropped = {
        let agent = host.agent_with_limit(&down, Receiver::Fleet, limit);
        entries.iter().for_each(|entry| append(&agent.spool, std::slice::from_ref(entry)));
        agent.wait("a failure", |agent| agent.counts().failures > 0);
        let counts = agent.spool.counts();
        assert!(counts.bytes <= limit && counts.batches + counts.dropped == 10, "{counts:?}");
        counts.dropped
    };
    let up = FakeServer::start(&[Reply::Status(200)]);
    let agent = host.agent_with_limit(&up, Receiver::Fleet, limit);
    agent.wait("sent", |agent| agent.spool.is_sent());
    let sent: Vec<EntryId> = up.seen.try_iter().flat_map(|request| ids(&request)).collect();
    let expected: Vec<EntryId> = entries[dropped as usize..].iter().map(|entry| entry.header.id).collect();
    assert_eq!(sent, expected);
    assert!(expected.len() >= 3);
}

#[test]
fn a_torn_batch_is_sent_as_far_as_it_is_whole() {
    let (host, server) = (Host::new("torn"), FakeServer::start(&[Reply::Status(200)]));
    let agent = host.agent(&server, Receiver::Fleet);
    let mut bytes = Vec::new();
    [entry(1, 1, None), entry(2, 1, None)].iter().for_each(|entry| entry.append_to(&mut bytes));
    bytes.truncate(bytes.len() - 3);
    agent.spool.append(&bytes, 2).unwrap();
    agent.wait("sent", |agent| agent.spool.is_sent());
    let expected = DeliveryCounts { sent: 1, unreadable: 1, ..DeliveryCounts::default() };
    assert_eq!(agent.counts(), expected);
}
