//! Stacks, buckets, live blocks.

use std::vec;
use std::vec::Vec;

use heapwise_format::event::Origin;
use heapwise_format::segment::{CallKind, Counter, Node, SectionKind, read_appended};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::{AtomicU64, Ordering};
use crate::shadow::Insertion;
use crate::{buckets, live, log, segment, shadow, stack_tree};

fn meet_stack(parent: u32, place: u64) {
    let node = stack_tree::child(parent, place, 1).and_then(stack_tree::node).expect("made");
    assert_eq!((node.place, node.parent, node.module), (place, parent, 1));
}

/// Threads that meet the same new stack get a node that says what they asked for.
///
/// For `chain::append` (release) and `chain::search` (acquire).
#[test]
fn a_node_is_whole_before_anybody_has_its_number() {
    let meet = || meet_stack(0, 0x5555_0000_0010);
    check(
        || (),
        move || {
            together(meet, meet);
        },
    );
}

/// The same where a parent has so many children that they are in the hash, whose first table is published at the same
/// time.
///
/// For `child_table::insert` and `publish` (release), `at_home`, `probe` and `slots` (acquire).
#[test]
fn a_node_in_the_hash_is_whole() {
    let parent = 7;
    let meet = move || meet_stack(parent, 0x5555_0000_0990);
    let fill = move || (1..=8).for_each(|child| meet_stack(parent, 0x5555_0001_0000 + child * 16));
    check(fill, move || {
        together(meet, meet);
    });
}

/// The node that a thread is told to come next is whole.
///
/// For `set_next` (release), `next_of` and `is_at_end_of` (acquire).
#[test]
fn what_comes_next_is_whole() {
    let (first, second) = (0x5555_0005_0010, 0x5555_0006_0010);
    let way = stack_tree::Way::new(9, 1);
    let last = move || stack_tree::child(9, first, 1).expect("made");
    check(
        move || {
            last();
        },
        move || {
            together(
                move || {
                    let node = stack_tree::child(9, second, 1).expect("made");
                    stack_tree::set_next(last(), way, node);
                },
                move || {
                    let next = stack_tree::next_of(last());
                    if stack_tree::is_at_end_of(way, next) {
                        let node = stack_tree::node(next).expect("made");
                        assert_eq!((node.place, node.parent, node.module), (second, 9, 1));
                    }
                },
            );
        },
    );
}

/// A node that another process reads is whole, or it says that it is not: threads that append at the same time are not done
/// in the order of their records.
///
/// For the first word in `segment::append` (release), and for the second reading in `read_appended`.
#[test]
fn a_reader_knows_which_nodes_are_whole() {
    let (first, second) = (0x5555_0002_0010, 0x5555_0003_0010);
    let known = 0x5555_0004_0010;
    let read = || {
        let section = segment::section(SectionKind::Nodes);
        let used = segment::counter(Counter::Nodes).load(Ordering::Relaxed);
        let before = BEFORE.load(Ordering::Relaxed);
        let mut records = vec![0; ((used - before) * section.record_bytes) as usize];
        let offset = section.offset + before * section.record_bytes;
        let whole = read_appended(&Outside, offset, section.record_bytes as usize, &mut records);
        let nodes = records.chunks_exact(section.record_bytes as usize).filter_map(Node::decode);
        nodes.take(whole).map(|node| (node.place, node.parent, node.module)).collect::<Vec<_>>()
    };
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let prepare = move || {
        meet_stack(0, known);
        BEFORE.store(segment::counter(Counter::Nodes).load(Ordering::Relaxed), Ordering::Relaxed);
    };
    check(prepare, move || {
        let appends = loom::thread::spawn(move || meet_stack(5, first));
        let (nodes, ()) = together(read, move || meet_stack(6, second));
        appends.join().expect("no panic");
        for node in nodes {
            assert!([(first, 5, 1), (second, 6, 1)].contains(&node), "{node:x?}");
        }
        assert_eq!(read().len(), 2);
    });
}

