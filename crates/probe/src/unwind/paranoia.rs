//! The memo on trial: each of its results beside that of a full walk.
#![allow(unsafe_code)]

use super::Captured;
use crate::arch::syscall;
use crate::fixed_text::FixedText;
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sys;

/// Aborts the program, with the two stacks on standard error, if they are not the same.
#[cold]
pub(super) fn compare(session: &Session, memoised: Captured, walked: Captured) {
    let same_flags = (memoised.truncated, memoised.broken) == (walked.truncated, walked.broken);
    if same_flags && same_stack(session, memoised.name, walked.name) {
        return;
    }
    say(FixedText::new().push(b"heapwise: memoised stack differs from full walk\n"));
    describe(session, "memo:", memoised.name);
    describe(session, "walk:", walked.name);
    sys::abort()
}

/// Equal nodes are equal stacks; a race may have created two nodes for one stack.
fn same_stack(session: &Session, mut a: u32, mut b: u32) -> bool {
    while a != b {
        match (stack_tree::node(session, a), stack_tree::node(session, b)) {
            (Some(x), Some(y)) if (x.place, x.module) == (y.place, y.module) => (a, b) = (x.parent, y.parent),
            _ => return false,
        }
    }
    true
}

fn describe(session: &Session, name: &str, node: u32) {
    let read = |id| stack_tree::node(session, id);
    let mut line = FixedText::<64>::new();
    line.push(name.as_bytes()).push(b" node ").push_decimal(u64::from(node));
    say(line.push(b"\n"));
    for frame in core::iter::successors(read(node), |node| read(node.parent)) {
        let mut line = FixedText::<64>::new();
        line.push(b"  place 0x");
        for shift in (0..64).step_by(4).rev() {
            let digit = (frame.place >> shift & 15) as u8;
            line.push(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
        }
        line.push(b" module ").push_decimal(u64::from(frame.module));
        say(line.push(b"\n"));
    }
}

fn say(line: &FixedText<64>) {
    let Some(line) = line.as_c_str() else { return };
    // SAFETY: the kernel reads that many bytes.
    unsafe { syscall(libc::SYS_write, [2, line.as_ptr() as usize, line.count_bytes(), 0, 0, 0]) };
}
