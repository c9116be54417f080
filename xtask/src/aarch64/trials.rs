//! The repository's own tests, compiled for aarch64, under qemu: each in a process of its own and
//! for a limited time.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::kernel::Starter;
use super::limits;
use super::toolchain::{self, Built};
use crate::runner;
use heapwise_testkit::failure::Failure;

/// Seconds after which a test has failed. Those that pass take a minute at most on a quiet machine.
const MOST_SECONDS: &str = "600";

/// For those of which nothing else is expected.
const FEW_SECONDS: &str = "60";

/// How code may keep its return addresses, as flags for the C compiler: signed where they are
/// stored; signed everywhere and with the other key, without frame pointers; and not signed,
/// without and with frame pointers.
const FLAVOURS: [&str; 4] =
    [SIGNED, "-mbranch-protection=pac-ret+leaf+b-key -fomit-frame-pointer", "-fomit-frame-pointer", ""];

/// As many of them in the short form.
const FEW_FLAVOURS: usize = 2;

/// End-to-end tests of the short form, one of each kind of work.
const SHORT: [&str; 15] = [
    "client::the_rust_client_starts_stops_resets_and_dumps",
    "compat::mem_parser_as_text_and_as_a_graph",
    "control::a_whole_phase_is_counted_exactly",
    "control::starts_idle_and_is_switched_from_outside",
    "control::the_dead_can_be_read_and_cleaned_up",
    "drain::children_are_drained_while_they_run",
    "jemalloc::a_forked_child_writes_its_own_files",
    "jemalloc::leaks_at_exit_are_told_and_jeprof_finds_them",
    "jemalloc::sampled_dumps_give_jeprof_an_unbiased_estimate",
    "recording::a_ring_remembers_what_is_live",
    "surroundings::a_disk_full_of_recording",
    "surroundings::losses_for_lack_of_room_are_told",
    "victims::exceptions_across_modules",
    "victims::killed_program_leaves_its_last_state",
    "victims::threads_are_told_apart",
];

/// Who starts tests, and where they find what they start themselves.
pub(super) struct Court<'a> {
    pub(super) root: &'a Path,
    pub(super) starter: &'a Starter,
    pub(super) built: &'a Built,
    /// Programs that stand before those of this machine.
    pub(super) programs: &'a Path,
    pub(super) is_short: bool,
}

/// How a trial ended.
pub(super) struct TrialResult {
    pub(super) name: String,
    /// What a failed test printed.
    pub(super) failure: Option<String>,
}

impl Court<'_> {
    /// Stacks against libgcc's, over code of every flavour.
    pub(super) fn try_unwinder(&self) -> Result<Vec<TrialResult>, Failure> {
        const NOT_HERE: &str = "unloaded_code_is_forgotten";
        let mut results = vec![self.judge("plain_walk", "plain_walk", "", &[])?];
        let count = if self.is_short { FEW_FLAVOURS } else { FLAVOURS.len() };
        for flavour in FLAVOURS.into_iter().take(count) {
            let name = format!("memo {flavour}");
            results.push(self.judge(name.trim(), "memo", flavour, &["--skip", NOT_HERE])?);
        }
        results.push(self.judge(&format!("memo::{NOT_HERE}"), "memo", "", &[NOT_HERE])?);
        Ok(results)
    }

    /// The end-to-end tests: some, or all.
    pub(super) fn try_end_to_end(&self) -> Result<Vec<TrialResult>, Failure> {
        let mut tests = self.end_to_end_tests()?;
        let is_known = |name: &&str| tests.iter().any(|test| test == name);
        if let Some(name) = limits::names().chain(SHORT).find(|name| !is_known(name)) {
            return Err(Failure::new(format!("there is no test {name}")));
        }
        tests.retain(|test| limits::is_tried(test));
        if self.is_short {
            tests.retain(|test| SHORT.contains(&test.as_str()));
        }
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(name) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.judge(
                    name,
                    "e2e",
                    SIGNED,
                    &["--exact", name, "--test-threads=1", "--include-ignored"],
                );
                results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_iter().collect()
    }

    fn end_to_end_tests(&self) -> Result<Vec<String>, Failure> {
        let mut list = self.command("e2e", SIGNED, MOST_SECONDS)?;
        let output = runner::output(list.args(["--list", "--format", "terse"]))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs tests of an executable; `flavour` is for what they compile.
    fn judge(
        &self,
        name: &str,
        executable: &str,
        flavour: &str,
        arguments: &[&str],
    ) -> Result<TrialResult, Failure> {
        let started = Instant::now();
        let seconds = if limits::why(name).is_some() { FEW_SECONDS } else { MOST_SECONDS };
        let mut command = self.command(executable, flavour, seconds)?;
        let output = command.args(arguments).output();
        let output = output.map_err(|e| Failure::new(format!("{executable}: {e}")))?;
        let seconds = started.elapsed().as_secs_f64();
        println!("{} {seconds:6.1} s  {name}", if output.status.success() { "  ok    " } else { "  FAILED" });
        Ok(TrialResult { name: name.to_owned(), failure: failure_of(&output) })
    }

    /// A command that runs a test executable for so many seconds at most.
    fn command(&self, executable: &str, flavour: &str, seconds: &str) -> Result<Command, Failure> {
        let named = self.built.tests.iter().find(|(name, _)| name == executable);
        let (_, path) = named.ok_or_else(|| Failure::new(format!("{executable} was not compiled")))?;
        let folder = if executable == "e2e" { "crates/heapwise" } else { "crates/probe" };
        let mut search = OsString::from(self.programs);
        search.push(":");
        search.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = self.starter.command("timeout");
        command
            .args(["-k", "5", seconds])
            .arg(path)
            .current_dir(self.root.join(folder))
            .env("PATH", search)
            .env("HEAPWISE_CROSS", toolchain::PREFIX)
            .env("HEAPWISE_CROSS_FLAGS", flavour);
        Ok(command)
    }
}

/// Victims of the end-to-end tests sign their return addresses.
pub(super) const SIGNED: &str = "-mbranch-protection=standard";

fn failure_of(output: &Output) -> Option<String> {
    if output.status.success() {
        return None;
    }
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let reason = if output.status.code() == Some(124) { "it took too long\n" } else { "" };
    Some(format!("{reason}{}", String::from_utf8_lossy(&text)))
}
