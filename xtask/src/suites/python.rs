//! CPython's own `test` package, with every object from `malloc`: one verdict a test.

use super::{Stage, Suite, Under};
use crate::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "python",
    packages: &[
        ("/usr/bin/python3", "python3"),
        ("/usr/lib/python3.11/test/test_json/__init__.py", "libpython3.11-testsuite"),
    ],
    is_short: false,
    run,
};

/// What touches processes, threads, signals, memory, files and extension modules, and a broad rest. Left out: tests
/// of the network, of time limits, and those that take minutes.
const TESTS: &str = "
    test_os test_posix test_subprocess test_threading test_thread test_fork1 test_signal test_mmap test_resource
    test_ctypes test_json test_re test_gc test_sqlite3 test_faulthandler test_pty test_wait3 test_wait4
    test_tracemalloc test_capi test_dict test_list test_set test_decimal test_pickle test_unicode test_bytes
    test_zlib test_bz2 test_lzma test_xml_etree test_xml_etree_c test_memoryio test_array test_struct
    test_collections test_deque test_heapq test_itertools test_generators test_coroutines test_exceptions
    test_traceback test_sys test_sysconfig test_site test_cmd_line test_cmd_line_script test_embed test_select
    test_epoll test_sched test_tempfile test_shutil test_glob test_pathlib test_csv test_configparser test_hashlib
    test_hmac test_random test_math test_cmath test_fractions test_float test_long test_int test_complex test_bool
    test_ast test_compile test_dis test_code test_codecs test_codeccallbacks test_format test_string test_textwrap
    test_argparse test_unittest test_doctest test_inspect test_functools test_typing test_dataclasses test_enum
    test_contextlib test_descr test_super test_iter test_slice test_sort test_bisect test_copy test_datetime
    test_calendar test_time test_locale test_gettext test_tarfile test_zipfile test_gzip test_pyexpat test_sax
    test_minidom test_posixpath test_readline test_crypt test_audioop test_fcntl test_openpty test_getpass
    test_largefile test_zoneinfo test_exception_group test_frame test_finalization test_asyncgen";

fn run(_: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let mut command = under.command("/usr/bin/python3");
    command.args(["-m", "test", "-v", "--timeout", "600"]).args(TESTS.split_whitespace());
    let output = command.env("PYTHONMALLOC", "malloc").output();
    let output = output.map_err(|error| Failure::new(format!("python3: {error}")))?;
    Ok(Some(verdicts(&String::from_utf8_lossy(&output.stdout))))
}

/// unittest prints `name (test.module.Class.name)`, perhaps a line of description, and ` ... VERDICT`.
fn verdicts(printed: &str) -> String {
    let (mut verdicts, mut current) = (String::new(), "");
    for line in printed.lines() {
        let name = line.split_once(" (test").and_then(|(_, rest)| rest.split(')').next());
        current = name.unwrap_or(current);
        let Some((_, verdict)) = line.rsplit_once(" ... ") else { continue };
        let verdict = ["ok", "FAIL", "ERROR", "skipped", "expected failure"]
            .into_iter()
            .find(|known| verdict.starts_with(known));
        if let Some(verdict) = verdict {
            verdicts += &format!("test{current} {verdict}\n");
        }
    }
    verdicts
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
            some noise ... of the test itself\n";
        let expected = "test.test_x.T.test_a ok\ntest.test_x.T.test_b FAIL\ntest.test_x.T.test_c skipped\n";
        assert_eq!(verdicts(printed), expected);
    }
}
