//! The server's answers, and profiles that it opens.

use heapwise_profile::query::Query;
use heapwise_profile::view::top;
use heapwise_profile::{CallTree, Profile, fixture, read};
use serde_json::Value;

use crate::harness::{Process, Scratch, Server, batch, fleet, output};

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

    // The same profile on the page of `heapwise serve`.
    let opened = server.get("/v1/profile?host=h1&pid=42&at=2026-11-16T12:03:00Z");
    assert!(opened.contains("<html"), "{opened}");
    let listed = server.get("/api/v1/sources");
    assert!(listed.contains("opened"), "{listed}");
    let answered: Value = serde_json::from_str(&server.get("/v1/ask/top?since=1h")).unwrap();
    assert_eq!(answered[0]["function"], "later");
    assert!(server.get("/").contains("heapwise fleet"));
}
