//! jemalloc's size classes, and what was recorded of each (`prof.stats`).

use crate::record::sizes;
use crate::session::Session;

/// Classes of small blocks, those of large ones (jemalloc 5.3, pages of 4 KiB).
const SMALL: usize = 36;
const LARGE: usize = 196;

/// `prof_stats_t`: requested bytes, and blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Sums {
    bytes: u64,
    blocks: u64,
}

pub(crate) fn count(large: bool) -> usize {
    if large { LARGE } else { SMALL }
}

/// Recorded sums of a class: live, or ever allocated.
pub(crate) fn sums(session: &Session, large: bool, number: usize, ever: bool) -> Sums {
    let wanted = if large { SMALL + number } else { number };
    let mut sums = Sums::default();
    sizes::each_class(session, |largest, count| {
        if class_of(largest) == wanted {
            let (frees, freed_bytes) = if ever { (0, 0) } else { (count.frees, count.freed_bytes) };
            sums.blocks = sums.blocks.wrapping_add(count.allocs).wrapping_sub(frees);
            sums.bytes = sums.bytes.wrapping_add(count.alloc_bytes).wrapping_sub(freed_bytes);
        }
    });
    sums
}

/// Largest size of a class.
pub(crate) fn largest(large: bool, number: usize) -> u64 {
    match if large { SMALL + number } else { number } {
        0 => 8,
        class @ 1..=8 => class as u64 * 16,
        class => {
            let (doubling, within) = ((class - 9) / 4 + 7, (class - 9) % 4 + 1);
            (1 << doubling) + ((within as u64) << (doubling - 2))
        }
    }
}

/// 8, 16, 32, …, 128 by sixteens, then four classes for each doubling.
fn class_of(size: u64) -> usize {
    match size {
        0..=8 => 0,
        9..=128 => size.div_ceil(16) as usize,
        _ => {
            let doubling = (size - 1).ilog2();
            let step = 1_u64 << (doubling - 2);
            let within = (size - 1 - (1 << doubling)) / step;
            8 + (doubling as usize - 7) * 4 + within as usize + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{class_of, largest};

    /// `arenas.bin.<i>.size` and `arenas.lextent.<i>.size` of Debian's jemalloc 5.3.0.
    #[test]
    fn classes_are_jemallocs() {
        let sizes = [
            (0, 8),
            (1, 16),
            (2, 32),
            (3, 48),
            (8, 128),
            (9, 160),
            (10, 192),
            (12, 256),
            (13, 320),
            (16, 512),
            (17, 640),
            (35, 14336),
            (36, 16384),
            (37, 20480),
            (40, 32768),
        ];
        for (class, size) in sizes {
            assert_eq!((class_of(size), class_of(size + 1)), (class, class + 1), "{size}");
            assert_eq!(largest(false, class), size);
        }
        assert_eq!(class_of(8_070_450_532_247_928_832), 36 + 195);
        assert_eq!(largest(true, 195), 8_070_450_532_247_928_832);
    }
}
