//! The flame graph as a self-contained page: data, style and script in one file, no network.

use heapwise_profile::view::flame::Flame;
use serde_json::{Map, Value};

use super::{DRAWING, bundled, columns};
use crate::amount::{label, metric_words};
use crate::svg::escape;
use crate::{Language, Text};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The scripts of the page, each after the ones that it imports. The server's page has all but the
/// last two.
const SCRIPTS: [&str; 9] = [
    include_str!("script/amounts.js"),
    DRAWING,
    include_str!("script/model.js"),
    include_str!("script/move.js"),
    include_str!("script/search.js"),
    include_str!("script/paint.js"),
    include_str!("script/canvas.js"),
    include_str!("script/merged_calls.js"),
    include_str!("script/page.js"),
];

/// The page. `top_down` has callers at the root, `bottom_up` allocating frames; the user switches
/// between them.
#[must_use]
pub fn page(top_down: &Flame, bottom_up: &Flame, title: &str, language: Language) -> String {
    let totals = &top_down.totals;
    let note = format!(
        "{}: {}{}",
        metric_words(&totals.metric),
        label(totals.total.value, totals.unit),
        match top_down.dropped {
            0 => String::new(),
            dropped => format!(" · {}", Text::FlameTooSmall.counted(language, dropped as u64)),
        },
    );
    // In the order of the page: each marker is replaced in what follows the one before, so that
    // nothing in the data can be taken for a marker.
    let data = format!("[{},{}]", columns(top_down), columns(bottom_up)).replace('<', "\\u003c");
    let script: String = SCRIPTS.map(bundled).concat();
    let mut out = String::with_capacity(data.len() + PAGE.len() + STYLE.len() + script.len());
    let mut rest = PAGE;
    let word = |text: Text| escape(text.text(language));
    for (marker, text) in [
        ("{{language}}", language.tag().to_owned()),
        ("{{title}}", escape(title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{heading}}", escape(title)),
        ("{{note}}", escape(&note)),
        ("{{direction}}", word(Text::FlameDirection)),
        ("{{down_about}}", word(Text::FlameDownAbout)),
        ("{{down}}", word(Text::FlameDown)),
        ("{{up_about}}", word(Text::FlameUpAbout)),
        ("{{up}}", word(Text::FlameUp)),
        ("{{search}}", word(Text::FlameSearch)),
        ("{{zoom}}", word(Text::FlameZoom)),
        ("{{keys}}", word(Text::FlameKeys)),
        ("{{words}}", words(language)),
        ("{{data}}", data),
        ("{{script}}", script),
    ] {
        if let Some((before, after)) = rest.split_once(marker) {
            out += before;
            out += &text;
            rest = after;
        }
    }
    out + rest
}

/// Words of the script by their English text.
fn words(language: Language) -> String {
    let texts = [
        Text::FlameAll,
        Text::FlameEveryCall,
        Text::FlameSystem,
        Text::FlameShrank,
        Text::FlameSame,
        Text::FlameGrew,
        Text::FlamePythonLibraries,
        Text::FlameScripts,
    ];
    let pairs = texts.map(|text| (text.pair().0.to_owned(), text.text(language).into()));
    Value::Object(Map::from_iter(pairs)).to_string()
}

#[cfg(test)]
mod tests {
    use heapwise_profile::fixture::profile;
    use heapwise_profile::view::flame::{Detail, Shape, flame};
    use heapwise_profile::{CallTree, Query, query::NameStyle};

    use super::*;

    #[test]
    fn nothing_in_a_name_can_leave_the_data() {
        let query = Query { names: NameStyle::Full, ..Query::default() };
        let mut program = profile("main;f 3 1");
        program.functions[1].name = "</script>{{script}}".to_owned();
        let tree = CallTree::new(&program, &query);
        let [down, up] = [Shape::TopDown, Shape::BottomUp].map(|shape| flame(&tree, &shape, Detail::ALL));
        let page = page(&down, &up, "app", Language::English);
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains("\\u003c/script>{{script}}"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn every_marker_has_a_text_in_both_languages() {
        let tree = CallTree::new(&profile("main;f 3 1"), &Query::default());
        let [down, up] = [Shape::TopDown, Shape::BottomUp].map(|shape| flame(&tree, &shape, Detail::ALL));
        let markers: Vec<&str> =
            PAGE.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0)).collect();
        assert!(markers.len() > 10, "{markers:?}");
        for language in [Language::English, Language::Chinese] {
            let page = page(&down, &up, "app", language);
            let left = markers.iter().find(|marker| page.contains(&format!("{{{{{marker}}}}}")));
            assert_eq!(left, None, "{language:?}");
        }
        let chinese = page(&down, &up, "app", Language::Chinese);
        let (head, _) = chinese.split_once("<script").expect("the page has scripts");
        let (_, body) = head.split_once("<body>").expect("the page has a body");
        for english in [Text::FlameDown, Text::FlameUp, Text::FlameSearch, Text::FlameDirection] {
            assert!(!body.contains(english.pair().0), "{english:?}");
        }
    }
}
