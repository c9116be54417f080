//! The step from a frame to its caller, packed in one word.
//!
//! A rule belongs to one code address and never changes while the module stays loaded. It names at
//! most three memory words: the canonical frame address (CFA, the caller's stack pointer), the
//! return address, and the caller's frame pointer. Every offset is in words of 8 bytes.
//!
//! ```text
//! bits 0..4   kind
//! bits 4..16  module number (record plus 1, 0 unknown): the frame's module comes with its rule
//! then        CFA offset (signed), frame-pointer slot, return-address slot; widths by architecture
//! ```

use super::machine::{CFA_BITS, SLOT_BITS};

/// Kind of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Kind {
    /// No unwind information: the stack ends here unless the frame pointer is proven good.
    Unknown = 0,
    /// The outermost frame of a thread.
    End = 1,
    /// CFA = sp + offset; both slots lie below the CFA.
    Sp = 2,
    /// CFA = fp + offset; both slots lie below the CFA.
    Fp = 3,
    /// CFA = \[fp + offset\], caller's fp = \[fp\] (a realigned stack, "DRAP").
    Realigned = 4,
    /// A signal trampoline: CFA, fp and pc are saved above sp.
    Signal = 5,
    /// CFA = sp + offset, the return address still is in the link register (aarch64; only true of
    /// an interrupted frame, whose registers the signal frame saved).
    Leaf = 6,
    /// A function of Go: the caller's fp and the return address are at \[fp\], perhaps on another
    /// stack.
    Go = 7,
}

/// Where the caller's frame pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FpSlot {
    /// Still in the register.
    Kept,
    /// In a memory word, this many words from the kind's base.
    Saved(u64),
    /// Nowhere this unwinder can reach; a caller that needs it ends the stack.
    Lost,
}

/// A packed rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Rule(u64);

/// Most modules a rule can name.
pub(crate) const MODULE_LIMIT: u32 = (1 << MODULE_BITS) - 1;

const KIND_BITS: u32 = 4;
const MODULE_BITS: u32 = 12;
const CFA_SHIFT: u32 = KIND_BITS + MODULE_BITS;
const FP_SHIFT: u32 = CFA_SHIFT + CFA_BITS;
const RA_SHIFT: u32 = FP_SHIFT + SLOT_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const LOST: u64 = SLOT_MASK;

const _: () = assert!(RA_SHIFT + SLOT_BITS <= 64);

impl Rule {
    pub(super) const UNKNOWN: Rule = Rule(Kind::Unknown as u64);
    pub(super) const END: Rule = Rule(Kind::End as u64);
    pub(super) const GO: Rule = Rule(Kind::Go as u64);

    /// Packs a rule; `None` when a number does not fit.
    pub(super) fn new(kind: Kind, cfa_words: i64, fp: FpSlot, ra_words: u64) -> Option<Rule> {
        let limit = 1_i64 << (CFA_BITS - 1);
        if !(-limit..limit).contains(&cfa_words) || ra_words > SLOT_MASK {
            return None;
        }
        let fp = match fp {
            FpSlot::Kept => 0,
            FpSlot::Saved(words) if (1..LOST).contains(&words) => words,
            FpSlot::Saved(_) => return None,
            FpSlot::Lost => LOST,
        };
        let cfa = cfa_words as u64 & ((1 << CFA_BITS) - 1);
        Some(Rule(kind as u64 | cfa << CFA_SHIFT | fp << FP_SHIFT | ra_words << RA_SHIFT))
    }

    /// This rule with the number of its module.
    pub(super) fn in_module(self, module: u32) -> Rule {
        let mask = u64::from(MODULE_LIMIT) << KIND_BITS;
        Rule(self.0 & !mask | u64::from(module.min(MODULE_LIMIT)) << KIND_BITS)
    }

    pub(super) fn from_bits(bits: u64) -> Rule {
        Rule(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn kind(self) -> Kind {
        match self.0 & ((1 << KIND_BITS) - 1) {
            1 => Kind::End,
            2 => Kind::Sp,
            3 => Kind::Fp,
            4 => Kind::Realigned,
            5 => Kind::Signal,
            6 => Kind::Leaf,
            7 => Kind::Go,
            _ => Kind::Unknown,
        }
    }

    /// [`Kind::Sp`] or [`Kind::Fp`]: nearly every frame.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        self.0 & 0b1110 == Kind::Sp as u64
    }

    /// [`Kind::Unknown`]: the code has no unwind information.
    #[inline(always)]
    pub(super) fn is_unknown(self) -> bool {
        self.0 & ((1 << KIND_BITS) - 1) == Kind::Unknown as u64
    }

    /// Of a plain rule: is the CFA counted from fp?
    #[inline(always)]
    pub(super) fn is_fp_based(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    pub(super) fn module(self) -> u32 {
        (self.0 >> KIND_BITS) as u32 & MODULE_LIMIT
    }

    /// CFA offset in bytes, to be added with wrapping.
    #[inline(always)]
    pub(super) fn cfa_bytes(self) -> u64 {
        let shifted = (self.0 << (64 - CFA_SHIFT - CFA_BITS)) as i64;
        ((shifted >> (64 - CFA_BITS)) * 8) as u64
    }

    /// Raw frame-pointer slot: 0 when kept.
    #[inline(always)]
    pub(super) fn fp_words(self) -> u64 {
        self.0 >> FP_SHIFT & SLOT_MASK
    }

    /// Does the step depend on the frame pointer?
    #[inline(always)]
    pub(super) fn uses_fp(self) -> bool {
        const KINDS: u64 = 1 << Kind::Fp as u64
            | 1 << Kind::Realigned as u64
            | 1 << Kind::Unknown as u64
            | 1 << Kind::Go as u64;
        KINDS >> (self.0 & 0b1111) & 1 != 0
    }

    /// Does the caller have the frame pointer in the register?
    #[inline(always)]
    pub(super) fn keeps_fp(self) -> bool {
        self.fp_words() == 0
    }

    #[inline(always)]
    pub(super) fn loses_fp(self) -> bool {
        self.fp_words() == LOST
    }

    /// Return-address slot, in bytes from the kind's base.
    #[inline(always)]
    pub(super) fn ra_bytes(self) -> u64 {
        (self.0 >> RA_SHIFT & SLOT_MASK) * 8
    }

    /// Frame-pointer slot, in bytes from the kind's base.
    #[inline(always)]
    pub(super) fn fp_bytes(self) -> u64 {
        self.fp_words() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_round_trip() {
        let rule = Rule::new(Kind::Realigned, -3, FpSlot::Saved(7), 1).unwrap().in_module(2048);
        assert_eq!((rule.kind(), rule.module()), (Kind::Realigned, 2048));
        assert_eq!((rule.cfa_bytes() as i64, rule.fp_bytes(), rule.ra_bytes()), (-24, 56, 8));
        let rule = Rule::new(Kind::Sp, 4096, FpSlot::Lost, 1).unwrap();
        assert!(rule.is_plain() && !rule.is_fp_based() && rule.loses_fp());
        assert_eq!(rule.cfa_bytes(), 32768);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(Rule::new(Kind::Sp, 1 << 40, FpSlot::Kept, 1), None);
        assert_eq!(Rule::new(Kind::Sp, 1, FpSlot::Saved(1 << 40), 1), None);
        assert_eq!(Rule::new(Kind::Sp, 1, FpSlot::Saved(0), 1), None);
        assert_eq!(Rule::new(Kind::Sp, 1, FpSlot::Kept, 1 << 40), None);
    }
}
