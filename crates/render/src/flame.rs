//! Flame graphs: an interactive SVG for a quick look or a document, and a page with everything.

mod page;
mod svg;

pub use page::page;
pub use svg::svg;

use heapwise_profile::view::flame::{Flame, FlameBox};

use crate::colour::{self, Colour};

/// Options of the drawing besides the boxes.
#[derive(Debug, Clone, Default)]
pub struct FlameOptions {
    /// Heading, e.g. the program.
    pub title: String,
    /// Meaning of a color.
    pub colours: Colours,
    /// Draw the root at the top instead of at the bottom.
    pub root_on_top: bool,
}

/// Meaning of a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colours {
    /// By the name alone: a function has the same color everywhere.
    #[default]
    Name,
    /// The binary.
    Module,
    /// Growth and shrinkage against the base.
    Change,
}

/// Boxes below this share of the whole are less than a third of a pixel wide in an SVG.
pub const SVG_MIN_SHARE: f64 = 0.000_25;
/// A page can be zoomed into: keep what a zoom can make visible, within a few megabytes.
pub const PAGE_MIN_SHARE: f64 = 0.000_01;

/// Rank of each frame's module by its first appearance in the drawing.
fn module_ranks(flame: &Flame) -> Vec<usize> {
    let mut known: Vec<&str> = Vec::new();
    flame
        .frames
        .iter()
        .map(|frame| {
            let at = known.iter().position(|module| *module == frame.module);
            at.unwrap_or_else(|| {
                known.push(&frame.module);
                known.len() - 1
            })
        })
        .collect()
}

/// The signed change of a box as a share of the larger of its two sides.
fn change_share(item: &FlameBox) -> f64 {
    let now = item.sum.base + item.sum.value;
    let larger = now.max(item.sum.base);
    if larger <= 0.0 { 0.0 } else { (item.sum.value / larger).clamp(-1.0, 1.0) }
}

/// The colours of all boxes.
fn fills(flame: &Flame, colours: Colours) -> Vec<Colour> {
    let modules = module_ranks(flame);
    flame
        .boxes
        .iter()
        .map(|item| match colours {
            Colours::Name => colour::of_name(&flame.frames[item.frame as usize].label),
            Colours::Module => colour::of_module(modules[item.frame as usize]),
            Colours::Change => colour::of_change(change_share(item)),
        })
        .collect()
}
