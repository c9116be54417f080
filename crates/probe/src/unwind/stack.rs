//! Reading a stack without ever faulting.
//!
//! On a thread's own stack everything between its stack pointer and its end is mapped for as long
//! as the thread lives, so a bounds check is enough: the kernel reports the end of the main
//! thread's stack, and on other threads the C library keeps the control block right above the
//! stack. Anywhere else (coroutines, `sigaltstack`, nonsense from broken unwind information) a
//! system call checks each page in each walk, because such memory may be unmapped at any time.
#![allow(unsafe_code)]

use super::machine::thread_pointer;
use crate::arch::syscall;
use crate::atomics::{AtomicU64, Ordering::Relaxed};
use crate::sys;

/// Cached bounds of the calling thread's own stack. Zeroed memory is valid: not known yet.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct OwnStack {
    low: u64,
    high: u64,
    /// Failed searches; their number is limited, for threads that run on foreign stacks.
    failures: u64,
}

/// The smallest page size; larger pages consist of these.
const PAGE: u64 = 4096;
/// Below the end of the main stack the kernel maps nothing else for at least this far.
const MAIN_STACK: u64 = 128 << 20;
/// Longest stack of another thread that is searched.
const THREAD_STACK: u64 = 64 << 20;
/// Largest growth of a known stack between two walks.
const GROWTH: u64 = 256 << 10;
const MOST_FAILURES: u64 = 8;

/// End of the main thread's stack; 0 before it was read.
static MAIN_STACK_END: AtomicU64 = AtomicU64::new(0);

fn main_stack_end() -> u64 {
    let known = MAIN_STACK_END.load(Relaxed);
    if known != 0 {
        return known;
    }
    // The program's file name is the last thing the kernel puts on the stack.
    let end = sys::auxiliary(libc::AT_EXECFN) & !7;
    MAIN_STACK_END.store(end, Relaxed);
    end
}

impl OwnStack {
    /// A window for a walk that starts at `sp`.
    #[inline(always)]
    pub(super) fn window(&mut self, sp: u64) -> Window {
        if !self.contains(sp) {
            self.locate(sp);
        }
        Window::new(*self, sp)
    }

    /// Whether `sp` is on the stack that the calling thread was started with.
    pub(crate) fn holds(&mut self, sp: u64) -> bool {
        self.window(sp);
        self.contains(sp)
    }

    #[inline(always)]
    pub(crate) fn contains(&self, sp: u64) -> bool {
        sp.wrapping_sub(self.low) < self.high.wrapping_sub(self.low)
    }

    #[cold]
    fn locate(&mut self, sp: u64) {
        let end = main_stack_end();
        if sp < end && end - sp < MAIN_STACK {
            (self.low, self.high) = (end - MAIN_STACK, end);
            return;
        }
        let top = thread_pointer();
        let page = sp & !(PAGE - 1);
        if self.high == top {
            if sp < self.low && self.low - sp <= GROWTH && all_readable(page, self.low) {
                self.low = page;
            }
        } else if self.failures < MOST_FAILURES {
            if sp < top && top - sp <= THREAD_STACK && all_readable(page, top) {
                (self.low, self.high) = (page, top);
            } else {
                self.failures += 1;
            }
        }
    }
}

fn all_readable(from: u64, to: u64) -> bool {
    (from..to).step_by(PAGE as usize).all(is_readable)
}

/// The memory a walk may read without asking: the rest of the own stack, or one page. The unlikely
/// paths take and return it by value, so that the likely ones can keep it in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    low: u64,
    /// Last readable word, counted from `low`.
    span: u64,
    own: OwnStack,
    moved: bool,
}

impl Window {
    #[inline(always)]
    fn new(own: OwnStack, sp: u64) -> Window {
        if own.contains(sp) {
            Window { low: sp & !7, span: own.high - 8 - (sp & !7), own, moved: false }
        } else {
            // One word of a page speaks for all of it; `sp`'s page has just been used.
            Window { low: sp & !(PAGE - 1), span: PAGE - 8, own, moved: true }
        }
    }

    /// Has the walk been on the thread's own stack from the start? Words there may always be read.
    #[inline(always)]
    pub(super) fn is_steady(&self) -> bool {
        !self.moved
    }

