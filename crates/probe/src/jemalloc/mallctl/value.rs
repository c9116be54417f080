//! The two halves of a `mallctl` call, with jemalloc's strict sizes.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::json::Callback;

/// Why a call fails; the errno jemalloc has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such name, or profiling is off.
    Unknown,
    /// A size that is not the type's.
    WrongSize,
    /// A read of what can only be written, or the other way round.
    WrongWay,
    /// It was tried and failed.
    Failed,
}

impl Refusal {
    pub(super) fn errno(self) -> c_int {
        match self {
            Refusal::Unknown => libc::ENOENT,
            Refusal::WrongSize => libc::EINVAL,
            Refusal::WrongWay => libc::EPERM,
            Refusal::Failed => libc::EFAULT,
        }
    }
}

/// Arguments of the caller: a buffer for the old value, and a new one.
pub(super) struct Request {
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
}

impl Request {
    /// # Safety
    /// `old` has room for `*old_len` bytes and `new` points to `new_len` bytes, where they are not
    /// null.
    pub(super) unsafe fn new(
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> Self {
        Self { old, old_len, new, new_len }
    }

    pub(super) fn only_read(&self) -> Result<(), Refusal> {
        if self.new.is_null() && self.new_len == 0 { Ok(()) } else { Err(Refusal::WrongWay) }
    }

    pub(super) fn only_written(&self) -> Result<(), Refusal> {
        if self.old.is_null() && self.old_len.is_null() { Ok(()) } else { Err(Refusal::WrongWay) }
    }

    pub(super) fn read_or_written(&self) -> Result<(), Refusal> {
        let is_read = !self.old.is_null() || !self.old_len.is_null();
        if is_read && (self.is_write() || self.new_len != 0) { Err(Refusal::WrongWay) } else { Ok(()) }
    }

    pub(super) fn is_write(&self) -> bool {
        !self.new.is_null()
    }

    /// Hands out the old value. Where the size is wrong as much as fits is copied, as jemalloc
    /// does.
    pub(super) fn give<T: Copy>(&mut self, value: T) -> Result<(), Refusal> {
        if self.old.is_null() || self.old_len.is_null() {
            return Ok(());
        }
        // SAFETY: the promise of `new`.
        unsafe {
            let len = (*self.old_len).min(size_of::<T>());
            core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), self.old.cast(), len);
            let fits = *self.old_len == size_of::<T>();
            *self.old_len = len;
            if fits { Ok(()) } else { Err(Refusal::WrongSize) }
        }
    }

    /// The new value, if there is one. Any bytes are a valid `T`.
    fn take<T: Copy>(&self) -> Result<Option<T>, Refusal> {
        if self.new.is_null() {
            return Ok(None);
        }
        if self.new_len != size_of::<T>() {
            return Err(Refusal::WrongSize);
        }
        // SAFETY: the promise of `new`.
        Ok(Some(unsafe { self.new.cast::<T>().read_unaligned() }))
    }

    pub(super) fn take_bool(&self) -> Result<Option<bool>, Refusal> {
        Ok(self.take::<u8>()?.map(|byte| byte != 0))
    }

    pub(super) fn take_u64(&self) -> Result<Option<u64>, Refusal> {
        self.take()
    }

    /// Where text goes: a function and its first argument, which must be given.
    pub(super) fn take_writer(&self) -> Result<(Option<Callback>, *mut c_void), Refusal> {
        let [write, opaque] = self.take::<[usize; 2]>()?.ok_or(Refusal::WrongSize)?;
        // SAFETY: jemalloc's contract: a function of this kind, or null.
        Ok((unsafe { core::mem::transmute::<usize, Option<Callback>>(write) }, opaque as *mut c_void))
    }

    /// Text that the program points to; null counts as none.
    pub(super) fn take_text(&self) -> Result<Option<&CStr>, Refusal> {
        let pointer = self.take::<usize>()?.unwrap_or(0) as *const c_char;
        // SAFETY: the program's text, alive during the call.
        Ok(if pointer.is_null() { None } else { Some(unsafe { CStr::from_ptr(pointer) }) })
    }
}
