//! mimalloc: `mi_process_info`, which has committed bytes, but not those handed out.
#![allow(unsafe_code)]

use super::Statistics;
use crate::symbols::function;

type Info = unsafe extern "C" fn(
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
);

pub(super) fn read() -> Option<Statistics> {
    // SAFETY: the signature in mimalloc.h: times, resident bytes and their peak, committed bytes
    // and their peak, faults.
    let info = unsafe { function::<Info>(c"mi_process_info") }?;
    let mut words = [0_usize; 8];
    let [a, b, c, d, e, f, g, h] = &mut words;
    // SAFETY: each takes a word.
    unsafe { info(a, b, c, d, e, f, g, h) };
    let committed = *f as u64;
    Some(Statistics { active: committed, mapped: committed, ..Statistics::default() })
}
