//! jemalloc's profiling options, and four options of heapwise.
//!
//! `config` reads them, once, when the probe starts.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use heapwise_format::segment::Control;

use crate::atomics::{AtomicBool, Ordering};
use crate::config::{Verdict, boolean, parse_number, put};
use crate::dump::MOST_KEPT;
use crate::fixed_text::FixedText;

struct OptionsCell(UnsafeCell<Options>);
// SAFETY: written once, by the thread that starts the probe, before `READY`.
unsafe impl Sync for OptionsCell {}
static OPTIONS: OptionsCell = OptionsCell(UnsafeCell::new(Options::new()));
static DEFAULTS: Options = Options::new();
static READY: AtomicBool = AtomicBool::new(false);

/// Options at the program's start; the defaults until they are read.
pub(crate) fn options() -> &'static Options {
    if !READY.load(Ordering::Acquire) {
        return &DEFAULTS;
    }
    // SAFETY: see `OptionsCell`.
    unsafe { &*OPTIONS.0.get() }
}

/// Lets `read` set the options. To be called once, by the thread that starts the probe.
pub(crate) fn initialize<T>(read: impl FnOnce(&mut Options) -> T) -> T {
    // SAFETY: see `OptionsCell`: no thread reads it before `READY`.
    let result = read(unsafe { &mut *OPTIONS.0.get() });
    READY.store(true, Ordering::Release);
    result
}

/// Longest `prof_prefix`: with pid, numbers and suffix it stays below `PATH_MAX`.
pub(crate) const PREFIX_BYTES: usize = 4000;

/// The options by jemalloc's names, less `prof_`, and with its defaults.
pub(crate) struct Options {
    pub(crate) prof: bool,
    pub(crate) active: bool,
    pub(crate) thread_active_init: bool,
    /// Mean distance of samples, as a power of two; 0: every block.
    pub(crate) lg_sample: u32,
    pub(crate) accum: bool,
    /// Bytes between interval dumps, as a power of two; negative: none.
    pub(crate) lg_interval: i32,
    pub(crate) gdump: bool,
    pub(crate) at_exit: bool,
    pub(crate) leak: bool,
    pub(crate) leak_error: bool,
    pub(crate) prefix: FixedText<PREFIX_BYTES>,
    pub(crate) recent_alloc_max: i64,
    pub(crate) log: bool,
    pub(crate) stats: bool,
    pub(crate) sys_thread_name: bool,
    pub(crate) high_resolution: bool,
    pub(crate) unbias: bool,
    pub(crate) bt_max: u32,
    pub(crate) pid_namespace: bool,
    pub(crate) confirm: bool,
    pub(crate) abort_conf: bool,
    /// Bytes above the last high that are a new one (ours); 0: an eighth of it, 1 MiB at least.
    pub(crate) gdump_step: u64,
    /// Most automatic dumps kept (ours); 0: all.
    pub(crate) dump_keep: u64,
    /// File of known leaks (ours).
    pub(crate) leak_suppressions: FixedText<PREFIX_BYTES>,
    /// The segment stays when the program exits, however many there are (ours): `heapwise run`
    /// reads it then.
    pub(crate) keep_segment: bool,
    /// Dumps count usable bytes, as jemalloc does; the default where jemalloc is underneath.
    pub(crate) usable: bool,
}

impl Options {
    pub(crate) const fn new() -> Self {
        Self {
            prof: false,
            active: true,
            thread_active_init: true,
            lg_sample: 19,
            accum: false,
            lg_interval: -1,
            gdump: false,
            at_exit: false,
            leak: false,
            leak_error: false,
            prefix: FixedText::of(b"jeprof"),
            recent_alloc_max: 0,
            log: false,
            stats: false,
            sys_thread_name: false,
            high_resolution: false,
            unbias: true,
            bt_max: Control::DEFAULT_DEPTH,
            pid_namespace: false,
            confirm: false,
            abort_conf: false,
            gdump_step: 0,
            dump_keep: 0,
            leak_suppressions: FixedText::new(),
            keep_segment: false,
            usable: false,
        }
    }

