//! x86-64: a jump takes five bytes, and instructions have any length. iced-x86 decodes and moves
//! them.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, OpKind,
};

use super::{Moved, Refusal};

/// Bytes of a jump.
const JUMP: usize = 5;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The beginning of a function.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where the jump goes: behind an `endbr64`.
    pub at: u64,
    /// Bytes of the instructions that the jump covers.
    pub len: usize,
    /// Targets of jumps that leave the function.
    pub exits: Vec<u64>,
    /// Some path returns, or jumps to an address that is not known here.
    returns: bool,
    covered: Vec<Instruction>,
}

impl Site {
    /// Examines the function at `entry` with `size` bytes (0: not known). `code` has its bytes and
    /// those that follow.
    ///
    /// # Errors
    /// When it cannot be hooked.
    pub fn examine(code: &[u8], entry: u64, size: usize) -> Result<Site, Refusal> {
        let skipped = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
        let at = entry + skipped as u64;
        let (covered, len) = cover(code.get(skipped..).unwrap_or_default(), at)?;
        let body = code.get(..size.min(code.len())).unwrap_or_default();
        let (function, replaced) = (entry..entry + size as u64, at + 1..at + len as u64);
        let (mut exits, mut returns) = (Vec::new(), false);
        if size == 0 {
            // All that is known is the beginning.
            let is_jump = |first: &&Instruction| first.flow_control() == FlowControl::UnconditionalBranch;
            exits.extend(covered.first().filter(is_jump).map(Instruction::near_branch_target));
            returns = exits.is_empty();
        }
        for instruction in Decoder::with_ip(64, body, entry, DecoderOptions::NONE).iter() {
            returns |=
                matches!(instruction.flow_control(), FlowControl::Return | FlowControl::IndirectBranch);
            if instruction.op0_kind() != OpKind::NearBranch64 {
                continue;
            }
            let target = instruction.near_branch_target();
            let is_call = instruction.flow_control() == FlowControl::Call;
            if replaced.contains(&target) || !is_call && (target == at || target == entry) {
                return Err(Refusal::Target);
            }
            if !is_call && !function.contains(&target) {
                exits.push(target);
            }
        }
        Ok(Site { at, len, exits, returns, covered })
    }

    /// The functions that this one ends in a jump to, if every path does.
    #[must_use]
    pub fn forwards_to(&self) -> &[u64] {
        if self.returns { &[] } else { &self.exits }
    }

    /// The covered instructions at address `to`, followed by a jump to the rest.
    #[must_use]
    pub fn moved(&self, to: u64) -> Option<Moved> {
        let mut all = self.covered.clone();
        if !all.last().is_some_and(ends) {
            let mut jump = Instruction::with_branch(Code::Jmp_rel32_64, self.at + self.len as u64).ok()?;
            // With the address of its target the encoder would take it for a jump to itself.
            jump.set_ip(u64::MAX);
            all.push(jump);
        }
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let encoded = BlockEncoder::encode(64, InstructionBlock::new(&all, to), options).ok()?;
        let offsets = encoded.new_instruction_offsets.iter();
        let addresses =
            self.covered.iter().zip(offsets).map(|(old, new)| (old.ip(), to + u64::from(*new))).collect();
        Some(Moved { code: encoded.code_buffer, addresses })
    }

    /// The bytes that replace the covered ones: a jump to `to`, and breakpoints up to the next
    /// instruction.
    #[must_use]
    pub fn jump(&self, to: u64) -> Option<Vec<u8>> {
        let distance = to.wrapping_sub(self.at + JUMP as u64) as i64;
        let mut bytes = vec![0xe9];
        bytes.extend(i32::try_from(distance).ok()?.to_le_bytes());
        bytes.resize(self.len, 0xcc);
        Some(bytes)
    }
}

fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    )
}

fn is_padding(instruction: &Instruction) -> bool {
    use Code::{Int3, Nop_rm16, Nop_rm32, Nop_rm64, Nopd, Nopq, Nopw};
    matches!(instruction.code(), Int3 | Nopd | Nopw | Nopq | Nop_rm16 | Nop_rm32 | Nop_rm64)
}

/// Whole instructions that a jump at `at` covers, with their bytes; padding behind the end of the
/// function may be covered too.
fn cover(code: &[u8], at: u64) -> Result<(Vec<Instruction>, usize), Refusal> {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let (mut covered, mut len, mut is_over) = (Vec::new(), 0, false);
    while len < JUMP {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable);
        }
        if is_over && !is_padding(&instruction) {
            return Err(Refusal::TooShort);
        }
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return Err(Refusal::Call);
        }
        len += instruction.len();
        if !is_over {
            is_over = ends(&instruction);
            covered.push(instruction);
        }
    }
    Ok((covered, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examines code at 0x1000 that breakpoints follow.
    fn examine(code: &[u8]) -> Result<Site, Refusal> {
        let mut padded = code.to_vec();
        padded.extend([0xcc; 32]);
        Site::examine(&padded, 0x1000, code.len())
    }

    #[test]
    fn whole_instructions_are_covered() {
        let pushes = [0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xc3];
        assert_eq!(examine(&pushes).expect("pushes").len, 6);
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xc2, 0xc3];
        assert_eq!(examine(&endbr).expect("moves").at, 0x1004);
        let short = [0x31, 0xc0, 0xc3];
        assert_eq!(examine(&short).expect("padding").len, 5);
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        let next = [0xc3, 0x55, 0x48, 0x89, 0xe5, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Site::examine(&next, 0x1000, 1).expect_err("the next function"), Refusal::TooShort);
        let inside = [0x90, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert_eq!(examine(&inside).expect_err("a loop"), Refusal::Target);
        let call = [0xe8, 0, 0, 0, 0, 0xc3];
        assert_eq!(examine(&call).expect_err("a call"), Refusal::Call);
    }

    #[test]
    fn relative_addresses_survive_the_move() {
        // mov rax, [rip + 16]; je +5; ret
        let site = examine(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x74, 0x05, 0xc3]).expect("movable");
        let moved = site.moved(0x4000_0000).expect("in reach");
        let first = Decoder::with_ip(64, &moved.code, 0x4000_0000, DecoderOptions::NONE).decode();
        assert_eq!(first.ip_rel_memory_address(), 0x1017);
        assert_eq!(moved.addresses[0], (0x1000, 0x4000_0000));
        let forward = examine(&[0xe9, 0x10, 0, 0, 0]).expect("a jump");
        assert_eq!(forward.forwards_to(), [0x1015]);
        // mov rdx, rsi; je +0x10; jmp +0x10
        let two = examine(&[0x48, 0x89, 0xf2, 0x74, 0x10, 0xe9, 0x10, 0, 0, 0]).expect("jumps");
        assert_eq!(two.forwards_to(), [0x1015, 0x101a]);
        // test rdi, rdi; je +1; ret; jmp +0x10
        let one = examine(&[0x48, 0x85, 0xff, 0x74, 0x01, 0xc3, 0xe9, 0x10, 0, 0, 0]).expect("a jump");
        assert_eq!((one.forwards_to(), &*one.exits), (&[][..], &[0x101b][..]));
        assert_eq!(forward.moved(0x2000).expect("in reach").code.len(), 5);
        assert_eq!(site.jump(0x2000).expect("in reach"), [0xe9, 0xfb, 0x0f, 0, 0, 0xcc, 0xcc]);
        assert_eq!(site.jump(1 << 40), None);
    }
}
