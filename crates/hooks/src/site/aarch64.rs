//! AArch64: a jump takes one instruction, so one instruction is moved.
//!
//! A landing pad (`bti c`) stays where it is. After `paciasp` the return address is signed: the
//! island authenticates it on the way to the probe and signs it again on the way to the function.

use super::{Moved, Refusal};

const BTI_C: u32 = 0xd503_245f;
const PACIASP: u32 = 0xd503_233f;
/// `ldr x17, .+8`.
const LOAD_X17: u32 = 0x5800_0051;
/// `br x17`.
const BRANCH_X17: u32 = 0xd61f_0220;

/// The beginning of a function.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where the jump goes.
    pub at: u64,
    /// Bytes of the instruction that the jump covers.
    pub len: usize,
    /// Targets of jumps that leave the function.
    pub exits: Vec<u64>,
    /// Some path returns, or jumps to an address that is not known here.
    returns: bool,
    /// The return address is signed here.
    pub is_signed: bool,
    covered: u32,
}

impl Site {
    /// Examines the function at `entry` with `size` bytes (0: not known). `code` has its bytes and
    /// those that follow.
    ///
    /// # Errors
    /// When it cannot be hooked.
    pub fn examine(code: &[u8], entry: u64, size: usize) -> Result<Site, Refusal> {
        let word = |row: usize| -> Option<u32> {
            code.get(row * 4..row * 4 + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        };
        let mut skipped = 0;
        let mut is_signed = false;
        while let Some(instruction @ (BTI_C | PACIASP)) = word(skipped) {
            is_signed |= instruction == PACIASP;
            skipped += 1;
        }
        let covered = word(skipped).ok_or(Refusal::TooShort)?;
        let at = entry + 4 * skipped as u64;
        if covered >> 26 == 0b10_0101 || covered & 0xffff_fc1f == 0xd63f_0000 {
            return Err(Refusal::Call);
        }
        let (mut exits, mut returns) = (Vec::new(), false);
        if size == 0 {
            // All that is known is the beginning.
            exits.extend(branch_target(covered, at).filter(|_| covered >> 26 == 0b00_0101));
            returns = exits.is_empty();
        }
        for row in 0..size / 4 {
            let here = entry + 4 * row as u64;
            // ret, br, and the latter with authentication: all branches to a register but calls.
            returns |= word(row).is_some_and(|word| matches!(word >> 21, 0x6b0 | 0x6b2 | 0x6b8));
            let Some(target) = word(row).and_then(|instruction| branch_target(instruction, here)) else {
                continue;
            };
            if target == at || target == entry {
                return Err(Refusal::Target);
            }
            if !(entry..entry + size as u64).contains(&target) {
                exits.push(target);
            }
        }
        // Only known to be safe: what is not relative to the program counter, or rebuilt below.
        let site = Site { at, len: 4, exits, returns, is_signed, covered };
        site.rebuilt().map(|_| site)
    }

    /// The functions that this one ends in a jump to, if every path does.
    #[must_use]
    pub fn forwards_to(&self) -> &[u64] {
        if self.returns { &[] } else { &self.exits }
    }

    /// The covered instruction at address `to`, followed by a jump to the rest.
    #[must_use]
    pub fn moved(&self, to: u64) -> Option<Moved> {
        let mut words = self.rebuilt().ok()?;
        words.extend(far_jump(self.at + 4));
        let code = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Some(Moved { code, addresses: vec![(self.at, to)] })
    }

    /// The bytes that replace the covered ones: a jump to `to`.
    #[must_use]
    pub fn jump(&self, to: u64) -> Option<Vec<u8>> {
        let distance = to.wrapping_sub(self.at) as i64;
        let is_near = (-(1 << 27)..1 << 27).contains(&distance);
        let word = 0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff;
        is_near.then(|| word.to_le_bytes().to_vec())
    }

    /// The covered instruction for any address: what is relative to the program counter uses a
    /// constant beside it.
    fn rebuilt(&self) -> Result<Vec<u32>, Refusal> {
        let covered = self.covered;
        if let Some(target) = branch_target(covered, self.at) {
            if covered >> 26 == 0b00_0101 {
                return Ok(far_jump(target).to_vec());
            }
            // To the next but one, where the far jump is; else over it.
            let mut words = vec![near_condition(covered), 0x1400_0006 - 1];
            words.extend(far_jump(target));
            return Ok(words);
        }
        let register = covered & 31;
        match covered & 0x9f00_0000 {
            // adr, adrp
            0x1000_0000 => return Ok(constant(register, self.at.wrapping_add(adr_offset(covered)))),
            0x9000_0000 => {
                let page = (self.at & !0xfff).wrapping_add(adr_offset(covered) << 12);
                return Ok(constant(register, page));
            }
            _ => {}
        }
        // Loads of constants.
        if covered & 0x3b00_0000 == 0x1800_0000 {
            let address = self.at.wrapping_add(sign_extended(covered >> 5 & 0x7_ffff, 19) << 2);
            let load = match covered >> 24 {
                0x18 => 0xb940_0000, // ldr w
                0x58 => 0xf940_0000, // ldr x
                0x98 => 0xb980_0000, // ldrsw
                _ => return Err(Refusal::Undecodable),
            };
            let mut words = constant(17, address);
            words.push(load | 17 << 5 | register);
            return Ok(words);
        }
        Ok(vec![covered])
    }
}

fn sign_extended(value: u32, bits: u32) -> u64 {
    let shift = 64 - bits;
    ((u64::from(value) << shift) as i64 >> shift) as u64
}

fn adr_offset(instruction: u32) -> u64 {
    sign_extended(instruction >> 5 & 0x7_ffff, 19) << 2 | u64::from(instruction >> 29 & 3)
}

/// Target of a branch that is not a call.
fn branch_target(instruction: u32, here: u64) -> Option<u64> {
    let offset = if instruction >> 26 == 0b00_0101 {
        sign_extended(instruction & 0x03ff_ffff, 26)
    } else if instruction & 0xff00_0000 == 0x5400_0000 || instruction & 0x7e00_0000 == 0x3400_0000 {
        sign_extended(instruction >> 5 & 0x7_ffff, 19) // b.cond, cbz, cbnz
    } else if instruction & 0x7e00_0000 == 0x3600_0000 {
        sign_extended(instruction >> 5 & 0x3fff, 14) // tbz, tbnz
    } else {
        return None;
    };
    Some(here.wrapping_add(offset << 2))
}

/// A conditional branch to the next instruction but one.
fn near_condition(instruction: u32) -> u32 {
    let field = if instruction & 0x7e00_0000 == 0x3600_0000 { 0x3fff } else { 0x7_ffff };
    instruction & !(field << 5) | 2 << 5
}

/// `ldr x17, .+8; br x17; .quad target`.
fn far_jump(target: u64) -> [u32; 4] {
    [LOAD_X17, BRANCH_X17, target as u32, (target >> 32) as u32]
}

/// `ldr xN, .+8; b .+12; .quad value`.
fn constant(register: u32, value: u64) -> Vec<u32> {
    vec![0x5800_0040 | register, 0x1400_0003, value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examines instructions at 0x10000.
    fn examine(words: &[u32]) -> Result<Site, Refusal> {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Site::examine(&code, 0x1_0000, code.len())
    }

    fn moved(site: &Site) -> Vec<u32> {
        let code = site.moved(0x5_0000).expect("movable").code;
        code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    }

    const RET: u32 = 0xd65f_03c0;
    /// `stp x29, x30, [sp, #-32]!`.
    const STP: u32 = 0xa9be_7bfd;

    #[test]
    fn landing_pads_stay_and_signing_is_noticed() {
        let plain = examine(&[STP, RET]).expect("plain");
        assert_eq!((plain.at, plain.is_signed), (0x1_0000, false));
        assert_eq!(moved(&plain), [STP, LOAD_X17, BRANCH_X17, 0x1_0004, 0]);
        let signed = examine(&[BTI_C, PACIASP, STP, RET]).expect("signed");
        assert_eq!((signed.at, signed.is_signed), (0x1_0008, true));
        assert_eq!(plain.jump(0x5_0000), Some(0x1401_0000_u32.to_le_bytes().to_vec()));
        assert_eq!(plain.jump(1 << 40), None);
    }

    #[test]
    fn what_is_relative_is_rebuilt() {
        // cbz x0, .+64, as in glibc's free; adrp x1, .+4096; ldr x2, .+16; b .+8
        let branch = examine(&[0xb400_0200, RET]).expect("cbz");
        assert_eq!(
            moved(&branch)[..6],
            [0xb400_0040, 0x1400_0005, LOAD_X17, BRANCH_X17, 0x1_0040, 0],
            "over the far jump, or to it"
        );
        let page = examine(&[0xb000_0001, RET]).expect("adrp");
        assert_eq!(moved(&page)[..4], [0x5800_0041, 0x1400_0003, 0x1_1000, 0]);
        let load = examine(&[0x5800_0082, RET, 0, 0, 0, 0]).expect("ldr");
        assert_eq!(moved(&load)[..5], [0x5800_0051, 0x1400_0003, 0x1_0010, 0, 0xf940_0222]);
        let forward = examine(&[0x1400_0002]).expect("b");
        assert_eq!(forward.forwards_to(), [0x1_0008]);
        let returning = examine(&[0xb400_0200, RET]).expect("cbz");
        assert_eq!((returning.forwards_to(), &*returning.exits), (&[][..], &[0x1_0040][..]));
    }

    #[test]
    fn calls_and_loops_are_refused() {
        assert_eq!(examine(&[0x9400_0010, RET]).expect_err("bl"), Refusal::Call);
        assert_eq!(examine(&[STP, 0xb5ff_ffe0, RET]).expect_err("a loop"), Refusal::Target);
    }
}
