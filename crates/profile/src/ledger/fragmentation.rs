//! Fragmentation by site: the blocks that keep sparse pages resident.

use foldhash::HashMap;

use super::{HeapPages, Ledger, LineKind};
use crate::metric::Unit;
use crate::model::ExtraColumn;
use crate::view::top;
use crate::{CallTree, Metric, Profile, Query, Sample, Values};

/// Number of the column with a site's share of the free bytes on pages that are at most half full.
const PINNED: u16 = 0;
/// Number of the column with the resident bytes of pages on which a site is alone.
const RETURNED: u16 = 1;

/// Pages that few live blocks keep resident, by the sites of these blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragmentation {
    /// Resident bytes of the heap.
    pub heap: u64,
    /// Requested bytes of live blocks on resident pages.
    pub live: u64,
    /// Free bytes on pages with live blocks.
    pub fragmentation: u64,
    /// Bytes of pages without live blocks.
    pub free: u64,
    /// Pages by how full they are.
    pub pages: HeapPages,
    /// The sites, the most pinned bytes first.
    pub rows: Vec<FragmentationRow>,
    /// Rows left out by the limit.
    pub dropped: usize,
}

/// One site: a function that allocates.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentationRow {
    /// Name of the function.
    pub name: String,
    /// Its share of the free bytes on pages that are at most half full: by its share of the live
    /// bytes on each page.
    pub pinned: u64,
    /// Resident bytes of pages with no other site's blocks: what the allocator could return if
    /// this site's blocks were freed.
    pub returned: u64,
    /// Requested bytes of its live blocks.
    pub live: u64,
    /// Its live blocks.
    pub blocks: u64,
}

/// Adds a sample per heap site to the profile of the ledger's stacks.
#[must_use]
pub fn profile(ledger: &Ledger, stacks: Profile) -> Profile {
    let column = |name: &str, value: fn(&super::HeapSite) -> u64| ExtraColumn {
        name: name.to_owned(),
        unit: Unit::Bytes,
        values: ledger.heap_sites.iter().map(|site| value(site) as f64).collect(),
    };
    let sample = |site: &super::HeapSite| Sample {
        stack: site.stack,
        thread: None,
        sizes: None,
        values: Values { inuse_objects: site.blocks, inuse_bytes: site.live, ..Values::default() },
        variance: Values::default(),
    };
    Profile {
        samples: ledger.heap_sites.iter().map(sample).collect(),
        extra: vec![column("pinned_space", |site| site.pinned), column("returned_space", |site| site.sole)],
        ..stacks
    }
}

/// The view of a [`profile`] with symbols.
#[must_use]
pub fn view(ledger: &Ledger, pages: HeapPages, profile: &Profile, limit: Option<usize>) -> Fragmentation {
    let by_name = |metric: Metric| -> HashMap<String, u64> {
        let query = Query { metric, ..Query::default() };
        let rows = top::top(&CallTree::new(profile, &query), &query).rows;
        rows.into_iter().map(|row| (row.frame.label.clone(), row.flat.value.round() as u64)).collect()
    };
    let pinned = by_name(Metric::Extra(PINNED));
    let [returned, live, blocks] =
        [Metric::Extra(RETURNED), Metric::InuseSpace, Metric::InuseObjects].map(by_name);
    let of = |map: &HashMap<String, u64>, name: &str| map.get(name).copied().unwrap_or(0);
    let mut names: Vec<&String> = pinned.keys().chain(returned.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &String| FragmentationRow {
        name: name.clone(),
        pinned: of(&pinned, name),
        returned: of(&returned, name),
        live: of(&live, name),
        blocks: of(&blocks, name),
    };
    let mut rows: Vec<FragmentationRow> =
        names.into_iter().map(row).filter(|row| row.pinned > 0 || row.returned > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.pinned, row.returned)));
    let shown = limit.unwrap_or(usize::MAX).min(rows.len());
    let dropped = rows.len() - shown;
    rows.truncate(shown);
    Fragmentation {
        heap: ledger.heap(),
        live: ledger.of(LineKind::HeapLive),
        fragmentation: ledger.of(LineKind::HeapFragmentation),
        free: ledger.of(LineKind::HeapFree),
        pages,
        rows,
        dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::HeapSite;

    #[test]
    fn sites_are_ranked_by_the_bytes_they_pin() {
        let mut stacks = Profile::default();
        let site =
            |stack, pinned, sole| HeapSite { stack, blocks: 1.0, live: 10.0, resident: 10.0, sole, pinned };
        let ledger = Ledger {
            heap_sites: vec![
                site(stacks.named_stack("dense"), 0, 4096),
                site(stacks.named_stack("sparse"), 3000, 4096),
                site(stacks.named_stack("idle"), 0, 0),
            ],
            ..Ledger::default()
        };
        let profile = profile(&ledger, stacks);
        let view = view(&ledger, HeapPages::default(), &profile, Some(1));
        let rows: Vec<_> =
            view.rows.iter().map(|row| (row.name.as_str(), row.pinned, row.returned)).collect();
        assert_eq!((rows, view.dropped), (vec![("sparse", 3000, 4096)], 1));
    }
}
