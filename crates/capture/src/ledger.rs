//! Builds the [`Ledger`] of a running process: every resident byte on exactly one line.
//!
//! The kernel's mappings (`smaps`) are divided into spans with one owner each: first by name and
//! neighbours (`classify`), then by the mappings that the probe recorded, then by the live blocks
//! (`heap`). Spans that are whole mappings count with the kernel's own number; where several share
//! a mapping, `pagemap` has the resident pages of each. The kernel's numbers are read once, so the
//! lines add up exactly; what changes between the reading of `smaps` and of the pages becomes
//! unexplained, or is taken from the free part of the heap.

mod classify;
mod heap;
mod heap_pages;
mod java_heap;
mod lines;
mod memory_calls;
mod page_map;
mod process_view;
mod runtime;
mod smaps;
mod span;

use std::cmp::Reverse;
use std::collections::HashMap;

use heapwise_format::segment::{AllocatorKind, Counter};
use heapwise_profile::ledger::{HeapRange, HeapSite, Ledger, LineKind, MappingSite, MemfdUse};
use heapwise_profile::snapshot::{MappingPurpose, RecordedMapping, Snapshot};
use heapwise_profile::{Profile, StackId};

use crate::failure::Outcome;
use crate::process;
use crate::segments::{SegmentEntry, SegmentFile};
use classify::Facts;
use heap::{Blocks, HeapUse};
use lines::Lines;
use process_view::ProcessView;
use span::{Claim, Owner, Span};

/// A ledger and the stacks that it refers to.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The ledger.
    pub ledger: Ledger,
    /// Modules and stacks, without samples and symbols.
    pub stacks: Profile,
}

/// Readings tried while the memory of the process changes.
const ATTEMPTS: usize = 3;
/// A reading is repeated when the resident bytes change by more than this share, as a divisor.
const MOST_CHANGE: u64 = 50;

/// Reads the ledger of a process; `None` when it has ended or may not be read. Mappings, pages and
/// blocks are read one after the other, so a reading during which much changed is repeated; where
/// every one is, the one that explains most is taken.
pub fn read(found: &SegmentEntry) -> Outcome<Option<Reading>> {
    let unexplained = |reading: &Reading| reading.ledger.of(LineKind::Unexplained);
    let mut best: Option<Reading> = None;
    for _ in 0..ATTEMPTS {
        let Some(reading) = read_once(found)? else { break };
        let resident = reading.ledger.resident;
        // A process that ended meanwhile has no pages: the reading is torn.
        let now = process::resident_bytes(found.process.pid).filter(|resident| *resident > 0);
        let Some(now) = now else { break };
        let is_quiet = resident.abs_diff(now) <= resident / MOST_CHANGE;
        if is_quiet || best.as_ref().is_none_or(|best| unexplained(&reading) < unexplained(best)) {
            best = Some(reading);
        }
        if is_quiet {
            break;
        }
    }
    Ok(best)
}

/// As [`read`], once: mappings and blocks may be those of different moments.
pub(crate) fn read_once(found: &SegmentEntry) -> Outcome<Option<Reading>> {
    let segment = found.open()?;
    let snapshot = segment.snapshot()?;
    let file_name = found.path.file_name().unwrap_or_default().to_string_lossy();
    let earlier = snapshot.mappings();
    let view = ProcessView::read(found.process.pid);
    Ok(view.map(|view| Builder::new(&snapshot, &view, &file_name, earlier).build()))
}

/// Resident bytes and the largest number of them so far, from `/proc/PID/status`: cheap to read.
pub fn resident_and_peak(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |wanted: &str| {
        status.lines().filter_map(smaps::field).find(|(name, _)| *name == wanted).map(|(_, bytes)| bytes)
    };
    Some((value("VmRSS")?, value("VmHWM")?))
}

/// Node that mapped memory, index of the memfd there, name of the line.
type SiteKey = (Option<u32>, Option<usize>, String);

