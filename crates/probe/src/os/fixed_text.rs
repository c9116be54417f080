//! Text in a fixed buffer, always NUL-terminated: paths and names without an allocator.

use core::ffi::CStr;

/// Up to `N - 1` bytes; what does not fit is cut and remembered.
#[derive(Clone, Copy)]
pub(crate) struct FixedText<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

impl<const N: usize> FixedText<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], len: 0, cut: false }
    }

    /// A short constant.
    pub(crate) const fn of(text: &[u8]) -> Self {
        let mut new = Self::new();
        while new.len < text.len() && new.len + 1 < N {
            new.bytes[new.len] = text[new.len];
            new.len += 1;
        }
        new.cut = new.len < text.len();
        new
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.fill(0);
        self.len = 0;
        self.cut = false;
    }

    /// The bytes that fitted.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    pub(crate) fn push(&mut self, text: &[u8]) -> &mut Self {
        for byte in text {
            if self.len + 1 >= N {
                self.cut = true;
                break;
            }
            if let Some(slot) = self.bytes.get_mut(self.len) {
                *slot = *byte;
                self.len += 1;
            }
        }
        self
    }

    pub(crate) fn push_decimal(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut first = digits.len();
        for slot in digits.iter_mut().rev() {
            *slot = b'0' + (number % 10) as u8;
            number /= 10;
            first -= 1;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or(&[]))
    }

    /// The text for a system call; `None` when it was cut, because it would name something else.
    pub(crate) fn as_c_str(&self) -> Option<&CStr> {
        if self.cut {
            return None;
        }
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::FixedText;

    #[test]
    fn pushes_text_and_numbers() {
        let mut text = FixedText::<32>::new();
        text.push(b"pid ").push_decimal(0).push(b"-").push_decimal(u64::MAX);
        assert_eq!(text.as_c_str(), Some(c"pid 0-18446744073709551615"));
    }

    #[test]
    fn cut_text_is_no_path() {
        let mut text = FixedText::<4>::new();
        assert!(text.push(b"abc").as_c_str().is_some());
        assert_eq!(text.push(b"d").as_c_str(), None);
    }
}
