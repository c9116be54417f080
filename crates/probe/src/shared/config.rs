//! The start-up configuration: `key:value` pairs, our own keys and jemalloc's in one grammar.
//!
//! `HEAPWISE_CONF` rules alone. Without it, and without a jemalloc in the process, the program's
//! `malloc_conf`, the link `/etc/malloc.conf` and `MALLOC_CONF` are read in this order, for
//! jemalloc's keys only; later ones override. A jemalloc in the process obeys them itself. Where
//! none of them starts recording, the variable `TCMALLOC_SAMPLE_PARAMETER` starts sampling, as it
//! does in tcmalloc.
//!
//! Mistakes are reported where jemalloc reports them: in its own sources, and in a `HEAPWISE_CONF`
//! that has keys of jemalloc's. Else the probe prints nothing, and a mistake leaves the default.

mod grammar;
mod number;
mod report;
mod sources;

use heapwise_format::paths::ProcessId;
use heapwise_format::segment::{AllocatorKind, Control, Controller, Demand, IndexKind, Lease, Mode, Tier};

use crate::jemalloc::options::{self, Options};
use crate::{control, hooks, sys};
use grammar::{Item, Pairs};
pub(crate) use number::parse as parse_number;
pub(crate) use report::say;
use sources::Source;

/// Settings at the start of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) sample_bytes: u64,
    pub(crate) max_depth: u32,
    pub(crate) index: IndexKind,
    pub(crate) paranoid: bool,
    /// Seed of the sampler; 0: a random one.
    pub(crate) seed: u64,
    /// Largest tables; smaller ones are for tests of what happens when they are full.
    pub(crate) tables: Tier,
    /// Whether events may take the fast path; without it, tests compare both.
    pub(crate) fast_path: bool,
    /// Lease of the process that started this one, also in its forked children.
    pub(crate) launcher: Option<Lease>,
    pub(crate) scope: Scope,
    /// Blocks of other allocators than the one underneath will be recorded.
    pub(crate) foreign_blocks: bool,
    /// Whether entry hooks are requested from the launcher.
    pub(crate) hook_requests: bool,
    /// Objects in arenas of a language runtime are recorded; else its arenas are.
    pub(crate) objects: bool,
}

/// Which of the programs that inherit the configuration are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that the launcher's own child becomes by `exec`.
    Child,
    /// All.
    Tree,
}

/// Result of a key-value pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Set,
    Unknown,
    Invalid,
    OutOfRange,
}

/// Sets `place`; [`Verdict::Invalid`] without a value.
pub(crate) fn put<T>(place: &mut T, value: Option<T>) -> Verdict {
    let Some(value) = value else { return Verdict::Invalid };
    *place = value;
    Verdict::Set
}

