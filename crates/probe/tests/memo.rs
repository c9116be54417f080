//! The memo against the full walk and against libgcc, over stacks made to fool it.
#![allow(unsafe_code)]

mod support;

use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use heapwise_format::segment::{Control, Counter, NodePlace};
use heapwise_probe::test_api::{self, Body, Captured, Entry, Memo, OwnStack, TestProbe};

/// Every so many stacks are compared with `backtrace` too, which takes a thousand times longer.
const WITNESS_STRIDE: u64 = 61;

struct Trial {
    bench: TestProbe,
    memo: Box<Memo>,
    /// Native frames are checked too, and the memo pauses at times.
    is_named_by_hash: bool,
    max_depth: u32,
    stacks: u64,
    witnessed: u64,
    interrupted: u64,
    truncated: u64,
    nodes: Vec<u32>,
}

impl Trial {
    fn new(bench: TestProbe, max_depth: u32) -> Self {
        // SAFETY: zeroed memory is a valid memo.
        let memo = unsafe { Box::<Memo>::new_zeroed().assume_init() };
        let (stacks, witnessed, interrupted, truncated) = (0, 0, 0, 0);
        let (is_named_by_hash, nodes) = (false, Vec::new());
        Self { bench, memo, is_named_by_hash, max_depth, stacks, witnessed, interrupted, truncated, nodes }
    }

    fn act(&mut self, acts: Acts, seed: u64, count: i64) {
        // SAFETY: `judge` gets the trial it expects.
        unsafe { acts(test_api::hook, (&raw mut *self).cast(), judge, seed, count) };
    }
}

unsafe extern "C" fn judge(context: *mut c_void, entry: &Entry) -> i64 {
    // SAFETY: whoever hands out `judge` passes a `Trial` of this thread.
    let trial = unsafe { &mut *context.cast::<Trial>() };
    let memoised = trial.bench.capture(&mut trial.memo, entry, trial.max_depth);
    let walked = trial.bench.capture_plain(&mut OwnStack::default(), entry, trial.max_depth);
    // Other threads may give the same stack another node while a table grows.
    let same = memoised == walked || places(trial, memoised) == places(trial, walked);
    let has_frames = !trial.is_named_by_hash || trial.memo.places().eq(trial.bench.places(memoised.node));
    if !same || !has_frames || memoised.broken {
        eprintln!("stack {}: {memoised:?} {walked:?}", trial.stacks);
        std::process::abort();
    }
    trial.stacks += 1;
    trial.truncated += u64::from(memoised.truncated);
    trial.nodes.push(memoised.node);
    if trial.stacks % WITNESS_STRIDE == 0 {
        witness(trial, memoised);
    }
    if trial.is_named_by_hash && trial.stacks % 100 == 0 {
        trial.memo.pause();
    }
    1
}

fn places(trial: &Trial, captured: Captured) -> (bool, bool, Vec<NodePlace>) {
    (captured.truncated, captured.broken, trial.bench.places(captured.node).collect())
}

#[inline(never)]
fn witness(trial: &mut Trial, captured: Captured) {
    let mut addresses = [std::ptr::null_mut(); 600];
    // SAFETY: room for 600 addresses.
    let len = unsafe { libc::backtrace(addresses.as_mut_ptr(), 600) } as usize;
    let ours: Vec<u64> = trial
        .bench
        .places(captured.node)
        .map(|place| match place {
            NodePlace::Return(address) => address,
            NodePlace::Interrupted(address) => {
                trial.interrupted += 1;
                address
            }
            NodePlace::Declared { .. } => 0,
        })
        .collect();
    // The first frames are this function, `judge` and the stub; a zero marks the end of a thread.
    let mut theirs: Vec<u64> = addresses[3..len].iter().map(|address| *address as u64).collect();
    theirs.retain(|address| *address != 0);
    if captured.truncated {
        theirs.truncate(ours.len());
    }
    if ours != theirs {
        eprintln!("stack {}\n ours {ours:x?}\n libgcc {theirs:x?}", trial.stacks);
        std::process::abort();
    }
    trial.witnessed += 1;
}

fn compile(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    // The tests of another architecture are built on this one too, and run by an emulator; frames
    // have flavours there.
    let flavour = std::env::var("HEAPWISE_CROSS_FLAGS").unwrap_or_default();
    let cross =
        format!("{}-linux-gnu-{}", std::env::consts::ARCH, if compiler == "cc" { "gcc" } else { "g++" });
    let has_cross = Command::new(&cross).arg("--version").output().is_ok();
    let mut command = Command::new(if has_cross { &cross } else { compiler });
    command.args(["-O2", "-shared", "-fPIC", "-pthread", "-o"]).arg(&output).arg(source).args(flags);
    command.args(flavour.split_whitespace());
    assert!(command.status().expect("a C compiler").success(), "{command:?}");
    output
}

fn open(path: &Path) -> *mut c_void {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: a library of ours.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null());
    library
}

