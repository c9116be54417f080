//! The help of the command line: commands in groups, options under headings, both languages.

use std::fmt::Write as _;

use heapwise_render::{Language, Text, messages};

use crate::console;

/// The groups of `heapwise --help`; every command is in one of them.
const GROUPS: [(Text, &[&str]); 5] = [
    (
        Text::HelpCapture,
        &["run", "attach", "detach", "collect", "record", "agent", "dump", "mark", "preload"],
    ),
    (Text::HelpControl, &["ps", "start", "stop", "reset", "set", "stats", "doctor"]),
    (
        Text::HelpReports,
        &[
            "top",
            "tree",
            "peek",
            "list",
            "leaks",
            "fragmentation",
            "sizes",
            "modules",
            "threads",
            "traces",
            "diff",
            "summary",
            "live",
        ],
    ),
    (Text::HelpRecordings, &["timeline", "at"]),
    (Text::HelpPictures, &["flame", "graph", "serve", "export", "symbolize", "check"]),
];

/// The command line with groups of commands, in the language of the console.
pub(super) fn complete(command: clap::Command) -> clap::Command {
    let groups = grouped(&command);
    let command = command.before_help(groups).mut_subcommands(with_arguments_apart);
    match console::language() {
        Language::English => command,
        language => in_language(command, language),
    }
}

/// A subcommand whose positional arguments are not below the heading of the options that its
/// declaration has before them.
fn with_arguments_apart(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| match argument.is_positional() {
        true => argument.help_heading(None::<&str>),
        false => argument,
    })
}

/// The headings of options, in the order in which help shows them.
const HEADINGS: [Text; 6] = [
    Text::HelpMetricOptions,
    Text::HelpFilterOptions,
    Text::HelpOutputOptions,
    Text::HelpSymbolOptions,
    Text::HelpCaptureOptions,
    Text::HelpServerOptions,
];

/// The command line with its texts in a language.
fn in_language(mut command: clap::Command, language: Language) -> clap::Command {
    command.build();
    let heading = |text: Text| text.text(language);
    let template = format!(
        "{{about-with-newline}}\n{}: {{usage}}\n\n{{before-help}}{}:\n{{options}}{{after-help}}",
        heading(Text::HelpUsage),
        heading(Text::HelpOptions)
    );
    let command = command.about(heading(Text::HelpAbout)).help_template(template);
    let command = command.mut_args(|argument| argument_in(argument, language));
    command.mut_subcommands(move |subcommand| subcommand_in(subcommand, language))
}

/// A subcommand with its texts in a language.
fn subcommand_in(command: clap::Command, language: Language) -> clap::Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = examples.replacen(Text::HelpExamples.pair().0, Text::HelpExamples.text(language), 1);
    let usage = Text::HelpUsage.text(language);
    let template = format!("{{about-with-newline}}\n{usage}: {{usage}}\n\n{{all-args}}{{after-help}}");
    let command = command.about(translated(&about, language)).after_help(examples).help_template(template);
    command.mut_args(|argument| argument_in(argument, language))
}

/// An argument with its help and heading in a language.
fn argument_in(argument: clap::Arg, language: Language) -> clap::Arg {
    let heading = argument.get_help_heading().unwrap_or_default();
    let heading = match HEADINGS.iter().find(|known| known.pair().0 == heading) {
        Some(known) => *known,
        None if argument.is_positional() => Text::HelpArguments,
        None => Text::HelpOptions,
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    argument.help(translated(&help, language)).help_heading(heading.text(language))
}

/// A help text in a language.
fn translated(english: &str, language: Language) -> String {
    messages::help(english, language).unwrap_or(english).to_owned()
}

/// The commands by group, with what they do.
fn grouped(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{}:", title.text(console::language()));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<13} {}", translated(&about, console::language()));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// The command line in English, whatever the language of the tests' environment.
    fn command() -> clap::Command {
        let mut command = Cli::command().mut_subcommands(with_arguments_apart);
        command.build();
        command
    }

    #[test]
    fn every_command_is_in_a_group_and_has_examples() {
        let command = command();
        for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
            let name = subcommand.get_name();
            assert_eq!(
                GROUPS.iter().flat_map(|(_, names)| *names).filter(|known| **known == name).count(),
                1,
                "{name}"
            );
            let examples = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n  ") && examples.contains("heapwise "), "{name}");
        }
    }

    /// Every text of the command line is in the table, and the table has no other.
    #[test]
    fn every_help_text_has_a_chinese_one() {
        let command = command();
        let mut used: Vec<String> = Vec::new();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
            used.extend(arguments.filter_map(|argument| argument.get_help()).map(ToString::to_string));
            let is_of_clap = ["help", "heapwise"].contains(&command.get_name());
            used.extend(command.get_about().filter(|_| !is_of_clap).map(ToString::to_string));
        }
        let missing: Vec<&String> =
            used.iter().filter(|text| messages::help(text, Language::Chinese).is_none()).collect();
        assert!(missing.is_empty(), "crates/render/src/messages/help.rs has no Chinese for {missing:#?}");
        let unused: Vec<&str> =
            messages::help_texts().filter(|text| !used.iter().any(|known| known == text)).collect();
        assert!(unused.is_empty(), "no command has {unused:#?}");
        for text in messages::help_texts() {
            let chinese = messages::help(text, Language::Chinese).unwrap_or_default();
            assert!(!chinese.is_ascii(), "{text}: {chinese}");
        }
    }

    /// A help text says what an option does: it starts with a capital verb and has no full stop at
    /// its end.
    #[test]
    fn help_texts_are_short_sentences() {
        let command = command();
        for subcommand in command.get_subcommands() {
            for argument in subcommand.get_arguments().filter(|argument| !argument.is_positional()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let place = format!("{} --{}", subcommand.get_name(), argument.get_id());
                assert!(help.starts_with(|c: char| c.is_ascii_uppercase()), "{place}: {help}");
                assert!(!help.ends_with('.'), "{place}: {help}");
            }
        }
    }
    /// Options are below headings, but for a few of a command that has no others; arguments are
    /// apart.
    #[test]
    fn options_are_grouped() {
        const MOST_UNGROUPED: usize = 4;
        // The same in every command that has groups.
        const SHARED: [&str; 7] = ["base", "force", "json", "output", "rate", "rows", "seconds"];
        let mut by_id: HashMap<String, Option<String>> = HashMap::new();
        for subcommand in command().get_subcommands() {
            let name = subcommand.get_name();
            let own = subcommand.get_arguments().filter(|argument| {
                !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
            });
            let (positional, options): (Vec<_>, Vec<_>) = own.partition(|argument| argument.is_positional());
            assert!(positional.iter().all(|argument| argument.get_help_heading().is_none()), "{name}");
            let headings: Vec<&str> = options.iter().filter_map(|option| option.get_help_heading()).collect();
            let known = |heading: &&str| HEADINGS.iter().any(|known| known.pair().0 == *heading);
            assert!(headings.iter().all(known), "{name}: {headings:?}");
            let ungrouped = options.len() - headings.len();
            assert!(ungrouped <= if headings.is_empty() { MOST_UNGROUPED } else { 0 }, "{name}");
            for option in options.iter().filter(|option| SHARED.contains(&option.get_id().as_str())) {
                let (id, heading) =
                    (option.get_id().to_string(), option.get_help_heading().map(str::to_owned));
                let first = by_id.entry(id).or_insert_with(|| heading.clone());
                assert!(heading.is_none() || first.is_none() || *first == heading, "{name} {option}");
            }
        }
    }
}
