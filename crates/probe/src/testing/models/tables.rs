//! Stacks, tallies, live blocks.

use std::vec;
use std::vec::Vec;

use heapwise_format::segment::{Counter, IndexKind, NO_THREAD, Node, SectionKind, read_appended};

use super::outside::Outside;
use super::{check, together};
use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::live::alloc_times::{self, AllocTime};
use crate::live::shadow::{self, Insertion};
use crate::live::{self, Inserted, Live};
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::{self, SiteKey};

fn block(tally: u32) -> Live {
    Live { tally, size: 24 }
}

/// `parent` is the empty stack, or a number that no node gets in the model: its children are in the
/// hash table.
fn meet_stack(session: &Session, parent: u32, place: u64) {
    let id = stack_tree::child(session, parent, place, 1);
    let node = id.and_then(|id| stack_tree::node(session, id)).expect("made");
    assert_eq!((node.place, node.parent, node.module), (place, parent, 1));
}

/// Threads that insert the same new stack get a node that holds that stack.
///
/// For `chain::append` (release) and `chain::search` (acquire).
#[test]
fn a_node_is_whole_before_anybody_has_its_number() {
    let meet = |session| meet_stack(session, 0, 0x5555_0000_0010);
    check(
        |_| (),
        move |session| {
            together(move || meet(session), move || meet(session));
        },
    );
}

/// As above, for a parent with so many children that they are in the hash table, whose first level
/// is published at the same time.
///
/// For `hash_table::insert` and `publish` (release), `at_home`, `probe` and `slots` (acquire).
#[test]
fn a_node_in_the_hash_is_whole() {
    let parent = 70;
    let meet = move |session| meet_stack(session, parent, 0x5555_0000_0990);
    let fill =
        move |session| (1..=8).for_each(|child| meet_stack(session, parent, 0x5555_0001_0000 + child * 16));
    check(fill, move |session| {
        together(move || meet(session), move || meet(session));
    });
}

/// A node that another process reads is complete, or is marked as incomplete: threads that append
/// at the same time do not finish in the order of their records.
///
/// For the first word in `segment::append` (release), and for the second reading in
/// `read_appended`.
#[test]
fn a_reader_knows_which_nodes_are_whole() {
    let (first, second) = (0x5555_0002_0010, 0x5555_0003_0010);
    let known = 0x5555_0004_0010;
    let read = |session: &'static Session| {
        let section = session.segment.section(SectionKind::Nodes);
        let used = session.segment.counter(Counter::Nodes).load(Ordering::Relaxed);
        let before = BEFORE.load(Ordering::Relaxed);
        let mut records = vec![0; ((used - before) * section.record_bytes) as usize];
        let offset = section.offset + before * section.record_bytes;
        let whole = read_appended(&Outside(session), offset, section.record_bytes as usize, &mut records);
        let nodes = records.chunks_exact(section.record_bytes as usize).filter_map(Node::decode);
        nodes.take(whole).map(|node| (node.place, node.parent, node.module)).collect::<Vec<_>>()
    };
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let prepare = move |session: &'static Session| {
        meet_stack(session, 0, known);
        BEFORE.store(session.segment.counter(Counter::Nodes).load(Ordering::Relaxed), Ordering::Relaxed);
    };
    check(prepare, move |session| {
        let appends = loom::thread::spawn(move || meet_stack(session, 50, first));
        let (nodes, ()) = together(move || read(session), move || meet_stack(session, 60, second));
        appends.join().expect("no panic");
        for node in nodes {
            assert!([(first, 50, 1), (second, 60, 1)].contains(&node), "{node:x?}");
        }
        assert_eq!(read(session).len(), 2);
    });
}

/// Threads that share a site get one tally, which is described: a thread that finds its number
/// before its description takes it for another site's, and makes a second one.
///
/// For `lists::claim` (release) and `chain::search` (acquire).
#[test]
fn a_shared_tally_is_described_before_another_thread_has_its_number() {
    static NODE: AtomicU32 = AtomicU32::new(0);
    let meet = |session: &Session| {
        let node = NODE.load(Ordering::Relaxed);
        let tally = tallies::shared(session, node, 0).expect("room");
        assert_eq!(tally.counts.site(), SiteKey::new(node, 0, NO_THREAD));
        tally.number
    };
    check(
        |session| {
            let node = stack_tree::child(session, 0, 0x5555_0005_0010, 1).expect("room");
            NODE.store(node, Ordering::Relaxed);
        },
        move |session| {
            let (one, other) = together(move || meet(session), move || meet(session));
            assert_eq!(one, other);
        },
    );
}

