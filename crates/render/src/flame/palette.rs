//! Colors of flame graphs. A module has a hue and a function a slight shade of it, so that
//! neighbors can be distinguished; libraries of the system share one hue. A comparison is colored
//! by change: blue shrank, orange grew.

use heapwise_profile::view::flame::{Flame, FlameBox};
use heapwise_profile::{Frame, script};

use crate::color::{Color, hsl};

/// Hues of modules in the order of their first box, which is that of their weight.
const HUES: [f64; 10] = [28.0, 44.0, 336.0, 150.0, 268.0, 8.0, 84.0, 300.0, 180.0, 60.0];
const SYSTEM_HUE: f64 = 212.0;
const SYSTEM_LIBRARIES: [&str; 8] =
    ["ld-", "libc.", "libc-", "libm.", "libpthread", "libstdc++", "libgcc_s", "[vdso]"];
const SHADES: usize = 5;
/// Steps of change to either side of "unchanged".
const CHANGE_STEPS: usize = 20;
/// Modules that the legend names.
const LEGEND_ENTRIES: usize = 8;

/// The colors of one flame graph.
pub(crate) struct Palette {
    /// Colors on a light and on a dark ground.
    pub(crate) light: Vec<Color>,
    pub(crate) dark: Vec<Color>,
    /// Color of each frame, as an index; empty in a comparison, where boxes have colors.
    pub(crate) frames: Vec<usize>,
    /// Meaning of colors: label and index.
    pub(crate) legend: Vec<(String, usize)>,
}

impl Palette {
    pub(crate) fn new(flame: &Flame) -> Self {
        if flame.totals.compared { Self::of_change() } else { Self::of_modules(&flame.frames) }
    }

    /// Index of the color of a box.
    pub(crate) fn index(&self, item: &FlameBox) -> usize {
        match self.frames.get(item.frame as usize) {
            Some(index) => *index,
            None => ((1.0 + change_share(item)) * CHANGE_STEPS as f64).round() as usize,
        }
    }

    fn of_modules(frames: &[impl AsRef<Frame>]) -> Self {
        let mut hues = ModuleHues::default();
        let indices = frames.iter().map(|frame| {
            let frame = frame.as_ref();
            hues.slot(module_of(frame)) * SHADES + hash(&frame.label) as usize % SHADES
        });
        let indices = indices.collect();
        let legend = hues.legend().map(|(label, slot)| (label, slot * SHADES + SHADES / 2)).collect();
        let slots = || (0..HUES.len() + 2).flat_map(|slot| (0..SHADES).map(move |shade| (slot, shade)));
        Self {
            light: slots().map(|(slot, shade)| module_color(slot, shade, 56.0, 77.0, 2.2)).collect(),
            dark: slots().map(|(slot, shade)| module_color(slot, shade, 32.0, 33.0, 2.0)).collect(),
            frames: indices,
            legend,
        }
    }

    fn of_change() -> Self {
        let shares = || (0..=2 * CHANGE_STEPS).map(|at| at as f64 / CHANGE_STEPS as f64 - 1.0);
        let entry = |label: &str, index| (label.to_owned(), index);
        Self {
            light: shares().map(|share| change_color(share, 90.0, -28.0)).collect(),
            dark: shares().map(|share| change_color(share, 24.0, 26.0)).collect(),
            frames: Vec::new(),
            legend: vec![
                entry("shrank", CHANGE_STEPS / 2),
                entry("same", CHANGE_STEPS),
                entry("grew", CHANGE_STEPS * 3 / 2),
            ],
        }
    }
}

/// The module of a frame; of a line of a script, which has none, its language.
fn module_of(frame: &Frame) -> &str {
    if !frame.module.is_empty() || frame.file.is_empty() {
        return &frame.module;
    }
    let is_python = frame.file.ends_with(".py") || frame.file.starts_with('<');
    match (is_python, script::is_library(&frame.file)) {
        (true, false) => "Python",
        (true, true) => "Python libraries",
        (false, _) => "scripts",
    }
}

/// The slot of each module: 0 without one, 1 for libraries of the system, then one per hue.
#[derive(Default)]
struct ModuleHues<'a> {
    modules: Vec<&'a str>,
    has_system: bool,
}

