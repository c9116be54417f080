//! Writes JSON piece by piece to a function of the program's, a file, or standard error.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_void};

use crate::fixed_text::FixedText;
use crate::inside::Inside;
use crate::session::Session;
use crate::sys::{self, File};

/// `void (*write)(void *, const char *)`.
pub(crate) type Callback = unsafe extern "C" fn(*mut c_void, *const c_char);

enum Target<'a> {
    Function(Callback, *mut c_void),
    File(&'a File),
    StandardError,
}

/// Buffers text for a target; a drop flushes it. The program's function is called outside of the
/// probe: it may allocate.
pub(crate) struct Sink<'a> {
    inside: &'a mut Inside,
    target: Target<'a>,
    text: FixedText<1024>,
    /// A value was written that the next one is parted from by a comma.
    parted: bool,
    pub(crate) failed: bool,
}

impl<'a> Sink<'a> {
    /// To the program's function; without one to standard error.
    pub(crate) fn new(inside: &'a mut Inside, write: Option<Callback>, opaque: *mut c_void) -> Self {
        Self::to(inside, write.map_or(Target::StandardError, |write| Target::Function(write, opaque)))
    }

    pub(crate) fn file(inside: &'a mut Inside, file: &'a File) -> Self {
        Self::to(inside, Target::File(file))
    }

    fn to(inside: &'a mut Inside, target: Target<'a>) -> Self {
        Self { inside, target, text: FixedText::new(), parted: false, failed: false }
    }

    /// Calls a function of the program outside of the probe.
    pub(crate) fn outside<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.inside.outside(call)
    }

    /// The probe's state, between two pieces of text.
    pub(crate) fn inside(&self) -> &Inside {
        self.inside
    }

    /// As [`Sink::inside`].
    pub(crate) fn session(&self) -> &Session {
        self.inside
    }

    /// Text as it is.
    pub(crate) fn plain(&mut self, text: &[u8]) -> &mut Self {
        for piece in text.chunks(512) {
            if self.text.as_bytes().len() + piece.len() >= 1024 {
                self.flush();
            }
            self.text.push(piece);
        }
        self
    }

    pub(crate) fn decimal(&mut self, number: u64) -> &mut Self {
        let mut text = FixedText::<24>::new();
        text.push_decimal(number);
        self.plain(text.as_bytes())
    }

    /// Opens an object or an array: `{` or `[`.
    pub(crate) fn open(&mut self, bracket: &[u8]) -> &mut Self {
        self.part().plain(bracket).parted = false;
        self
    }

    pub(crate) fn close(&mut self, bracket: &[u8]) -> &mut Self {
        self.plain(bracket).parted = true;
        self
    }

    /// The key of the value that follows.
    pub(crate) fn key(&mut self, key: &[u8]) -> &mut Self {
        self.part().plain(b"\"").plain(key).plain(b"\":").parted = false;
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.part().decimal(number).parted = true;
        self
    }

    /// `number`, or `true` and `false`: what needs no quotes.
    pub(crate) fn word(&mut self, word: &[u8]) -> &mut Self {
        self.part().plain(word).parted = true;
        self
    }

    pub(crate) fn boolean(&mut self, value: bool) -> &mut Self {
        self.word(if value { b"true" } else { b"false" })
    }

    /// Text in quotes; bytes that JSON does not allow are omitted.
    pub(crate) fn string(&mut self, text: &[u8]) -> &mut Self {
        self.part().plain(b"\"");
        for byte in text {
            match byte {
                b'"' | b'\\' => self.plain(&[b'\\', *byte]),
                0..0x20 => self,
                _ => self.plain(&[*byte]),
            };
        }
        self.plain(b"\"").parted = true;
        self
    }

    /// An address in quotes.
    pub(crate) fn address(&mut self, address: u64) -> &mut Self {
        self.part().plain(b"\"0x");
        let digits = (64 - address.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let digit = (address >> (digit * 4)) as u8 & 15;
            self.plain(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
        }
        self.plain(b"\"").parted = true;
        self
    }

    fn part(&mut self) -> &mut Self {
        if self.parted {
            self.plain(b",");
        }
        self
    }

    pub(crate) fn flush(&mut self) {
        match (&self.target, self.text.as_c_str()) {
            (Target::Function(write, opaque), Some(text)) => self.inside.outside(|| {
                // SAFETY: the program's function, with the argument it gave.
                unsafe { write(*opaque, text.as_ptr()) }
            }),
            (Target::File(file), _) => self.failed |= file.write_all(self.text.as_bytes()).is_err(),
            _ => sys::write_error(self.text.as_bytes()),
        }
        self.text.clear();
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn append(to: *mut c_void, text: *const c_char) {
        // SAFETY: the test's own string, and text of a sink.
        unsafe { (*to.cast::<String>()).push_str(core::ffi::CStr::from_ptr(text).to_str().expect("UTF-8")) };
    }

    /// Enters; the thread of another test may be making the session.
    fn entered() -> crate::inside::Inside {
        loop {
            if let Some(inside) = crate::inside::enter() {
                return inside;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn commas_and_quotes() {
        let mut written = String::new();
        let mut inside = entered();
        let mut sink = Sink::new(&mut inside, Some(append), (&raw mut written).cast());
        sink.open(b"{").key(b"a").number(1).key(b"b").open(b"[").address(0x1f).string(b"x\"y\n").close(b"]");
        sink.key(b"c").boolean(true).close(b"}");
        drop(sink);
        assert_eq!(written, r#"{"a":1,"b":["0x1f","x\"y"],"c":true}"#);
    }

    #[test]
    fn long_text_comes_in_pieces() {
        let mut written = String::new();
        let mut inside = entered();
        let mut sink = Sink::new(&mut inside, Some(append), (&raw mut written).cast());
        sink.open(b"[");
        (0..1000).for_each(|number| {
            sink.number(number);
        });
        sink.close(b"]");
        drop(sink);
        let expected: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(written, format!("[{}]", expected.join(",")));
    }
}
