//! Sorted ranges of addresses without overlaps, in a slice of bounded length.

use heapwise_format::segment::{Mapping, Purpose};

/// The ranges: the first `count` records of `slots`.
pub(crate) struct Ranges<'a> {
    slots: &'a mut [Mapping],
    count: usize,
}

/// A change found no free slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<'a> Ranges<'a> {
    pub(crate) fn new(slots: &'a mut [Mapping], count: usize) -> Self {
        let count = count.min(slots.len());
        Self { slots, count }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn used(&self) -> &[Mapping] {
        self.slots.get(..self.count).unwrap_or_default()
    }

    /// The range that holds an address.
    pub(crate) fn get(&self, address: u64) -> Option<Mapping> {
        let at = self.used().partition_point(|range| range.end <= address);
        self.used().get(at).copied().filter(|range| range.start <= address)
    }

    /// Removes a range of addresses. Ranges that it overlaps in part are shortened or split;
    /// without a slot for the second part of a split, that part is dropped.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Result<(), Full> {
        let first = self.used().partition_point(|range| range.end <= start);
        let last = first + self.used().iter().skip(first).take_while(|range| range.start < end).count();
        let head = self.used().get(first).filter(|range| first < last && range.start < start);
        let head = head.map(|range| Mapping { end: start, ..*range });
        let tail = last.checked_sub(1).and_then(|at| self.used().get(at));
        let tail = tail.filter(|range| first < last && range.end > end);
        let tail = tail.map(|range| Mapping { start: end, ..*range });
        match (head, tail) {
            (Some(head), Some(tail)) => self
                .splice(first, last, &[head, tail])
                .or_else(|full| self.splice(first, last, &[head]).and(Err(full))),
            (Some(one), None) | (None, Some(one)) => self.splice(first, last, &[one]),
            (None, None) => self.splice(first, last, &[]),
        }
    }

    /// Inserts a range and removes the ranges that it covers. It joins neighbours of the same stack
    /// and purpose.
    pub(crate) fn insert(&mut self, mut range: Mapping) -> Result<(), Full> {
        let split = self.remove(range.start, range.end);
        let at = self.used().partition_point(|other| other.start < range.start);
        let (mut first, mut last) = (at, at);
        let before = at.checked_sub(1).and_then(|before| self.used().get(before));
        if let Some(before) = before.filter(|before| before.end == range.start && joins(before, &range)) {
            (range.start, first) = (before.start, at - 1);
            range.count = range.count.saturating_add(before.count);
            range.time_ms = range.time_ms.max(before.time_ms);
        }
        if let Some(after) =
            self.used().get(at).filter(|after| after.start == range.end && joins(after, &range))
        {
            (range.end, last) = (after.end, at + 1);
            range.count = range.count.saturating_add(after.count);
            range.time_ms = range.time_ms.max(after.time_ms);
        }
        self.splice(first, last, &[range]).and(split)
    }

    /// Replaces the ranges from `first` to before `last`.
    fn splice(&mut self, first: usize, last: usize, new: &[Mapping]) -> Result<(), Full> {
        let count = (self.count + new.len()).saturating_sub(last.saturating_sub(first));
        if count > self.slots.len() || first > last || last > self.count {
            return Err(Full);
        }
        if count != self.count {
            self.slots.copy_within(last..self.count, first + new.len());
        }
        if let Some(place) = self.slots.get_mut(first..first + new.len()) {
            place.copy_from_slice(new);
        }
        self.count = count;
        Ok(())
    }
}

/// Whether neighbours become one range. `shmdt` needs the size of what `shmat` attached.
fn joins(one: &Mapping, other: &Mapping) -> bool {
    one.node == other.node && one.purpose == other.purpose && one.purpose != Purpose::Attached as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, node: u32) -> Mapping {
        Mapping { start, end, node, purpose: Purpose::Program as u32, count: 1, time_ms: 0 }
    }

    /// A page of addresses per byte: the node of each page.
    fn pages(ranges: &Ranges<'_>) -> [u32; 64] {
        let mut pages = [0; 64];
        for range in ranges.used() {
            assert!(range.start < range.end);
            for page in range.start..range.end {
                assert_eq!(core::mem::replace(&mut pages[page as usize], range.node), 0, "an overlap");
            }
        }
        assert!(ranges.used().is_sorted_by_key(|range| range.start));
        pages
    }

    #[test]
    fn agrees_with_a_table_of_pages() {
        let mut slots = [Mapping::default(); 64];
        let mut ranges = Ranges::new(&mut slots, 0);
        let mut oracle = [0; 64];
        let mut seed = 5_u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) % most
        };
        for _ in 0..20_000 {
            let start = random(60);
            let end = start + 1 + random(64 - start - 1).min(9);
            let node = random(3) as u32 + 1;
            if random(3) == 0 {
                assert_eq!(ranges.remove(start, end), Ok(()));
                oracle[start as usize..end as usize].fill(0);
            } else {
                assert_eq!(ranges.insert(range(start, end, node)), Ok(()));
                oracle[start as usize..end as usize].fill(node);
            }
            assert_eq!(pages(&ranges), oracle);
            let address = random(64);
            assert_eq!(ranges.get(address).map_or(0, |range| range.node), oracle[address as usize]);
        }
    }

    #[test]
    fn neighbours_of_one_stack_join_unless_attached() {
        let mut slots = [Mapping::default(); 8];
        let mut ranges = Ranges::new(&mut slots, 0);
        for (start, end, time_ms) in [(8, 16, 1), (24, 32, 5), (16, 24, 3)] {
            ranges.insert(Mapping { time_ms, ..range(start, end, 7) }).unwrap();
        }
        assert_eq!(ranges.used(), [Mapping { count: 3, time_ms: 5, ..range(8, 32, 7) }]);
        let attached = |start, end| Mapping { purpose: Purpose::Attached as u32, ..range(start, end, 7) };
        ranges.insert(attached(32, 40)).unwrap();
        ranges.insert(attached(40, 48)).unwrap();
        assert_eq!(ranges.count(), 3);
    }

    #[test]
    fn a_full_table_drops_the_change_and_says_so() {
        let mut slots = [Mapping::default(); 2];
        let mut ranges = Ranges::new(&mut slots, 0);
        ranges.insert(range(0, 10, 1)).unwrap();
        ranges.insert(range(20, 30, 2)).unwrap();
        assert_eq!(ranges.insert(range(40, 50, 3)), Err(Full));
        assert_eq!(ranges.remove(4, 6), Err(Full), "a split needs a slot");
        assert_eq!((ranges.get(2).map(|range| range.end), ranges.get(8)), (Some(4), None));
    }
}
