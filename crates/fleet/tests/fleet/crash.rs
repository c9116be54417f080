//! `kill -9` of the server while agents send: everything acknowledged is there, nothing twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use crate::harness::{Process, Scratch, Server, batch, rows};

/// Servers that are killed.
const KILLS: u64 = 8;
/// Batches, each of one process with two profiles.
const BATCHES: u32 = 240;
/// Agents that send at the same time.
const SENDERS: usize = 4;

fn batch_of(number: u32) -> Vec<u8> {
    let host = format!("h{:02}", number % 7);
    let process = Process { host: &host, release: "1.0", pid: number };
    let own = format!("main;work_{};malloc 100 1\nmain;shared 10 1\n", number % 13);
    batch(&[process.at(u64::from(number % 9), None, &own), process.at(20, None, "main;shared 10 1\n")])
}

/// Sends what is not acknowledged until the server is gone.
fn send(url: &str, open: &Mutex<BTreeSet<u32>>) {
    let waiting: Mutex<Vec<u32>> = Mutex::new(open.lock().unwrap().iter().copied().collect());
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                loop {
                    let Some(number) = waiting.lock().unwrap().pop() else { return };
                    let Some(answer) = Server::try_send(url, &batch_of(number)) else { return };
                    let stored = answer["accepted"].as_u64().unwrap() + answer["known"].as_u64().unwrap();
                    assert_eq!(stored, 2, "{answer}");
                    open.lock().unwrap().remove(&number);
                }
            });
        }
    });
}

#[test]
fn nothing_acknowledged_is_lost_or_stored_twice() {
    let scratch = Scratch::new("crash");
    let open: Mutex<BTreeSet<u32>> = Mutex::new((0..BATCHES).collect());
    for round in 0..KILLS {
        let server = Server::start(scratch.path());
        let url = server.url.clone();
        let before = open.lock().unwrap().len();
        std::thread::scope(|scope| {
            let open = &open;
            let sender = scope.spawn(move || send(&url, open));
            // Killed after some acknowledgments, while others are on their way.
            let wanted = 1 + (round as usize * 17) % 29;
            let is_due = || before - open.lock().unwrap().len() >= wanted;
            while !is_due() && !sender.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            server.kill();
        });
    }
    let server = Server::start(scratch.path());
    send(&server.url, &open);
    assert!(open.lock().unwrap().is_empty());
    server.wait_for_profiles(u64::from(BATCHES) * 2);
    server.kill();

    let one = |sql: &str| rows(scratch.path(), &["query", sql])[0]["n"].as_u64().unwrap();
    let profiles = u64::from(BATCHES) * 2;
    assert_eq!(one("SELECT count(*) AS n FROM profiles"), profiles);
    assert_eq!(one("SELECT count(DISTINCT profile_id) AS n FROM profiles"), profiles);
    assert_eq!(one("SELECT count(*) AS n FROM samples"), u64::from(BATCHES) * 3);
    assert_eq!(one("SELECT sum(inuse_bytes) AS n FROM samples"), u64::from(BATCHES) * 120);
    // 13 stacks of their own and a shared one, each stored once.
    assert_eq!(one("SELECT count(*) AS n FROM stacks"), 14);
    assert_eq!(one("SELECT count(DISTINCT stack_id) AS n FROM stacks"), 14);
    assert_eq!(one("SELECT count(*) AS n FROM functions"), 16);
    assert_eq!(one("SELECT count(*) AS n FROM frames"), 13 * 3 + 2);
}
