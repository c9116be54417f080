//! The unwinders that are compared.

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;

use heapwise_probe::test_api::{self, Entry, Memo, OwnStack, TestProbe};

use crate::hopper;
use crate::scenario::{Chain, Leaf};

const DEPTH: usize = 512;

#[derive(Clone, Copy)]
pub struct Contender {
    pub name: &'static str,
    pub leaf: Leaf,
    pub body: Option<test_api::Body>,
    /// Captures per batch, fewer for the slow ones.
    pub captures: usize,
}

/// The first one does nothing: what it takes is subtracted from the others.
pub fn all() -> Vec<Contender> {
    // SAFETY: the stub takes a chain as its context.
    let stub: Leaf = unsafe { std::mem::transmute(test_api::hook as *const ()) };
    let ours = |name, body: test_api::Body| Contender { name, leaf: stub, body: Some(body), captures: 3000 };
    let theirs = |name, leaf, captures| Contender { name, leaf, body: None, captures };
    let mut all = vec![
        ours("(nothing)", nothing),
        ours("heapwise memo + node", memo),
        ours("heapwise full walk + node", full),
        theirs("framehop, cached", framehop as Leaf, 1500),
        theirs("glibc backtrace()", glibc, 60),
    ];
    if LIBUNWIND.get_or_init(find_libunwind).is_some() {
        all.insert(3, theirs("libunwind unw_backtrace", libunwind, 1500));
    } else {
        eprintln!("libunwind.so.8 is not installed: left out");
    }
    all
}

/// The session of the comparison.
fn bench() -> TestProbe {
    static BENCH: OnceLock<TestProbe> = OnceLock::new();
    *BENCH.get_or_init(|| TestProbe::start().expect("memory for a segment"))
}

unsafe extern "C" fn nothing(_: *mut c_void, _: &Entry) -> i64 {
    0
}

unsafe extern "C" fn memo(chain: *mut c_void, entry: &Entry) -> i64 {
    // SAFETY: the chain's memo is a `Memo`.
    let memo = unsafe { &mut *(*chain.cast::<Chain>()).memo.cast::<Memo>() };
    bench().capture(memo, entry, DEPTH as u32).node.into()
}

unsafe extern "C" fn full(_: *mut c_void, entry: &Entry) -> i64 {
    bench().capture_plain(&mut OwnStack::default(), entry, DEPTH as u32).node.into()
}

unsafe extern "C" fn framehop(_: *mut Chain, _: *mut c_void) -> c_long {
    hopper::walk(DEPTH) as c_long
}

type Backtrace = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
static LIBUNWIND: OnceLock<Option<Backtrace>> = OnceLock::new();

/// Loaded privately: its own `backtrace` and `_Unwind_*` would replace glibc's.
fn find_libunwind() -> Option<Backtrace> {
    // SAFETY: names and types of libunwind's interface; per-thread caching as heaptrack sets it.
    unsafe {
        let library = libc::dlopen(c"libunwind.so.8".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return None;
        }
        let set_policy = libc::dlsym(library, c"_ULx86_64_set_caching_policy".as_ptr());
        let space = libc::dlsym(library, c"_ULx86_64_local_addr_space".as_ptr()).cast::<*mut c_void>();
        if !set_policy.is_null() && !space.is_null() {
            const PER_THREAD: c_int = 2;
            let set_policy: unsafe extern "C" fn(*mut c_void, c_int) -> c_int =
                std::mem::transmute(set_policy);
            set_policy(*space, PER_THREAD);
        }
        let function = libc::dlsym(library, c"unw_backtrace".as_ptr());
        (!function.is_null()).then(|| std::mem::transmute::<*mut c_void, Backtrace>(function))
    }
}

unsafe extern "C" fn libunwind(_: *mut Chain, _: *mut c_void) -> c_long {
    let mut frames = [const { std::mem::MaybeUninit::<*mut c_void>::uninit() }; DEPTH];
    let Some(Some(function)) = LIBUNWIND.get() else { return 0 };
    // SAFETY: room for `DEPTH` addresses.
    unsafe { function(frames.as_mut_ptr().cast(), DEPTH as c_int).into() }
}

unsafe extern "C" fn glibc(_: *mut Chain, _: *mut c_void) -> c_long {
    let mut frames = [const { std::mem::MaybeUninit::<*mut c_void>::uninit() }; DEPTH];
    // SAFETY: room for `DEPTH` addresses.
    unsafe { libc::backtrace(frames.as_mut_ptr().cast(), DEPTH as c_int).into() }
}
