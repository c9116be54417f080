//! The probe's functions, looked up by name: what `heapwise.h` declares.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// `enum heapwise_mode`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Off = 0,
    Sampled = 1,
    Exact = 2,
}

/// What the probe counted. Sums of other threads may be 64 KiB behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Snapshot {
    /// Live bytes: exact, or estimated from samples.
    pub live_bytes: u64,
    /// Highest `live_bytes` since the last reset.
    pub peak_bytes: u64,
    /// Bytes allocated since the last reset.
    pub allocated_bytes: u64,
    /// Allocations recorded: all of them, or the samples.
    pub recorded: u64,
    /// Recorded blocks that were freed.
    pub freed: u64,
    /// Events that could not be recorded.
    pub lost: u64,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The functions of a probe that has all of them.
#[derive(Debug)]
pub(crate) struct Probe {
    set_mode: extern "C" fn(c_int, u64),
    reset: extern "C" fn(),
    dump: unsafe extern "C" fn(*const c_char) -> c_int,
    mark: unsafe extern "C" fn(*const c_char),
    take_snapshot: extern "C" fn(&mut Snapshot),
    label_push: unsafe extern "C" fn(*const c_char),
    label_pop: extern "C" fn(),
}

/// The probe of this process; looked for once.
pub(crate) fn probe() -> Option<&'static Probe> {
    static FOUND: OnceLock<Option<Probe>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<Probe> {
    // SAFETY: the signatures of heapwise.h.
    unsafe {
        Some(Probe {
            set_mode: function(c"heapwise_set_mode")?,
            reset: function(c"heapwise_reset")?,
            dump: function(c"heapwise_dump")?,
            mark: function(c"heapwise_mark")?,
            take_snapshot: function(c"heapwise_take_snapshot")?,
            label_push: function(c"heapwise_label_push")?,
            label_pop: function(c"heapwise_label_pop")?,
        })
    }
}

/// # Safety
/// `F` is the type of a pointer to the function of that name.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a null handle looks in all objects of the program; the name is constant text.
    let address = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    // SAFETY: of pointer size; the caller's promise.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

impl Probe {
    pub(crate) fn set_mode(&self, mode: Mode, sample_bytes: u64) {
        (self.set_mode)(mode as c_int, sample_bytes);
    }

    pub(crate) fn reset(&self) {
        (self.reset)();
    }

    /// 0, or an errno.
    pub(crate) fn dump(&self, path: &CStr) -> c_int {
        // SAFETY: text that outlives the call.
        unsafe { (self.dump)(path.as_ptr()) }
    }

    pub(crate) fn mark(&self, name: &CStr) {
        // SAFETY: text that outlives the call.
        unsafe { (self.mark)(name.as_ptr()) }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        (self.take_snapshot)(&mut snapshot);
        snapshot
    }

    pub(crate) fn push_label(&self, name: &CStr) {
        // SAFETY: text that outlives the call.
        unsafe { (self.label_push)(name.as_ptr()) }
    }

    pub(crate) fn pop_label(&self) {
        (self.label_pop)();
    }
}
