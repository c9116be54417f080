//! Runs a call frame program for the three values the unwinder needs: CFA, frame pointer, return
//! address; and for the places of the other saved registers, from which a runtime's variables are
//! read. gimli decodes the instructions; its own table keeps every register and would need
//! kilobytes of the program's stack.

use gimli::{
    BaseAddresses, CallFrameInstruction as Instruction, CallFrameInstructionIter, EhFrame,
    FrameDescriptionEntry, Register, UnwindExpression,
};

use super::expression::{Bytes, Value, evaluate};
use super::machine;
use super::rule::{FpSlot, Kind, Rule};

#[derive(Clone, Copy)]
enum Cfa {
    Unset,
    Register(Register, i64),
    Expression(UnwindExpression<usize>),
}

#[derive(Clone, Copy)]
enum Saved {
    /// Not touched.
    Same,
    /// The caller's value does not exist.
    Undefined,
    /// At CFA + offset.
    Offset(i64),
    /// At the address an expression yields.
    Expression(UnwindExpression<usize>),
    /// In a form this unwinder does not follow.
    Elsewhere,
}

#[derive(Clone, Copy)]
struct Row {
    cfa: Cfa,
    fp: Saved,
    ra: Saved,
    saves: Saves,
}

/// Where a function has saved its caller's registers: words below the CFA, by position in
/// [`machine::CALLEE_SAVED`]; 0: not there.
pub(super) type Saves = [u16; machine::CALLEE_SAVED.len()];

const NOT_SAVED: Saves = [0; machine::CALLEE_SAVED.len()];

/// Remembered rows; compilers nest one or two.
const REMEMBERED: usize = 8;

struct Machine {
    row: Row,
    initial: Row,
    remembered: [Row; REMEMBERED],
    depth: usize,
    /// Address the row starts at.
    location: u64,
    /// Address whose row is wanted.
    address: u64,
    code_factor: u64,
    data_factor: i64,
}

/// The rule at `address`, which `fde` covers; `None` when its form is not supported.
pub(super) fn rule_at(
    section: &EhFrame<Bytes<'_>>,
    bases: &BaseAddresses,
    fde: &FrameDescriptionEntry<Bytes<'_>>,
    address: u64,
) -> Option<Rule> {
    let cie = fde.cie();
    let row = row_at(section, bases, fde, address)?;
    let reduce = Reduce { section, encoding: cie.encoding(), address };
    reduce.rule(row, fde.is_signal_trampoline())
}

/// Where the function at `address`, which `fde` covers, has saved its caller's registers.
pub(super) fn saves_at(
    section: &EhFrame<Bytes<'_>>,
    bases: &BaseAddresses,
    fde: &FrameDescriptionEntry<Bytes<'_>>,
    address: u64,
) -> Option<Saves> {
    row_at(section, bases, fde, address).map(|row| row.saves)
}

fn row_at(
    section: &EhFrame<Bytes<'_>>,
    bases: &BaseAddresses,
    fde: &FrameDescriptionEntry<Bytes<'_>>,
    address: u64,
) -> Option<Row> {
    let cie = fde.cie();
    if cie.return_address_register() != machine::RA {
        return None;
    }
    let empty = Row { cfa: Cfa::Unset, fp: Saved::Same, ra: Saved::Same, saves: NOT_SAVED };
    let mut machine = Machine {
        row: empty,
        initial: empty,
        remembered: [empty; REMEMBERED],
        depth: 0,
        location: fde.initial_address(),
        address,
        code_factor: cie.code_alignment_factor(),
        data_factor: cie.data_alignment_factor(),
    };
    machine.run(cie.instructions(section, bases))?;
    machine.initial = machine.row;
    machine.run(fde.instructions(section, bases))?;
    Some(machine.row)
}

