//! CPython's own `test` package, one verdict per test: with the interpreter's own allocators, and
//! with every object from `malloc`. The interpreter is Debian's, or the one that `PYTHON_TESTS`
//! names.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "python",
    packages: &[
        ("/usr/bin/python3", "python3"),
        ("/usr/lib/python3.11/test/test_json/__init__.py", "libpython3.11-testsuite"),
    ],
    is_short: false,
    run: |stage, under| run(stage, under, None),
};

pub(super) const MALLOC_SUITE: Suite =
    Suite { name: "python-malloc", run: |stage, under| run(stage, under, Some("malloc")), ..SUITE };

/// Patterns of tests that are not run because they hang without the probe, too.
const LEFT_OUT: [&str; 3] = [
    // In a virtual machine whose host does not accept the connection.
    "*VSOCKSocketStream*",
    // 3.11.7 waits forever for a thread that made or closed a subinterpreter.
    "*interpreters.CreateTests.test_in_thread*",
    "*interpreters.*.test_from_other_thread",
];

/// Modules that share a process: enough to see one module's leftovers under another, few enough
/// that one that takes the process down leaves most verdicts. Neighbors in the list, such as those
/// of multiprocessing, which take minutes, are in different groups.
const TOGETHER: usize = 8;

/// Groups that run at the same time; many tests wait.
const LANES: usize = 3;

/// An interpreter and the value of `PYTHONMALLOC` for it.
struct Python<'a> {
    program: &'a str,
    allocator: Option<&'a str>,
}

fn run(stage: &Stage, under: &Under<'_>, allocator: Option<&str>) -> Result<Option<String>, Failure> {
    let program = std::env::var("PYTHON_TESTS").unwrap_or_else(|_| "/usr/bin/python3".to_owned());
    let python = Python { program: &program, allocator };
    let listed = Command::new(&program).args(["-m", "test", "--list-tests"]).output();
    let listed = listed.map_err(|error| Failure::new(format!("{program}: {error}")))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let modules: Vec<&str> = listed.lines().collect();
    let count = modules.len().div_ceil(TOGETHER);
    let groups: Vec<Vec<&str>> =
        (0..count).map(|first| modules.iter().copied().skip(first).step_by(count).collect()).collect();
    let next = AtomicUsize::new(0);
    let lane = |number: usize| -> Result<String, Failure> {
        let stage = Stage { scratch: stage.scratch.join(format!("lane{number}")), ..stage.clone() };
        stage.clear()?;
        let under = Under { stage: &stage, mode: under.mode };
        let groups = std::iter::from_fn(|| groups.get(next.fetch_add(1, Ordering::Relaxed)));
        groups.map(|group| together(&python, &under, group)).collect()
    };
    let verdicts: Result<String, Failure> = std::thread::scope(|scope| {
        let lane = &lane;
        let running: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number))).collect();
        let ended = running.into_iter().map(|run| run.join());
        ended.map(|lane| lane.unwrap_or_else(|_| Err(Failure::new("python: a lane panicked")))).collect()
    });
    verdicts.map(Some)
}

/// A group of modules in one process. Modules with failures run a second time, because some tests
/// depend on the load, and the second verdict counts. From 3.11.7 on, option `-w` would run them in
/// a child process. `--junit-xml` keeps output of tests out of the lines with verdicts.
fn together(python: &Python<'_>, under: &Under<'_>, modules: &[&str]) -> Result<String, Failure> {
    let run = |modules: &[&str]| {
        let mut command = under.command(python.program);
        command.args(["-m", "test", "-v", "--junit-xml", "tests.xml", "--timeout", "900"]);
        command.args(LEFT_OUT.iter().flat_map(|pattern| ["--ignore", *pattern])).args(modules);
        command.envs(python.allocator.map(|value| ("PYTHONMALLOC", value)));
        let output =
            command.output().map_err(|error| Failure::new(format!("{}: {error}", python.program)))?;
        Ok::<_, Failure>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut printed = run(modules)?;
    let has_failed = |module: &str| printed.lines().any(|line| line.starts_with(&format!("{module} failed")));
    let failed: Vec<&str> = modules.iter().copied().filter(|module| has_failed(module)).collect();
    if !failed.is_empty() {
        printed += &run(&failed)?;
    }
    Ok(verdicts(&printed))
}

/// unittest prints `name (package.module.Class.name)`, perhaps a line of description, and
/// ` ... VERDICT`. The last verdict of a test is the one that counts.
fn verdicts(printed: &str) -> String {
    let (mut verdicts, mut current) = (BTreeMap::new(), String::new());
    for line in printed.lines() {
        current = test_name(line).unwrap_or(current);
        let Some((_, verdict)) = line.rsplit_once(" ... ") else { continue };
        let verdict = ["ok", "FAIL", "ERROR", "skipped", "expected failure"]
            .into_iter()
            .find(|known| verdict.starts_with(known));
        if let Some(verdict) = verdict {
            verdicts.insert(current.clone(), verdict);
        }
    }
    verdicts.iter().map(|(test, verdict)| format!("{test} {verdict}\n")).collect()
}

/// The name of a test from a line that starts with `name (package.module.Class.name)`, or with
/// `name (package.module)` for a doctest.
fn test_name(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" (")?;
    let (path, _) = rest.split_once(')')?;
    let is_word = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || "_<>".contains(letter));
    if !is_word(name) || !path.split('.').all(is_word) {
        return None;
    }
    let is_whole = path.rsplit('.').next() == Some(name);
    Some(if is_whole { path.to_owned() } else { format!("{path}.{name}") })
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
            test_d (ctypes.test.test_y.<locals>.T.test_d) ... ok\n\
            split (distutils.version)\nDoctest: distutils.version.split ... ok\n\
            some noise ... of the test itself\n\
            test_b (test.test_x.T.test_b)\nWhat it is for. ... ok\n";
        let expected = "ctypes.test.test_y.<locals>.T.test_d ok\ndistutils.version.split ok\ntest.test_x.T.test_a ok\n\
            test.test_x.T.test_b ok\ntest.test_x.T.test_c skipped\n";
        assert_eq!(verdicts(printed), expected);
    }
}
