//! The orderings that the models are there for, each weakened in a copy of the sources: its model
//! must fail.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::models;
use crate::runner;
use heapwise_testkit::failure::Failure;

/// All of them are noticed with so few.
const PREEMPTIONS: &str = "2";
/// Longest run of a model: a minute is enough for every one of them on a busy machine.
const MODEL_SECONDS: &str = "900";
/// Exit status of `cargo test` when a test failed.
const FAILED: i32 = 101;
/// The probe's sources.
const SOURCES: &str = "crates/probe/src";

/// A line of the probe with an ordering, the same without it, and the model that is there for it.
struct Weakening {
    file: &'static str,
    line: &'static str,
    weakened: &'static str,
    model: &'static str,
}

impl Weakening {
    /// The file below `sources`, weakened.
    fn apply(&self, sources: &Path) -> Result<String, Failure> {
        let path = sources.join(self.file);
        let source = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
        match source.contains(self.line) {
            true => Ok(source.replacen(self.line, self.weakened, 1)),
            false => Err(Failure::new(format!("loom: no such line any more: {self}"))),
        }
    }
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}: {}", self.file, self.line.trim(), self.weakened, self.model)
    }
}

const fn weakening(
    model: &'static str,
    file: &'static str,
    line: &'static str,
    weakened: &'static str,
) -> Weakening {
    Weakening { file, line, weakened, model }
}

/// Two acquires have no row, because a fence behind them acquires too: that of `take_turn` (the
/// fence of `apply` or `change`) and that of `claim` (the fence of `log::time_at`).
#[rustfmt::skip]
const WEAKENINGS: [Weakening; 28] = [
    weakening("models::tables::a_node_is_whole", "sites/chain.rs", "end.compare_exchange(empty, empty | number, Ordering::AcqRel, Ordering::Acquire)", "end.compare_exchange(empty, empty | number, Ordering::Relaxed, Ordering::Relaxed)"),
    weakening("models::tables::a_node_is_whole", "sites/chain.rs", "match link.load(Ordering::Acquire)", "match link.load(Ordering::Relaxed)"),
    weakening("models::tables::a_node_in_the_hash", "sites/hash_table.rs", "slot.compare_exchange(0, hash.entry(number), AcqRel, Acquire)", "slot.compare_exchange(0, hash.entry(number), Relaxed, Relaxed)"),
    weakening("models::tables::a_node_in_the_hash", "sites/hash_table.rs", "match slot.load(Acquire)", "match slot.load(Relaxed)"),
    weakening("models::tables::a_reader_knows", "shared/segment.rs", "let order = if word == 0 { Ordering::Release } else { Ordering::Relaxed };", "let order = Ordering::Relaxed;"),
    weakening("models::tables::a_reader_knows", "../../format/src/segment/appended.rs", "count();\n    segment.read_at(offset, records);", "count();"),
    weakening("models::tables::a_shared_tally", "sites/tallies/lists.rs", "head.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed)", "head.compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed)"),
    weakening("models::tables::a_live_block", "live/hash.rs", "key.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed)", "key.compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)"),
    weakening("models::tables::a_live_block", "live/hash.rs", "key.store(0, Ordering::Release);", "key.store(0, Ordering::Relaxed);"),
    weakening("models::tables::a_live_block", "live/hash.rs", "key.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err()", "{ key.store(CLAIMED, Ordering::Relaxed); false }"),
    weakening("models::tables::a_shadowed_block", "live/shadow.rs", "slot.compare_exchange(0, index as u32 + 1, Ordering::AcqRel, Ordering::Acquire)", "slot.compare_exchange(0, index as u32 + 1, Ordering::Relaxed, Ordering::Relaxed)"),
    weakening("models::tables::an_alloc_time_is_found", "live/address_map.rs", ".compare_exchange(null_mut(), leaf, Ordering::AcqRel, Ordering::Relaxed)\n            .is_ok()", ".swap(leaf, Ordering::AcqRel)\n            .is_null()"),
    weakening("models::log::every_event", "log/mod.rs", "word.store(published(self.sequence, self.len), Ordering::Release);", "word.store(published(self.sequence, self.len), Ordering::Relaxed);"),
    weakening("models::log::every_event", "log/chunk_alloc.rs", "store(ChunkState::Full as u32, Ordering::Release)", "store(ChunkState::Full as u32, Ordering::Relaxed)"),
    weakening("models::log::every_event", "testing/models/outside.rs", "fence(Ordering::Acquire);", "();"),
    weakening("models::log::a_chunk_is_let_go", "testing/models/outside.rs", "fence(Ordering::SeqCst);", "();"),
    weakening("models::log::a_chunk_has_one_writer", "log/chunk_alloc.rs", "state.compare_exchange(from, owned, Ordering::AcqRel, Ordering::Relaxed).is_ok()", "{ state.store(owned, Ordering::Release); true }"),
    weakening("models::log::no_time", "testing/models/outside.rs", "fence(Ordering::SeqCst);", "();"),
    weakening("models::log::no_time", "log/mod.rs", "    fence(Ordering::Acquire);\n", ""),
    weakening("models::control::a_change_is_applied_whole", "testing/models/outside.rs", "fence(Ordering::SeqCst);", "();"),
    weakening("models::control::a_change_is_applied_whole", "shared/control.rs", "        fence(Ordering::Acquire);\n", ""),
    weakening("models::control::threads_apply_changes", "entry/fork.rs", "applying.store(false, Ordering::Release)", "applying.store(false, Ordering::Relaxed)"),
    weakening("models::control::no_distance_is_drawn", "shared/control.rs", "settings.rate.store(rate.word(), Ordering::Release)", "settings.rate.store(rate.word(), Ordering::Relaxed)"),
    weakening("models::control::a_block_counted", "shared/control.rs", "activity.store(activity as u32, Ordering::Release)", "activity.store(activity as u32, Ordering::Relaxed)"),
    weakening("models::control::no_fast_path", "entry/fork.rs", "generation.fetch_add(CHANGE, Ordering::Release)", "generation.fetch_add(CHANGE, Ordering::Relaxed)"),
    weakening("models::threads::nothing_is_lost", "entry/threads/registry.rs", "self.state.compare_exchange(empty, state, Ordering::Release, Ordering::Relaxed)", "self.state.compare_exchange(empty, state, Ordering::Relaxed, Ordering::Relaxed)"),
    weakening("models::threads::nothing_is_lost", "entry/threads/registry.rs", "self.state.swap(core::ptr::null_mut(), Ordering::Acquire)", "self.state.swap(core::ptr::null_mut(), Ordering::Relaxed)"),
    weakening("models::a_rule_goes", "unwind/rule_cache.rs", "self.rule.store(rule.bits(), Release)", "self.rule.store(rule.bits(), Relaxed)"),
];