impl Machine {
    /// Runs until the row of `address` is complete.
    fn run(&mut self, mut instructions: CallFrameInstructionIter<'_, Bytes<'_>>) -> Option<()> {
        while let Some(instruction) = instructions.next().ok()? {
            match instruction {
                Instruction::SetLoc { address } => self.location = address,
                Instruction::AdvanceLoc { delta } => {
                    self.location =
                        self.location.wrapping_add(u64::from(delta).wrapping_mul(self.code_factor));
                }
                other => {
                    self.change(other)?;
                    continue;
                }
            }
            if self.location > self.address {
                break;
            }
        }
        Some(())
    }

    /// Changes the rule of the frame's address, or that of a register.
    fn change(&mut self, instruction: Instruction<usize>) -> Option<()> {
        let factor = self.data_factor;
        match instruction {
            Instruction::DefCfa { register, offset } => {
                self.row.cfa = Cfa::Register(register, offset as i64);
            }
            Instruction::DefCfaSf { register, factored_offset } => {
                self.row.cfa = Cfa::Register(register, factored_offset.wrapping_mul(factor));
            }
            Instruction::DefCfaRegister { register } => {
                self.row.cfa = Cfa::Register(register, self.row.cfa_offset()?);
            }
            Instruction::DefCfaOffset { offset } => self.row.set_cfa_offset(offset as i64)?,
            Instruction::DefCfaOffsetSf { factored_offset } => {
                self.row.set_cfa_offset(factored_offset.wrapping_mul(factor))?;
            }
            Instruction::DefCfaExpression { expression } => self.row.cfa = Cfa::Expression(expression),
            other => return self.change_register(other),
        }
        Some(())
    }

    fn change_register(&mut self, instruction: Instruction<usize>) -> Option<()> {
        let factor = self.data_factor;
        match instruction {
            Instruction::Undefined { register } => self.row.set(register, Saved::Undefined),
            Instruction::SameValue { register } => self.row.set(register, Saved::Same),
            Instruction::Offset { register, factored_offset } => {
                self.row.set(register, Saved::Offset((factored_offset as i64).wrapping_mul(factor)));
            }
            Instruction::OffsetExtendedSf { register, factored_offset } => {
                self.row.set(register, Saved::Offset(factored_offset.wrapping_mul(factor)));
            }
            Instruction::Expression { register, expression } => {
                self.row.set(register, Saved::Expression(expression));
            }
            Instruction::ValOffset { register, .. }
            | Instruction::ValOffsetSf { register, .. }
            | Instruction::ValExpression { register, .. }
            | Instruction::Register { dest_register: register, .. } => {
                self.row.set(register, Saved::Elsewhere);
            }
            Instruction::Restore { register } => {
                let initial = self.initial;
                match register {
                    machine::FP => self.row.set(register, initial.fp),
                    machine::RA => self.row.set(register, initial.ra),
                    _ => self.row.set(register, Saved::Same),
                }
            }
            Instruction::RememberState => {
                *self.remembered.get_mut(self.depth)? = self.row;
                self.depth += 1;
            }
            Instruction::RestoreState => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = *self.remembered.get(self.depth)?;
            }
            // Authentication codes are always stripped.
            Instruction::ArgsSize { .. } | Instruction::NegateRaState | Instruction::Nop => {}
            _ => return None,
        }
        Some(())
    }
}

impl Row {
    fn cfa_offset(&self) -> Option<i64> {
        match self.cfa {
            Cfa::Register(_, offset) => Some(offset),
            Cfa::Unset | Cfa::Expression(_) => None,
        }
    }

    fn set_cfa_offset(&mut self, offset: i64) -> Option<()> {
        let Cfa::Register(register, _) = self.cfa else { return None };
        self.cfa = Cfa::Register(register, offset);
        Some(())
    }

    fn set(&mut self, register: Register, saved: Saved) {
        match register {
            machine::FP => self.fp = saved,
            machine::RA => self.ra = saved,
            _ => {}
        }
        let place = machine::CALLEE_SAVED.iter().position(|known| *known == register);
        if let Some(words) = place.and_then(|place| self.saves.get_mut(place)) {
            *words = match saved {
                Saved::Offset(offset) => below(offset).and_then(|words| words.try_into().ok()).unwrap_or(0),
                _ => 0,
            };
        }
    }
}

