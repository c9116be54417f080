//! Messages on standard error: only about options the user wrote, with heapwise's name in front.

use super::Source;
use crate::fixed_text::FixedText;
use crate::sys;

/// Longest line; a longer one is cut.
const LINE_BYTES: usize = 4352;

/// A line, in a single write.
pub(crate) fn say(parts: &[&[u8]]) {
    let mut line = FixedText::<LINE_BYTES>::new();
    line.push(b"<heapwise>: ");
    for part in parts {
        line.push(part);
    }
    line.push(b"\n");
    sys::write_error(line.as_bytes());
}

pub(super) fn pair(message: &[u8], key: &[u8], value: &[u8]) {
    say(&[message, key, b":", value]);
}

/// The line of `confirm_conf` about a source, numbered as jemalloc does.
pub(super) fn confirm_source(source: Source, text: &[u8]) {
    let (number, explanation): (&[u8], &[u8]) = match source {
        Source::Symbol => (b"2", b"string pointed to by the global variable malloc_conf"),
        Source::Link => {
            (b"3", b"\"name\" of the file referenced by the symbolic link named /etc/malloc.conf")
        }
        Source::Variable => (b"4", b"value of the environment variable MALLOC_CONF"),
        Source::Own => (b"1", b"value of the environment variable HEAPWISE_CONF"),
    };
    say(&[b"malloc_conf #", number, b" (", explanation, b"): \"", text, b"\""]);
}
