//! The names that are answered, and what each is.

use super::node::Node;
use crate::conf::Options;

/// A name of jemalloc's tree.
pub(super) struct Name {
    pub(super) text: &'static [u8],
    pub(super) node: Node,
}

impl Name {
    /// Whether it is the profiler's, not the allocator's.
    pub(super) fn is_about_profiling(&self) -> bool {
        const BEGINNINGS: [&[u8]; 5] =
            [b"prof.", b"thread.prof.", b"opt.prof", b"opt.lg_prof", b"config.prof"];
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
    b"config.prof" flag(|_| true);
    b"config.prof_libgcc" flag(|_| false);
    b"config.prof_libunwind" flag(|_| false);
    b"config.prof_frameptr" flag(|_| false);
    b"config.stats" flag(|_| true);
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
    b"opt.prof_prefix" Node::OptPrefix;
    b"opt.prof_time_resolution" Node::OptTimeResolution;
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
    b"thread.prof.active" Node::ThreadActive;
    b"stats.allocated" Node::Statistic(|told| told.allocated);
    b"stats.active" Node::Statistic(|told| told.active);
    b"stats.resident" Node::Statistic(|told| told.resident);
    b"stats.mapped" Node::Statistic(|told| told.mapped);
    b"stats.retained" Node::Statistic(|told| told.retained);
    b"stats.metadata" Node::Statistic(|told| told.metadata);
};
