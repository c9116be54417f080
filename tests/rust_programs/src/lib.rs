//! A program that counts the blocks of its allocator, as the C victims do (`tests/programs`).

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};

static ALLOC_OBJECTS: AtomicI64 = AtomicI64::new(0);
static ALLOC_BYTES: AtomicI64 = AtomicI64::new(0);
static INUSE_OBJECTS: AtomicI64 = AtomicI64::new(0);
static INUSE_BYTES: AtomicI64 = AtomicI64::new(0);

fn count_alloc(bytes: usize) {
    for (counter, amount) in [(&ALLOC_OBJECTS, 1), (&ALLOC_BYTES, bytes), (&INUSE_OBJECTS, 1), (&INUSE_BYTES, bytes)]
    {
        counter.fetch_add(amount as i64, Ordering::Relaxed);
    }
}

fn count_free(bytes: usize) {
    INUSE_OBJECTS.fetch_sub(1, Ordering::Relaxed);
    INUSE_BYTES.fetch_sub(bytes as i64, Ordering::Relaxed);
}

/// An allocator that counts its calls.
pub struct Counted<A>(pub A);

// SAFETY: every call is passed on.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_alloc(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_alloc(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_free(layout.size());
        count_alloc(size);
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_free(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(block, layout) }
    }
}

#[repr(align(64))]
struct Wide([u8; 128]);

fn work(thread: usize, rounds: usize) -> Vec<Box<str>> {
    let mut kept = Vec::new();
    for round in 0..rounds {
        let mut text = String::from("x");
        for _ in 0..round % 7 {
            text.push_str("some more text to grow the string ");
        }
        kept.push(text.into_boxed_str());
        black_box(vec![0_u8; round % 900]);
        black_box(Box::new(Wide([thread as u8; 128])).0[0]);
        if kept.len() > 500 {
            kept.clear();
        }
    }
    kept
}

/// Arguments: threads, rounds. What the threads kept is live at the end.
pub fn main() {
    let argument = |number: usize, default| std::env::args().nth(number).map_or(default, |text| text.parse().unwrap());
    let (threads, rounds) = (argument(1, 2), argument(2, 20_000));
    let workers: Vec<_> = (0..threads).map(|thread| std::thread::spawn(move || work(thread, rounds))).collect();
    let kept: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let counters = [&ALLOC_OBJECTS, &ALLOC_BYTES, &INUSE_OBJECTS, &INUSE_BYTES];
    let [alloc_objects, alloc_bytes, inuse_objects, inuse_bytes] = counters.map(|c| c.load(Ordering::Relaxed));
    // Nothing is allocated or freed from here on: no destructor runs, and the text has no buffer.
    let mut out = Text([0; 512], 0);
    use std::fmt::Write as _;
    let _ = write!(
        out,
        "witness alloc_objects {alloc_objects}\nwitness alloc_bytes {alloc_bytes}\n\
         witness inuse_objects {inuse_objects}\nwitness inuse_bytes {inuse_bytes}\n"
    );
    use std::io::Write as _;
    use std::os::fd::FromRawFd as _;
    // SAFETY: standard output, which stays open.
    let mut file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(1) });
    let _ = file.write_all(&out.0[..out.1]);
    std::mem::forget(kept);
    // SAFETY: ends the process; the standard library would free its own blocks first.
    unsafe { _exit(0) }
}

unsafe extern "C" {
    fn _exit(status: i32) -> !;
}

struct Text([u8; 512], usize);

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0[self.1..self.1 + text.len()].copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}
