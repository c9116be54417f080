//! The server's answers, and profiles that it opens.

use heapwise_agent::batch::End;
use heapwise_profile::query::Query;
use heapwise_profile::view::top;
use heapwise_profile::{CallTree, Profile, fixture, read};
use serde_json::Value;

use crate::harness::{Process, Scratch, Server, batch, fleet, output, store};

const FOLDED: &str =
    "shop!main:3;shop!grow:10/shop!push:7;libc.so!malloc:1 4096 4\nshop!main:4;shop!load:20 100 1\n";

fn top_rows(profile: &Profile) -> Vec<String> {
    let query = Query::default();
    let tree = CallTree::new(profile, &query);
    let rows = top::top(&tree, &query).rows;
    rows.iter().map(|row| format!("{} {:?} {:?}", row.frame.label, row.flat, row.cum)).collect()
}

#[test]
fn a_stored_profile_comes_back_as_a_normal_one() {
    let scratch = Scratch::new("drill-down");
    let original = fixture::profile(FOLDED);
    let process = Process { host: "h1", release: "1.0", pid: 42 };
    let server = Server::start(scratch.path());
    let entries = [process.entry(0, None, &original), process.at(5, None, "main;later 1 1\n")];
    let answer = Server::try_send(&server.url, &batch(&entries)).unwrap();
    assert_eq!(answer["accepted"], 2);
    server.wait_for_profiles(2);

    let file = scratch.path().join("one.hwp");
    output(
        fleet(scratch.path()).args(["profile", "h1", "42", "--at", "2026-11-16T12:03:00Z", "-o"]).arg(&file),
    );
    let profile = read(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(top_rows(&profile), top_rows(&original));
    assert_eq!(profile.total(), original.total());
    assert_eq!(profile.meta.pid, Some(42));

    // The same profile in the views of `heapwise serve`, although a later one was opened before.
    server.get("/v1/profile?host=h1&pid=42");
    let opened = server.redirect_of("/v1/profile?host=h1&pid=42&at=2026-11-16T12:03:00Z");
    let name = opened.strip_prefix("/s/opened/overview?profile=").expect(&opened).to_owned();
    assert!(server.get(&opened).contains("<html"));
    let top = server.get(&format!("/api/v1/sources/opened/top?profile={name}"));
    assert!(top.contains("grow") && !top.contains("later"), "{top}");
    let answered: Value = serde_json::from_str(&server.get("/v1/ask/top?since=1h")).unwrap();
    assert_eq!(answered[0]["function"], "later");
    assert!(server.get("/").contains("heapwise fleet"));
}

/// The sum of the last profiles of processes that run: 42 by its later profile, and not 44.
#[test]
fn the_processes_of_a_fleet_are_one_profile() {
    let scratch = Scratch::new("merged");
    let process = |host, pid| Process { host, release: "1.0", pid };
    let entries = [
        process("h1", 42).at(0, None, "main;load 1000 1\n"),
        process("h1", 42).at(1, None, "main;load 300 3\nmain;parse 7 1\n"),
        process("h2", 43).at(1, None, "main;load 20 2\n"),
        process("h2", 44).at(1, Some(End::Exited(Some(0))), "main;load 5000 5\n"),
    ];
    store(scratch.path(), &entries);
    let file = scratch.path().join("all.hwp");
    output(fleet(scratch.path()).args(["merged", "-o"]).arg(&file));
    let profile = read(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(top_rows(&profile), top_rows(&fixture::profile("main;load 320 5\nmain;parse 7 1\n")));
    let server = Server::start(scratch.path());
    let opened = server.redirect_of("/v1/merged");
    assert!(opened.starts_with("/s/opened/overview?profile=fleet-merged-"), "{opened}");
}
