//! The beginning.
#![allow(unsafe_code)]

use heapwise_format::segment::{AllocatorKind, State};

use crate::segment;

extern "C" fn start() {
    if segment::create(AllocatorKind::Other) {
        segment::set_state(State::Ready);
    }
}

#[used]
#[cfg_attr(feature = "preload", unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = start;
