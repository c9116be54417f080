//! The table "Incomplete numbers" of docs/RELIABILITY.md against what every surface prints for
//! profiles with each gap.

use heapwise_profile::coverage::{Coverage, Gap};
use heapwise_profile::fixture::profile;
use heapwise_profile::metric::Unit;
use heapwise_profile::model::{ExtraColumn, Position, Runtime, RuntimeLanguage, RuntimeSupport};
use heapwise_profile::unattributed::Cause;
use heapwise_profile::view::{leaks, modules, sizes, threads, top, traces};
use heapwise_profile::{
    Began, CallTree, Cut, CutReason, CutShare, Inherited, Losses, Metric, Profile, ProgramEnd, Query,
    Sampling, Shortage, Shortages,
};
use heapwise_render::{Format, Language, TextOptions, coverage, export, json, text};

const PAGE: &str = include_str!("../../../docs/RELIABILITY.md");

/// Words in the table that stand for an amount, a name or a reason.
const PLACEHOLDERS: [&str; 6] = ["N", "SIZE", "TIME", "PID", "FUNCTION", "REASON"];

/// First and second cell of each row of the table under `heading`: a name and its words.
fn rows(heading: &str) -> Vec<(String, String)> {
    let (_, section) = PAGE.split_once(heading).expect("the section");
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        (cell(cells[0]), cell(cells[1]))
    };
    table.skip(2).map(row).collect()
}

