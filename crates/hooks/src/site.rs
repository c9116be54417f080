//! The beginning of a function: whether it can be replaced by a jump, and its instructions moved
//! to another address.

pub mod aarch64;
pub mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64 as native;
#[cfg(target_arch = "x86_64")]
pub use x86_64 as native;

/// Why the beginning of a function cannot be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// An instruction that is not known.
    Undecodable,
    /// A call: its return address would be inside the replaced bytes.
    Call,
    /// A branch of the function leads into the replaced bytes.
    Target,
    /// The function ends before the jump has room.
    TooShort,
    /// Its code could not be read, or is not what the file has: something else replaced it.
    Changed,
    /// No room for an island within reach of a jump.
    NoRoom,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Refusal::Undecodable => "its first instructions are not known",
            Refusal::Call => "it begins with a call",
            Refusal::Target => "one of its loops leads to its first instructions",
            Refusal::TooShort => "it is too short for a jump",
            Refusal::Changed => "its code is not that of its file",
            Refusal::NoRoom => "there is no free memory near it",
        })
    }
}

/// Instructions at another address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The instructions, and a jump to the rest of the function.
    pub code: Vec<u8>,
    /// Old and new address of each instruction.
    pub addresses: Vec<(u64, u64)>,
}
