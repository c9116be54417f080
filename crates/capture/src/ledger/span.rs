//! Spans: ranges of addresses with one owner each.

/// Owner of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// The allocator whose blocks are recorded.
    Heap,
    /// A language runtime, or an allocator inside the executable: the title of its line.
    Runtime(String),
    /// The program: a mapping with a known stack.
    Mapping,
    /// The program, before the probe was attached.
    Earlier,
    /// A thread.
    Stack,
    /// An executable or library.
    Binary,
    /// A mapped file.
    File,
    /// Shared memory.
    Shared,
    /// The kernel.
    Kernel,
    /// The probe.
    Probe,
    /// Unknown.
    Unknown,
}

impl Owner {
    /// Whether a block at such an address is better evidence: these owners are also given to small
    /// areas for their neighbours.
    pub(super) fn is_guess(&self) -> bool {
        matches!(self, Owner::Unknown | Owner::Binary | Owner::Stack | Owner::Probe)
    }
}

/// A range of addresses inside one area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of the area.
    pub(super) area: usize,
    pub(super) owner: Owner,
    /// Node of the stack that mapped it.
    pub(super) node: Option<u32>,
}

/// A range of addresses that belongs to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `None`: the owner of the span stays.
    pub(super) owner: Option<Owner>,
    pub(super) node: Option<u32>,
}

/// Splits spans at the borders of claims and gives the claimed parts to their claimants. Both lists
/// are sorted and free of overlaps. Spans for which `decide` returns `None` stay as they are.
pub(super) fn overlay(
    spans: Vec<Span>,
    claims: &[Claim],
    decide: impl Fn(&Span, &Claim) -> Option<Claim>,
) -> Vec<Span> {
    let mut out = Vec::with_capacity(spans.len());
    for span in spans {
        let first = claims.partition_point(|claim| claim.end <= span.start);
        let mut at = span.start;
        for claim in claims[first..].iter().take_while(|claim| claim.start < span.end) {
            let Some(decided) = decide(&span, claim) else { continue };
            let (start, end) = (claim.start.max(at), claim.end.min(span.end));
            if start >= end {
                continue;
            }
            if at < start {
                out.push(Span { start: at, end: start, ..span.clone() });
            }
            let owner = decided.owner.unwrap_or_else(|| span.owner.clone());
            out.push(Span { start, end, area: span.area, owner, node: decided.node });
            at = end;
        }
        if at < span.end {
            out.push(Span { start: at, ..span });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_split_spans() {
        let span = |start, end, owner| Span { start, end, area: 0, owner, node: None };
        let claim = |start, end| Claim { start, end, owner: Some(Owner::Heap), node: None };
        let spans =
            vec![span(0, 10, Owner::Unknown), span(20, 30, Owner::File), span(40, 50, Owner::Unknown)];
        let decide = |span: &Span, claim: &Claim| (span.owner == Owner::Unknown).then(|| claim.clone());
        let split = overlay(spans, &[claim(5, 25), claim(42, 44), claim(48, 60)], decide);
        assert_eq!(
            split,
            [
                span(0, 5, Owner::Unknown),
                span(5, 10, Owner::Heap),
                span(20, 30, Owner::File),
                span(40, 42, Owner::Unknown),
                span(42, 44, Owner::Heap),
                span(44, 48, Owner::Unknown),
                span(48, 50, Owner::Heap),
            ]
        );
    }
}