/// Whether `text` contains `words`, where placeholders match anything.
fn contains(text: &str, words: &str) -> bool {
    let mut pieces = vec![String::new()];
    for word in words.split_inclusive(|c: char| !c.is_ascii_alphabetic()) {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        if PLACEHOLDERS.contains(&bare) {
            pieces.push(word[bare.len()..].to_owned());
        } else {
            pieces.last_mut().expect("never empty").push_str(word);
        }
    }
    let mut rest = text;
    pieces.iter().all(|piece| match rest.split_once(piece.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn base() -> Profile {
    let mut profile = profile("main;f;malloc 4096 2\nmain;lost 1000 3");
    profile.meta.recorded.began = Began::WithProgram;
    profile.meta.end = ProgramEnd::Exited { status: Some(0) };
    profile.meta.source = "heapwise segment".into();
    profile
}

fn with(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = base();
    change(&mut profile);
    profile
}

fn unattributed(cause: Cause) -> Profile {
    with(|profile| {
        for function in profile.functions.iter_mut().filter(|function| function.name == "lost") {
            function.name = cause.frame().to_owned();
        }
    })
}

fn lossy(losses: Losses) -> Profile {
    with(|profile| profile.meta.losses = losses)
}

/// A profile with every gap, by the gap's name in JSON.
fn profiles() -> Vec<(&'static str, Profile)> {
    let none = Losses::default();
    let share = Some(CutShare { read_bytes: 10, stated_bytes: 40 });
    let cut = Cut { at: Position::Line(7), reason: CutReason::EndsEarly, share };
    let after_ns = 35_000_000_000;
    let python = Runtime {
        language: RuntimeLanguage::Python,
        major: 3,
        minor: 99,
        support: RuntimeSupport::UnknownVersion,
    };
    vec![
        ("never_recorded", with(|profile| profile.meta.recorded.began = Began::Never)),
        ("cut", with(|profile| profile.meta.cut = Some(cut))),
        ("own_allocator", with(|profile| profile.meta.recorded.own_allocator = "je_malloc".into())),
        ("runtime", with(|profile| profile.meta.recorded.runtime = Some(python))),
        ("earlier_blocks", with(|profile| profile.meta.recorded.began = Began::Late { after_ns })),
        ("before_reset", with(|profile| profile.meta.recorded.began = Began::Reset { after_ns })),
        ("stopped", with(|profile| profile.meta.recorded.stopped_ns = Some(5_000_000_000))),
        ("paused", with(|profile| profile.meta.recorded.pauses = 2)),
        (
            "inherited",
            with(|profile| profile.meta.recorded.inherited = Some(Inherited { bytes: 5000, parent: 77 })),
        ),
        ("lost_events", lossy(Losses { dropped_events: 9, ..none })),
        ("untracked", lossy(Losses { untracked_blocks: 9, untracked_bytes: 999, ..none })),
        ("unattributed", unattributed(Cause::Stacks)),
        ("unattributed", unattributed(Cause::Sites)),
        ("unattributed", unattributed(Cause::Labels)),
        (
            "inside_probe",
            with(|profile| {
                profile.meta.sampling = Sampling::Poisson { mean_bytes: 4096 };
                profile.meta.losses.reentrant_events = 3;
            }),
        ),
        ("unhooked_blocks", lossy(Losses { unknown_frees: 4, ..none })),
        ("cut_stacks", lossy(Losses { truncated_stacks: 4, ..none })),
        ("broken_stacks", lossy(Losses { broken_stacks: 4, ..none })),
        ("threads", lossy(Losses { unrecorded_threads: 4, ..none })),
        ("modules", lossy(Losses { unrecorded_modules: 4, ..none })),
        ("marks", lossy(Losses { lost_marks: 4, ..none })),
    ]
}

/// A profile whose samples at the peak were counted below it.
fn below_peak() -> Profile {
    with(|profile| {
        profile.meta.peak_bytes = Some(1 << 30);
        let values = profile.samples.iter().map(|sample| sample.values.inuse_bytes).collect();
        profile.extra = vec![ExtraColumn { name: "peak_space".into(), unit: Unit::Bytes, values }];
    })
}

/// Every text of a profile that has room for a line.
fn surfaces(profile: &Profile) -> Vec<(String, String)> {
    let (query, options) = (Query::default(), TextOptions::default());
    let tree = CallTree::new(profile, &query);
    let top = top::top(&tree, &query);
    let leaks = leaks::leaks(&tree, leaks::LeakClass::of(profile), &query, traces::StackLimit::NONE);
    let mut all = vec![
        ("top".to_owned(), text::top::top(&top, &options)),
        ("top --json".to_owned(), json::top(&top).to_string()),
        ("leaks".to_owned(), text::leaks::leaks(&leaks, &options)),
        (
            "traces".to_owned(),
            text::traces::traces(&traces::traces(&tree, &query, traces::StackLimit::NONE), &options),
        ),
        ("sizes".to_owned(), text::sizes::sizes(&sizes::sizes(profile, &tree, &query), &options)),
        ("threads".to_owned(), text::table::threads(&threads::threads(profile, &query), &options)),
        ("modules".to_owned(), text::table::modules(&modules::modules(profile, None, &query), &options)),
    ];
    for format in [Format::HeapV2, Format::Gperftools, Format::Callgrind, Format::Heaptrack, Format::Json] {
        let mut bytes = Vec::new();
        export(profile, format, Metric::InuseSpace, &mut bytes).expect("a Vec takes everything");
        all.push((format!("export {}", format.name()), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let mut bytes = Vec::new();
    export(profile, Format::Pprof, Metric::InuseSpace, &mut bytes).expect("a Vec takes everything");
    let comments = heapwise_profile::read(&bytes).expect("our own file").meta.comments;
    all.push(("export pprof".to_owned(), comments.join("\n")));
    all
}

/// Words of a Chinese line that are neither names, units nor commands.
fn english_words(line: &str) -> Vec<&str> {
    const NAMES: [&str; 14] = [
        "heapwise", "top", "start", "fork", "seccomp", "Python", "arena", "MiB", "KiB", "GiB", "ms", "je",
        "malloc", "min",
    ];
    let words = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    words.filter(|word| !NAMES.contains(word)).collect()
}

#[test]
fn every_surface_uses_the_words_of_the_table() {
    let table = rows("### Gaps");
    let mut used = vec![false; table.len()];
    for (kind, profile) in profiles() {
        let gaps: Vec<&str> = Coverage::of(&profile).gaps.iter().map(Gap::name).collect();
        assert_eq!(gaps, [kind]);
        let line = coverage::line(&Coverage::of(&profile), Language::English);
        let rows: Vec<usize> =
            (0..table.len()).filter(|row| table[*row].0 == kind && contains(&line, &table[*row].1)).collect();
        assert_eq!(rows.len(), 1, "{kind}: `{line}` is not in the table");
        used[rows[0]] = true;
        let chinese = coverage::line(&Coverage::of(&profile), Language::Chinese);
        assert_eq!(english_words(&chinese), Vec::<&str>::new(), "{kind}: {chinese}");
        for (surface, text) in surfaces(&profile) {
            assert!(contains(&text, &table[rows[0]].1), "{surface} of {kind} lacks its words:\n{text}");
        }
    }
    let peak_row = table.iter().position(|row| row.0 == "below_peak").expect("a row");
    used[peak_row] = true;
    let below = below_peak();
    let query = Query { metric: Metric::Extra(0), ..Query::default() };
    let tree = CallTree::new(&below, &query);
    let text = text::top::top(&top::top(&tree, &query), &TextOptions::default());
    assert!(contains(&text, &table[peak_row].1), "{text}");
    assert!(json::top(&top::top(&tree, &query)).to_string().contains("below_peak"));
    assert!(Coverage::of(&below).gaps.is_empty(), "other metrics are not affected");
    let unused: Vec<_> = table.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(unused.is_empty(), "rows that no profile has: {unused:?}");
}

#[test]
fn every_reason_is_in_the_table() {
    let table = rows("### Reasons");
    let words: Vec<&str> = table.iter().map(|(_, words)| words.as_str()).collect();
    assert_eq!(words, Shortage::ALL.map(|shortage| coverage::reason(shortage, Language::English)));
    for shortage in Shortage::ALL {
        let mut lost = lossy(Losses { dropped_events: 1, ..Losses::default() });
        lost.meta.recorded.event_shortages = Shortages::default().with(shortage);
        let line = coverage::line(&Coverage::of(&lost), Language::English);
        assert!(
            line.contains(&format!("1 event lost ({})", coverage::reason(shortage, Language::English))),
            "{line}"
        );
    }
}

#[test]
fn a_zero_has_its_reason() {
    let table = rows("### Zeros");
    let empty = Profile { meta: base().meta, ..Profile::default() };
    let mut freed = base();
    for sample in &mut freed.samples {
        (sample.values.inuse_bytes, sample.values.inuse_objects) = (0.0, 0.0);
        (sample.values.alloc_bytes, sample.values.alloc_objects) = (100.0, 1.0);
    }
    let mut never = empty.clone();
    never.meta.recorded.began = Began::Never;
    let mut sampled = empty.clone();
    sampled.meta.sampling = Sampling::Poisson { mean_bytes: 524_288 };
    let lines = [never, empty, sampled, freed]
        .map(|profile| coverage::line(&Coverage::of(&profile), Language::English));
    assert_eq!(lines.len(), table.len());
    for (line, (_, words)) in lines.iter().zip(&table) {
        assert!(contains(line, words), "`{line}` lacks `{words}`");
    }
}