/// # Safety
/// The library has a function `name` of type `F`.
unsafe fn function<F: Copy>(library: *mut c_void, name: &std::ffi::CStr) -> F {
    // SAFETY: the caller's promise.
    unsafe {
        let address = libc::dlsym(library, name.as_ptr().cast::<c_char>());
        assert!(!address.is_null());
        std::mem::transmute_copy(&address)
    }
}

type Hook = unsafe extern "C" fn(*mut c_void, Body) -> i64;
type Acts = unsafe extern "C" fn(Hook, *mut c_void, Body, u64, i64);

fn run(bench: TestProbe, acts: Acts, seed: u64, count: i64, max_depth: u32) -> Trial {
    let mut trial = Trial::new(bench, max_depth);
    trial.act(acts, seed, count);
    trial
}

/// One library for all tests: its signal handlers are the process's.
fn adversary() -> Acts {
    static ADVERSARY: OnceLock<Acts> = OnceLock::new();
    *ADVERSARY.get_or_init(|| {
        let library = open(&compile("cc", "adversary.c", "adversary.so", &[]));
        // SAFETY: the type of that function.
        unsafe { function(library, c"adversary_run") }
    })
}

#[test]
fn calls_jumps_coroutines_and_signals() {
    let acts = adversary();
    let bench = support::start();
    let threads: Vec<_> = [(1, 512), (2, 512), (3, 20)]
        .map(|(seed, depth)| std::thread::spawn(move || run(bench, acts, seed, 6000, depth)))
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    for trial in &threads {
        assert!(trial.stacks > 6000 && trial.witnessed > 100, "{} {}", trial.stacks, trial.witnessed);
    }
    assert!(threads[0].interrupted > 0, "some of the stacks pass through a signal handler");
    assert!(threads[0].truncated == 0 && threads[2].truncated > 100);
}

/// Stacks beside CPython are named by their hashes, and get their nodes when the nodes are needed.
/// That includes a cached stack, right after a stack that cannot be memoised.
#[test]
fn stacks_without_nodes() {
    let bench = support::start();
    bench.name_by_hash();
    let mut trial = Trial { is_named_by_hash: true, ..Trial::new(bench, Control::DEFAULT_DEPTH) };
    trial.act(adversary(), 11, 3000);
    assert!(trial.stacks > 3000 && trial.witnessed > 50, "{} {}", trial.stacks, trial.witnessed);
}

/// The tables behind the tree grow several times meanwhile.
#[test]
fn a_stack_keeps_its_node() {
    let acts = adversary();
    let bench = support::start();
    let runs: Vec<Vec<u32>> = (0..2).map(|_| run(bench, acts, 5, 6000, 512).nodes).collect();
    assert!(bench.counter(Counter::Nodes) > 10_000, "{}", bench.counter(Counter::Nodes));
    assert!(runs[0] == runs[1], "the same stacks in the same order have the same nodes");
}

#[test]
fn exceptions() {
    let library = open(&compile("c++", "adversary.cpp", "exceptions.so", &[]));
    // SAFETY: the type of that function.
    let acts: Acts = unsafe { function(library, c"exceptions_run") };
    let trial = run(support::start(), acts, 7, 3000, 512);
    assert!(trial.stacks > 6000 && trial.witnessed > 100);
}

/// Two plugins take turns, mostly at the same addresses.
#[test]
fn unloaded_code_is_forgotten() {
    let small = compile("cc", "plugin.c", "plugin_small.so", &["-DFRAME=40"]);
    let large = compile("cc", "plugin.c", "plugin_large.so", &["-DFRAME=4000"]);
    let mut trial = Trial::new(support::start(), 512);
    let mut places_seen = std::collections::HashMap::<u64, Vec<u32>>::new();
    for turn in 0..40 {
        let library = open(if turn % 2 == 0 { &small } else { &large });
        // SAFETY: the type of that function; `judge` gets the trial it expects.
        unsafe {
            let plugin: unsafe extern "C" fn(Hook, *mut c_void, Body) -> i64 =
                function(library, c"plugin_run");
            plugin(test_api::hook, (&raw mut trial).cast(), judge);
            let node = *trial.nodes.last().unwrap();
            witness_here(trial.bench, node, turn % 2 == 0, &mut places_seen);
            libc::dlclose(library);
        }
        trial.bench.closed();
    }
    let reused = places_seen.values().filter(|modules| modules.len() > 1).count();
    assert!(reused > 0, "the loader reuses addresses, or this test tests nothing: {places_seen:?}");
}

/// The node's module must be the plugin that is loaded now.
fn witness_here(
    bench: TestProbe,
    node: u32,
    small: bool,
    seen: &mut std::collections::HashMap<u64, Vec<u32>>,
) {
    let module = bench.module_of(node).unwrap();
    let path = String::from_utf8_lossy(&module.path);
    let name = if small { "plugin_small.so" } else { "plugin_large.so" };
    assert!(path.trim_end_matches('\0').ends_with(name), "{path}");
    let nodes = seen.entry(module.start).or_default();
    if !nodes.contains(&node) {
        nodes.push(node);
    }
}