    /// The word at `address`; `None` when it cannot be read.
    #[inline(always)]
    pub(super) fn read(&mut self, address: u64) -> Option<u64> {
        if address.wrapping_sub(self.low) > self.span {
            *self = self.moved_to(address)?;
        }
        // SAFETY: the word lies in the window.
        Some(unsafe { load(address) })
    }

    /// The window that has `address`, which must be aligned: an aligned word lies in one page.
    #[cold]
    #[inline(never)]
    fn moved_to(self, address: u64) -> Option<Window> {
        // Checked even on the thread's own stack: the main stack may not have grown down to
        // `address` yet.
        let readable = address.is_multiple_of(8) && is_readable(address);
        readable.then(|| Window { moved: true, ..Window::new(self.own, address) })
    }
}

/// May the word at `address` be read? The kernel copies a signal set from there before it refuses
/// the first argument: EFAULT means a bad address, and no state changes.
pub(crate) fn is_readable(address: u64) -> bool {
    if sys::are_syscalls_disabled() {
        return false;
    }
    const NO_SUCH_HOW: usize = usize::MAX;
    let arguments = [NO_SUCH_HOW, address as usize, 0, 8, 0, 0];
    // SAFETY: with an invalid first argument the call changes nothing.
    let result = unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
    result == -(libc::EINVAL as isize)
}

/// The word at any address at all.
pub(super) fn read_anywhere(address: u64) -> Option<u64> {
    // SAFETY: the system call has just shown that it can be read.
    is_readable(address).then(|| unsafe { load(address) })
}

/// The word at `address`.
///
/// # Safety
/// It can be read.
#[inline(always)]
pub(super) unsafe fn load(address: u64) -> u64 {
    let pointer = core::ptr::with_exposed_provenance::<u64>(address as usize);
    // SAFETY: the caller's promise. A stack slot may be rewritten by its own thread only, which is
    // this one; unaligned frames are legal if unusual.
    unsafe { pointer.read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> u64 {
        let word = 0_u64;
        std::hint::black_box(&raw const word) as u64
    }

    #[test]
    fn readable_words_are_told_from_others() {
        let word = 7_u64;
        assert!(is_readable(&raw const word as u64));
        assert!(!is_readable(0) && !is_readable(8));
        let memory = sys::map_private(8192).unwrap();
        assert!(is_readable(memory as u64 + 4096));
        // SAFETY: our own mapping.
        unsafe {
            libc::mprotect(memory.add(4096).cast(), 4096, libc::PROT_NONE);
            assert!(is_readable(memory as u64) && !is_readable(memory as u64 + 4096));
            sys::unmap(memory, 8192);
        }
        assert!(!is_readable(memory as u64));
    }

    #[test]
    fn own_stack_of_a_thread_is_found() {
        std::thread::spawn(|| {
            let mut own = OwnStack::default();
            let sp = here();
            let mut window = own.window(sp);
            assert!(window.is_steady() && own.high == thread_pointer());
            assert!(window.read(sp & !7).is_some());
            assert!(window.read(own.high - 8).is_some());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn foreign_stack_is_read_page_by_page() {
        let memory = sys::map_private(3 * 4096).unwrap();
        let base = memory as u64;
        // SAFETY: our own mapping.
        unsafe { libc::mprotect(memory.add(8192).cast(), 4096, libc::PROT_NONE) };
        let mut own = OwnStack::default();
        own.window(here());
        let mut window = own.window(base + 64);
        assert!(!window.is_steady());
        assert_eq!(window.read(base + 4088), Some(0));
        assert_eq!(window.read(base + 4096), Some(0));
        assert_eq!(window.read(base + 8192), None);
        assert_eq!(window.read(base + 8190), None);
        assert_eq!(window.read(8), None);
        assert_eq!(window.read(base), Some(0));
        let word = here() & !7;
        assert!(window.read(word).is_some() && !window.is_steady());
        // SAFETY: our own mapping.
        unsafe { sys::unmap(memory, 3 * 4096) };
    }

    #[test]
    fn a_deeper_stack_is_still_the_own_one() {
        fn deeper(own: &mut OwnStack, levels: u32) {
            let pad = [0_u8; 6000];
            std::hint::black_box(&pad);
            assert!(own.window(here()).is_steady());
            if levels > 0 {
                deeper(own, levels - 1);
            }
            std::hint::black_box(&pad);
        }
        std::thread::spawn(|| deeper(&mut OwnStack::default(), 100)).join().unwrap();
    }
}
