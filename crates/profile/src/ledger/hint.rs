//! Memory that the probe does not see inside, and what to do about it.

use super::{Ledger, LineKind};
use crate::model::RuntimeSupport;
use crate::{Profile, StackId};

/// Memory below this share of the resident bytes gets no hint, as a divisor.
const LEAST_SHARE: u64 = 10;
/// Innermost frames of a mapping that may belong to an allocator.
const MOST_FRAMES: usize = 12;

/// Memory whose inside another setting or tool shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Small objects of CPython.
    Python,
    /// The heap of PHP.
    Zend,
    /// The JavaScript heap.
    V8,
    /// Java objects, metaspace, compiled code.
    Jvm,
    /// The heap of Go.
    Go,
    /// The heap of Ruby.
    Ruby,
    /// An allocator inside the executable.
    Allocator(&'static str),
}

/// Hints for the large lines of a ledger. `profile` has the symbols of its stacks.
#[must_use]
pub fn hints(ledger: &Ledger, profile: &Profile) -> Vec<Hint> {
    let least = (ledger.resident / LEAST_SHARE).max(1);
    let runtimes = ledger.lines.iter().filter(|line| line.kind == LineKind::Runtime && line.bytes >= least);
    let mut hints: Vec<Hint> = runtimes.filter_map(|line| of_runtime(&line.name)).collect();
    // A free-threaded build has no other allocator.
    let runtime = profile.meta.recorded.runtime;
    if runtime.is_some_and(|runtime| runtime.support == RuntimeSupport::FreeThreaded) {
        hints.retain(|hint| *hint != Hint::Python);
    }
    // The blocks of an allocator that is hooked at its entry are seen.
    let is_hooked = profile.meta.recorded.entry_hooks > 0;
    for site in ledger.mapping_sites.iter().filter(|site| site.resident >= least && !is_hooked) {
        if site.line == LineKind::Mappings.title()
            && let Some(name) = allocator(profile, site.stack)
        {
            hints.push(Hint::Allocator(name));
        }
    }
    hints.dedup();
    hints
}

fn of_runtime(name: &str) -> Option<Hint> {
    Some(match name {
        "Python arenas" => Hint::Python,
        "Zend heap" => Hint::Zend,
        "V8 heap" | "V8 and PartitionAlloc" => Hint::V8,
        "JVM heap" => Hint::Jvm,
        "Go heap" => Hint::Go,
        "Ruby heap" => Hint::Ruby,
        _ => return None,
    })
}

/// The allocator whose functions mapped memory, by the names of the innermost frames.
fn allocator(profile: &Profile, stack: StackId) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 8] = [
        ("_rjem_", "jemalloc"),
        ("je_", "jemalloc"),
        ("_mi_", "mimalloc"),
        ("mi_", "mimalloc"),
        ("tcmalloc::", "tcmalloc"),
        ("rpmalloc", "rpmalloc"),
        ("snmalloc::", "snmalloc"),
        ("scudo::", "scudo"),
    ];
    let callers = std::iter::successors(Some(stack), |stack| profile.stacks.parent(*stack));
    let lines = callers
        .take(MOST_FRAMES)
        .flat_map(|stack| &profile.locations[profile.stacks.location(stack).index()].lines);
    let names: Vec<&str> = lines.map(|line| &*profile.functions[line.function.index()].name).collect();
    let is_of = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    PREFIXES.iter().find(|(prefix, _)| is_of(prefix)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::ledger::{Line, MappingSite};

    #[test]
    fn large_runtimes_and_embedded_allocators_get_hints() {
        let mut builder = Builder::new("test");
        let frames = ["main", "_rjem_mallocx", "pages_map"].map(|name| builder.named(name));
        let stack = builder.stack(frames);
        let mut profile = builder.finish();
        let line = |kind, name: &str, bytes| Line { kind, name: name.into(), bytes, parts: Vec::new() };
        let ledger = Ledger {
            resident: 100,
            lines: vec![
                line(LineKind::Runtime, "Zend heap", 40),
                line(LineKind::Runtime, "V8 heap", 4),
                line(LineKind::Mappings, "mappings", 50),
            ],
            mapping_sites: vec![MappingSite {
                memfd: None,
                last_ms: 0,
                stack,
                line: "mappings".into(),
                count: 1,
                mapped: 60,
                resident: 50,
            }],
            ..Ledger::default()
        };
        assert_eq!(hints(&ledger, &profile), [Hint::Zend, Hint::Allocator("jemalloc")]);
        profile.meta.recorded.entry_hooks = 14;
        assert_eq!(hints(&ledger, &profile), [Hint::Zend]);
    }
}