/// Turns a row into a rule.
struct Reduce<'a> {
    section: &'a EhFrame<Bytes<'a>>,
    encoding: gimli::Encoding,
    address: u64,
}

impl Reduce<'_> {
    fn rule(&self, row: Row, is_signal: bool) -> Option<Rule> {
        if matches!(row.ra, Saved::Undefined) {
            return Some(Rule::END);
        }
        let cfa = match row.cfa {
            Cfa::Register(machine::SP, offset) => Value::Sp(offset),
            Cfa::Register(machine::FP, offset) => Value::Fp(offset),
            Cfa::Expression(expression) => self.value(expression, None)?,
            Cfa::Register(..) | Cfa::Unset => return None,
        };
        match (cfa, is_signal) {
            (Value::Sp(offset), false) => self.plain(Kind::Sp, offset, row),
            (Value::Fp(offset), false) => self.plain(Kind::Fp, offset, row),
            (Value::AtFp(offset), false) => self.realigned(offset, row),
            (Value::AtSp(offset), true) => self.signal(offset, row),
            _ => None,
        }
    }

    fn plain(&self, kind: Kind, cfa: i64, row: Row) -> Option<Rule> {
        let fp = match self.slot(row.fp) {
            Some(offset) => below(offset).map_or(FpSlot::Lost, FpSlot::Saved),
            None if matches!(row.fp, Saved::Same) => FpSlot::Kept,
            None => FpSlot::Lost,
        };
        let (kind, ra) = match self.slot(row.ra) {
            Some(offset) => (kind, below(offset)?),
            None if machine::HAS_LINK_REGISTER && matches!((row.ra, kind), (Saved::Same, Kind::Sp)) => {
                (Kind::Leaf, 0)
            }
            None => return None,
        };
        let cfa = words(cfa)?;
        Rule::new(kind, cfa, fp, ra).or_else(|| Rule::new(kind, cfa, FpSlot::Lost, ra))
    }

    /// Both registers must be where the one known prologue puts them.
    fn realigned(&self, cfa: i64, row: Row) -> Option<Rule> {
        let ra = below(self.slot(row.ra)?)?;
        let Saved::Expression(expression) = row.fp else { return None };
        match self.value(expression, Some(Value::Cfa(0)))? {
            Value::Fp(0) => Rule::new(Kind::Realigned, words(cfa)?, FpSlot::Kept, ra),
            _ => None,
        }
    }

    fn signal(&self, cfa: i64, row: Row) -> Option<Rule> {
        let above = |saved| match saved {
            Saved::Expression(expression) => match self.value(expression, Some(Value::Cfa(0)))? {
                Value::Sp(offset) => u64::try_from(words(offset)?).ok(),
                _ => None,
            },
            _ => None,
        };
        Rule::new(Kind::Signal, words(cfa)?, FpSlot::Saved(above(row.fp)?), above(row.ra)?)
    }

    /// Where a register is saved, as an offset from the CFA.
    fn slot(&self, saved: Saved) -> Option<i64> {
        match saved {
            Saved::Offset(offset) => Some(offset),
            Saved::Expression(expression) => match self.value(expression, Some(Value::Cfa(0)))? {
                Value::Cfa(offset) => Some(offset),
                _ => None,
            },
            Saved::Same | Saved::Undefined | Saved::Elsewhere => None,
        }
    }

    fn value(&self, expression: UnwindExpression<usize>, initial: Option<Value>) -> Option<Value> {
        evaluate(expression.get(self.section).ok()?, self.encoding, self.address, initial)
    }
}

fn words(bytes: i64) -> Option<i64> {
    (bytes % 8 == 0).then_some(bytes / 8)
}

/// Words below the CFA; slots above it do not occur.
fn below(offset: i64) -> Option<u64> {
    u64::try_from(-words(offset)?).ok().filter(|words| *words > 0)
}
