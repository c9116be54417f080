//! Victims with the probe under qemu, read by the native heapwise: what it finds in their segments
//! must be what each counted itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::QEMU;
use super::{METRICS, total_of, witness};
use crate::runner;
use heapwise_testkit::failure::Failure;

/// A victim with its arguments; each keeps its own account.
type Victim = (&'static str, &'static [&'static str]);

/// One of each hazard that is another on another architecture.
const SHORT: [Victim; 12] = [
    ("cross_thread_free", &["4", "20000"]),
    ("fork_child", &["4", "500", "busy"]),
    ("dlopen_close", &["10", "2"]),
    ("tls_destructor", &[]),
    ("cpp_exceptions", &[]),
    ("cpp_operators", &[]),
    ("swapcontext_coroutines", &[]),
    ("sigaltstack_alloc", &[]),
    ("signal_alloc", &["timer", "2000"]),
    ("aligned_family", &[]),
    ("deep_recursion", &[]),
    ("lopsided_tree", &["300", "6"]),
];

/// The rest of those that start no other program.
const LONG: [Victim; 11] = [
    ("plain", &["20000", "7"]),
    ("realloc_chain", &[]),
    ("early_constructor", &[]),
    ("exit_underscore", &[]),
    ("longjmp_out", &[]),
    ("many_threads", &[]),
    ("handed_over", &[]),
    ("closefrom3", &[]),
    ("malloc_fail", &[]),
    ("fork_tree", &["2", "2"]),
    ("fork_threads", &["2"]),
];

/// Modes that count every block, so that totals must be equal.
const MODES: [&str; 3] =
    ["mode:exact,index:shadow,paranoid:true", "mode:exact,index:hash", "mode:sampled,rate:1"];

/// Who takes part.
pub(super) struct Stage<'a> {
    /// The native one.
    pub(super) heapwise: &'a Path,
    pub(super) probe: &'a Path,
    /// Compiled with return addresses that are signed, or are not.
    pub(super) victims: &'a Path,
    pub(super) is_signed: bool,
}

impl Stage<'_> {
    /// Runs every victim in every mode; how many runs there were, and what failed.
    pub(super) fn run_all(&self, is_short: bool) -> (usize, Vec<String>) {
        let long = if is_short { &[][..] } else { &LONG };
        let victims: Vec<&Victim> = SHORT.iter().chain(long).collect();
        let mut failed: Vec<String> = victims.iter().flat_map(|victim| self.failures(victim)).collect();
        if let Err(failure) = self.check_signed() {
            failed.push(format!("signed_returns: {failure}"));
        }
        (victims.len() * MODES.len() + 1, failed)
    }

    fn failures(&self, (victim, arguments): &Victim) -> Vec<String> {
        let failure = |mode: &&str| {
            let failure = self.check(victim, arguments, mode).err()?;
            Some(format!("{victim} {mode} in {}: {failure}", self.victims.display()))
        };
        MODES.iter().filter_map(failure).collect()
    }

    /// Compares what heapwise reads from the victim's segment with the victim's own account.
    fn check(&self, victim: &str, arguments: &[&str], mode: &str) -> Result<(), Failure> {
        let (account, segment) = self.run(victim, arguments, mode)?;
        for (metric, name) in METRICS {
            let own = witness(&account, name).ok_or_else(|| Failure::new(format!("no witness {name}")))?;
            let read = self.total(&segment, metric)?;
            if read != own {
                return Err(Failure::new(format!("{metric}: heapwise {read}, the program {own}")));
            }
        }
        Ok(())
    }

    /// Stacks through return addresses that are signed in memory, or are not.
    fn check_signed(&self) -> Result<(), Failure> {
        const CHAIN: &str = "main;outer;middle;inner;w_malloc ";
        let (account, segment) = self.run("signed_returns", &[], MODES[0])?;
        if witness(&account, "signed") != Some(i64::from(self.is_signed)) {
            return Err(Failure::new(format!(
                "return addresses in memory: {} was expected of `signed`",
                self.is_signed
            )));
        }
        let mut export = Command::new(self.heapwise);
        let folded =
            runner::output(export.args(["export", "-f", "folded", "--alloc_objects"]).arg(&segment))?;
        let text = String::from_utf8_lossy(&folded.stdout);
        let found: i64 =
            text.lines().filter_map(|line| line.split_once(CHAIN)?.1.trim().parse::<i64>().ok()).sum();
        if Some(found) == witness(&account, "alloc_objects") {
            Ok(())
        } else {
            Err(Failure::new(format!("{found} blocks of {CHAIN}in\n{text}")))
        }
    }

    /// Runs a victim under qemu with the probe; what it printed and the segment it left.
    fn run(&self, victim: &str, arguments: &[&str], mode: &str) -> Result<(String, PathBuf), Failure> {
        let program = self.victims.join(victim);
        let segments = program.with_extension("segments");
        let _ = fs::remove_dir_all(&segments);
        let mut command = Command::new("timeout");
        // qemu hands its environment on, except what it would heed itself: the preload library is
        // named by option.
        command
            .args(["60", QEMU, "-E", &format!("LD_PRELOAD={}", self.probe.display())])
            .env("HEAPWISE_CONF", mode)
            .env("HEAPWISE_DIR", &segments)
            .arg(&program)
            .args(arguments);
        let account = String::from_utf8_lossy(&runner::output(&mut command)?.stdout).into_owned();
        Ok((account, oldest_segment(&segments)?))
    }

    fn total(&self, segment: &Path, metric: &str) -> Result<i64, Failure> {
        let mut top = Command::new(self.heapwise);
        top.args(["top", "--json", &format!("--{metric}"), "--focus", "^w_"]).arg(segment);
        let output = runner::output(&mut top)?;
        let text = String::from_utf8_lossy(&output.stdout);
        total_of(&text).ok_or_else(|| Failure::new(format!("heapwise top printed {text}")))
    }
}

/// The parent's segment: children of a fork have larger process numbers.
fn oldest_segment(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| Failure::at(folder, e))?;
    let pid = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.split('-').next()?.parse().ok() };
    let mut segments: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    segments.sort_by_key(|path| pid(path).unwrap_or(u32::MAX));
    segments.into_iter().next().ok_or_else(|| Failure::new("no segment was left"))
}
