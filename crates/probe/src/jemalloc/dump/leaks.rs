//! The leak report at exit: what is still allocated, not what is unreachable.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::Summary;
use super::writer::Path;
use crate::config::say;
use crate::fixed_text::FixedText;
use crate::{symbols, sys};

/// Reports leaks, if there are any; ends the process when they are an error.
pub(super) fn report(path: &Path, summary: &Summary, is_error: bool) {
    if summary.live_bytes == 0 {
        return;
    }
    let [bytes, objects, contexts] = [
        (summary.live_bytes, &b" byte"[..]),
        (summary.live_objects, b" object"),
        (summary.contexts, b" context"),
    ]
    .map(|(number, unit)| counted(number, unit));
    let [bytes, objects, contexts] = [&bytes, &objects, &contexts].map(FixedText::as_bytes);
    say(&[b"Leak approximation summary: ~", bytes, b", ~", objects, b", >= ", contexts]);
    let runtimes = (summary.runtime_bytes, summary.runtime_objects);
    set_apart(b"Not counted: ~", runtimes, b" of the C and C++ runtimes");
    set_apart(b"Suppressed: ~", (summary.suppressed_bytes, summary.suppressed_objects), b"");
    say(&[b"Run jeprof on \"", path.as_bytes(), b"\" for leak detail"]);
    if is_error {
        say(&[b"Exiting with error code because memory leaks were detected"]);
        flush_streams();
        sys::exit(1);
    }
}

/// Prints an amount that no other number includes, unless it is 0.
fn set_apart(what: &[u8], (bytes, objects): (u64, u64), whose: &[u8]) {
    if bytes != 0 {
        let (bytes, objects) = (counted(bytes, b" byte"), counted(objects, b" object"));
        say(&[what, bytes.as_bytes(), b", ~", objects.as_bytes(), whose]);
    }
}

/// A number and its unit, in the plural unless it is one.
fn counted(number: u64, unit: &[u8]) -> FixedText<32> {
    let mut text = FixedText::new();
    text.push_decimal(number).push(unit).push(if number == 1 { b"" } else { b"s" });
    text
}

/// Flushes stdio: an exit from here would lose its buffered output.
fn flush_streams() {
    // SAFETY: the signature of fflush.
    if let Some(flush) = unsafe { symbols::function::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"fflush") }
    {
        // SAFETY: null means every stream; the program is in `exit` and holds none of them.
        unsafe { flush(core::ptr::null_mut()) };
    }
}
