//! `malloc_stats_print`: as text or JSON, with jemalloc's letters for parts to omit.

use super::names::NAMES;
use super::node::{Node, VERSION};
use crate::allocator::{self, Statistics};
use crate::inside::Inside;
use crate::jemalloc::options::options;
use crate::json::Sink;
use crate::{dump, hooks, prof};

/// The printed parts. Letters for parts that do not exist here (bins, extents, mutexes) have no
/// effect.
struct Parts {
    json: bool,
    general: bool,
    merged: bool,
}

/// A value of the tree.
enum Value<'a> {
    Flag(bool),
    Number(i64),
    Text(&'a [u8]),
}

/// Prints everything but the parts whose letters are in `without`; `J` selects JSON.
pub(super) fn print(sink: &mut Sink<'_>, without: &[u8]) {
    let parts = Parts {
        json: without.contains(&b'J'),
        general: !without.contains(&b'g'),
        merged: !without.contains(&b'm'),
    };
    if parts.json {
        sink.open(b"{").key(b"jemalloc").open(b"{");
    } else {
        sink.plain(b"___ Begin jemalloc statistics ___\n");
    }
    if parts.general {
        print_general(sink, parts.json);
    }
    // The part that jemalloc prints for all option letters.
    let stats = sink.outside(allocator::statistics).unwrap_or_default();
    if parts.json {
        statistics_json(sink, &stats)
    } else {
        statistics_text(sink, &stats, parts.merged)
    }
    if parts.json {
        sink.close(b"}").close(b"}");
    } else {
        sink.plain(b"--- End jemalloc statistics ---\n");
    }
}

fn print_general(sink: &mut Sink<'_>, json: bool) {
    if json {
        sink.key(b"version").string(VERSION.to_bytes());
    } else {
        sink.plain(b"Version: \"").plain(VERSION.to_bytes()).plain(b"\"\n");
    }
    let sections: [(&[u8], &[u8]); 3] = [
        (b"config", b"Build-time option settings\n"),
        (b"opt", b"Run-time option settings\n"),
        (b"prof", b"Profiling settings\n"),
    ];
    for (section, heading) in sections {
        if json {
            sink.key(section).open(b"{");
        } else {
            sink.plain(heading);
        }
        for name in NAMES {
            let (Some(rest), Some(value)) =
                (name.text.strip_prefix(section), value(sink.inside(), name.node))
            else {
                continue;
            };
            match rest.strip_prefix(b".") {
                Some(rest) if json => print_json(sink, rest, &value),
                Some(_) => print_text(sink, name.text, &value),
                None => {}
            }
        }
        if json {
            sink.close(b"}");
        }
    }
}

/// The value of a name that can only be read; `None` for the others.
fn value(inside: &Inside, node: Node) -> Option<Value<'static>> {
    let number = |number: u64| Value::Number(number as i64);
    Some(match node {
        Node::Flag(read) => Value::Flag(read(options())),
        Node::Word(read) => number(read(options())),
        Node::Unsigned(read) => number(u64::from(read(options()))),
        Node::Text(read) => Value::Text(read(options()).to_bytes()),
        Node::Active => Value::Flag(prof::is_active(inside)),
        Node::ThreadActiveInit => Value::Flag(options().prof && prof::are_new_threads_active(inside)),
        Node::AtHighs => Value::Flag(inside.dump.is_at_highs()),
        Node::Interval => number(dump::interval()),
        Node::LgSample => number(u64::from(inside.prof.lg_sample())),
        _ => return None,
    })
}

fn print_json(sink: &mut Sink<'_>, key: &[u8], value: &Value<'_>) {
    sink.key(key);
    match value {
        Value::Flag(flag) => sink.boolean(*flag),
        Value::Number(number @ ..0) => sink.word(b"-").decimal(number.unsigned_abs()),
        Value::Number(number) => sink.number(*number as u64),
        Value::Text(text) => sink.string(text),
    };
}

fn print_text(sink: &mut Sink<'_>, name: &[u8], value: &Value<'_>) {
    sink.plain(b"  ").plain(name).plain(b": ");
    match value {
        Value::Flag(flag) => sink.plain(if *flag { b"true" } else { b"false" }),
        Value::Number(number @ ..0) => sink.plain(b"-").decimal(number.unsigned_abs()),
        Value::Number(number) => sink.decimal(*number as u64),
        Value::Text(text) => sink.plain(b"\"").plain(text).plain(b"\""),
    };
    sink.plain(b"\n");
}

fn statistics_json(sink: &mut Sink<'_>, stats: &Statistics) {
    sink.key(b"stats").open(b"{");
    let numbers: [(&[u8], u64); 8] = [
        (b"allocated", stats.allocated),
        (b"active", stats.active),
        (b"metadata", stats.metadata),
        (b"metadata_thp", 0),
        (b"resident", stats.resident),
        (b"mapped", stats.mapped),
        (b"retained", stats.retained),
        (b"zero_reallocs", 0),
    ];
    for (key, number) in numbers {
        sink.key(key).number(number);
    }
    sink.close(b"}");
}

fn statistics_text(sink: &mut Sink<'_>, stats: &Statistics, merged: bool) {
    sink.plain(b"Allocated: ").decimal(stats.allocated).plain(b", active: ").decimal(stats.active);
    sink.plain(b", metadata: ")
        .decimal(stats.metadata)
        .plain(b" (n_thp 0), resident: ")
        .decimal(stats.resident);
    sink.plain(b", mapped: ")
        .decimal(stats.mapped)
        .plain(b", retained: ")
        .decimal(stats.retained)
        .plain(b"\n");
    if merged {
        sink.plain(b"Allocator: ").plain(hooks::allocator_kind().name().as_bytes());
        sink.plain(b", arenas: ").decimal(stats.arenas).plain(b", free: ").decimal(stats.free);
        sink.plain(b", mapped one by one: ").decimal(stats.large).plain(b"\n");
    }
}
