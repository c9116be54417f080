//! The text in a box of a flame graph; `script/drawing.js` has the same rule for scripts.

use std::borrow::Cow;

use crate::font;

/// As much of a name as fits: all with the amount, all, the part after the last `::`, the beginning
/// of that; nothing where fewer than three letters would be left.
pub(crate) fn fit(name: &str, amount: &str, room: f64, size: f64) -> String {
    let width = |text: &str| font::width(text, size);
    let name = &*without_folder(name);
    let last = name.rsplit("::").next().unwrap_or(name);
    let whole = format!("{name} · {amount}");
    if room < 3.0 * size * 0.6 {
        return String::new();
    }
    if let Some(fits) = [whole.as_str(), name, last].into_iter().find(|text| width(text) <= room) {
        return fits.to_owned();
    }
    let room = room - width("…");
    let mut used = 0.0;
    let head: String = last
        .chars()
        .take_while(|c| {
            used += width(c.encode_utf8(&mut [0; 4]));
            used <= room
        })
        .collect();
    if head.chars().count() < 3 { String::new() } else { head + "…" }
}

/// `load job.py:4` of `load /home/me/job.py:4`: the folder is in the tooltip.
fn without_folder(name: &str) -> Cow<'_, str> {
    match name.rsplit_once(' ') {
        Some((function, place)) if place.starts_with('/') => {
            let file = place.rsplit('/').next().unwrap_or_default();
            Cow::Owned(format!("{function} {file}"))
        }
        _ => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `tests/browser/drawing.test.js`, with letters of one width there.
    #[test]
    fn labels_are_cut_to_their_box() {
        let fit = |name, room| fit(name, "6.61 MiB", room, 11.0);
        assert_eq!(fit("main", 100.0), "main · 6.61 MiB");
        assert_eq!(fit("main", 60.0), "main");
        assert_eq!(fit("main", 10.0), "");
        assert_eq!(fit("std::vector::push_back", 80.0), "push_back");
        assert_eq!(fit("load /home/me/job.py:4", 200.0), "load job.py:4 · 6.61 MiB");
        let cut = fit("a_rather_long_function_name", 80.0);
        assert!(cut.ends_with('…') && font::width(&cut, 11.0) <= 80.0, "{cut}");
    }
}
