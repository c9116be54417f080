//! The size of the last block of a site, which the next one mostly has, too.

/// Slots of the table of last sizes. Sites beyond share them.
pub const SIZE_SLOTS: usize = 1 << 16;

/// The last size of each site. Writer and reader of a frame make the same predictions.
#[derive(Debug, Clone, Default)]
pub(super) struct SizePredictor<T> {
    /// Sizes plus 1; 0 before the first block and for sizes that have no room.
    last: T,
}

impl<T: AsMut<[u32]>> SizePredictor<T> {
    pub(super) fn new(last: T) -> Self {
        let mut predictor = Self { last };
        predictor.reset();
        predictor
    }

    /// Clears all sizes.
    pub(super) fn reset(&mut self) {
        self.last.as_mut().fill(0);
    }

    /// The size that the last block of this site had; `None` when it is not known.
    #[inline(always)]
    pub(super) fn predict(&mut self, site: u32) -> Option<u64> {
        u64::from(*self.last.as_mut().get(site as usize % SIZE_SLOTS)?).checked_sub(1)
    }

    /// Notes the size of a block of this site; whether it is the one predicted.
    #[inline(always)]
    pub(super) fn update(&mut self, site: u32, size: u64) -> bool {
        let code = if size < u64::from(u32::MAX) { size as u32 + 1 } else { 0 };
        let Some(slot) = self.last.as_mut().get_mut(site as usize % SIZE_SLOTS) else { return false };
        core::mem::replace(slot, code) == code && code != 0
    }
}