impl<'a> ModuleHues<'a> {
    fn slot(&mut self, module: &'a str) -> usize {
        if module.is_empty() {
            return 0;
        }
        if SYSTEM_LIBRARIES.iter().any(|prefix| module.starts_with(prefix)) {
            self.has_system = true;
            return 1;
        }
        let at = self.modules.iter().position(|known| *known == module).unwrap_or_else(|| {
            self.modules.push(module);
            self.modules.len() - 1
        });
        2 + at % HUES.len()
    }

    fn legend(&self) -> impl Iterator<Item = (String, usize)> {
        let named = self.modules.iter().take(LEGEND_ENTRIES.min(HUES.len())).enumerate();
        let named = named.map(|(at, module)| ((*module).to_owned(), 2 + at));
        named.chain(self.has_system.then(|| ("system libraries".to_owned(), 1)))
    }
}

fn module_color(slot: usize, shade: usize, saturation: f64, lightness: f64, step: f64) -> Color {
    let lightness = lightness + shade as f64 * step;
    match slot {
        0 => hsl(210.0, 6.0, lightness),
        1 => hsl(SYSTEM_HUE, saturation, lightness),
        slot => hsl(HUES[slot - 2], saturation, lightness),
    }
}

fn change_color(share: f64, lightness: f64, step: f64) -> Color {
    if share == 0.0 {
        return hsl(40.0, 6.0, lightness);
    }
    let strength = 0.25 + 0.75 * share.abs();
    let hue = if share > 0.0 { 28.0 } else { 212.0 };
    hsl(hue, 20.0 + 65.0 * strength, lightness + step * strength)
}

/// The signed change of a box as a share of the larger of its two sides.
fn change_share(item: &FlameBox) -> f64 {
    let now = item.sum.base + item.sum.value;
    let larger = now.max(item.sum.base);
    if larger <= 0.0 { 0.0 } else { (item.sum.value / larger).clamp(-1.0, 1.0) }
}

/// FNV-1a. Any hash does, but pictures must not change between runs.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Detail, Shape, flame};
    use heapwise_profile::{CallTree, Query};

    use super::*;

    #[test]
    fn modules_have_hues_in_the_order_of_their_weight() {
        let frame = |module: &str| Frame { module: module.to_owned(), ..Frame::default() };
        let frames =
            ["app", "libc.so.6", "libz.so.1", "", "app"].map(|module| std::sync::Arc::new(frame(module)));
        let palette = Palette::of_modules(&frames);
        let slots: Vec<usize> = palette.frames.iter().map(|index| index / SHADES).collect();
        assert_eq!(slots, [2, 1, 3, 0, 2]);
        let labels: Vec<&str> = palette.legend.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["app", "libz.so.1", "system libraries"]);
        assert!(palette.frames.iter().all(|index| *index < palette.light.len()));
        assert_eq!(palette.light.len(), palette.dark.len());
    }

    #[test]
    fn lines_of_a_script_have_the_color_of_their_language() {
        let frame = |file: &str| std::sync::Arc::new(Frame { file: file.to_owned(), ..Frame::default() });
        let files = ["/app/x.py", "/usr/lib/python3.12/json/decoder.py", "/app/y.lua", ""];
        let palette = Palette::of_modules(&files.map(frame));
        let labels: Vec<&str> = palette.legend.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["Python", "Python libraries", "scripts"]);
        assert_eq!(palette.frames[3] / SHADES, 0);
    }

    #[test]
    fn a_comparison_is_colored_by_change() {
        let query = Query::default();
        let [now, before] = ["same 10 1\ngrew 10 1", "same 10 1\ngone 10 1"].map(profile);
        let tree = CallTree::compare(&now, Some(&before), &query);
        let flame = flame(&tree, &Shape::TopDown, Detail::ALL);
        let palette = Palette::new(&flame);
        for item in &flame.boxes {
            let expected = match flame.frames[item.frame as usize].label.as_str() {
                "same" => CHANGE_STEPS,
                "grew" => 2 * CHANGE_STEPS,
                _ => 0,
            };
            assert_eq!(palette.index(item), expected);
        }
    }
}
