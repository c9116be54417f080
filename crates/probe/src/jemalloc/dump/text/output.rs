//! Text into a file through a buffer.

use crate::fixed_text::FixedText;
use crate::sys::File;

/// A file being written. After a failure (a full disk) the rest is dropped.
pub(super) struct Output<'a> {
    file: &'a File,
    buffer: &'a mut [u8],
    len: usize,
    failed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(file: &'a File, buffer: &'a mut [u8]) -> Self {
        Self { file, buffer, len: 0, failed: false }
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        let mut rest = text;
        while !rest.is_empty() {
            if self.len == self.buffer.len() {
                self.flush();
            }
            let room = self.buffer.get_mut(self.len..).unwrap_or(&mut []);
            let (now, later) = rest.split_at(rest.len().min(room.len()));
            for (to, from) in room.iter_mut().zip(now) {
                *to = *from;
            }
            self.len += now.len();
            rest = later;
        }
        self
    }

    pub(super) fn decimal(&mut self, number: u64) -> &mut Self {
        let mut text = FixedText::<24>::new();
        text.push_decimal(number);
        self.text(text.as_bytes())
    }

    /// Lower case, without leading zeros.
    pub(super) fn hex(&mut self, number: u64) -> &mut Self {
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        (0..digits).rev().fold(self, |out, digit| out.hex_digit(number >> (digit * 4)))
    }

    /// The lowest four bits.
    pub(super) fn hex_digit(&mut self, number: u64) -> &mut Self {
        let digit = (number & 15) as u8;
        self.text(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }])
    }

    /// Copies another file to its end.
    pub(super) fn copy(&mut self, from: &File) {
        self.flush();
        while let Ok(count @ 1..) = from.read(self.buffer) {
            self.len = count;
            self.flush();
        }
    }

    fn flush(&mut self) {
        let bytes = self.buffer.get(..self.len).unwrap_or(&[]);
        self.failed = self.failed || self.file.write_all(bytes).is_err();
        self.len = 0;
    }

    /// Writes the rest; whether everything was written.
    pub(super) fn finish(mut self) -> bool {
        self.flush();
        !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_lose_nothing() {
        let path = std::env::temp_dir().join(format!("heapwise-output-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        let file = File::create(&name).expect("a file");
        let mut buffer = [0; 7];
        let mut out = Output::new(&file, &mut buffer);
        out.text(b"heap_v2/").decimal(524_288).text(b"\n@ 0x").hex(0x7fff_0123_4567_89ab).text(b" 0x").hex(0);
        assert!(out.finish());
        let written = std::fs::read_to_string(&path).expect("written");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(written, "heap_v2/524288\n@ 0x7fff0123456789ab 0x0");
    }
}
