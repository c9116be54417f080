//! Programs nobody here wrote, recorded in every mode: they compute what they compute without us,
//! and the reports name the right functions.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::Scratch;

const MODES: [&[&str]; 3] =
    [&["-c", "1K"], &["--exact", "--index", "shadow"], &["--exact", "--index", "hash"]];

/// Runs a program with and without the probe; standard output and status must be the same.
fn unchanged(scratch: &Scratch, program: &[&str]) -> Vec<String> {
    let alone = scratch.command(program[0]).args(&program[1..]).output().expect("program starts");
    MODES
        .iter()
        .enumerate()
        .map(|(number, mode)| {
            let profile = format!("real-{number}.heap");
            let mut command = scratch.heapwise(&["run", "-f", "-o", &profile]);
            let output = command.args(*mode).arg("--").args(program).output().expect("heapwise starts");
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), alone.status.code(), "{program:?} {mode:?}: {error}");
            assert_eq!(output.stdout, alone.stdout, "{program:?} {mode:?}");
            profile
        })
        .collect()
}

fn names(scratch: &Scratch, profile: &str) -> String {
    scratch.output_of(&["top", "-n", "0", "--alloc_space", profile])
}

#[test]
#[ignore = "needs programs to profile; long"]
fn python() {
    let scratch = Scratch::new();
    let script = "import json; d={str(i):[i]*9 for i in range(20000)}; print(len(json.dumps(json.loads(json.dumps(d)))))";
    let mut command = vec!["/usr/bin/env", "PYTHONMALLOC=malloc", "python3", "-c"];
    command.push(script);
    for profile in unchanged(&scratch, &command) {
        let top = names(&scratch, &profile);
        assert!(top.contains("Total: "), "{top}");
    }
}

#[test]
#[ignore = "needs programs to profile; long"]
fn sqlite() {
    let scratch = Scratch::new();
    let script = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
                  insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), sum(length(b)) from t;";
    for profile in unchanged(&scratch, &["sqlite3", ":memory:", script]) {
        assert!(names(&scratch, &profile).contains("libsqlite3.so"), "sqlite's frames are in its library");
    }
}

#[test]
#[ignore = "needs programs to profile; long"]
fn perl_and_lua() {
    let scratch = Scratch::new();
    unchanged(
        &scratch,
        &["perl", "-e", "my %h; $h{$_ % 5000} .= $_ for 1..100000; print scalar(keys %h), qq(\\n)"],
    );
    let script = "local t={} for i=1,50000 do t[i]=tostring(i)..'x' end print(#table.concat(t))";
    for profile in unchanged(&scratch, &["lua5.4", "-e", script]) {
        assert!(names(&scratch, &profile).contains("lua"), "Lua's frames are named");
    }
}

#[test]
#[ignore = "needs programs to profile; long"]
fn clang() {
    let scratch = Scratch::new();
    let source = "#include <map>\n#include <string>\nstd::map<std::string,int> m; int main() { m[\"a\"]++; return m.size(); }\n";
    std::fs::write(scratch.path("a.cpp"), source).expect("written");
    for profile in unchanged(&scratch, &["clang++", "-O1", "-S", "-o", "-", "a.cpp"]) {
        let top = names(&scratch, &profile);
        assert!(top.contains("clang::"), "clang's functions are named");
    }
}

#[test]
#[ignore = "needs programs to profile; long"]
fn redis() {
    let scratch = Scratch::new();
    for (number, mode) in ["mode:sampled,rate:1024", "mode:exact", "mode:exact,index:hash"].iter().enumerate()
    {
        // Below the ports that the kernel gives to clients, each of which is taken for a minute
        // after use.
        let port = (20_000 + std::process::id() % 12_000 + number as u32).to_string();
        let library = scratch.output_of(&["preload"]);
        let mut server = scratch
            .command("redis-server")
            .args(["--port", &port, "--save", "", "--bind", "127.0.0.1"])
            .env("LD_PRELOAD", library.trim())
            .env("HEAPWISE_CONF", mode)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let ask = |words: &[&str]| {
            let output =
                Command::new("redis-cli").args(["-p", &port]).args(words).output().expect("redis-cli");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while ask(&["ping"]) != "PONG" {
            assert!(Instant::now() < deadline, "redis does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        let load = Command::new("redis-benchmark")
            .args(["-p", &port, "-n", "20000", "-r", "10000", "-q", "-t", "set,lpush,hset"])
            .output()
            .expect("redis-benchmark");
        assert!(load.status.success());
        assert_eq!(ask(&["set", "k", "v"]), "OK");
        assert_eq!(ask(&["get", "k"]), "v");
        let pid = server.id().to_string();
        let top = scratch.json_of(&["top", "--json", "--focus", "zmalloc|zrealloc|zcalloc", &pid]);
        let held = top["total"].as_f64().expect("total");
        let own: f64 = ask(&["info", "memory"])
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
            .expect("redis counts too");
        // redis counts usable bytes of its own calls, heapwise requested ones: within a quarter of
        // each other.
        assert!((0.6..1.1).contains(&(held / own)), "{mode}: heapwise {held}, redis {own}");
        ask(&["shutdown", "nosave"]);
        assert!(server.wait().expect("waited").success());
    }
}
