//! The unwinder's memo on trial: `--paranoid` compares every memoised stack with a full walk, and
//! aborts the program on a difference.

use std::path::Path;

use crate::harness::{Scratch, victims};

/// Runs a program in exact mode on trial.
fn try_program(program: &Path, arguments: &[&str]) {
    let scratch = Scratch::new();
    let output = scratch
        .heapwise(&["run", "--exact", "--paranoid", "-o", "trial.heap", "--"])
        .arg(program)
        .args(arguments)
        .env("PYTHONMALLOC", "malloc")
        .output()
        .expect("heapwise starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {message}");
    assert!(!message.contains("memoised stack differs"), "{program:?}: {message}");
    assert!(scratch.path("trial.heap").exists(), "{program:?}: {message}");
}

/// Victims whose stacks change in unusual ways.
#[test]
fn victims_have_the_stacks_of_a_full_walk() {
    for victim in [
        "cpp_exceptions",
        "deep_recursion",
        "dlopen_close",
        "lopsided_tree",
        "longjmp_out",
        "many_threads",
        "sigaltstack_alloc",
        "signal_alloc",
        "swapcontext_coroutines",
        "tls_destructor",
    ] {
        try_program(&victims().join(victim), &[]);
    }
}

/// Real programs. The stacks of node pass through code without unwind information.
#[test]
#[ignore = "needs python3, lua, perl, node, sqlite3 and clang"]
fn real_programs_have_the_stacks_of_a_full_walk() {
    const PYTHON: &str =
        "import json; d = {str(i): [i, 'x' * (i % 90)] for i in range(3000)}; json.loads(json.dumps(d))";
    const LUA: &str = "local t = {} for i = 1, 20000 do t[i] = {i, tostring(i)} end \
        local c = coroutine.wrap(function() for i = 1, 500 do coroutine.yield(('x'):rep(i)) end end) \
        for i = 1, 500 do c() end";
    const PERL: &str = "my %h; $h{$_} = \"x$_\" for 1..20000;";
    const NODE: &str =
        "const a = []; for (let i = 0; i < 20000; i++) a.push(Buffer.alloc(100).toString('hex'))";
    const BASH: &str = "for i in {1..500}; do a[$i]=$((i * 3)); x=\"$x$i\"; done";
    const SQL: &str = "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) \
        insert into t select x, 'v' || x from c; select count(*) from t where b like '%7%';";
    for (program, arguments) in [
        ("/usr/bin/python3", &["-c", PYTHON][..]),
        ("/usr/bin/lua5.4", &["-e", LUA]),
        ("/usr/bin/perl", &["-e", PERL]),
        ("/usr/bin/node", &["-e", NODE]),
        ("/usr/bin/bash", &["-c", BASH]),
        ("/usr/bin/sqlite3", &[":memory:", SQL]),
        ("/usr/bin/clang", &["-O1", "-x", "c", "-c", "/dev/null", "-o", "/dev/null"]),
    ] {
        try_program(Path::new(program), arguments);
    }
}
