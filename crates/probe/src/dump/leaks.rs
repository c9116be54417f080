//! The leak report at exit: what is still allocated, not what is unreachable.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::desk::Path;
use super::{Summary, decimal};
use crate::conf::say;
use crate::{symbols, sys};

/// Says what is left; ends the process when that is an error. Nothing is said when nothing is left.
pub(super) fn report(path: &Path, summary: &Summary, is_error: bool) {
    if summary.live_bytes == 0 {
        return;
    }
    let [bytes, objects, contexts] = [summary.live_bytes, summary.live_objects, summary.contexts]
        .map(|number| (decimal(number), plural(number)));
    say(&[
        b"Leak approximation summary: ~",
        bytes.0.as_bytes(),
        b" byte",
        bytes.1,
        b", ~",
        objects.0.as_bytes(),
        b" object",
        objects.1,
        b", >= ",
        contexts.0.as_bytes(),
        b" context",
        contexts.1,
    ]);
    say(&[b"Run jeprof on \"", path.as_bytes(), b"\" for leak detail"]);
    if is_error {
        say(&[b"Exiting with error code because memory leaks were detected"]);
        flush_streams();
        sys::exit(1);
    }
}

fn plural(number: u64) -> &'static [u8] {
    if number == 1 { b"" } else { b"s" }
}

/// What the program printed and stdio still holds would be lost by an exit from here.
fn flush_streams() {
    // SAFETY: the signature of fflush.
    if let Some(flush) = unsafe { symbols::function::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"fflush") }
    {
        // SAFETY: null means every stream; the program is in `exit` and holds none of them.
        unsafe { flush(core::ptr::null_mut()) };
    }
}
