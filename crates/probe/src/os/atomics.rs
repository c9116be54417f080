//! The memory that threads and processes share. In the probe these are `core`'s atomics and plain
//! accesses; in the models (`cargo xtask loom`) they are loom's, and all other code is unchanged.

#[cfg(all(test, loom))]
mod modelled;
mod plain;

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use core::sync::atomic::{Ordering, compiler_fence};

#[cfg(all(test, loom))]
pub(crate) use modelled::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, explore, fence, mapped,
};
#[cfg(all(test, loom))]
pub(crate) use plain::about_to_read;
pub(crate) use plain::{about_to_write, read, write};
