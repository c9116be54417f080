//! All events up to one point of the stream, summed up per site: where a reader may start.

use crate::varint;

/// Sums over the events of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteCount {
    /// Number of the site.
    pub site: u32,
    /// Blocks allocated.
    pub allocs: u64,
    /// Their bytes.
    pub alloc_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

impl SiteCount {
    /// Appends it to a payload. Rows are written in ascending order of sites; `previous` is the
    /// site of the row before (0 for the first).
    pub fn encode(&self, previous: u32, out: &mut impl Extend<u8>) {
        varint::put(out, u64::from(self.site.wrapping_sub(previous)));
        for sum in [self.allocs, self.alloc_bytes, self.frees, self.freed_bytes] {
            varint::put(out, sum);
        }
    }

    /// Reads the one at `*at` and moves `*at` behind it.
    pub fn decode(previous: u32, bytes: &[u8], at: &mut usize) -> Option<Self> {
        let mut next = || varint::decode(bytes, at);
        let delta = u32::try_from(next()?).ok()?;
        Some(Self {
            site: previous.checked_add(delta)?,
            allocs: next()?,
            alloc_bytes: next()?,
            frees: next()?,
            freed_bytes: next()?,
        })
    }
}
