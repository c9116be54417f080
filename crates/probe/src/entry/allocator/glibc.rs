//! glibc: `mallinfo2` (2.33). Its elder `mallinfo` wraps at 4 GiB and is not used.
#![allow(unsafe_code)]

use super::Statistics;
use crate::symbols::function;

/// `struct mallinfo2`.
#[repr(C)]
struct Info {
    /// Bytes of all arenas.
    arena: usize,
    free_chunks: usize,
    fast_chunks: usize,
    mapped_blocks: usize,
    /// Bytes in blocks mapped one by one.
    mapped_bytes: usize,
    unused: usize,
    fast_bytes: usize,
    /// Bytes of the arenas handed out.
    used: usize,
    free: usize,
    /// Free bytes at the end of the heap.
    top: usize,
}

pub(super) fn read() -> Option<Statistics> {
    // SAFETY: the signature of mallinfo2.
    let info = unsafe { function::<unsafe extern "C" fn() -> Info>(c"mallinfo2") }?;
    // SAFETY: takes no arguments.
    let info = unsafe { info() };
    let [arena, large, used, free, top] =
        [info.arena, info.mapped_bytes, info.used, info.free, info.top].map(|bytes| bytes as u64);
    Some(Statistics {
        allocated: used + large,
        active: (arena + large).saturating_sub(top),
        mapped: arena + large,
        free,
        large,
        ..Statistics::default()
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_large_block_shows() {
        let before = read().expect("glibc tells");
        let block = vec![1_u8; 64 << 20];
        let after = read().expect("glibc tells");
        // Other tests free their own blocks meanwhile, which are smaller.
        assert!(after.allocated >= before.allocated + block.len() as u64 / 2);
        assert!(after.mapped >= after.allocated);
    }
}