struct Builder<'a> {
    snapshot: &'a Snapshot<'a, SegmentFile>,
    view: &'a ProcessView,
    segment: &'a str,
    recorded: Vec<RecordedMapping>,
    /// The recorded mappings before the view was read: some of them may have been unmapped since.
    earlier: Vec<RecordedMapping>,
    stacks: Profile,
    nodes: Vec<Option<StackId>>,
}

impl<'a> Builder<'a> {
    fn new(
        snapshot: &'a Snapshot<'a, SegmentFile>,
        view: &'a ProcessView,
        segment: &'a str,
        earlier: Vec<RecordedMapping>,
    ) -> Self {
        let recorded = snapshot.mappings();
        let (stacks, nodes) = snapshot.stacks();
        Self { snapshot, view, segment, recorded, earlier, stacks, nodes }
    }

    fn build(mut self) -> Reading {
        let view = self.view;
        let blocks = Blocks::new(self.snapshot, view.pages.page_bytes);
        let is_attached = self.snapshot.counter(Counter::AgeAtAttach) > 0;
        let mut spans = self.spans(&blocks);
        if is_attached {
            let java: Vec<Claim> = java_heap::find(view.pid, &view.areas).into_iter().collect();
            // The end of an area may look like an arena of glibc.
            let is_open = |owner: &Owner| owner.is_guess() || *owner == Owner::Heap;
            spans = span::overlay(spans, &java, |span, claim| is_open(&span.owner).then(|| claim.clone()));
            // Later calls of libc are recorded.
            let unknown = spans.iter_mut().filter(|span| span.owner == Owner::Unknown);
            unknown.for_each(|span| span.owner = Owner::Earlier);
        }
        let residency = Residency::of(&spans, view);
        let told = (self.snapshot.counter(Counter::StatsAnswered) > 0)
            .then(|| self.snapshot.counter(Counter::StatsAllocated));
        let heap = blocks.account(&residency.heap_runs, told);
        let mut lines = Lines::default();
        self.add_spans(&spans, &residency, &mut lines);
        lines.add_heap(&heap, residency.heap_difference, is_attached);
        let created = self.snapshot.memfds();
        let (memfds, places) =
            memory_calls::memfds(&spans, &residency.bytes, &view.areas, &created, |node| self.caller(node));
        let mapping_sites = self.mapping_sites(&spans, &residency, &memfds, &places);
        let calls = memory_calls::sites(&self.snapshot.memory_calls(), |node| self.caller(node));
        let sum = |field: fn(&smaps::Area) -> u64| view.areas.iter().map(field).sum();
        let heap_sites = self.heap_sites(&heap);
        let ledger = Ledger {
            resident: sum(|area| area.resident),
            proportional: sum(|area| area.proportional),
            swapped: sum(|area| area.swapped),
            lazily_free: sum(|area| area.lazily_free),
            untouched: heap.untouched,
            basis: heap.basis,
            lines: lines.finish(),
            heap_sites,
            mapping_sites,
            calls,
            memfds,
            pages: heap.pages,
            heap_ranges: heap_ranges(&spans, &residency, &view.areas),
        };
        Reading { ledger, stacks: self.stacks }
    }

    /// The sites of live blocks, the one with most resident bytes first.
    fn heap_sites(&mut self, heap: &HeapUse) -> Vec<HeapSite> {
        let mut sites: Vec<HeapSite> = Vec::with_capacity(heap.sites.len());
        for (node, site) in &heap.sites {
            sites.push(HeapSite {
                stack: self.stack(*node),
                blocks: site.blocks,
                live: site.live,
                resident: site.resident,
                sole: site.sole,
                pinned: site.pinned as u64,
            });
        }
        sites.sort_by(|one, other| other.resident.total_cmp(&one.resident).then(one.stack.cmp(&other.stack)));
        sites
    }

