//! `cargo xtask aarch64 [--short]`: heapwise for aarch64, under qemu.
//!
//! First the probe alone: victims run under qemu and leave their segments, which the native heapwise reads, so that a profile
//! taken on one architecture opens on the other. qemu's processor signs return addresses, so that a victim compiled with
//! branch protection has signed ones in memory (checked) among the plain ones of its libraries. The short form
//! ends here, with fewer victims.
//!
//! Then the executable: profiles taken on either architecture are read on the other (`exchange`), and the end-to-end tests run,
//! compiled for aarch64, with heapwise and its victims all under qemu.

mod exchange;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::failure::Failure;
use crate::programs;
use toolchain::QEMU;

/// A victim with its arguments; each keeps its own account.
type Victim = (&'static str, &'static [&'static str]);

/// One of each hazard that is another on another architecture.
const SHORT: [Victim; 11] = [
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

const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// Modes that count every block, so that totals must be equal.
const MODES: [&str; 3] =
    ["mode:exact,index:shadow,paranoid:true", "mode:exact,index:hash", "mode:sampled,rate:1"];

/// Modules of the end-to-end tests that need no other aarch64 program than the victims.
const TESTS: [&str; 8] = [
    "victims::",
    "paranoid::victims",
    "control::",
    "recording::",
    "faults::",
    "input::",
    "security::",
    "serve::",
];

/// Tests among them that are left out, and why.
const LEFT_OUT: [(&str, &str); 18] = [
    ("clone_sharing_memory", "qemu refuses CLONE_VM to processes"),
    ("no_file_may_grow", "qemu writes /proc/self/cmdline into a file of its own"),
    ("nothing_but_read_write_and_exit", "qemu refuses seccomp"),
    ("the_programs_own_seccomp_filter", "qemu refuses seccomp"),
    ("another_allocator_underneath", "allocators for aarch64 are not installed"),
    ("sampled_over_another_allocator", "as above"),
    ("another_c_library", "musl for aarch64 is not in Debian"),
    ("a_directory_open_to_others", "starts a program of this machine"),
    ("devices_and_pipes", "starts a program of this machine"),
    ("the_programs_output_and_status", "starts a program of this machine"),
    ("a_program_that_drops_its_rights", "starts a program of this machine"),
    ("a_mark_names_a_moment", "the program ends before an emulated heapwise can mark it"),
    ("ten_million_events", "hours"),
    ("every_step_agrees", "hundreds of reports of one recording; arithmetic that is the same everywhere"),
    (
        "a_bounded_fork_bomb",
        "a smaller one is among the victims: each process costs qemu a second for its segment's addresses",
    ),
    ("a_child_", "as above"),
    ("fork_while_another_thread_allocates", "as above"),
    ("sampled_estimates", "arithmetic that is the same everywhere; 400 processes"),
];

/// What the probe's victims are run with.
struct Stage {
    heapwise: PathBuf,
    probe: PathBuf,
    victims: PathBuf,
}

/// The command; prints each failure, and how many there were.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let is_short = arguments.iter().any(|argument| argument == "--short");
    toolchain::install()?;
    let out = root.join("target/aarch64");
    let probe = toolchain::build_probe(root, &out)?;
    toolchain::run(Command::new("cargo").current_dir(root).args(["build", "--quiet", "-p", "heapwise"]))?;
    let heapwise = root.join("target/debug/heapwise");
    let (mut ran, mut failed) = (0, 0);
    for protection in if is_short { &["standard"][..] } else { &["standard", "none"] } {
        let victims = out.join(protection);
        programs::build_for(&toolchain::target(protection), &root.join("tests/programs"), &victims)?;
        let stage = Stage { heapwise: heapwise.clone(), probe: probe.clone(), victims };
        let long = if is_short { &[][..] } else { &LONG };
        for victim in SHORT.iter().chain(long) {
            ran += MODES.len();
            failed += stage.failures(victim);
        }
        ran += 1;
        if let Err(failure) = stage.check_signed(*protection == "standard") {
            failed += 1;
            println!("FAILED signed_returns: {failure}");
        }
    }
    println!("aarch64: {ran} runs, {failed} failed");
    if failed > 0 {
        return Err(Failure::new(format!("aarch64: {failed} failed")));
    }
    if is_short { Ok(()) } else { test_executable(root, &out) }
}

impl Stage {
    /// Runs a victim in every mode; how many of them failed.
    fn failures(&self, (victim, arguments): &Victim) -> usize {
        let mut failed = 0;
        for mode in MODES {
            if let Err(failure) = self.check(victim, arguments, mode) {
                failed += 1;
                println!("FAILED {victim} {mode} in {}: {failure}", self.victims.display());
            }
        }
        failed
    }

    /// Compares what heapwise reads from the victim's segment with the victim's own account.
    fn check(&self, victim: &str, arguments: &[&str], mode: &str) -> Result<(), Failure> {
        let (output, segment) = self.run(victim, arguments, mode)?;
        for (metric, name) in METRICS {
            let own = witness(&output, name).ok_or_else(|| Failure::new(format!("no witness {name}")))?;
            let read = self.total(&segment, metric)?;
            if read != own {
                return Err(Failure::new(format!("{metric}: heapwise {read}, the program {own}")));
            }
        }
        Ok(())
    }

    /// Stacks through return addresses that are signed in memory, or are not.
    fn check_signed(&self, signed: bool) -> Result<(), Failure> {
        const CHAIN: &str = "main;outer;middle;inner;w_malloc ";
        let (output, segment) = self.run("signed_returns", &[], MODES[0])?;
        if witness(&output, "signed") != Some(i64::from(signed)) {
            return Err(Failure::new(format!(
                "return addresses in memory: {signed} was expected of `signed`"
            )));
        }
        let mut export = Command::new(&self.heapwise);
        let folded = output_of(export.args(["export", "-f", "folded", "--alloc_objects"]).arg(&segment))?;
        let text = String::from_utf8_lossy(&folded.stdout);
        let found: i64 =
            text.lines().filter_map(|line| line.split_once(CHAIN)?.1.trim().parse::<i64>().ok()).sum();
        if Some(found) == witness(&output, "alloc_objects") {
            Ok(())
        } else {
            Err(Failure::new(format!("{found} blocks of {CHAIN}in\n{text}")))
        }
    }

    /// Runs a victim under qemu with the probe; what it printed and the segment it left.
    fn run(&self, victim: &str, arguments: &[&str], mode: &str) -> Result<(Output, PathBuf), Failure> {
        let program = self.victims.join(victim);
        let segments = program.with_extension("segments");
        let _ = fs::remove_dir_all(&segments);
        let mut command = Command::new("timeout");
        // qemu hands its environment on, except what it would heed itself: the preload library is named by option.
        command
            .args(["60", QEMU, "-E", &format!("LD_PRELOAD={}", self.probe.display())])
            .env("HEAPWISE_CONF", mode)
            .env("HEAPWISE_DIR", &segments)
            .arg(&program)
            .args(arguments);
        let output = output_of(&mut command)?;
        Ok((output, oldest_segment(&segments)?))
    }

    fn total(&self, segment: &Path, metric: &str) -> Result<i64, Failure> {
        let mut top = Command::new(&self.heapwise);
        top.args(["top", "--json", &format!("--{metric}"), "--focus", "^w_"]).arg(segment);
        let output = output_of(&mut top)?;
        let text = String::from_utf8_lossy(&output.stdout);
        total_of(&text).ok_or_else(|| Failure::new(format!("heapwise top printed {text}")))
    }
}

/// The total of `heapwise top --json`.
fn total_of(printed: &str) -> Option<i64> {
    printed.split("\"total\":").nth(1)?.split([',', '}']).next()?.parse().ok()
}

/// Runs to a successful end.
fn output_of(command: &mut Command) -> Result<Output, Failure> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(|e| Failure::at(&program, e))?;
    if output.status.success() {
        Ok(output)
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!("{command:?}: {}: {said}", output.status)))
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

fn witness(output: &Output, name: &str) -> Option<i64> {
    let text = String::from_utf8_lossy(&output.stdout);
    let prefix = format!("witness {name} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
}

/// The executable: what it takes opens on the other architecture, both ways; then the end-to-end tests with everything compiled
/// for aarch64: heapwise starts, watches and records victims that carry the probe it brought.
fn test_executable(root: &Path, out: &Path) -> Result<(), Failure> {
    toolchain::register()?;
    toolchain::run(toolchain::cargo(root, out, "build").args(["-p", "heapwise"]))?;
    exchange(root, out)?;
    let mut cargo = toolchain::cargo(root, out, "test");
    let target = toolchain::target("standard");
    cargo
        .env("HEAPWISE_CROSS", target.prefix)
        .env("HEAPWISE_CROSS_FLAGS", target.flags.join(" "))
        .args(["-p", "heapwise", "--test", "e2e", "--"])
        .args(TESTS);
    for (test, _) in LEFT_OUT {
        cargo.args(["--skip", test]);
    }
    toolchain::run(&mut cargo)
}

fn exchange(root: &Path, out: &Path) -> Result<(), Failure> {
    let native = out.join("native");
    programs::build(&root.join("tests/programs"), &native)?;
    let heapwise = root.join("target/debug/heapwise");
    let here = exchange::Machine { name: "x86-64", heapwise, victims: native };
    let heapwise = out.join(toolchain::TRIPLE).join("debug/heapwise");
    let there = exchange::Machine { name: "aarch64", heapwise, victims: out.join("standard") };
    let scratch = out.join("exchange");
    exchange::check(&here, &there, &scratch)?;
    exchange::check(&there, &here, &scratch)?;
    println!("aarch64: profiles and recordings of either architecture opened on the other");
    Ok(())
}
