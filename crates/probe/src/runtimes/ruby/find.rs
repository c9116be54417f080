//! Finds Ruby in a binary by the symbols that it exports, and calls them.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use core::ops::Range;

use heapwise_format::segment::{Runtime, RuntimeLanguage, RuntimeSupport};

use crate::modules::Image;
use crate::runtimes::memory::Pages;
use crate::symbols;
use crate::unwind::thread_pointer;

/// A reference to an object of Ruby.
pub(super) type Value = u64;

/// Ruby's interface for profilers.
pub(super) struct Interface {
    /// Code of the binary that has Ruby.
    pub(super) code: Range<u64>,
    /// `ruby_current_ec`, see [`symbols::thread_local`].
    context: (u64, u64),
    /// Bytes of a control frame.
    frame_bytes: u64,
    has_lock: unsafe extern "C" fn() -> c_int,
    is_collecting: unsafe extern "C" fn() -> c_int,
    frames: unsafe extern "C" fn(c_int, c_int, *mut Value, *mut c_int) -> c_int,
    path: unsafe extern "C" fn(Value) -> Value,
    label: unsafe extern "C" fn(Value) -> Value,
    text: unsafe extern "C" fn(*mut Value) -> *const c_char,
}

/// The Ruby in a binary, and its interface.
pub(super) fn find(image: &Image) -> Option<(Runtime, Interface)> {
    let object = image.link_map()?;
    let find = |name: &CStr| symbols::find_in(object, name).map(|found| found.address);
    let frames = find(c"rb_profile_frames")?;
    let version = find(c"ruby_version")?;
    let code = image.code_segment(frames as u64)?;
    // SAFETY: a string of static storage in each version of Ruby.
    let (major, minor) = version_of(unsafe { CStr::from_ptr(version.cast()) }.to_bytes())?;
    let context = symbols::thread_local(object, c"ruby_current_ec");
    let support = match (major, context) {
        (3, Some(_)) if cfg!(target_arch = "x86_64") => RuntimeSupport::LinesOnly,
        _ => RuntimeSupport::UnknownVersion,
    };
    let context = context.unwrap_or((0, 0));
    // SAFETY: functions of Ruby, with the types that its headers declare.
    let interface = unsafe {
        Interface {
            code: code.start..code.end,
            context,
            // 3.1 has a word more.
            frame_bytes: if minor == 1 { 64 } else { 56 },
            has_lock: symbols::function_in(object, c"ruby_thread_has_gvl_p")?,
            is_collecting: symbols::function_in(object, c"rb_during_gc")?,
            frames: symbols::function_in(object, c"rb_profile_frames")?,
            path: symbols::function_in(object, c"rb_profile_frame_path")?,
            label: symbols::function_in(object, c"rb_profile_frame_label")?,
            text: symbols::function_in(object, c"rb_string_value_ptr")?,
        }
    };
    Some((Runtime { language: RuntimeLanguage::Ruby, major, minor, support }, interface))
}

/// The control frames of a stack, the innermost first.
pub(super) struct ControlFrames {
    next: u64,
    end: u64,
    bytes: u64,
}

impl ControlFrames {
    /// The code of the next frame of Ruby: an object of the type `iseq`.
    pub(super) fn next(&mut self, pages: &mut Pages) -> Option<Value> {
        const CODE: u64 = 16;
        const TYPE: u64 = 0xf01f;
        const IS_CODE: u64 = 7 << 12 | 0x1a;
        while self.next < self.end {
            let code = pages.word(self.next + CODE)?;
            self.next += self.bytes;
            if code != 0 && pages.word(code)? & TYPE == IS_CODE {
                return Some(code);
            }
        }
        None
    }
}

/// Where an object has the calling thread's variables, as glibc's `__tls_get_addr` finds it, which
/// may allocate. `None` when the thread has none yet.
fn thread_variables(pages: &mut Pages, module: u64) -> Option<u64> {
    let table = pages.word(thread_pointer() + 8)?;
    let len = pages.word(table.wrapping_sub(16))?;
    let variables = pages.word(table.wrapping_add(module * 16))?;
    (module <= len && variables != u64::MAX).then_some(variables)
}

/// Major and minor version of `3.1.2`.
fn version_of(text: &[u8]) -> Option<(u8, u8)> {
    let mut numbers = core::str::from_utf8(text).ok()?.split('.').map(|digits| digits.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl Interface {
    /// The control frames of the calling thread, if they can be read now: Ruby's functions expect
    /// that, and a thread that starts has none.
    pub(super) fn control_frames(&self, pages: &mut Pages) -> Option<ControlFrames> {
        let [start, len, next] = self.context(pages)?;
        let end = start.wrapping_add(len.wrapping_mul(8));
        if start == 0 || !(start..end).contains(&next) {
            return None;
        }
        // SAFETY: they read values of a thread that runs Ruby, and of the collector.
        let is_readable = unsafe { (self.has_lock)() != 0 && (self.is_collecting)() == 0 };
        is_readable.then_some(ControlFrames { next, end, bytes: self.frame_bytes })
    }

    /// The start of the calling thread's `rb_execution_context_t`: its stack of values, the length
    /// of that, the innermost frame.
    fn context(&self, pages: &mut Pages) -> Option<[u64; 3]> {
        let (module, offset) = self.context;
        let variables = thread_variables(pages, module)?;
        let context = pages.word(variables.wrapping_add(offset))?;
        let [start, len, frame] = [0, 8, 16].map(|field| pages.word(context.wrapping_add(field)));
        Some([start?, len?, frame?])
    }

    /// Writes the frames of the calling thread, the innermost first, and their lines; how many
    /// there are. The thread must have a stack.
    pub(super) fn frames(&self, values: &mut [Value], lines: &mut [c_int]) -> usize {
        let most = c_int::try_from(values.len().min(lines.len())).unwrap_or(0);
        // SAFETY: it writes at most so many frames and lines.
        let count = unsafe { (self.frames)(0, most, values.as_mut_ptr(), lines.as_mut_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The file of a frame's code, or of its method: a string, or `nil`.
    pub(super) fn path_of(&self, frame: Value) -> Value {
        // SAFETY: a frame of the calling thread's stack, which keeps it alive.
        unsafe { (self.path)(frame) }
    }

    /// The name of a frame's code, or of its method: a string, or `nil`.
    pub(super) fn label_of(&self, frame: Value) -> Value {
        // SAFETY: as `path_of`.
        unsafe { (self.label)(frame) }
    }

    /// The address of the text of a string.
    pub(super) fn text(&self, mut string: Value) -> u64 {
        // SAFETY: the caller has checked that it is a string.
        unsafe { (self.text)(&raw mut string) as u64 }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_parsed() {
        assert_eq!(super::version_of(b"3.1.2"), Some((3, 1)));
        assert_eq!(super::version_of(b"3.10"), Some((3, 10)));
        assert_eq!(super::version_of(b"three"), None);
    }
}