/// `true` or `false`.
pub(crate) fn boolean(value: &[u8]) -> Option<bool> {
    match value {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

impl Config {
    /// Idle.
    pub(crate) const fn new() -> Self {
        Self {
            mode: Mode::Off,
            sample_bytes: Control::DEFAULT_SAMPLE_BYTES,
            max_depth: Control::DEFAULT_DEPTH,
            index: IndexKind::Auto,
            paranoid: false,
            seed: 0,
            tables: Tier::Full,
            fast_path: true,
            launcher: None,
            scope: Scope::Tree,
            foreign_blocks: false,
            hook_requests: false,
            objects: true,
        }
    }

    /// Sampling at this distance, unless something is recorded already.
    fn or_sampled(self, sample_bytes: Option<u64>) -> Self {
        match sample_bytes {
            Some(sample_bytes) if self.mode == Mode::Off => {
                Self { mode: Mode::Sampled, sample_bytes, ..self }
            }
            _ => self,
        }
    }

    /// Takes one pair of our own keys.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Verdict {
        let size = number::size(value);
        match key {
            b"mode" => put(&mut self.mode, mode(value)),
            b"rate" => put(&mut self.sample_bytes, size.filter(|rate| *rate > 0)),
            b"depth" => {
                put(&mut self.max_depth, size.map(|depth| depth.min(Control::MAX_DEPTH.into()) as u32))
            }
            b"index" => put(&mut self.index, control::index_by_name(value)),
            b"paranoid" => put(&mut self.paranoid, boolean(value)),
            b"seed" => put(&mut self.seed, size),
            b"tables" => put(&mut self.tables, tables(value)),
            b"fast_path" => put(&mut self.fast_path, boolean(value)),
            b"foreign_blocks" => put(&mut self.foreign_blocks, boolean(value)),
            b"hooks" => put(&mut self.hook_requests, boolean(value)),
            b"scope" => put(&mut self.scope, scope(value)),
            b"objects" => put(&mut self.objects, boolean(value)),
            b"launcher" => put(&mut self.launcher, launcher(value).map(Some)),
            _ => Verdict::Unknown,
        }
    }
}

fn mode(name: &[u8]) -> Option<Mode> {
    [Mode::Off, Mode::Sampled, Mode::Exact, Mode::Log].into_iter().find(|mode| mode.name().as_bytes() == name)
}

fn scope(value: &[u8]) -> Option<Scope> {
    match value {
        b"child" => Some(Scope::Child),
        b"tree" => Some(Scope::Tree),
        _ => None,
    }
}

/// `PID-STARTTIME`; what the process wants to be recorded is known when all pairs are read.
fn launcher(value: &[u8]) -> Option<Lease> {
    let (pid, starttime) = core::str::from_utf8(value).ok()?.split_once('-')?;
    Some(Lease {
        holder: ProcessId {
            pid: pid.parse().ok().filter(|pid| *pid != 0)?,
            starttime: starttime.parse().ok()?,
        },
        controller: Controller::Run,
        demand: Demand { mode: Mode::Off, sample_bytes: 1 },
        heartbeat_ns: 0,
    })
}

fn tables(name: &[u8]) -> Option<Tier> {
    Tier::ALL.into_iter().find(|tier| tier.name().as_bytes() == name)
}

/// Reads every source and reports what is wrong with them.
pub(crate) fn read(allocator: AllocatorKind) -> Config {
    options::initialize(|options| {
        options.usable = allocator == AllocatorKind::Jemalloc;
        let mut reader = Reader { config: Config::new(), options: &mut *options, reports: true };
        if let Some(text) = sources::own() {
            let text = text.as_c_str().map_or(&b""[..], |text| text.to_bytes());
            reader.reports = grammar::has_jemalloc_keys(text);
            reader.take_all(&[(Source::Own, text)]);
            return reader.finish();
        }
        if allocator != AllocatorKind::Jemalloc && !hooks::has_other_jemalloc() {
            sources::foreign(|texts| reader.take_all(texts));
        }
        let config = reader.finish();
        if options.prof { config } else { config.or_sampled(sources::sample_parameter()) }
    })
}

/// Reads `text` into a configuration that is not used, and reports nothing.
pub(crate) fn rehearse(text: &[u8]) {
    let mut options = Options::new();
    let mut reader = Reader { config: Config::new(), options: &mut options, reports: false };
    reader.take_pairs(Source::Own, text);
    reader.finish();
}

/// A configuration that is being read.
struct Reader<'a> {
    config: Config,
    options: &'a mut Options,
    /// Whether mistakes are reported.
    reports: bool,
}

