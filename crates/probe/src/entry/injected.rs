//! Settings of a probe that a controller brought into a running process. The process's environment
//! has none, so the controller writes them into the library's bytes before the process loads it.
#![allow(unsafe_code)]

use heapwise_format::entry_hooks::{INJECTED_BYTES, INJECTED_MAGIC, INJECTED_TEXT};
use heapwise_format::paths::DIRECTORY_VARIABLE;

use crate::atomics::{AtomicU8, Ordering};
use crate::fixed_text::FixedText;

/// Texts end with a zero byte. Atomic, so that no value is assumed at compile time.
#[repr(C)]
struct Settings {
    magic: [AtomicU8; INJECTED_MAGIC.len()],
    conf: [AtomicU8; INJECTED_TEXT],
    directory: [AtomicU8; INJECTED_TEXT],
    library: [AtomicU8; INJECTED_TEXT],
}

const _: () = assert!(size_of::<Settings>() == INJECTED_BYTES);

#[used]
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
#[allow(non_upper_case_globals, reason = "the symbol that controllers look for")]
static heapwise_injected: Settings = {
    let mut magic = [const { AtomicU8::new(0) }; INJECTED_MAGIC.len()];
    let mut at = 0;
    while at < magic.len() {
        magic[at] = AtomicU8::new(INJECTED_MAGIC[at]);
        at += 1;
    }
    Settings {
        magic,
        conf: [const { AtomicU8::new(0) }; INJECTED_TEXT],
        directory: [const { AtomicU8::new(0) }; INJECTED_TEXT],
        library: [const { AtomicU8::new(0) }; INJECTED_TEXT],
    }
};

/// Whether a controller brought the probe into the process.
pub(crate) fn is_injected() -> bool {
    heapwise_injected.conf[0].load(Ordering::Relaxed) != 0
}

/// A variable of heapwise's, from the settings; `None` when they do not have it.
pub(crate) fn variable<const N: usize>(name: &[u8]) -> Option<FixedText<N>> {
    let text = match name {
        b"HEAPWISE_CONF" => &heapwise_injected.conf,
        _ if name == DIRECTORY_VARIABLE.as_bytes() => &heapwise_injected.directory,
        _ => return None,
    };
    text_of(text)
}

/// Path of the library, which the process knows by another name.
pub(crate) fn library<const N: usize>() -> Option<FixedText<N>> {
    text_of(&heapwise_injected.library)
}

fn text_of<const N: usize>(text: &[AtomicU8]) -> Option<FixedText<N>> {
    let mut value = FixedText::new();
    for byte in text.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|byte| *byte != 0) {
        value.push(&[byte]);
    }
    (!value.as_bytes().is_empty()).then_some(value)
}