/// Tries those whose models' names contain `filter`.
pub(super) fn command(root: &Path, filter: &str) -> Result<(), Failure> {
    let selected = || WEAKENINGS.iter().filter(|weakening| weakening.model.contains(filter));
    // A changed line is reported before anything is built.
    for weakening in selected() {
        weakening.apply(&root.join(SOURCES))?;
    }
    let copy = root.join("target/weakened");
    fs::create_dir_all(&copy).map_err(|error| Failure::at(&copy, error))?;
    let mut unnoticed = Vec::new();
    for weakening in selected() {
        for part in ["Cargo.toml", "Cargo.lock", "benches", "crates", "xtask"] {
            copy_newer(&root.join(part), &copy.join(part))?;
        }
        let path = copy.join(SOURCES).join(weakening.file);
        let weak = weakening.apply(&copy.join(SOURCES))?;
        fs::write(&path, weak).map_err(|error| Failure::at(&path, error))?;
        let started = Instant::now();
        let noticed = is_noticed(&copy, weakening.model)?;
        let verdict = if noticed { "noticed" } else { "UNNOTICED" };
        println!("{verdict}, {:.0} s: {weakening}", started.elapsed().as_secs_f64());
        if !noticed {
            unnoticed.push(weakening.to_string());
        }
    }
    if unnoticed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("loom: models that cannot fail:\n{}", unnoticed.join("\n"))))
}

/// Whether a model fails; it must compile, and end.
fn is_noticed(copy: &Path, model: &str) -> Result<bool, Failure> {
    let built = runner::try_output(weak_models(copy, model).arg("--no-run"))?;
    if !built.status.success() {
        return Err(Failure::new(runner::text(&built)));
    }
    let cargo = weak_models(copy, model);
    let mut limited = Command::new("timeout");
    limited.arg(MODEL_SECONDS).arg(cargo.get_program()).args(cargo.get_args()).current_dir(copy);
    limited.envs(cargo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = runner::try_output(&mut limited)?;
    match run.status.code() {
        Some(0) => Ok(false),
        Some(FAILED) => Ok(true),
        // A model that did not end, or did not run.
        _ => Err(Failure::new(format!("loom: {model}: {}:\n{}", run.status, runner::text(&run)))),
    }
}

/// A model of the copy. Only what a weakening changes is compiled again: 10 s instead of a minute.
fn weak_models(copy: &Path, model: &str) -> Command {
    let mut cargo = models(copy, model, PREEMPTIONS);
    cargo
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "64")
        .env("RUST_BACKTRACE", "0");
    cargo
}

/// Copies what differs, so that only that is compiled again.
fn copy_newer(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::at(from, error);
    if from.is_dir() {
        fs::create_dir_all(to).map_err(failed)?;
        for entry in fs::read_dir(from).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            copy_newer(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let bytes = fs::read(from).map_err(failed)?;
    if fs::read(to).is_ok_and(|copied| copied == bytes) {
        return Ok(());
    }
    fs::write(to, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weakened_line_exists() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SOURCES);
        for weakening in &WEAKENINGS {
            weakening.apply(&sources).expect("a line of the probe");
        }
    }
}