    /// Divides the areas.
    fn spans(&self, blocks: &Blocks<'_>) -> Vec<Span> {
        let stack_pointers: Vec<Option<u64>> =
            self.view.threads.iter().map(|thread| thread.stack_pointer).collect();
        let is_glibc = self.snapshot.header.allocator == AllocatorKind::Glibc;
        let facts = Facts { segment: self.segment, stack_pointers: &stack_pointers, is_glibc };
        let spans = classify::classify(&self.view.areas, &facts);
        let claims = |mappings: &[RecordedMapping]| -> Vec<Claim> {
            mappings.iter().map(|mapping| self.claim(mapping)).collect()
        };
        let spans = span::overlay(spans, &claims(&self.recorded), |span, claim| {
            let is_anonymous = matches!(
                span.owner,
                Owner::Heap | Owner::Unknown | Owner::Stack | Owner::Runtime(_) | Owner::Mapping
            ) || self.view.areas[span.area].path.is_empty();
            let keeps_owner = !is_anonymous || self.view.areas[span.area].is_shared();
            let owner = if keeps_owner { None } else { claim.owner.clone() };
            Some(Claim { owner, ..claim.clone() })
        });
        let is_unknown = |span: &Span, claim: &Claim| (span.owner == Owner::Unknown).then(|| claim.clone());
        let spans = span::overlay(spans, &claims(&self.earlier), is_unknown);
        let claims = blocks.claims(&spans);
        let is_open = |span: &Span, claim: &Claim| span.owner.is_guess().then(|| claim.clone());
        let spans = span::overlay(spans, &claims, is_open);
        if !is_glibc {
            return spans;
        }
        let large = self.view.large_blocks(&spans);
        span::overlay(spans, &large, is_open)
    }

    /// What a recorded mapping claims.
    fn claim(&self, mapping: &RecordedMapping) -> Claim {
        let RecordedMapping { start, end, purpose, .. } = *mapping;
        let (owner, node) = match purpose {
            MappingPurpose::Allocator => (Owner::Heap, None),
            MappingPurpose::Program { node, is_stack: true } => (Owner::Stack, Some(node)),
            MappingPurpose::Program { node, .. } => {
                let runtime = self.binary_of(node).and_then(|path| runtime::of_binary(path, end - start));
                (runtime.map_or(Owner::Mapping, |title| Owner::Runtime(title.into())), Some(node))
            }
        };
        Claim { start, end, owner: Some(owner), node }
    }

    /// Path of the binary whose code is the innermost frame of a stack.
    fn binary_of(&self, node: u32) -> Option<&str> {
        let stack = (*self.nodes.get(node as usize)?)?;
        let location = &self.stacks.locations[self.stacks.stacks.location(stack).index()];
        Some(&self.stacks.modules[location.module?.index()].path)
    }

    /// Adds all spans but the heap's.
    fn add_spans(&self, spans: &[Span], residency: &Residency, lines: &mut Lines) {
        let mut binary = "";
        for (span, bytes) in spans.iter().zip(&residency.bytes) {
            let area = &self.view.areas[span.area];
            let path = area.path.as_str();
            if span.owner == Owner::Binary && !path.is_empty() {
                binary = path;
            }
            let part = match span.owner {
                Owner::Heap => continue,
                Owner::Binary if path.is_empty() => binary,
                Owner::Stack => self.view.thread_in(area.start, area.end).unwrap_or("unnamed thread"),
                Owner::Shared if path.is_empty() => "anonymous",
                Owner::Binary | Owner::File | Owner::Shared | Owner::Kernel => path,
                _ => "",
            };
            lines.add(&span.owner, *bytes, part);
        }
        lines.add(&Owner::Unknown, residency.unexplained, "");
    }

