//! Code locations, and what symbolisation adds to them.

use crate::{FunctionId, ModuleId};

/// A place in code that appears in stacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Location {
    /// Address in the process as recorded (a return address, except in signal frames and leaves
    /// of sources that store call sites); 0 for sources that have only names.
    pub address: u64,
    /// Whether `address` is a return address, so that the call site is `address - 1`.
    pub is_return_address: bool,
    /// The mapping it lies in.
    pub module: Option<ModuleId>,
    /// Functions at this place, innermost inlined callee first, physical function last. Empty
    /// until symbolised, or when nothing is known.
    pub lines: Vec<Line>,
}

impl Location {
    /// The address to look symbols up with: inside the call instruction, not after it.
    #[must_use]
    pub fn lookup_address(&self) -> u64 {
        self.address - u64::from(self.is_return_address && self.address != 0)
    }
}

/// One function at a location, with the source line executing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// Source line; 0 when unknown.
    pub line: u32,
}

/// A function as symbols name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Function {
    /// Demangled name with parameters, as written in full reports.
    pub name: String,
    /// Name in the symbol table (mangled), or empty.
    pub system_name: String,
    /// Source file, or empty.
    pub file: String,
    /// Line of the declaration; 0 when unknown.
    pub start_line: u32,
}

impl Function {
    /// Whether the name comes from a text of glibc's `backtrace_symbols`: the binary may have a
    /// better one, with its line.
    #[must_use]
    pub fn is_backtrace_text(&self) -> bool {
        self.file.is_empty() && self.system_name.ends_with(']') && self.system_name.contains(" [0x")
    }

    /// Offset in the function, of a text of `backtrace_symbols`: `path(symbol+0xoffset) [0xpc]`.
    #[must_use]
    pub fn backtrace_offset(&self) -> Option<u64> {
        let (_, rest) = self.system_name.split_once('(').filter(|_| self.is_backtrace_text())?;
        let (symbol, offset) = rest.split_once(')')?.0.rsplit_once("+0x")?;
        u64::from_str_radix(offset, 16).ok().filter(|_| !symbol.is_empty())
    }

    /// Whether the name was made of the binary and an offset in it, because the function of this
    /// binary has none.
    #[must_use]
    pub fn is_placeholder(&self, module: &str) -> bool {
        let offset = self.name.strip_prefix(module).and_then(|rest| rest.strip_prefix("+0x"));
        self.system_name.is_empty() && offset.is_some()
    }
}
