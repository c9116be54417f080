//! Language runtimes and allocators, known by the binary that maps their memory.

/// A runtime's own heap.
struct Runtime {
    /// Beginnings of the file name of the binary.
    binaries: &'static [&'static str],
    /// Title of its line.
    title: &'static str,
    /// The runtime maps multiples of this many bytes; other mappings of the binary are not its
    /// heap.
    unit: u64,
}

const PAGE: u64 = 4 << 10;

const RUNTIMES: [Runtime; 16] = [
    // 256 KiB up to Python 3.9, 1 MiB since.
    Runtime { binaries: &["libpython", "python"], title: "Python arenas", unit: 256 << 10 },
    Runtime { binaries: &["libjvm.so"], title: "JVM heap", unit: PAGE },
    Runtime { binaries: &["node", "libnode.so", "libv8", "d8"], title: "V8 heap", unit: PAGE },
    Runtime {
        binaries: &["chrome", "chromium", "headless_shell", "electron", "libcef", "libQt5WebEngineCore"],
        title: "V8 and PartitionAlloc",
        unit: PAGE,
    },
    Runtime { binaries: &["php", "libphp"], title: "Zend heap", unit: PAGE },
    Runtime { binaries: &["libruby", "ruby"], title: "Ruby heap", unit: PAGE },
    Runtime { binaries: &["libcoreclr.so", "libclrgc.so", "libmono"], title: ".NET heap", unit: PAGE },
    Runtime { binaries: &["libluajit", "luajit"], title: "LuaJIT heap", unit: PAGE },
    Runtime { binaries: &["beam.smp"], title: "Erlang heap", unit: PAGE },
    Runtime { binaries: &["libmozjs", "libxul.so"], title: "SpiderMonkey heap", unit: PAGE },
    Runtime { binaries: &["libgo.so"], title: "Go heap", unit: PAGE },
    Runtime { binaries: &["libjemalloc"], title: "jemalloc heap", unit: PAGE },
    Runtime { binaries: &["libtcmalloc"], title: "tcmalloc heap", unit: PAGE },
    Runtime { binaries: &["libmimalloc"], title: "mimalloc heap", unit: PAGE },
    Runtime { binaries: &["libsnmalloc"], title: "snmalloc heap", unit: PAGE },
    Runtime { binaries: &["libscudo"], title: "scudo heap", unit: PAGE },
];

/// The heap that a mapping of this many bytes belongs to, by the path of the binary whose code
/// mapped it.
pub(super) fn of_binary(path: &str, bytes: u64) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_of = |runtime: &&Runtime| {
        bytes.is_multiple_of(runtime.unit) && runtime.binaries.iter().any(|binary| is_called(name, binary))
    };
    RUNTIMES.iter().find(is_of).map(|runtime| runtime.title)
}

/// Whether a file name is `binary`, or begins with it and goes on with a version or an extension.
fn is_called(name: &str, binary: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|letter: char| letter.is_ascii_alphabetic());
    name.strip_prefix(binary).is_some_and(|rest| is_end(rest) || binary.starts_with("lib"))
}

/// The heap named by the kernel's name of an anonymous mapping, such as `[anon:v8]`.
pub(super) fn of_kernel_name(path: &str) -> Option<String> {
    let name = path.strip_prefix("[anon:")?.strip_suffix(']')?.trim();
    let title = match name {
        _ if name.starts_with("Go:") => "Go heap",
        _ if name.starts_with("v8") => "V8 heap",
        _ if name.starts_with("partition_alloc") => "PartitionAlloc",
        other => return Some(other.to_owned()),
    };
    Some(title.to_owned())
}

/// Go places its heap here, and no other allocator does.
pub(super) fn is_go_heap(start: u64) -> bool {
    (0xc0_0000_0000..0xc1_0000_0000).contains(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_known_with_their_versions() {
        for (path, bytes, title) in [
            ("/usr/bin/python3.11", 1 << 20, Some("Python arenas")),
            ("/usr/lib/libpython3.12.so.1.0", 256 << 10, Some("Python arenas")),
            ("/usr/bin/python3.11", 4096, None),
            ("/usr/bin/node", 4096, Some("V8 heap")),
            ("/usr/bin/nodeview", 4096, None),
            ("/usr/bin/php8.2", 2 << 20, Some("Zend heap")),
            ("/opt/jdk/lib/server/libjvm.so", 8192, Some("JVM heap")),
            ("/usr/bin/redis-server", 8192, None),
        ] {
            assert_eq!(of_binary(path, bytes), title, "{path}");
        }
        assert_eq!(of_kernel_name("[anon: Go: heap]").as_deref(), Some("Go heap"));
        assert_eq!(of_kernel_name("[anon:my pool]").as_deref(), Some("my pool"));
        assert_eq!(of_kernel_name("[heap]"), None);
    }
}