fn meet_bucket(node: u32, size: u64) {
    let key = buckets::Key { size, node, rate: 0, kind: CallKind::Malloc, period: 1, owner: 0 };
    let record = buckets::find(&key, || 0).and_then(buckets::record).expect("room");
    assert_eq!((record.size, record.node, record.period), (size, node, 1));
}

/// Threads that meet blocks that are alike get a bucket that says so.
///
/// For `chain::append` (release) and `chain::search` (acquire).
#[test]
fn a_bucket_is_whole_before_anybody_has_its_number() {
    let meet = || meet_bucket(9, 1_000_000_007);
    check(
        || (),
        move || {
            together(meet, meet);
        },
    );
}

/// The same where a stack has so many sizes that they are in the hash.
///
/// For `put_in_hash` (release) and `find_in` (acquire).
#[test]
fn a_bucket_in_the_hash_is_whole() {
    let meet = || meet_bucket(11, 2_000_000_011);
    check(
        || (1..=8).for_each(|size| meet_bucket(11, size)),
        move || {
            together(meet, meet);
        },
    );
}

/// Addresses of one group of the hash index.
const IN_ONE_GROUP: [u64; 3] = [0x7100_0000_0010, 0x7100_0000_0020, 0x7100_0000_0030];

/// A block is found by whoever frees it, though others come and go in the same group and take its slot over.
///
/// For the key in `live::remove` (release) and in `insert_in` (acquire): the next block's bucket must not be seen in the slot
/// before it has the slot.
#[test]
fn a_live_block_is_found_by_whoever_frees_it() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let [handed, first, second] = IN_ONE_GROUP;
    let bystander = move || {
        for (address, bucket) in [(first, 21), (second, 22)] {
            assert!(live::insert(address, bucket, 0));
            assert_eq!(live::remove(address), Some(bucket));
        }
    };
    check(
        || (),
        move || {
            let giver = loom::thread::spawn(move || {
                assert!(live::insert(handed, 5, 0));
                HAND.store(1, Ordering::Release);
            });
            together(bystander, move || {
                if HAND.load(Ordering::Acquire) == 1 {
                    assert_eq!(live::remove(handed), Some(5));
                }
            });
            giver.join().expect("no panic");
        },
    );
}

/// A block in the shadow is found by whoever frees it, while another thread makes the same tables of the shadow.
///
/// For `grown` (release and acquire): without, a table is named to a thread that does not see yet that it is real, which then
/// makes do without.
#[test]
fn a_shadowed_block_is_found_by_whoever_frees_it() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let (handed, other, elsewhere) = (0x7200_0000_0010, 0x7200_0000_0050, 0x7200_0002_0000);
    check(
        // The directory is there; the leaf is made in the model.
        move || assert_eq!(shadow::insert(elsewhere, 7), Insertion::Done),
        move || {
            together(
                move || {
                    assert_eq!(shadow::insert(handed, 5), Insertion::Done);
                    HAND.store(1, Ordering::Release);
                },
                move || {
                    assert_eq!(shadow::insert(other, 6), Insertion::Done);
                    if HAND.load(Ordering::Acquire) == 1 {
                        assert_eq!(shadow::remove(handed), Some(5));
                    }
                    assert_eq!(shadow::remove(other), Some(6));
                },
            );
        },
    );
}

/// What the log keeps of a block is found by whoever frees it, while another thread makes the same tables.
///
/// For the exchange in `AddressMap::publish`: with a store, one thread's leaf is lost with what the other wrote there.
#[test]
fn a_birth_is_found_by_whoever_frees_the_block() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let (handed, other) = (0x7300_0000_0010, 0x7300_0000_0050);
    let birth = |bucket| log::Birth::new(Origin::new(bucket, 1), 0);
    let bucket = |address| log::take(address).map(|birth| birth.origin().bucket());
    check(
        || {},
        move || {
            together(
                move || {
                    log::put_back(handed, birth(5));
                    HAND.store(1, Ordering::Release);
                },
                move || {
                    log::put_back(other, birth(6));
                    if HAND.load(Ordering::Acquire) == 1 {
                        assert_eq!(bucket(handed), Some(5));
                    }
                    assert_eq!(bucket(other), Some(6));
                },
            );
        },
    );
}
