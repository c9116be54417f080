//! A map in least-recently-used order (LRU).

use std::collections::HashMap;

/// Values by key. Callers decide when there are too many and remove the least recently used.
#[derive(Debug)]
pub(crate) struct Lru<V> {
    /// Each value with the time of its last use.
    entries: HashMap<String, (u64, V)>,
    /// Uses so far.
    clock: u64,
}

impl<V> Default for Lru<V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), clock: 0 }
    }
}

impl<V> Lru<V> {
    /// The value of a key, which becomes the most recently used.
    pub(crate) fn get(&mut self, key: &str) -> Option<&mut V> {
        self.clock += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(value)
    }

    /// Whether there is a value of a key, without using it.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Adds or replaces a value, as the most recently used.
    pub(crate) fn insert(&mut self, key: String, value: V) {
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
    }

    /// Removes the least recently used value.
    pub(crate) fn pop_oldest(&mut self) -> Option<V> {
        let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used)?.0.clone();
        self.entries.remove(&oldest).map(|(_, value)| value)
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut lru = Lru::default();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            lru.insert(key.into(), value);
        }
        assert_eq!(lru.get("a"), Some(&mut 1));
        assert_eq!((lru.pop_oldest(), lru.pop_oldest(), lru.len()), (Some(2), Some(3), 1));
        assert_eq!(lru.get("b"), None);
        assert_eq!((lru.pop_oldest(), lru.pop_oldest()), (Some(1), None));
    }
}
