//! Findings of a recording as text and JSON, with the names of their stacks.

use heapwise_profile::recording::analysis::{Finding, Place, PlaceUnit};
use heapwise_profile::{Profile, StackId, name, quantity};
use serde_json::{Value, json};

/// Frames shown of each stack, innermost first.
const FRAMES: usize = 4;

/// Stacks of the places in findings, with names.
#[derive(Debug)]
pub struct Names {
    profile: Profile,
    stacks: Vec<Option<StackId>>,
}

impl Names {
    /// Names from `profile`, which has symbols; `stacks` maps nodes of the recording to its stacks.
    #[must_use]
    pub fn new(profile: Profile, stacks: Vec<Option<StackId>>) -> Self {
        Self { profile, stacks }
    }

    /// `malloc ← parse ← main`, leaf first.
    #[must_use]
    pub fn of(&self, place: &Place) -> String {
        let Some(stack) = place.stack(&self.stacks) else { return "[unknown]".into() };
        let frames = self.profile.stacks.leaf_to_root(stack).take(FRAMES);
        let names: Vec<String> = frames.map(|node| self.frame(node)).collect();
        names.join(" ← ")
    }

    fn frame(&self, node: StackId) -> String {
        let location = &self.profile.locations[self.profile.stacks.location(node).index()];
        let line = location.lines.first();
        match line.and_then(|line| self.profile.functions.get(line.function.index())) {
            Some(function) => name::short(&function.name),
            None => match location.module.and_then(|module| self.profile.modules.get(module.index())) {
                Some(module) => format!("{}+0x{:x}", module.name(), module.file_offset_of(location.address)),
                None => format!("0x{:x}", location.address),
            },
        }
    }

    /// The findings as text; `file` is inserted into the next commands.
    #[must_use]
    pub fn text(&self, findings: &[Finding], file: &str) -> String {
        let mut out = String::new();
        for finding in findings {
            out += &format!("\n{}: {}\n", finding.name, finding.headline);
            for place in &finding.places {
                out += &format!("  {:>12}  {}\n", amount(place), self.of(place));
            }
            for line in &finding.lines {
                out += &format!("  {line}\n");
            }
            out += &format!("  → {}\n", finding.next.replace("FILE", file));
        }
        out
    }

    /// The findings as JSON.
    #[must_use]
    pub fn data(&self, findings: &[Finding]) -> Value {
        let place = |place: &Place| json!({ "value": place.value, "stack": self.of(place) });
        findings
            .iter()
            .map(|finding| {
                json!({
                    "name": finding.name,
                    "headline": finding.headline,
                    "places": finding.places.iter().map(place).collect::<Vec<_>>(),
                    "lines": finding.lines,
                    "next": finding.next,
                })
            })
            .collect()
    }
}

fn amount(place: &Place) -> String {
    match place.unit {
        PlaceUnit::Bytes => quantity::bytes(place.value as f64),
        PlaceUnit::Blocks => format!("{} blocks", place.value),
    }
}
