//! CPython in processes that are not plain scripts: embedded, with several interpreters, with
//! processes of `multiprocessing`.

use crate::harness::{Scratch, victims};
use crate::python::{folded, run};

/// Blocks that were allocated in a line, of stacks that end with `frame`.
fn allocated(scratch: &Scratch, profile: &str, frame: &str) -> f64 {
    let text = scratch.output_of(&["export", "--alloc_objects", "-f", "folded", profile]);
    folded(&text).filter(|(stack, _)| stack.ends_with(frame)).map(|(_, blocks)| blocks).sum()
}

/// libpython is loaded after the start, finalized and initialized again; a thread and a second
/// interpreter use it too.
#[test]
#[ignore = "needs libpython3.11"]
fn an_embedded_interpreter_is_followed_through_every_initialization() {
    let library = std::env::var("HEAPWISE_TEST_LIBPYTHON");
    let library = library.unwrap_or_else(|_| "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0".into());
    let scratch = Scratch::new();
    let profile = scratch.path("embedded.hwp");
    let mut run = scratch.heapwise(&["run", "--exact", "-q", "-o"]);
    run.arg(&profile).arg("--").arg(victims().join("python_embedded")).arg(library);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for function in ["hold", "on_thread", "in_second"] {
        let frame = format!("{function} (<string>:5)");
        let blocks = allocated(&scratch, profile.to_str().expect("UTF-8"), &frame);
        // 20 000 in each of two initializations, and a few of the interpreter's own.
        assert!((40_000.0..40_100.0).contains(&blocks), "{function}: {blocks}");
    }
}

#[test]
fn objects_of_every_interpreter_have_their_lines() {
    let source = "import _xxsubinterpreters as interpreters\n\
                  source = '''def hold():\n  kept = [None] * 10000\n  for number in range(10000):\n\
                  \x20   kept[number] = bytes(100)\nhold()'''\n\
                  numbers = [interpreters.create() for _ in range(3)]\n\
                  for number in numbers:\n  interpreters.run_string(number, source)\n\
                  interpreters.destroy(numbers[0])\n\
                  exec(source)\n";
    let scratch = Scratch::new();
    let (_, profile) = run(&scratch, &["--exact"], &["-c", source]);
    let blocks = allocated(&scratch, profile.to_str().expect("UTF-8"), "hold (<string>:4)");
    assert!((40_000.0..40_100.0).contains(&blocks), "{blocks}");
}

/// Processes that are started as new programs, or forked by a server process.
#[test]
fn processes_of_multiprocessing_have_their_lines() {
    let source = "import multiprocessing, sys\n\
                  def work(count):\n  kept = [None] * count\n  for number in range(count):\n\
                  \x20   kept[number] = bytes(100)\n\
                  if __name__ == '__main__':\n\
                  \x20 context = multiprocessing.get_context(sys.argv[1])\n\
                  \x20 process = context.Process(target=work, args=(20000,))\n\
                  \x20 process.start()\n\
                  \x20 process.join()\n\
                  \x20 assert process.exitcode == 0\n";
    for method in ["spawn", "forkserver"] {
        let scratch = Scratch::new();
        let script = scratch.path("processes.py");
        std::fs::write(&script, source).expect("the script");
        let script = script.to_str().expect("UTF-8");
        let (output, profile) = run(&scratch, &["--exact", "--children"], &[script, method]);
        let summary = String::from_utf8_lossy(&output.stderr);
        let children = summary.lines().filter_map(|line| line.trim().strip_prefix("child")).map(str::trim);
        let frame = format!("work ({script}:5)");
        let blocks = |profile: &str| allocated(&scratch, profile, &frame);
        let of_children: f64 = children.map(blocks).sum();
        assert!((20_000.0..20_100.0).contains(&of_children), "{method}: {of_children}: {summary}");
        assert_eq!(blocks(profile.to_str().expect("UTF-8")), 0.0, "{method}");
    }
}
