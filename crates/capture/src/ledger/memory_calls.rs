//! Calls that returned or created memory, and the memfds that are mapped.

use std::cmp::Reverse;
use std::collections::HashMap;

use heapwise_format::segment::{CallKind, Memfd, MemoryCall};
use heapwise_profile::StackId;
use heapwise_profile::ledger::{CallSite, MemfdCreation, MemfdUse};

use super::smaps::Area;
use super::span::{Owner, Span};

/// Sums by kind and stack, the most bytes first.
pub(super) fn sites(records: &[MemoryCall], mut stack: impl FnMut(u32) -> Option<StackId>) -> Vec<CallSite> {
    let site = |record: &MemoryCall| {
        Some(CallSite {
            kind: CallKind::from_word(record.kind)?,
            stack: stack(record.node),
            count: record.count,
            bytes: record.bytes,
            first_ms: record.first_ms.into(),
            last_ms: record.last_ms.into(),
        })
    };
    let mut sites: Vec<CallSite> = records.iter().filter_map(site).collect();
    sites.sort_by_key(|site| (Reverse(site.bytes), Reverse(site.count), site.kind, site.stack));
    sites
}

/// The memfds that are mapped, the most resident bytes first, and the place of each inode there.
pub(super) fn memfds(
    spans: &[Span],
    resident: &[u64],
    areas: &[Area],
    created: &[Memfd],
    mut stack: impl FnMut(u32) -> Option<StackId>,
) -> (Vec<MemfdUse>, HashMap<u64, usize>) {
    let mut uses: HashMap<u64, MemfdUse> = HashMap::new();
    for (span, resident) in spans.iter().zip(resident) {
        let area = &areas[span.area];
        let Some(name) = area.memfd().filter(|_| span.owner == Owner::Shared) else { continue };
        let memfd = uses.entry(area.inode).or_insert_with(|| MemfdUse {
            name: name.to_owned(),
            created: created
                .iter()
                .find(|memfd| memfd.inode == area.inode)
                .map(|memfd| MemfdCreation { stack: stack(memfd.node), ms: memfd.time_ms.into() }),
            mapped: 0,
            resident: 0,
        });
        memfd.mapped += span.end - span.start;
        memfd.resident += resident;
    }
    let mut uses: Vec<(u64, MemfdUse)> = uses.into_iter().collect();
    uses.sort_by(|(one_inode, one), (other_inode, other)| {
        let rank = |memfd: &MemfdUse| (Reverse(memfd.resident), Reverse(memfd.mapped));
        (rank(one), &one.name, one_inode).cmp(&(rank(other), &other.name, other_inode))
    });
    let places = uses.iter().enumerate().map(|(place, (inode, _))| (*inode, place)).collect();
    (uses.into_iter().map(|(_, memfd)| memfd).collect(), places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memfds_of_one_name_are_told_apart_by_inode() {
        let area = |start: u64, inode, path: &str| Area {
            start,
            end: start + 4096,
            inode,
            path: path.into(),
            ..Area::default()
        };
        let areas = [area(0, 7, "/memfd:pool"), area(4096, 7, "/memfd:pool"), area(8192, 8, "/memfd:pool")];
        let span = |number: usize| Span {
            start: areas[number].start,
            end: areas[number].end,
            area: number,
            owner: Owner::Shared,
            node: None,
        };
        let created = [Memfd { inode: 8, node: 3, time_ms: 12 }, Memfd { inode: 9, node: 1, time_ms: 1 }];
        let stack = |node| (node != 0).then_some(StackId(node));
        let (memfds, places) =
            memfds(&[span(0), span(1), span(2)], &[4096, 0, 4096 * 3], &areas, &created, stack);
        let creation = MemfdCreation { stack: Some(StackId(3)), ms: 12 };
        let pool =
            |created, mapped, resident| MemfdUse { name: "memfd:pool".into(), created, mapped, resident };
        assert_eq!(memfds, [pool(Some(creation), 4096, 4096 * 3), pool(None, 8192, 4096)]);
        assert_eq!((places[&8], places[&7]), (0, 1));
    }
}
