//! Messages in the language of the locale; machine formats have one language.

use std::process::Output;

use crate::harness::Scratch;

fn run(scratch: &Scratch, locale: &str, arguments: &[&str]) -> Output {
    let mut command = scratch.heapwise(arguments);
    command.env("LC_ALL", locale).output().expect("heapwise runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn closing_lines_findings_and_help_follow_the_locale() {
    let scratch = Scratch::new();
    let leaky = crate::harness::victims().join("leaky");
    let leaky = leaky.to_str().expect("UTF-8");
    let said = |locale: &str, name: &str| {
        let output = run(&scratch, locale, &["run", "-o", name, "--", leaky, "200"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (english, chinese) = (said("C", "a.hwp"), said("zh_CN.UTF-8", "b.hwp"));
    assert!(english.contains("  still live   ") && english.contains("never freed: "), "{english}");
    assert!(chinese.contains("  \u{4ecd}\u{5b58}\u{6d3b}       "), "{chinese}");
    assert!(chinese.contains("\u{4ece}\u{672a}\u{91ca}\u{653e}: "), "{chinese}");
    let summary =
        |locale: &str, more: &[&str]| stdout(&run(&scratch, locale, &[&["summary", "a.hwp"], more].concat()));
    assert!(summary("zh_CN.UTF-8", &[]).contains("\u{8986}\u{76d6}\u{8303}\u{56f4}: "));
    assert!(summary("C", &[]).contains("Covers: "));
    assert_eq!(summary("zh_CN.UTF-8", &["--json"]), summary("C", &["--json"]));
    let help = stdout(&run(&scratch, "zh_CN.UTF-8", &["--help"]));
    assert!(help.contains("\u{91c7}\u{96c6}:\n  run ") && help.contains("\u{9009}\u{9879}:\n"), "{help}");
    let options = stdout(&run(&scratch, "zh_CN.UTF-8", &["top", "--help"]));
    assert!(options.contains("\u{7b5b}\u{9009}\u{9009}\u{9879}:"), "{options}");
    assert!(options.contains("\u{7528}\u{6cd5}: heapwise top"), "{options}");
    // An option, a line of coverage, an error.
    assert!(options.contains("\u{6253}\u{5370} JSON"), "{options}");
    let top = stdout(&run(&scratch, "zh_CN.UTF-8", &["top", "a.hwp"]));
    assert!(top.contains("\u{8986}\u{76d6}\u{8303}\u{56f4}: \u{6bcf}\u{4e2a}\u{5757}"), "{top}");
    let missing = run(&scratch, "zh_CN.UTF-8", &["top", "no-such-file"]);
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(text.contains("no-such-file: \u{6ca1}\u{6709}\u{6b64}\u{6587}\u{4ef6}"), "{text}");
    assert_eq!(missing.status.code(), Some(2));
}
