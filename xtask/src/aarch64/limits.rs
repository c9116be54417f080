//! Tests that cannot pass under qemu-user, each with the reason: the one list of them. They are
//! tried anyway, and one that passes is reported; except a few that would cost too much.

use super::trials::TrialResult;

const NO_PROFILER: &str =
    "compares with jemalloc's profiler, which Debian's jemalloc for aarch64 does not have";
const OTHER_PROGRAMS: &str =
    "profiles programs or libraries that Debian installs for one architecture at a time";
const NO_SMALL_LOG: &str = "needs a limit on addresses (RLIMIT_AS); qemu keeps it from the program";

const NO_SECCOMP: &str = "qemu refuses seccomp: the victim fails alone";
const PROCESSES: &str = "many processes, each of which costs qemu 600 MB for what it knows of a segment's addresses; a few are among the victims";

/// (test, why not)
const LIMITS: &[(&str, &str)] = &[
    (
        "memo::unloaded_code_is_forgotten",
        "needs a loader that puts new code where old code was; qemu gives every address once",
    ),
    ("drain::a_program_waits_for_its_recorder_only_so_long", NO_SMALL_LOG),
    ("drain::what_a_full_log_drops_is_in_every_report", NO_SMALL_LOG),
    ("faults::another_c_library_is_told_so", OTHER_PROGRAMS),
    (
        "faults::no_file_may_grow",
        "qemu makes up /proc/self/cmdline in a file of its own, which then may not grow either",
    ),
    ("faults::nothing_but_read_write_and_exit", NO_SECCOMP),
    ("faults::the_programs_own_seccomp_filter", NO_SECCOMP),
    ("jemalloc::a_bad_option_aborts_when_asked_to", "the last words of an aborted program are qemu's"),
    ("jemalloc::a_jemalloc_underneath_is_asked_itself", NO_PROFILER),
    ("jemalloc::every_name_answers_as_jemalloc_does", NO_PROFILER),
    ("jemalloc::sizes_and_errnos_are_jemallocs", NO_PROFILER),
    ("jemalloc::the_guide_over_jemalloc_and_over_the_probe", NO_PROFILER),
    ("jemalloc_options::messages_are_jemallocs_to_the_letter", NO_PROFILER),
    ("jemalloc_threads::size_classes_are_summed", NO_PROFILER),
    ("jemalloc_threads::the_last_blocks_are_kept", NO_PROFILER),
    ("jemalloc_threads::the_log_has_what_was_freed", NO_PROFILER),
    ("jeprof_corpus::reports_of_jemalloc_dumps_equal_jeprofs", OTHER_PROGRAMS),
    ("jeprof_corpus::reports_of_tcmalloc_dumps_equal_jeprofs_too", OTHER_PROGRAMS),
    ("lua::lua_functions_are_in_every_view", OTHER_PROGRAMS),
    ("lua::memory_is_attributed_to_lua_lines", OTHER_PROGRAMS),
    ("paranoid::real_programs_have_the_stacks_of_a_full_walk", OTHER_PROGRAMS),
    ("real_programs::clang", OTHER_PROGRAMS),
    ("real_programs::perl_and_lua", OTHER_PROGRAMS),
    ("real_programs::python", OTHER_PROGRAMS),
    ("real_programs::redis", OTHER_PROGRAMS),
    ("real_programs::sqlite", OTHER_PROGRAMS),
    ("security::a_program_that_drops_its_rights_can_still_run_others", OTHER_PROGRAMS),
    (
        "statistics::glibc_tells_and_every_resident_page_is_accounted_for",
        "the emulator's own memory counts as the program's",
    ),
    ("surroundings::a_clock_that_jumped", OTHER_PROGRAMS),
    ("victims::clone_sharing_memory", "qemu refuses CLONE_VM to processes"),
];

/// Tests that could pass and are not even tried: (test, why not).
const COSTS: &[(&str, &str)] = &[
    ("faults::a_bounded_fork_bomb", PROCESSES),
    ("faults::a_child_that_starts_threads_at_once", PROCESSES),
    (
        "hostile_requests::hostile_requests_reach_no_other_file_and_break_nothing",
        "thousands of requests to an emulated server, not done in seven minutes",
    ),
    ("victims::eight_threads_and_ten_million_events", "hours"),
    ("victims::fork_while_another_thread_allocates", PROCESSES),
    (
        "victims::sampled_estimates_are_unbiased",
        "two hundred programs, an hour; the arithmetic is the same everywhere",
    ),
];

/// Is a test worth its time?
pub(super) fn is_tried(test: &str) -> bool {
    COSTS.iter().all(|(name, _)| *name != test)
}

/// The end-to-end tests of both lists.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LIMITS.iter().chain(COSTS).map(|(name, _)| *name).filter(|name| !name.starts_with("memo::"))
}

/// Why a test cannot pass; `None` when it can.
pub(super) fn why(test: &str) -> Option<&'static str> {
    LIMITS.iter().find(|(name, _)| *name == test).map(|(_, why)| *why)
}

/// Prints what failed that should not, and the list; how many failed.
pub(super) fn report(results: &[TrialResult]) -> usize {
    let mut unexpected = 0;
    for result in results {
        if let (Some(said), None) = (&result.failure, why(&result.name)) {
            unexpected += 1;
            println!("FAILED {}\n{said}", result.name);
        }
    }
    let passed = results.iter().filter(|result| result.failure.is_none()).count();
    println!("aarch64: {} tests, {passed} passed, {unexpected} failed that should pass", results.len());
    for (name, why) in LIMITS {
        let passes = results.iter().any(|result| result.name == *name && result.failure.is_none());
        println!("{}: {name}: {why}", if passes { "PASSES, though listed" } else { "not under qemu" });
    }
    COSTS.iter().for_each(|(name, why)| println!("not tried: {name}: {why}"));
    unexpected
}
