//! The start-up options: our own keys and jemalloc's, from the places where jemalloc looks for them.
//!
//! `HEAPWISE_CONF` rules alone. Without it, and with another allocator than jemalloc underneath, the program's
//! `malloc_conf`, the link `/etc/malloc.conf` and `MALLOC_CONF` are read in this order; later ones override.
#![allow(unsafe_code)]

mod grammar;
mod number;
mod options;
mod report;
mod sources;

use core::cell::UnsafeCell;

use heapwise_format::segment::{AllocatorKind, Mode};

use crate::atomics::{AtomicBool, Ordering};
use crate::config::Config;
use crate::sys;
use grammar::{Item, Pairs};
use options::Verdict;
pub(crate) use options::{Options, PREFIX_BYTES};
pub(crate) use report::say;
use sources::Source;

struct Place(UnsafeCell<Options>);
// SAFETY: written once, by the thread that starts the probe, before `READY`.
unsafe impl Sync for Place {}
static OPTIONS: Place = Place(UnsafeCell::new(Options::new()));
static DEFAULTS: Options = Options::new();
static READY: AtomicBool = AtomicBool::new(false);

/// What the program was started with; the defaults until that is known.
pub(crate) fn options() -> &'static Options {
    if !READY.load(Ordering::Acquire) {
        return &DEFAULTS;
    }
    // SAFETY: see `Place`.
    unsafe { &*OPTIONS.0.get() }
}

/// Reads every source and says what is wrong with them.
pub(crate) fn read(allocator: AllocatorKind) -> Config {
    // SAFETY: see `Place`: nobody looks before `READY`.
    let options = unsafe { &mut *OPTIONS.0.get() };
    let mut config = Config::new();
    if let Some(text) = sources::own() {
        let text = text.as_c_str().map_or(&b""[..], |text| text.to_bytes());
        if !grammar::speaks_jemalloc(text) {
            READY.store(true, Ordering::Release);
            return Config::parse(text);
        }
        take_all(&[(Source::Own, text)], options, &mut config);
    } else if allocator != AllocatorKind::Jemalloc {
        sources::foreign(|texts| take_all(texts, options, &mut config));
    }
    let unasked = options.settle();
    if options.prof && config.mode == Mode::Off {
        config.mode = match (options.active, options.lg_sample) {
            (false, _) => Mode::Off,
            (true, 0) => Mode::Exact,
            (true, _) => Mode::Sampled,
        };
        config.sample_bytes = 1 << options.lg_sample;
        config.max_depth = options.bt_max;
    }
    if unasked {
        report::say(&[b"prof_leak_error is set w/o prof_final."]);
    }
    READY.store(true, Ordering::Release);
    config
}

/// Reads `text` into options that nobody will see, without a word.
pub(crate) fn rehearse(text: &[u8]) {
    let (mut options, mut config) = (Options::new(), Config::parse(text));
    for item in Pairs::new(text) {
        if let Item::Pair { key, value } = item
            && options.set(key, value) == Verdict::Unknown
        {
            config.set(key, value);
        }
    }
    options.settle();
}

/// Applies the sources in order. `confirm_conf` and `abort_conf` count wherever they stand.
fn take_all(texts: &[(Source, &[u8])], options: &mut Options, config: &mut Config) {
    for (_, text) in texts {
        for item in Pairs::new(text) {
            if let Item::Pair { key: b"confirm_conf", value } = item {
                options.confirm = value == b"true";
            }
        }
    }
    let mut flawed = false;
    for (source, text) in texts {
        if options.confirm {
            report::confirm_source(*source, text);
        }
        for item in Pairs::new(text) {
            flawed |= !take(item, *source, options, config);
        }
    }
    if flawed && options.abort_conf {
        report::say(&[b"Abort (abort_conf:true) on invalid conf value (see above)."]);
        sys::abort();
    }
}

/// Applies one item; false, with a message, when there is something wrong with it.
fn take(item: Item<'_>, source: Source, options: &mut Options, config: &mut Config) -> bool {
    let (key, value) = match item {
        Item::Flaw(flaw) => {
            report::say(&[flaw.text()]);
            return false;
        }
        Item::Pair { key, value } => (key, value),
    };
    let verdict = match options.set(key, value) {
        Verdict::Unknown if source == Source::Own && config.set(key, value) => Verdict::Set,
        verdict => verdict,
    };
    match verdict {
        Verdict::Set if options.confirm => report::pair(b"-- Set conf value: ", key, value),
        Verdict::Set => {}
        Verdict::Unknown => report::pair(b"Invalid conf pair: ", key, value),
        Verdict::Invalid => report::pair(b"Invalid conf value: ", key, value),
        Verdict::OutOfRange => report::pair(b"Out-of-range conf value: ", key, value),
    }
    verdict == Verdict::Set
}