impl Reader<'_> {
    /// Applies the sources in order. `confirm_conf` and `abort_conf` apply at any position.
    fn take_all(&mut self, texts: &[(Source, &[u8])]) {
        for (_, text) in texts {
            for item in Pairs::new(text) {
                if let Item::Pair { key: b"confirm_conf", value } = item {
                    self.options.confirm = value == b"true";
                }
            }
        }
        let mut flawed = false;
        for (source, text) in texts {
            if self.options.confirm {
                report::confirm_source(*source, text);
            }
            flawed |= self.take_pairs(*source, text);
        }
        if flawed && self.options.abort_conf {
            say(&[b"Abort (abort_conf:true) on invalid conf value (see above)."]);
            sys::abort();
        }
    }

    /// Applies one source; whether there is something wrong with it.
    fn take_pairs(&mut self, source: Source, text: &[u8]) -> bool {
        Pairs::new(text).fold(false, |flawed, item| flawed | !self.take(item, source))
    }

    /// Applies one item; false, with a message, when there is something wrong with it.
    fn take(&mut self, item: Item<'_>, source: Source) -> bool {
        let (key, value) = match item {
            Item::Flaw(flaw) => {
                if self.reports {
                    say(&[flaw.text()]);
                }
                return false;
            }
            Item::Pair { key, value } => (key, value),
        };
        let verdict = match self.options.set(key, value) {
            Verdict::Unknown if source == Source::Own && key == b"keep_segment" => {
                put(&mut self.options.keep_segment, boolean(value))
            }
            Verdict::Unknown if source == Source::Own && key == b"usable" => {
                put(&mut self.options.usable, boolean(value))
            }
            Verdict::Unknown if source == Source::Own => self.config.set(key, value),
            verdict => verdict,
        };
        let message: &[u8] = match verdict {
            Verdict::Set if self.options.confirm => b"-- Set conf value: ",
            Verdict::Set => b"",
            Verdict::Unknown => b"Invalid conf pair: ",
            Verdict::Invalid => b"Invalid conf value: ",
            Verdict::OutOfRange => b"Out-of-range conf value: ",
        };
        if self.reports && !message.is_empty() {
            report::pair(message, key, value);
        }
        verdict == Verdict::Set
    }

    /// Start options from jemalloc's options, unless heapwise's own keys set them.
    fn finish(self) -> Config {
        let Self { mut config, options, reports, .. } = self;
        let unasked = options.apply_implied();
        if options.prof && config.mode == Mode::Off {
            config.mode = match (options.active, options.lg_sample) {
                (false, _) => Mode::Off,
                (true, 0) => Mode::Exact,
                (true, _) => Mode::Sampled,
            };
            config.sample_bytes = 1 << options.lg_sample;
            config.max_depth = options.bt_max;
        }
        let is_child = |launcher: &Lease| sys::parent_pid() == launcher.holder.pid;
        if config.scope == Scope::Child && !config.launcher.as_ref().is_none_or(is_child) {
            (config.mode, config.launcher) = (Mode::Off, None);
        }
        if let Some(lease) = &mut config.launcher {
            lease.demand = Demand { mode: config.mode, sample_bytes: config.sample_bytes };
            // A log is of no use without the process that reads it.
            if config.mode == Mode::Log {
                config.mode = Mode::Off;
            }
        }
        if unasked && reports {
            say(&[b"prof_leak_error is set w/o prof_final."]);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Config {
        let mut options = Options::new();
        let mut reader = Reader { config: Config::new(), options: &mut options, reports: false };
        reader.take_pairs(Source::Own, text);
        reader.finish()
    }

    #[test]
    fn understands_pairs_and_passes_over_the_rest() {
        let config =
            parse(b"mode:sampled,rate:4K,depth:64,index:hash,paranoid:true,tables:tiny,hooks:true,scope:child,objects:false,x:1,,y");
        let expected = Config {
            mode: Mode::Sampled,
            sample_bytes: 4096,
            max_depth: 64,
            index: IndexKind::Hash,
            paranoid: true,
            seed: 0,
            tables: Tier::Tiny,
            fast_path: true,
            launcher: None,
            scope: Scope::Child,
            foreign_blocks: false,
            hook_requests: true,
            objects: false,
        };
        assert_eq!(config, expected);
        assert_eq!(parse(b"mode:what,rate:0,rate:99999999999999G,depth:-1"), Config::new());
    }

    #[test]
    fn a_launcher_holds_a_lease_of_the_mode() {
        let config = parse(b"launcher:12-345,mode:log");
        let lease = config.launcher.expect("a lease");
        assert_eq!((lease.holder.pid, lease.holder.starttime, lease.demand.mode), (12, 345, Mode::Log));
        assert_eq!(config.mode, Mode::Off);
        let config = parse(b"launcher:12-345,mode:exact");
        assert_eq!(
            (config.mode, config.launcher.map(|lease| lease.demand.mode)),
            (Mode::Exact, Some(Mode::Exact))
        );
        // The launcher is not the parent of this process.
        let config = parse(b"launcher:4194305-345,mode:exact,scope:child");
        assert_eq!((config.mode, config.launcher), (Mode::Off, None));
        for wrong in [&b"launcher:0-1"[..], b"launcher:x-1", b"launcher:1", b"launcher:1-"] {
            assert_eq!(parse(wrong).launcher, None);
        }
    }

    #[test]
    fn both_kinds_of_keys_in_one_text() {
        let config = parse(b"prof:true,lg_prof_sample:0,depth:40,prof_bt_max:30");
        assert_eq!((config.mode, config.sample_bytes, config.max_depth), (Mode::Exact, 1, 30));
        let config = parse(b"prof:true,mode:log,lg_prof_sample:3");
        assert_eq!((config.mode, config.sample_bytes), (Mode::Log, Control::DEFAULT_SAMPLE_BYTES));
    }
}
