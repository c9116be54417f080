//! Stacks, buckets, live blocks.

use loom::thread::spawn;

use heapwise_format::segment::CallKind;

use crate::atomics::check;
use crate::{buckets, stack_tree};

/// Threads that meet the same new stack get a node that says what they asked for.
///
/// Fails when `chain::append` is `Relaxed`, or the load in `chain::search`.
#[test]
fn a_node_is_whole_before_anybody_has_its_number() {
    let meet = || {
        let id = stack_tree::child(0, 0x5555_0000_0010, 1).expect("room");
        let node = stack_tree::node(id).expect("made");
        assert_eq!((node.place, node.parent, node.module), (0x5555_0000_0010, 0, 1));
    };
    check(
        || (),
        move || {
            let other = spawn(meet);
            meet();
            other.join().expect("no panic");
        },
    );
}

/// Threads that meet blocks that are alike get a bucket that says so.
#[test]
fn a_bucket_is_whole_before_anybody_has_its_number() {
    let meet = || {
        let key = buckets::Key {
            size: 1_000_000_007,
            node: 9,
            rate: 0,
            kind: CallKind::Malloc,
            period: 1,
            owner: 0,
        };
        let record = buckets::find(&key, || 0).and_then(buckets::record).expect("room");
        assert_eq!((record.size, record.node, record.period), (1_000_000_007, 9, 1));
    };
    check(
        || (),
        move || {
            let other = spawn(meet);
            meet();
            other.join().expect("no panic");
        },
    );
}
