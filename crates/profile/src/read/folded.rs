//! Folded stacks: `root;child;leaf 1234`, one metric, no addresses.
//!
//! The file does not contain its unit. Heap tools write bytes in use, so the reader assumes these;
//! a comment in the profile says so.

use super::{
    error::ReadError,
    heap_text::unexpected,
    limit::Limit,
    lines::{Lines, to_text},
};
use crate::{LocationId, Profile, Values, builder::Builder};

const FORMAT: &str = "folded stacks";

/// Whether a file begins with a folded stack.
pub(super) fn is_folded(bytes: &[u8]) -> bool {
    let first = Lines::from_number(bytes, 1).find(|line| !line.text.is_empty());
    first.is_some_and(|line| {
        let printable = line.text.iter().all(|byte| *byte >= b' ' || *byte == b'\t');
        printable && split(line.text).is_some()
    })
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    let mut builder = Builder::new(FORMAT);
    let remark = "folded stacks do not say what they count; taken for bytes in use";
    builder.meta().comments.push(remark.to_owned());
    let mut frames: Vec<LocationId> = Vec::new();
    for line in Lines::from_number(bytes, 1) {
        if line.text.trim_ascii().is_empty() {
            continue;
        }
        limit.check_line(FORMAT, line, &builder)?;
        let (stack, value) = split(line.text).ok_or_else(|| unexpected(FORMAT, line))?;
        frames.clear();
        for name in to_text(stack).split(';') {
            frames.push(builder.named(name));
        }
        let stack = builder.stack(frames.iter().copied());
        let values = Values { inuse_bytes: value, ..Values::default() };
        builder.add(stack, None, None, values, Values::default());
    }
    Ok(builder.finish())
}

/// The stack and the number behind its last blank.
fn split(line: &[u8]) -> Option<(&[u8], f64)> {
    let line = line.trim_ascii_end();
    let blank = line.iter().rposition(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&line[blank + 1..]).ok()?;
    let digits = number.strip_prefix('-').unwrap_or(number);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value: f64 = number.parse().ok()?;
    let stack = line[..blank].trim_ascii_end();
    (!stack.is_empty() && value.is_finite()).then_some((stack, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_blanks_and_stacks_add_up() {
        let profile =
            read(b"main;operator new(unsigned long) 3\nmain 4\nmain -1\n", Limit::default()).unwrap();
        assert_eq!(profile.samples.len(), 2);
        assert_eq!(profile.total().inuse_bytes, 6.0);
        assert_eq!(profile.functions[1].name, "operator new(unsigned long)");
    }

    #[test]
    fn prose_is_not_folded() {
        assert!(!is_folded(b"Hello, world\n"));
        assert!(!is_folded(b"main inf\n"));
        assert!(is_folded(b"\nmain 1\n"));
    }
}
