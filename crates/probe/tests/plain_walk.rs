//! The full walk against glibc's `backtrace`, which is libgcc's unwinder.
#![allow(unsafe_code)]

mod support;

use std::ffi::c_void;
use std::hint::black_box;

use heapwise_format::segment::{Counter, NodePlace};
use heapwise_probe::test_api::{self, Captured, Entry, OwnStack, TestProbe};

struct Comparison {
    bench: TestProbe,
    captured: Captured,
    expected: Vec<u64>,
    depth: u32,
}

unsafe extern "C" fn compare(context: *mut c_void, entry: &Entry) -> i64 {
    let mut addresses = [std::ptr::null_mut(); 600];
    // SAFETY: `compare_here` passes a `Comparison`.
    let comparison = unsafe { &mut *context.cast::<Comparison>() };
    comparison.captured = comparison.bench.capture_plain(&mut OwnStack::default(), entry, comparison.depth);
    // SAFETY: room for 600 addresses.
    let len = unsafe { libc::backtrace(addresses.as_mut_ptr(), 600) } as usize;
    // The first frames are this function and the stub.
    comparison.expected = addresses[2..len].iter().map(|address| *address as u64).collect();
    0
}

#[inline(never)]
fn compare_here(bench: TestProbe, depth: u32) -> Comparison {
    let captured = Captured { node: 0, truncated: false, broken: false };
    let mut comparison = Comparison { bench, captured, expected: Vec::new(), depth };
    // SAFETY: `compare` gets back what it expects.
    unsafe { test_api::hook((&raw mut comparison).cast(), compare) };
    comparison
}

fn addresses(comparison: &Comparison) -> Vec<u64> {
    let addresses = comparison.bench.places(comparison.captured.node).map(|place| match place {
        NodePlace::Return(address) | NodePlace::Interrupted(address) => address,
        NodePlace::Declared { .. } => panic!("nobody declared a frame"),
    });
    addresses.collect()
}

fn check(comparison: &Comparison) {
    assert!(!comparison.captured.truncated && !comparison.captured.broken);
    let ours = addresses(comparison);
    // libgcc reports the zero that ends a thread's stack as a frame of its own.
    let theirs: Vec<u64> = comparison.expected.iter().copied().filter(|address| *address != 0).collect();
    assert_eq!(ours, theirs);
}

#[inline(never)]
fn recurse(bench: TestProbe, levels: u32) -> Comparison {
    let pad = [levels; 37];
    black_box(&pad);
    let comparison = if levels == 0 { compare_here(bench, 512) } else { recurse(bench, levels - 1) };
    black_box(&pad);
    comparison
}

#[test]
fn equals_backtrace_in_a_thread() {
    let bench = support::start();
    for levels in [0, 1, 7, 100] {
        check(&recurse(bench, levels));
    }
}

#[test]
fn equal_stacks_are_one_node() {
    let bench = support::start();
    let nodes: Vec<u32> = (0..3).map(|_| recurse(bench, 5).captured.node).collect();
    assert!(nodes.windows(2).all(|pair| pair[0] == pair[1]), "{nodes:?}");
}

#[test]
fn a_depth_limit_keeps_the_youngest_frames() {
    let cut = compare_here(support::start(), 3);
    assert!(cut.captured.truncated);
    assert_eq!(addresses(&cut), cut.expected[..3]);
}

#[test]
fn through_c_callbacks() {
    extern "C" fn order(a: *const c_void, _: *const c_void) -> i32 {
        // SAFETY: the elements are `Option<Comparison>`.
        let slot = unsafe { &mut *a.cast_mut().cast::<Option<Comparison>>() };
        if slot.is_none() {
            *slot = Some(compare_here(support::start(), 512));
        }
        0
    }
    let mut slots = [const { None::<Comparison> }; 2];
    // SAFETY: two elements of that size.
    unsafe { libc::qsort(slots.as_mut_ptr().cast(), 2, size_of::<Option<Comparison>>(), Some(order)) };
    check(slots.iter().flatten().next().unwrap());
}

#[test]
fn frames_name_their_module() {
    let comparison = compare_here(support::start(), 512);
    let module = comparison.bench.module_of(comparison.captured.node).unwrap();
    let path = std::str::from_utf8(&module.path).unwrap().trim_end_matches('\0');
    assert_eq!(std::path::Path::new(path), std::env::current_exe().unwrap());
    let address = addresses(&comparison)[0];
    assert!((module.start..module.end).contains(&address));
    assert!(comparison.bench.counter(Counter::Modules) >= 2);
}
