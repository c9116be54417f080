//! The program's environment, read without `getenv`: the first hook may run before libc set itself
//! up.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use crate::fixed_text::FixedText;
use crate::injected;
use crate::sys::{self, File};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Largest environment looked through when only `/proc` has it.
const SNAPSHOT_BYTES: usize = 256 * 1024;

/// The value of `name`, cut to `N - 1` bytes.
pub(crate) fn variable<const N: usize>(name: &[u8]) -> Option<FixedText<N>> {
    if injected::is_injected() {
        return injected::variable(name);
    }
    // SAFETY: libc's variable; null until libc has initialised itself.
    let list = unsafe { environ };
    if list.is_null() { from_proc(name) } else { from_list(list, name) }
}

/// Whether `name` has a value that is not empty.
pub(crate) fn has(name: &[u8]) -> bool {
    variable::<2>(name).is_some_and(|value| !value.as_bytes().is_empty())
}

fn from_list<const N: usize>(mut list: *const *const c_char, name: &[u8]) -> Option<FixedText<N>> {
    loop {
        // SAFETY: `environ` ends with a null pointer.
        let entry = unsafe { *list };
        if entry.is_null() {
            return None;
        }
        // SAFETY: entries are NUL-terminated.
        if let Some(value) = value_of(unsafe { CStr::from_ptr(entry) }.to_bytes(), name) {
            return Some(value);
        }
        // SAFETY: not yet at the null pointer.
        list = unsafe { list.add(1) };
    }
}

fn from_proc<const N: usize>(name: &[u8]) -> Option<FixedText<N>> {
    let file = File::open(c"/proc/self/environ", libc::O_RDONLY).ok()?;
    let memory = sys::map_private(SNAPSHOT_BYTES).ok()?;
    // SAFETY: fresh, zeroed, ours alone.
    let buffer = unsafe { core::slice::from_raw_parts_mut(memory, SNAPSHOT_BYTES) };
    let found = file.read_up_to(buffer).split(|byte| *byte == 0).find_map(|entry| value_of(entry, name));
    // SAFETY: `found` holds a copy.
    unsafe { sys::unmap(memory, SNAPSHOT_BYTES) };
    found
}

fn value_of<const N: usize>(entry: &[u8], name: &[u8]) -> Option<FixedText<N>> {
    let value = entry.strip_prefix(name)?.strip_prefix(b"=")?;
    let mut text = FixedText::new();
    text.push(value);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{from_proc, value_of};

    #[test]
    fn only_the_whole_name_matches() {
        let value =
            |entry: &[u8]| value_of::<8>(entry, b"DIR").and_then(|t| t.as_c_str().map(ToOwned::to_owned));
        assert_eq!(value(b"DIR=/x").as_deref(), Some(c"/x"));
        assert_eq!(value(b"DIRS=/x"), None);
        assert_eq!(value(b"DI=/x"), None);
    }

    #[test]
    fn proc_has_what_the_process_started_with() {
        let path = from_proc::<4096>(b"PATH").expect("PATH is set");
        let expected = std::env::var("PATH").expect("PATH is set");
        assert_eq!(path.as_c_str().expect("short enough").to_bytes(), expected.as_bytes());
    }
}
