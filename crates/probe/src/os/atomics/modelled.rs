//! loom's atomics for words that are where the probe has them: in mapped memory, in statics, in the
//! segment.
//!
//! A loom atomic is an object of its own and cannot lie in shared memory. So a word here is as
//! large as `core`'s, and its address is the key of a loom atomic that replaces it while a model
//! runs. Atomics do not write the memory itself during a model, and other writes to it are undone:
//! every execution starts from the same memory. loom's atomics are made before the model's threads
//! begin, as loom demands, start as 0, and hold the difference to the memory's value. Outside of a
//! model everything is `core`'s.
#![allow(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

use loom::sync::atomic as looms;

use crate::sys;

/// loom objects that replace addresses, in the order of first access.
struct StandIns<T> {
    spare: Vec<T>,
    by_address: BTreeMap<usize, Rc<T>>,
}

impl<T> StandIns<T> {
    fn new(most: usize, make: impl Fn() -> T) -> Self {
        Self { spare: (0..most).map(|_| make()).collect(), by_address: BTreeMap::new() }
    }

    fn of(&mut self, address: usize) -> Rc<T> {
        let spare = &mut self.spare;
        let new = || Rc::new(spare.pop().expect("a model that touches so many places is too large"));
        Rc::clone(self.by_address.entry(address).or_insert_with(new))
    }
}

/// State of an execution.
struct Execution {
    bytes: StandIns<looms::AtomicU8>,
    halves: StandIns<looms::AtomicU32>,
    words: StandIns<looms::AtomicU64>,
    sizes: StandIns<looms::AtomicUsize>,
    records: StandIns<loom::cell::UnsafeCell<()>>,
    /// Bytes that plain writes replaced, to be restored.
    overwritten: Vec<(*mut u8, Vec<u8>)>,
    mappings: Vec<(*mut u8, usize)>,
}

std::thread_local! {
    /// loom's threads are all this thread.
    static EXECUTION: RefCell<Option<Execution>> = const { RefCell::new(None) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
}

/// `None` outside of a model.
fn modelled<R>(take: impl FnOnce(&mut Execution) -> R) -> Option<R> {
    EXECUTION.with_borrow_mut(|execution| execution.as_mut().map(take))
}

impl Execution {
    /// With room for what a model touches, of which words of 64 bits differ most; more are an error
    /// of the model.
    fn new(words: usize) -> Self {
        Self {
            bytes: StandIns::new(32, || looms::AtomicU8::new(0)),
            halves: StandIns::new(96, || looms::AtomicU32::new(0)),
            words: StandIns::new(words, || looms::AtomicU64::new(0)),
            sizes: StandIns::new(128, || looms::AtomicUsize::new(0)),
            records: StandIns::new(32, || loom::cell::UnsafeCell::new(())),
            overwritten: Vec::new(),
            mappings: Vec::new(),
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        for (place, before) in self.overwritten.drain(..).rev() {
            // SAFETY: it was written to; what the probe maps stays until below.
            unsafe { place.copy_from(before.as_ptr(), before.len()) };
        }
        for (memory, bytes) in self.mappings.drain(..) {
            // SAFETY: mapped during this execution, and its words are not used again. A range that
            // the probe unmapped itself is unmapped, or is another mapping of this execution.
            unsafe { sys::unmap(memory, bytes) };
        }
    }
}

/// Explores the executions of `threads`, which touch at most `words` words of 64 bits.
pub(crate) fn explore(words: usize, threads: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.max_branches = 20_000;
    // Ordering bugs need few preemptions; `LOOM_MAX_PREEMPTIONS` limits how many are tried.
    model.preemption_bound = model.preemption_bound.or(Some(3));
    EXECUTIONS.set(0);
    model.check(move || {
        EXECUTION.set(Some(Execution::new(words)));
        EXECUTIONS.set(EXECUTIONS.get() + 1);
        threads();
        drop(EXECUTION.take());
    });
    std::println!("{} executions", EXECUTIONS.get());
}

/// Memory that the probe maps during a model is unmapped after each execution.
pub(crate) fn mapped(memory: *mut u8, bytes: usize) {
    modelled(|execution| execution.mappings.push((memory, bytes)));
}

/// A record that begins at `place` is written.
#[track_caller]
pub(super) fn note_write(place: *mut u8, bytes: usize) {
    let record = modelled(|execution| {
        // SAFETY: what is written next may be read now, by the only thread that runs.
        let before = unsafe { core::slice::from_raw_parts(place, bytes) }.to_vec();
        execution.overwritten.push((place, before));
        execution.records.of(place as usize)
    });
    if let Some(record) = record {
        record.with_mut(|_| ());
    }
}

/// The record at this address is read, and every one written that begins in these bytes: a later
/// write of another thread must be ordered behind.
#[track_caller]
pub(super) fn note_read(address: usize, bytes: usize) {
    let records = modelled(|execution| {
        execution.records.of(address);
        let range = execution.records.by_address.range(address..address + bytes);
        range.map(|(_, record)| Rc::clone(record)).collect::<Vec<_>>()
    });
    for record in records.unwrap_or_default() {
        record.with(|_| ());
    }
}

pub(crate) fn fence(order: Ordering) {
    if modelled(|_| ()).is_some() {
        looms::fence(order);
    } else {
        core::sync::atomic::fence(order);
    }
}

macro_rules! word {
    ($name:ident, $int:ty, $stand_ins:ident) => {
        #[repr(transparent)]
        pub(crate) struct $name(core::sync::atomic::$name);

        #[allow(dead_code, reason = "each width has all of them")]
        impl $name {
            pub(crate) const fn new(value: $int) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }

            /// loom's word, and the value that its 0 means.
            fn stand_in(&self) -> Option<(Rc<looms::$name>, $int)> {
                let address = &raw const *self as usize;
                let word = modelled(|execution| execution.$stand_ins.of(address))?;
                Some((word, self.0.load(Ordering::Relaxed)))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $int {
                match self.stand_in() {
                    Some((word, zero)) => word.load(order).wrapping_add(zero),
                    None => self.0.load(order),
                }
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $int, order: Ordering) {
                match self.stand_in() {
                    Some((word, zero)) => word.store(value.wrapping_sub(zero), order),
                    None => self.0.store(value, order),
                }
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $int, order: Ordering) -> $int {
                match self.stand_in() {
                    Some((word, zero)) => word.swap(value.wrapping_sub(zero), order).wrapping_add(zero),
                    None => self.0.swap(value, order),
                }
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                old: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                match self.stand_in() {
                    Some((word, zero)) => word
                        .compare_exchange(old.wrapping_sub(zero), new.wrapping_sub(zero), success, failure)
                        .map(|old| old.wrapping_add(zero))
                        .map_err(|found| found.wrapping_add(zero)),
                    None => self.0.compare_exchange(old, new, success, failure),
                }
            }

            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                match self.stand_in() {
                    Some((word, zero)) => word.fetch_add(value, order).wrapping_add(zero),
                    None => self.0.fetch_add(value, order),
                }
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.fetch_add(value.wrapping_neg(), order)
            }

            #[track_caller]
            pub(crate) fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                self.rewrite(order, |old| old.max(value))
            }

            #[track_caller]
            pub(crate) fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.rewrite(order, |old| old & value)
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.rewrite(order, |old| old | value)
            }

            #[track_caller]
            fn rewrite(&self, order: Ordering, new: impl Fn($int) -> $int) -> $int {
                let (Ok(old) | Err(old)) = self.fetch_update(order, Ordering::Relaxed, |old| Some(new(old)));
                old
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut new: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                let mut old = self.load(failure);
                while let Some(next) = new(old) {
                    match self.compare_exchange(old, next, success, failure) {
                        Ok(old) => return Ok(old),
                        Err(found) => old = found,
                    }
                }
                Err(old)
            }

            pub(crate) fn as_ptr(&self) -> *mut $int {
                self.0.as_ptr()
            }
        }
    };
}

