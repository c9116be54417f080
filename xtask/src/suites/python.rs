//! CPython's own `test` package, with every object from `malloc`: one verdict a test.

use std::collections::BTreeMap;
use std::process::Command;

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "python",
    packages: &[
        ("/usr/bin/python3", "python3"),
        ("/usr/lib/python3.11/test/test_json/__init__.py", "libpython3.11-testsuite"),
    ],
    is_short: false,
    run,
};

/// Modules that are not run, and why. Everything else that `--list-tests` names is.
const LEFT_OUT: [(&str, &str); 5] = [
    ("time out without the probe, too", "test__xxsubinterpreters test_interpreters test_socket test_asyncio"),
    ("another way to start the same tests", "test_multiprocessing_forkserver test_multiprocessing_spawn"),
    (
        "minutes of waiting, for what multiprocessing and threading are tested by, too",
        "test_concurrent_futures",
    ),
    ("tests of the test runner, by runs of it", "test_regrtest"),
    ("need the source tree of Python, or debug it by gdb", "test_tools test_peg_generator test_gdb"),
];

/// Modules that share a process: enough to see one module's leftovers under another, few enough
/// that one that takes the process down leaves most verdicts.
const TOGETHER: usize = 8;

fn run(stage: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let listed = Command::new("/usr/bin/python3").args(["-m", "test", "--list-tests"]).output();
    let listed = listed.map_err(|error| Failure::new(format!("python3: {error}")))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|(_, names)| names.split(' ').any(|out| out == name));
    let modules: Vec<&str> = listed.lines().filter(|name| !is_left_out(name)).collect();
    let groups: Vec<&[&str]> = modules.chunks(TOGETHER).collect();
    let lane = |number: usize| -> Result<String, Failure> {
        let stage = Stage { scratch: stage.scratch.join(format!("lane{number}")), ..stage.clone() };
        stage.clear()?;
        let under = Under { stage: &stage, mode: under.mode };
        let groups = groups.iter().skip(number).step_by(LANES);
        groups.map(|group| together(&under, group)).collect()
    };
    let verdicts: Result<String, Failure> = std::thread::scope(|scope| {
        let lane = &lane;
        let running: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number))).collect();
        let ended = running.into_iter().map(|run| run.join());
        ended.map(|lane| lane.unwrap_or_else(|_| Err(Failure::new("python: a lane panicked")))).collect()
    });
    verdicts.map(Some)
}

/// Groups that run at the same time; many tests wait.
const LANES: usize = 3;

/// A group of modules in one process. What failed is tried once more by `-w`: some tests depend on
/// the load.
fn together(under: &Under<'_>, modules: &[&str]) -> Result<String, Failure> {
    let mut command = under.command("/usr/bin/python3");
    command.args(["-m", "test", "-v", "-w", "--timeout", "900"]).args(modules);
    let output = command.env("PYTHONMALLOC", "malloc").output();
    let output = output.map_err(|error| Failure::new(format!("python3: {error}")))?;
    Ok(verdicts(&String::from_utf8_lossy(&output.stdout)))
}

/// unittest prints `name (test.module.Class.name)`, perhaps a line of description, and
/// ` ... VERDICT`. The last verdict of a test is the one that counts.
fn verdicts(printed: &str) -> String {
    let (mut verdicts, mut current) = (BTreeMap::new(), "");
    for line in printed.lines() {
        let name = line.split_once(" (test").and_then(|(_, rest)| rest.split(')').next());
        current = name.unwrap_or(current);
        let Some((_, verdict)) = line.rsplit_once(" ... ") else { continue };
        let verdict = ["ok", "FAIL", "ERROR", "skipped", "expected failure"]
            .into_iter()
            .find(|known| verdict.starts_with(known));
        if let Some(verdict) = verdict {
            verdicts.insert(current, verdict);
        }
    }
    verdicts.iter().map(|(test, verdict)| format!("test{test} {verdict}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::verdicts;

    #[test]
    fn one_verdict_a_test() {
        let printed = "0:00:00 load avg: 1.0 [1/2] test_x\n\
            test_a (test.test_x.T.test_a) ... ok\n\
            test_b (test.test_x.T.test_b)\nWhat it is for. ... FAIL\n\
            test_c (test.test_x.T.test_c) ... skipped 'no tty'\n\
            some noise ... of the test itself\n\
            Re-running failed tests in verbose mode\n\
            test_b (test.test_x.T.test_b)\nWhat it is for. ... ok\n";
        let expected = "test.test_x.T.test_a ok\ntest.test_x.T.test_b ok\ntest.test_x.T.test_c skipped\n";
        assert_eq!(verdicts(printed), expected);
    }
}
