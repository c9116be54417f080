//! The page in a browser.

use std::path::Path;
use std::process::Command;

use crate::harness::{Scratch, Server, fleet, output, simulated, store};

/// The elements of a page after its requests were answered.
fn elements(scratch: &Path, url: &str) -> String {
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=30000",
        "--dump-dom",
    ]);
    browser.arg(format!("--user-data-dir={}", scratch.join("browser").display())).env("HOME", scratch);
    output(browser.arg(url))
}

#[test]
#[ignore = "needs chromium"]
fn the_page_answers_questions() {
    let scratch = Scratch::new("page");
    let data = scratch.path();
    let server = Server::start(data);
    let empty = elements(data, &server.url);
    assert!(empty.contains(&format!("heapwise agent --fleet {}", server.url)), "{empty}");
    server.kill();
    store(data, &simulated());

    let server = Server::start(data);
    let page = |address: &str| elements(data, &format!("{}/{address}", server.url));
    let growth = page("#growth");
    assert!(growth.contains("121 profiles of 11 processes on 10 hosts"), "{growth}");
    assert!(growth.contains(r##"<a href="#history?site=cache_insert&amp;service=shop">"##), "{growth}");
    assert!(growth.contains("3.8 MiB"), "{growth}");
    // The newest two releases of a service are compared.
    let diff = page("#diff");
    assert!(diff.contains("cache_insert"), "{diff}");
    let history = page("#history?site=cache_insert");
    assert_eq!(history.matches("<polyline").count(), 2, "{history}");
    let killed = page("#oom");
    assert!(killed.contains("/v1/profile?host=h05&amp;pid=77&amp;at=2026-11-16T12%3A03%3A01Z"), "{killed}");
    let sql = page("#sql?sql=SELECT%20count(*)%20AS%20n%20FROM%20nothing");
    assert!(sql.contains(r#"class="trouble""#), "{sql}");
}

/// A browser that was given the token once needs it in no other address.
#[test]
#[ignore = "needs chromium"]
fn the_page_works_with_a_token() {
    let scratch = Scratch::new("page-token");
    let data = scratch.path();
    store(data, &simulated());
    let server = Server::start_command(fleet(data), &["--token", "secret"]);
    let (address, token) = server.url.split_once('?').expect("a token");
    assert_eq!(token, "token=secret");
    let growth = elements(data, &format!("{address}?token=secret#growth"));
    assert!(growth.contains("cache_insert"), "{growth}");
}