    /// Recorded mappings by stack.
    fn mapping_sites(
        &mut self,
        spans: &[Span],
        residency: &Residency,
        memfds: &[MemfdUse],
        places: &HashMap<u64, usize>,
    ) -> Vec<MappingSite> {
        let mut sums: HashMap<SiteKey, (u64, u64)> = HashMap::new();
        for (span, bytes) in spans.iter().zip(&residency.bytes) {
            let is_shared = span.owner == Owner::Shared;
            let inode = self.view.areas[span.area].inode;
            let memfd = places.get(&inode).copied().filter(|_| is_shared);
            if span.node.is_some() || memfd.is_some() {
                let line = lines::line_of(&span.owner).1.to_owned();
                let sum = sums.entry((span.node, memfd, line)).or_default();
                sum.0 += span.end - span.start;
                sum.1 += bytes;
            }
        }
        let mut calls: HashMap<u32, (u64, u32)> = HashMap::new();
        for mapping in &self.recorded {
            if let MappingPurpose::Program { node, .. } = mapping.purpose {
                let (count, last_ms) = calls.entry(node).or_default();
                *count += u64::from(mapping.count);
                *last_ms = mapping.time_ms.max(*last_ms);
            }
        }
        let mut sites: Vec<MappingSite> = Vec::with_capacity(sums.len());
        for ((node, memfd, line), (mapped, resident)) in sums {
            let creator = memfd.and_then(|memfd| memfds[memfd].created?.stack);
            let Some(stack) = node.map(|node| self.stack(node)).or(creator) else { continue };
            let (count, last_ms) = node.and_then(|node| calls.get(&node).copied()).unwrap_or_default();
            sites.push(MappingSite { stack, memfd, line, count, last_ms, mapped, resident });
        }
        sites.sort_by_key(|site| (Reverse(site.resident), Reverse(site.mapped), site.stack, site.memfd));
        sites
    }

    /// The stack of a call; `None` for the allocator.
    fn caller(&mut self, node: u32) -> Option<StackId> {
        (node != 0).then(|| self.stack(node))
    }

    /// The stack of a node; `[unknown]` for one that is damaged.
    fn stack(&mut self, node: u32) -> StackId {
        let known = self.nodes.get(node as usize).copied().flatten();
        known.unwrap_or_else(|| self.stacks.named_stack("[unknown]"))
    }
}

fn heap_ranges(spans: &[Span], residency: &Residency, areas: &[smaps::Area]) -> Vec<HeapRange> {
    let heap = spans.iter().zip(&residency.bytes).filter(|(span, _)| span.owner == Owner::Heap);
    heap.map(|(span, resident)| HeapRange {
        start: span.start,
        mapped: span.end - span.start,
        resident: *resident,
        is_brk: areas[span.area].path == "[heap]",
    })
    .collect()
}

/// Resident bytes of each span.
struct Residency {
    bytes: Vec<u64>,
    /// Resident pages of the heap.
    heap_runs: page_map::Runs,
    /// The kernel's count of resident bytes minus the pages found, in areas with a heap.
    heap_difference: i64,
    /// The kernel's count minus the pages found in the other areas, where positive.
    unexplained: u64,
}

impl Residency {
    fn of(spans: &[Span], view: &ProcessView) -> Self {
        let mut all = Self {
            bytes: Vec::with_capacity(spans.len()),
            heap_runs: Vec::new(),
            heap_difference: 0,
            unexplained: 0,
        };
        for spans in spans.chunk_by(|one, other| one.area == other.area) {
            all.add_area(&view.areas[spans[0].area], spans, view);
        }
        all
    }

    fn add_area(&mut self, area: &smaps::Area, spans: &[Span], view: &ProcessView) {
        if let [span] = spans
            && span.owner != Owner::Heap
        {
            return self.bytes.push(area.resident);
        }
        let runs = view.pages.resident(area);
        let mut bytes: Vec<u64> = Vec::with_capacity(spans.len());
        for span in spans {
            let inside = page_map::clip(&runs, span.start, span.end);
            bytes.push(page_map::bytes(&inside));
            if span.owner == Owner::Heap {
                self.heap_runs.extend(inside);
            }
        }
        let mut difference = area.resident as i64 - bytes.iter().sum::<u64>() as i64;
        if spans.iter().any(|span| span.owner == Owner::Heap) {
            self.heap_difference += difference;
        } else {
            for bytes in &mut bytes {
                let taken = (*bytes).min(difference.min(0).unsigned_abs());
                *bytes -= taken;
                difference += taken as i64;
            }
            self.unexplained += difference.max(0) as u64;
        }
        self.bytes.append(&mut bytes);
    }
}
