//! Programs built for one test, and profiles of addresses in them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use heapwise_profile::{BuildId, Location, Module, ModuleId, Profile};
use heapwise_symbolize::{FileOffset, Options};

/// Inlines, templates, anonymous and static functions, a lambda and a cold path.
pub(crate) const CPP: &str = r#"
#include <cstdlib>
#include <cstdio>
namespace shop {
template <typename T> struct Shelf {
    T* items = nullptr;
    int count = 0, room = 0;
    __attribute__((always_inline)) inline void grow(int more) {
        room += more;
        items = static_cast<T*>(realloc(items, room * sizeof(T)));
        if (!items) abort();
    }
    __attribute__((always_inline)) inline void put(T item) {
        if (count == room) grow(count + 4);
        items[count++] = item;
    }
    __attribute__((noinline)) T total() const {
        T sum{};
        for (int i = 0; i < count; i++) sum += items[i];
        return sum;
    }
    ~Shelf() { free(items); }
};
namespace {
__attribute__((noinline)) long stock(Shelf<long>& shelf, int count) {
    for (int i = 0; i < count; i++) shelf.put(i * 3L);
    return shelf.total();
}
}
inline __attribute__((always_inline)) void* grab(unsigned long size) {
    void* block = malloc(size);
    if (!block) abort();
    return block;
}
__attribute__((noinline)) char* label(const char* text, unsigned long size) {
    char* copy = static_cast<char*>(grab(size));
    snprintf(copy, size, "%s", text);
    return copy;
}
__attribute__((noinline)) long open(int count) {
    Shelf<long> shelf;
    auto close = [&](long by) __attribute__((noinline)) { return stock(shelf, count) + by; };
    return close(count);
}
}
extern "C" __attribute__((noinline, visibility("default"))) long entry(int count) {
    char* name = shop::label("shop", 32);
    long sum = shop::open(count) + name[0];
    free(name);
    return sum;
}
int main(int argc, char**) { return entry(argc) == 0; }
"#;

/// A scratch directory with a built program in it, removed when dropped.
pub(crate) struct Program {
    pub(crate) directory: PathBuf,
    pub(crate) binary: PathBuf,
}

impl Program {
    /// Compiles the C++ program.
    pub(crate) fn cpp(flags: &[&str]) -> Self {
        Self::build("g++", "shop.cc", CPP, flags)
    }

    pub(crate) fn build(compiler: &str, file: &str, source: &str, flags: &[&str]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir();
        let directory = directory.join(format!("heapwise-symbolize-{}-{number}", process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(file), source).unwrap();
        let program = Self { binary: directory.join("shop"), directory };
        let mut command = vec![compiler, file, "-o", "shop"];
        command.extend(flags);
        program.run(&command);
        program
    }

    /// Runs a tool in the directory and returns what it prints.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = Command::new(command[0])
            .args(&command[1..])
            .current_dir(&self.directory)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", command[0]));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Build-id according to readelf; empty if there is none.
    pub(crate) fn build_id(&self) -> BuildId {
        let notes = self.run(&["readelf", "-n", "shop"]);
        let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        BuildId::from_hex(id.unwrap_or_default()).unwrap()
    }

    /// File offset of an address according to readelf.
    pub(crate) fn offset_of(&self, svma: u64) -> FileOffset {
        let headers = self.run(&["readelf", "-lW", "shop"]);
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let loads = headers.lines().filter(|line| line.trim_start().starts_with("LOAD"));
        loads
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|load| (hex(load[2])..hex(load[2]) + hex(load[4])).contains(&svma))
            .map(|load| FileOffset(svma - hex(load[2]) + hex(load[1])))
            .expect("address is in a segment")
    }

    /// A profile of these addresses (of one segment), as recorded from a process.
    pub(crate) fn profile(&self, svmas: &[u64]) -> Profile {
        const START: u64 = 0x7f12_3450_0000;
        let bias = self.offset_of(svmas[0]).0.wrapping_sub(svmas[0]);
        let location = |svma: &u64| Location {
            address: START + svma.wrapping_add(bias),
            module: Some(ModuleId(0)),
            ..Location::default()
        };
        Profile {
            modules: vec![Module {
                path: self.binary.to_str().unwrap().to_owned(),
                build_id: self.build_id(),
                start: START,
                end: START + (1 << 30),
                file_offset: 0,
            }],
            locations: svmas.iter().map(location).collect(),
            ..Profile::default()
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Options that look for debug files in one directory.
pub(crate) fn looking_in(directory: &Path) -> Options {
    Options { debug_paths: vec![directory.to_owned()], ..Options::default() }
}
