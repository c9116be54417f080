//! Buffers of chunks, used again: fresh ones would cost the recorder a page fault for every few
//! hundred events.

/// The smallest buffer: many threads write little.
const SMALLEST_BITS: u32 = 10;
/// Powers of two from the smallest to a whole chunk, 64 KiB. What is larger is not kept.
const SIZES: usize = 7;
/// Buffers kept of each size: more chunks than a fast program fills between two readings.
const MOST_KEPT: usize = 64;

/// Spent buffers by size. Each is as long as it can be, so that nothing is zeroed again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    spent: [Vec<Vec<u8>>; SIZES],
}

impl Buffers {
    /// A buffer for at least `len` bytes, with anything in it.
    pub(super) fn take(&mut self, len: usize) -> Vec<u8> {
        let bytes = len.next_power_of_two().max(1 << SMALLEST_BITS);
        self.kept(bytes).and_then(Vec::pop).unwrap_or_else(|| vec![0; bytes])
    }

    /// Keeps a buffer that is no longer needed, if there are not enough.
    pub(super) fn put_back(&mut self, buffer: Vec<u8>) {
        if let Some(kept) = self.kept(buffer.len())
            && kept.len() < MOST_KEPT
        {
            kept.push(buffer);
        }
    }

    fn kept(&mut self, bytes: usize) -> Option<&mut Vec<Vec<u8>>> {
        let size = bytes.checked_ilog2()?.checked_sub(SMALLEST_BITS)?;
        self.spent.get_mut(size as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_fit_and_are_used_again() {
        let mut buffers = Buffers::default();
        for (len, bytes) in [(0, 1024), (1024, 1024), (1025, 2048), (65_472, 65_536), (70_000, 131_072)] {
            let mut buffer = buffers.take(len);
            assert_eq!(buffer.len(), bytes, "for {len}");
            buffer[0] = 7;
            buffers.put_back(buffer);
            assert_eq!(buffers.take(len)[0], if bytes > 65_536 { 0 } else { 7 }, "for {len}");
        }
        (0..2 * MOST_KEPT).for_each(|_| buffers.put_back(vec![0; 4096]));
        assert_eq!(buffers.spent[2].len(), MOST_KEPT);
        buffers.put_back(Vec::new());
    }
}