word!(AtomicU8, u8, bytes);
word!(AtomicU32, u32, halves);
word!(AtomicU64, u64, words);
word!(AtomicUsize, usize, sizes);

#[repr(transparent)]
pub(crate) struct AtomicBool(AtomicU8);

impl AtomicBool {
    pub(crate) const fn new(value: bool) -> Self {
        Self(AtomicU8::new(value as u8))
    }

    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> bool {
        self.0.load(order) != 0
    }

    #[track_caller]
    pub(crate) fn store(&self, value: bool, order: Ordering) {
        self.0.store(value.into(), order);
    }

    #[track_caller]
    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value.into(), order) != 0
    }

    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        old: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        let result = self.0.compare_exchange(old.into(), new.into(), success, failure);
        result.map(|old| old != 0).map_err(|found| found != 0)
    }
}

#[repr(transparent)]
pub(crate) struct AtomicI64(AtomicU64);

impl AtomicI64 {
    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> i64 {
        self.0.load(order) as i64
    }

    #[track_caller]
    pub(crate) fn store(&self, value: i64, order: Ordering) {
        self.0.store(value as u64, order);
    }
}

#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(core::sync::atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(value: *mut T) -> Self {
        Self(core::sync::atomic::AtomicPtr::new(value))
    }

    fn number(&self) -> &AtomicUsize {
        // SAFETY: a word of the same size and alignment.
        unsafe { &*(&raw const *self).cast() }
    }

    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.number().load(order) as *mut T
    }

    #[track_caller]
    pub(crate) fn store(&self, value: *mut T, order: Ordering) {
        self.number().store(value as usize, order);
    }

    #[track_caller]
    pub(crate) fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.number().swap(value as usize, order) as *mut T
    }

    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        old: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        let result = self.number().compare_exchange(old as usize, new as usize, success, failure);
        result.map(|old| old as *mut T).map_err(|found| found as *mut T)
    }
}
