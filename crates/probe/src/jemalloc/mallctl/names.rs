//! The names that are answered, and what each is.

use super::node::Node;
use crate::jemalloc::options::Options;
use crate::sys;

/// Every block is aligned to this many bytes.
const QUANTUM: u64 = 16;

/// A name of jemalloc's tree.
pub(super) struct Name {
    /// A component `#` is a number.
    pub(super) text: &'static [u8],
    pub(super) node: Node,
}

impl Name {
    /// Whether it is the profiler's, not the allocator's.
    pub(super) fn is_about_profiling(&self) -> bool {
        const BEGINNINGS: [&[u8]; 6] =
            [b"prof.", b"thread.prof.", b"opt.prof", b"opt.lg_prof", b"config.prof", b"experimental.prof_"];
        BEGINNINGS.iter().any(|beginning| self.text.starts_with(beginning))
    }
}

macro_rules! names {
    ($($text:literal $node:expr;)*) => {
        &[$(Name { text: $text, node: $node },)*]
    };
}

const fn flag(read: fn(&Options) -> bool) -> Node {
    Node::Flag(read)
}

pub(super) static NAMES: &[Name] = names! {
    b"version" Node::Version;
    b"epoch" Node::Epoch;
    b"config.cache_oblivious" flag(|_| false);
    b"config.debug" flag(|_| false);
    b"config.fill" flag(|_| false);
    b"config.lazy_lock" flag(|_| false);
    b"config.malloc_conf" Node::Text(|_| c"");
    b"config.opt_safety_checks" flag(|_| false);
    b"config.prof" flag(|_| true);
    b"config.prof_libgcc" flag(|_| false);
    b"config.prof_libunwind" flag(|_| false);
    b"config.prof_frameptr" flag(|_| false);
    b"config.stats" flag(|_| true);
    b"config.utrace" flag(|_| false);
    b"config.xmalloc" flag(|_| false);
    b"opt.abort" flag(|_| false);
    b"opt.abort_conf" flag(|options| options.abort_conf);
    b"opt.confirm_conf" flag(|options| options.confirm);
    b"opt.prof" flag(|options| options.prof);
    b"opt.prof_active" flag(|options| options.active);
    b"opt.prof_thread_active_init" flag(|options| options.thread_active_init);
    b"opt.prof_accum" flag(|options| options.accum);
    b"opt.prof_gdump" flag(|options| options.gdump);
    b"opt.prof_final" flag(|options| options.at_exit);
    b"opt.prof_leak" flag(|options| options.leak);
    b"opt.prof_leak_error" flag(|options| options.leak_error);
    b"opt.prof_stats" flag(|options| options.stats);
    b"opt.prof_sys_thread_name" flag(|options| options.sys_thread_name);
    b"opt.prof_unbias" flag(|options| options.unbias);
    b"opt.prof_pid_namespace" flag(|options| options.pid_namespace);
    b"opt.prof_prefix" Node::Text(|options| options.prefix.as_c_str().unwrap_or(c""));
    b"opt.prof_time_resolution" Node::Text(|options| if options.high_resolution { c"high" } else { c"default" });
    b"opt.lg_prof_sample" Node::Word(|options| u64::from(options.lg_sample));
    b"opt.lg_prof_interval" Node::Word(|options| i64::from(options.lg_interval) as u64);
    b"opt.prof_recent_alloc_max" Node::Word(|options| options.recent_alloc_max as u64);
    b"opt.prof_bt_max" Node::Unsigned(|options| options.bt_max);
    b"prof.active" Node::Active;
    b"prof.thread_active_init" Node::ThreadActiveInit;
    b"prof.gdump" Node::AtHighs;
    b"prof.dump" Node::Dump;
    b"prof.prefix" Node::Prefix;
    b"prof.reset" Node::Reset;
    b"prof.interval" Node::Interval;
    b"prof.lg_sample" Node::LgSample;
    b"prof.log_start" Node::LogStart;
    b"prof.log_stop" Node::LogStop;
    b"prof.stats.bins.#.live" Node::Sizes { large: false, ever: false };
    b"prof.stats.bins.#.accum" Node::Sizes { large: false, ever: true };
    b"prof.stats.lextents.#.live" Node::Sizes { large: true, ever: false };
    b"prof.stats.lextents.#.accum" Node::Sizes { large: true, ever: true };
    b"thread.prof.name" Node::ThreadName;
    b"thread.prof.active" Node::ThreadActive;
    b"thread.allocated" Node::ThreadBytes(|(allocated, _)| allocated);
    b"thread.deallocated" Node::ThreadBytes(|(_, freed)| freed);
    b"arenas.narenas" Node::Arenas;
    b"arenas.page" Node::Word(|_| sys::page_bytes());
    b"arenas.quantum" Node::Word(|_| QUANTUM);
    b"arenas.nbins" Node::Classes { large: false };
    b"arenas.nlextents" Node::Classes { large: true };
    b"arenas.bin.#.size" Node::ClassSize { large: false };
    b"arenas.lextent.#.size" Node::ClassSize { large: true };
    b"experimental.prof_recent.alloc_max" Node::RecentMax;
    b"experimental.prof_recent.alloc_dump" Node::RecentDump;
    b"stats.allocated" Node::Statistic(|told| told.allocated);
    b"stats.active" Node::Statistic(|told| told.active);
    b"stats.resident" Node::Statistic(|told| told.resident);
    b"stats.mapped" Node::Statistic(|told| told.mapped);
    b"stats.retained" Node::Statistic(|told| told.retained);
    b"stats.metadata" Node::Statistic(|told| told.metadata);
    b"stats.metadata_thp" Node::Statistic(|_| 0);
    b"stats.zero_reallocs" Node::Statistic(|_| 0);
};
