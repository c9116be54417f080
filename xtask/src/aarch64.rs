//! `cargo xtask aarch64 [--short]`: heapwise for aarch64, under qemu.
//!
//! First the probe alone: victims run under qemu and leave their segments, which the native
//! heapwise reads (`victims`). qemu's processor signs return addresses, so that a victim compiled
//! with branch protection has signed ones in memory (checked) among the plain ones of its
//! libraries. Then profiles taken on either architecture are read on the other (`exchange`). Then
//! the repository's tests, compiled for aarch64 (`trials`): of the unwinder, and end to end, with
//! heapwise and its victims all under qemu, except what qemu cannot show (`limits`). The short form
//! takes a choice of each.

mod exchange;
mod kernel;
mod limits;
mod toolchain;
mod trials;
mod victims;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;
use heapwise_testkit::programs;
use kernel::Starter;
use toolchain::Built;
use trials::Court;

const METRICS: [(&str, &str); 4] = [
    ("alloc_objects", "alloc_objects"),
    ("alloc_space", "alloc_bytes"),
    ("inuse_objects", "inuse_objects"),
    ("inuse_space", "inuse_bytes"),
];

/// State shared by every part.
struct Yard<'a> {
    root: &'a Path,
    out: PathBuf,
    starter: Starter,
    built: Built,
    /// The native one.
    heapwise: PathBuf,
    is_short: bool,
}

/// The command; prints each failure, and how many there were.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    toolchain::install()?;
    let starter = Starter::new()?;
    let out = root.join("target/aarch64");
    let started = Instant::now();
    let built = toolchain::build(root, &out)?;
    runner::build_heapwise(root, Build::Debug)?;
    println!("aarch64: compiled in {:.0} s", started.elapsed().as_secs_f64());
    let heapwise = root.join("target/debug/heapwise");
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let yard = Yard { root, out, starter, built, heapwise, is_short };
    let failed = yard.try_probe()? + yard.try_exchange()? + yard.try_tests()?;
    println!("aarch64: {failed} failed, {:.0} s", started.elapsed().as_secs_f64());
    if failed == 0 { Ok(()) } else { Err(Failure::new(format!("aarch64: {failed} failed"))) }
}

impl Yard<'_> {
    fn try_probe(&self) -> Result<usize, Failure> {
        let library = runner::output(self.starter.command(&self.built.heapwise).arg("preload"))?;
        let probe = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
        let (mut ran, mut failed) = (0, Vec::new());
        for protection in if self.is_short { &["standard"][..] } else { &["standard", "none"] } {
            let stage = victims::Stage {
                heapwise: &self.heapwise,
                probe: &probe,
                victims: &self.victims(protection)?,
                is_signed: *protection == "standard",
            };
            let (more, failures) = stage.run_all(self.is_short);
            ran += more;
            failed.extend(failures);
        }
        failed.iter().for_each(|failure| println!("FAILED {failure}"));
        println!("aarch64: {ran} runs of victims, {} failed", failed.len());
        Ok(failed.len())
    }

    fn try_exchange(&self) -> Result<usize, Failure> {
        // Where the tests of this machine have theirs.
        let native = self.root.join("target/tmp/victims");
        programs::build(&self.root.join("tests/programs"), &native)?;
        let here = exchange::Machine {
            name: "x86-64",
            heapwise: self.heapwise.clone(),
            victims: native,
            starter: Starter::default(),
        };
        let there = exchange::Machine {
            name: "aarch64",
            heapwise: self.built.heapwise.clone(),
            victims: self.victims("standard")?,
            starter: self.starter.clone(),
        };
        let mut failed = 0;
        for (taker, reader) in [(&here, &there), (&there, &here)] {
            match exchange::check(taker, reader, &self.out.join("exchange")) {
                Ok(kinds) => println!("aarch64: {kinds} taken on {} opened on {}", taker.name, reader.name),
                Err(failure) => {
                    failed += 1;
                    println!("FAILED {failure}");
                }
            }
        }
        Ok(failed)
    }

    fn try_tests(&self) -> Result<usize, Failure> {
        let programs = toolchain::programs(&self.out)?;
        let court = Court {
            root: self.root,
            starter: &self.starter,
            built: &self.built,
            programs: &programs,
            is_short: self.is_short,
        };
        let mut verdicts = court.try_unwinder()?;
        verdicts.extend(court.try_end_to_end()?);
        Ok(limits::report(&verdicts))
    }

    /// The folder of victims compiled with a kind of branch protection. Where the tests have
    /// theirs, so that they find them all and never two of them compile.
    fn victims(&self, protection: &str) -> Result<PathBuf, Failure> {
        let tests = self.out.join(toolchain::TRIPLE).join("tmp/victims");
        let folder = if protection == "standard" { tests } else { self.out.join(protection) };
        programs::build_for(&toolchain::target(protection), &self.root.join("tests/programs"), &folder)?;
        Ok(folder)
    }
}

/// The total of `heapwise top --json`.
fn total_of(printed: &str) -> Option<i64> {
    serde_json::from_str::<serde_json::Value>(printed).ok()?["total"].as_i64()
}

/// A number of a victim's account.
fn witness(account: &str, name: &str) -> Option<i64> {
    let prefix = format!("witness {name} ");
    account.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
}
