//! DWARF expressions of call frame information, reduced to a form a [`super::rule::Rule`] can hold.
//!
//! Three occur in practice: the PLT stub (a comparison of the address, constant once the address is
//! known), the realigned stack (a word near the frame pointer), and the signal trampoline (words
//! above the stack pointer). They are not pattern-matched: the expression is run on symbolic
//! values, and any other result form is rejected.

use gimli::{EndianSlice, NativeEndian, Operation};

use super::machine;

/// A reader of bytes in this process.
pub(super) type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Result of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// A number.
    Constant(i64),
    /// sp + offset.
    Sp(i64),
    /// fp + offset.
    Fp(i64),
    /// CFA + offset.
    Cfa(i64),
    /// \[sp + offset\].
    AtSp(i64),
    /// \[fp + offset\].
    AtFp(i64),
}

impl Value {
    fn plus(self, other: Value) -> Option<Value> {
        match (self, other) {
            (Value::Constant(a), Value::Constant(b)) => Some(Value::Constant(a.wrapping_add(b))),
            (Value::Sp(a), Value::Constant(b)) | (Value::Constant(b), Value::Sp(a)) => {
                Some(Value::Sp(a.wrapping_add(b)))
            }
            (Value::Fp(a), Value::Constant(b)) | (Value::Constant(b), Value::Fp(a)) => {
                Some(Value::Fp(a.wrapping_add(b)))
            }
            (Value::Cfa(a), Value::Constant(b)) | (Value::Constant(b), Value::Cfa(a)) => {
                Some(Value::Cfa(a.wrapping_add(b)))
            }
            _ => None,
        }
    }

    fn loaded(self) -> Option<Value> {
        match self {
            Value::Sp(offset) => Some(Value::AtSp(offset)),
            Value::Fp(offset) => Some(Value::AtFp(offset)),
            _ => None,
        }
    }
}

/// Deepest evaluation stack; the PLT stub needs 3.
const DEPTH: usize = 8;

struct Stack {
    values: [Value; DEPTH],
    len: usize,
}

impl Stack {
    fn push(&mut self, value: Value) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<Value> {
        self.len = self.len.checked_sub(1)?;
        self.values.get(self.len).copied()
    }

    fn pop_constant(&mut self) -> Option<i64> {
        match self.pop()? {
            Value::Constant(number) => Some(number),
            _ => None,
        }
    }

    /// Replaces two numbers by one.
    fn combine(&mut self, with: impl Fn(i64, i64) -> Option<i64>) -> Option<()> {
        let right = self.pop_constant()?;
        let left = self.pop_constant()?;
        self.push(Value::Constant(with(left, right)?))
    }
}

/// Runs `expression` at `address` with `initial` (the CFA, for register expressions) on the stack.
pub(super) fn evaluate(
    expression: gimli::Expression<Bytes<'_>>,
    encoding: gimli::Encoding,
    address: u64,
    initial: Option<Value>,
) -> Option<Value> {
    let mut stack = Stack { values: [Value::Constant(0); DEPTH], len: 0 };
    if let Some(value) = initial {
        stack.push(value)?;
    }
    let mut operations = expression.operations(encoding);
    while let Some(operation) = operations.next().ok()? {
        apply(operation, address, &mut stack)?;
    }
    stack.pop()
}

fn apply(operation: Operation<Bytes<'_>>, address: u64, stack: &mut Stack) -> Option<()> {
    let truth = |condition: bool| Some(i64::from(condition));
    match operation {
        Operation::RegisterOffset { register, offset, .. } => stack.push(match register {
            machine::SP => Value::Sp(offset),
            machine::FP => Value::Fp(offset),
            other if Some(other) == machine::PC => Value::Constant((address as i64).wrapping_add(offset)),
            _ => return None,
        }),
        Operation::UnsignedConstant { value } => stack.push(Value::Constant(value as i64)),
        Operation::SignedConstant { value } => stack.push(Value::Constant(value)),
        Operation::PlusConstant { value } => {
            let sum = stack.pop()?.plus(Value::Constant(value as i64))?;
            stack.push(sum)
        }
        Operation::Plus => {
            let right = stack.pop()?;
            let sum = stack.pop()?.plus(right)?;
            stack.push(sum)
        }
        Operation::Deref { size: 8, space: false, .. } => {
            let value = stack.pop()?.loaded()?;
            stack.push(value)
        }
        Operation::Minus => stack.combine(|a, b| Some(a.wrapping_sub(b))),
        Operation::And => stack.combine(|a, b| Some(a & b)),
        Operation::Or => stack.combine(|a, b| Some(a | b)),
        Operation::Shl => stack.combine(|a, b| a.checked_shl(u32::try_from(b).ok()?)),
        Operation::Ge => stack.combine(|a, b| truth(a >= b)),
        Operation::Gt => stack.combine(|a, b| truth(a > b)),
        Operation::Le => stack.combine(|a, b| truth(a <= b)),
        Operation::Lt => stack.combine(|a, b| truth(a < b)),
        Operation::Nop => Some(()),
        _ => None,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const ENCODING: gimli::Encoding =
        gimli::Encoding { format: gimli::Format::Dwarf32, version: 1, address_size: 8 };

    fn run(bytes: &'static [u8], address: u64) -> Option<Value> {
        let expression = gimli::Expression(EndianSlice::new(bytes, NativeEndian));
        evaluate(expression, ENCODING, address, None)
    }

    #[test]
    fn plt_stub() {
        // breg7+8; breg16+0; lit15; and; lit11; ge; lit3; shl; plus — as linkers emit it
        const PLT: &[u8] = &[0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(run(PLT, 0x1000), Some(Value::Sp(8)));
        assert_eq!(run(PLT, 0x100a), Some(Value::Sp(8)));
        assert_eq!(run(PLT, 0x100b), Some(Value::Sp(16)));
    }

    #[test]
    fn realigned_stack_and_signal_frame() {
        assert_eq!(run(&[0x76, 0x78, 0x06], 0), Some(Value::AtFp(-8)));
        assert_eq!(run(&[0x77, 0xa0, 0x01, 0x06], 0), Some(Value::AtSp(160)));
    }

    #[test]
    fn other_forms_are_refused() {
        assert_eq!(run(&[0x7a, 0x00], 0), None); // breg10: a register nobody saved
        assert_eq!(run(&[0x77, 0x00, 0x06, 0x06], 0), None); // two loads
        assert_eq!(run(&[0x22], 0), None); // plus on an empty stack
        assert_eq!(run(&[], 0), None);
    }
}