/// Addresses of one group of the hash index that start with the same slot.
const IN_ONE_GROUP: [u64; 3] = [0x7100_0000_0008, 0x7100_0000_0010, 0x7100_0000_0018];

/// A block is found by the thread that frees it, while other blocks of the same group are inserted
/// and removed and take over its slot.
///
/// For the key in `hash::remove` (release) and in `insert_in` (acquire): the next block's tally
/// must not be seen in the slot before it has the slot.
#[test]
fn a_live_block_is_found_by_whoever_frees_it() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let [handed, first, second] = IN_ONE_GROUP;
    let insert = |session: &Session, address, tally| {
        assert!(matches!(live::insert_sample(session, address, block(tally), true), Inserted::Yes));
    };
    let remove =
        |session: &Session, address| live::remove(session, address, |_| true).map(|removed| removed.block);
    let bystander = move |session: &Session| {
        for (address, tally) in [(first, 21), (second, 22)] {
            insert(session, address, tally);
            assert_eq!(remove(session, address), Some(block(tally)));
        }
    };
    check(
        // The page filter is in use, and the group exists.
        move |session| bystander(session),
        move |session| {
            let giver = loom::thread::spawn(move || {
                insert(session, handed, 5);
                HAND.store(1, Ordering::Release);
            });
            together(
                move || bystander(session),
                move || {
                    if HAND.load(Ordering::Acquire) == 1 {
                        assert_eq!(remove(session, handed), Some(block(5)));
                    }
                },
            );
            giver.join().expect("no panic");
        },
    );
}

/// A block in the shadow index is found by the thread that frees it, while another thread creates
/// the same tables of the index.
///
/// For `grow` (release and acquire): without them, a thread gets a table before it sees that the
/// table is populated, and then does not use it.
#[test]
fn a_shadowed_block_is_found_by_whoever_frees_it() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let (handed, other, elsewhere) = (0x7200_0000_0010, 0x7200_0000_0050, 0x7200_0002_0000);
    check(
        // The directory is there; the leaf is made in the model.
        move |session| assert_eq!(shadow::insert(session, elsewhere, block(7)), Insertion::Done),
        move |session| {
            together(
                move || {
                    assert_eq!(shadow::insert(session, handed, block(5)), Insertion::Done);
                    HAND.store(1, Ordering::Release);
                },
                move || {
                    assert_eq!(shadow::insert(session, other, block(6)), Insertion::Done);
                    if HAND.load(Ordering::Acquire) == 1 {
                        assert_eq!(shadow::remove(session, handed), Some(block(5)));
                    }
                    assert_eq!(shadow::remove(session, other), Some(block(6)));
                },
            );
        },
    );
}

/// The allocation time of a block is found by the thread that frees the block, while another thread
/// creates the same leaf.
///
/// For the exchange in `AddressMap::publish`: with a store, one thread's leaf is lost with what the
/// other wrote there.
#[test]
fn an_alloc_time_is_found_by_the_thread_that_frees_the_block() {
    static HAND: AtomicU64 = AtomicU64::new(0);
    let (handed, other) = (0x7300_0000_0010, 0x7300_0000_0050);
    let insert =
        |session: &Session, address| assert_eq!(shadow::insert(session, address, block(5)), Insertion::Done);
    let taken = |session: &Session, address| {
        live::remove(session, address, |_| false).map(|removed| removed.alloc_time)
    };
    check(
        move |session| {
            live::choose(session, IndexKind::Shadow);
            [handed, other].into_iter().for_each(|address| insert(session, address));
        },
        move |session| {
            together(
                move || {
                    alloc_times::set(session, handed, AllocTime::new(5, false));
                    HAND.store(1, Ordering::Release);
                },
                move || {
                    alloc_times::set(session, other, AllocTime::new(6, false));
                    if HAND.load(Ordering::Acquire) == 1 {
                        assert_eq!(taken(session, handed), Some(AllocTime::new(5, false)));
                    }
                    assert_eq!(taken(session, other), Some(AllocTime::new(6, false)));
                },
            );
        },
    );
}