    /// Takes one pair.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Verdict {
        if let Some(switch) = self.switch(key) {
            return put(switch, boolean(value));
        }
        let whole = parse_number(value);
        match key {
            // Too large is clipped, without a word.
            b"lg_prof_sample" => {
                put(&mut self.lg_sample, whole.filter(|n| *n >= 0).map(|n| n.min(63) as u32))
            }
            b"lg_prof_interval" => ranged(&mut self.lg_interval, whole, -1, 63),
            b"prof_recent_alloc_max" => ranged(&mut self.recent_alloc_max, whole, -1, i128::from(i64::MAX)),
            b"prof_bt_max" => ranged(&mut self.bt_max, whole, 1, i128::from(Control::MAX_DEPTH)),
            b"prof_gdump_step" => ranged(&mut self.gdump_step, whole, 0, i128::from(u64::MAX)),
            b"prof_dump_keep" => ranged(&mut self.dump_keep, whole, 0, MOST_KEPT as i128),
            b"prof_time_resolution" => put(
                &mut self.high_resolution,
                match value {
                    b"default" => Some(false),
                    b"high" => Some(true),
                    _ => None,
                },
            ),
            b"prof_prefix" => written(&mut self.prefix, value),
            b"prof_leak_suppressions" => written(&mut self.leak_suppressions, value),
            _ if is_other(key) => Verdict::Set,
            _ => Verdict::Unknown,
        }
    }

    fn switch(&mut self, key: &[u8]) -> Option<&mut bool> {
        Some(match key {
            b"prof" => &mut self.prof,
            b"prof_active" => &mut self.active,
            b"prof_thread_active_init" => &mut self.thread_active_init,
            b"prof_accum" => &mut self.accum,
            b"prof_gdump" => &mut self.gdump,
            b"prof_final" => &mut self.at_exit,
            b"prof_leak" => &mut self.leak,
            b"prof_leak_error" => &mut self.leak_error,
            b"prof_log" => &mut self.log,
            b"prof_stats" => &mut self.stats,
            b"prof_sys_thread_name" => &mut self.sys_thread_name,
            b"prof_unbias" => &mut self.unbias,
            b"prof_pid_namespace" => &mut self.pid_namespace,
            b"confirm_conf" => &mut self.confirm,
            b"abort_conf" => &mut self.abort_conf,
            _ => return None,
        })
    }

    /// Applies options that imply others, as in jemalloc; returns whether `prof_leak_error` has no
    /// effect.
    pub(crate) fn apply_implied(&mut self) -> bool {
        self.leak |= self.leak_error;
        if self.leak && !self.prof {
            // Profiling only for the leak report: no intermediate dumps.
            self.prof = true;
            self.gdump = false;
            self.lg_interval = -1;
        }
        self.leak_error && !self.at_exit
    }
}

fn written(place: &mut FixedText<PREFIX_BYTES>, value: &[u8]) -> Verdict {
    place.clear();
    place.push(value);
    Verdict::Set
}

fn ranged<T: TryFrom<i128>>(place: &mut T, whole: Option<i128>, low: i128, high: i128) -> Verdict {
    match whole {
        None => Verdict::Invalid,
        Some(number) if number < low || number > high => Verdict::OutOfRange,
        Some(number) => put(place, T::try_from(number).ok()),
    }
}

/// jemalloc's options that are not about profiling (5.3): they are its allocator's business, not a
/// mistake.
fn is_other(key: &[u8]) -> bool {
    const WORDS: [&[u8]; 25] = [
        b"abort",
        b"background_thread",
        b"bin_shards",
        b"cache_oblivious",
        b"dirty_decay_ms",
        b"dss",
        b"junk",
        b"lg_extent_max_active_fit",
        b"lg_san_uaf_align",
        b"lg_tcache_max",
        b"max_background_threads",
        b"metadata_thp",
        b"mutex_max_spin",
        b"muzzy_decay_ms",
        b"narenas",
        b"oversize_threshold",
        b"percpu_arena",
        b"retain",
        b"slab_sizes",
        b"thp",
        b"trust_madvise",
        b"utrace",
        b"xmalloc",
        b"zero",
        b"zero_realloc",
    ];
    const FAMILIES: [&[u8]; 7] =
        [b"debug_", b"experimental_", b"hpa", b"lg_tcache_", b"san_", b"stats_", b"tcache"];
    WORDS.contains(&key) || FAMILIES.iter().any(|family| key.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table that was observed with jemalloc 5.3.0.
    #[test]
    fn verdicts_are_jemallocs() {
        let cases: [(&[u8], &[u8], Verdict); 14] = [
            (b"prof", b"true", Verdict::Set),
            (b"prof", b"yes", Verdict::Invalid),
            (b"prof", b"TRUE", Verdict::Invalid),
            (b"proof", b"true", Verdict::Unknown),
            (b"lg_prof_interval", b"64", Verdict::OutOfRange),
            (b"lg_prof_interval", b"-2", Verdict::OutOfRange),
            (b"lg_prof_interval", b"-1", Verdict::Set),
            (b"lg_prof_sample", b"99", Verdict::Set),
            (b"lg_prof_sample", b"x", Verdict::Invalid),
            (b"prof_time_resolution", b"high", Verdict::Set),
            (b"prof_time_resolution", b"fast", Verdict::Invalid),
            (b"narenas", b"4", Verdict::Set),
            (b"experimental_anything", b"1", Verdict::Set),
            (b"mode", b"exact", Verdict::Unknown),
        ];
        for (key, value, verdict) in cases {
            assert_eq!(Options::new().set(key, value), verdict, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_large_distance_is_clipped() {
        let mut options = Options::new();
        options.set(b"lg_prof_sample", b"99");
        assert_eq!(options.lg_sample, 63);
    }

    #[test]
    fn leaks_imply_profiling_without_dumps_on_the_way() {
        let mut options = Options::new();
        for (key, value) in [("prof_leak_error", "true"), ("prof_gdump", "true"), ("lg_prof_interval", "20")]
        {
            options.set(key.as_bytes(), value.as_bytes());
        }
        assert!(options.apply_implied(), "no prof_final");
        assert!(options.prof && options.leak && !options.gdump && options.lg_interval == -1);
    }
}
