//! jeprof's command line, as Perl's `Getopt::Long` reads it: one or two dashes, `--name=value` or
//! `--name value`, `--noname`, any unambiguous beginning of a name, options anywhere.

use heapwise_profile::query::{
    Granularity, LeafCut, NameStyle, NativeFrames, Order, Prune, QuerySpec, Regex, pattern,
};

use crate::failure::Outcome;
use crate::input_error;

/// What comes out.
#[derive(Debug, Clone)]
pub(crate) enum Mode {
    /// A prompt.
    Interactive,
    /// A table.
    Text,
    /// Annotated source of matching functions.
    List(Regex),
    /// Annotated disassembly of matching functions.
    Disasm(Regex),
    /// Graphviz text.
    Dot,
    /// A call graph in this form.
    Picture(Picture),
    /// A call graph, shown by the desktop.
    Show,
    /// callgrind's format.
    Callgrind,
    /// Symbols and profile in one file.
    Raw,
    /// Folded stacks.
    Collapsed,
    /// Names for addresses on standard input.
    Symbols,
}

/// Forms of a call graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picture {
    /// SVG.
    Svg,
    /// PDF.
    Pdf,
    /// PostScript.
    PostScript,
    /// PNG, where jeprof has GIF.
    Png,
}

/// Which threads' profiles are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// All together.
    Merged,
    /// Each by itself.
    Each,
    /// One.
    One(u64),
}

/// Everything said on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub mode: Mode,
    /// All but the thread.
    pub query: QuerySpec,
    pub show_bytes: bool,
    /// Set boxes apart that hold memory themselves.
    pub heapcheck: bool,
    pub drop_negative: bool,
    pub base: Option<String>,
    pub threads: Threads,
    pub seconds: u64,
    pub lib_prefix: Option<String>,
    /// Program and profiles.
    pub operands: Vec<String>,
}

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Request {
    /// A report.
    Report(Box<Options>),
    /// The help text.
    Help,
    /// The version.
    Version,
}

/// Output modes by their flags.
const MODES: [(&str, Mode); 14] = [
    ("text", Mode::Text),
    ("callgrind", Mode::Callgrind),
    ("symbols", Mode::Symbols),
    ("gv", Mode::Show),
    ("evince", Mode::Show),
    ("web", Mode::Show),
    ("dot", Mode::Dot),
    ("ps", Mode::Picture(Picture::PostScript)),
    ("pdf", Mode::Picture(Picture::Pdf)),
    ("svg", Mode::Picture(Picture::Svg)),
    ("gif", Mode::Picture(Picture::Png)),
    ("raw", Mode::Raw),
    ("collapsed", Mode::Collapsed),
    ("interactive", Mode::Interactive),
];
const METRICS: [(&str, &str); 4] = [
    ("inuse_space", "inuse_space"),
    ("inuse_objects", "inuse_objects"),
    ("alloc_space", "alloc_space"),
    ("alloc_objects", "alloc_objects"),
];
const GRANULARITIES: [(&str, Granularity); 4] = [
    ("functions", Granularity::Functions),
    ("lines", Granularity::Lines),
    ("addresses", Granularity::Addresses),
    ("files", Granularity::Files),
];
/// Options without effect on heap profiles are accepted.
const SWITCHES: [&str; 14] = [
    "help",
    "version",
    "cum",
    "heapcheck",
    "keep_runtime",
    "show_bytes",
    "drop_negative",
    "total_delay",
    "contentions",
    "mean_delay",
    "test",
    "debug",
    "debug-syms-by-id",
    "stacks",
];
const VALUES: [&str; 16] = [
    "base",
    "seconds",
    "add_lib",
    "lib_prefix",
    "list",
    "disasm",
    "nodecount",
    "nodefraction",
    "edgefraction",
    "maxdegree",
    "focus",
    "thread",
    "ignore",
    "scale",
    "retain",
    "exclude",
];

/// Every option without a value.
fn flags() -> Vec<&'static str> {
    let modes = MODES.iter().map(|(name, _)| *name);
    let metrics = METRICS.iter().map(|(name, _)| *name);
    let granularities = GRANULARITIES.iter().map(|(name, _)| *name);
    modes.chain(metrics).chain(granularities).chain(SWITCHES).collect()
}

/// Names given, with their values (empty for flags).
struct Given {
    pairs: Vec<(&'static str, String)>,
    operands: Vec<String>,
}

impl Given {
    fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut given = Given { pairs: Vec::new(), operands: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(text) = argument.strip_prefix('-').filter(|text| !text.is_empty()) else {
                given.operands.push(argument.clone());
                continue;
            };
            let text = text.strip_prefix('-').unwrap_or(text);
            if text.is_empty() {
                given.operands.extend(rest.cloned());
                break;
            }
            let (name, inline) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            given.option(name, inline, &mut rest)?;
        }
        Ok(given)
    }

    fn option(
        &mut self,
        name: &str,
        inline: Option<String>,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> Outcome {
        let flags = flags();
        if let Some(flag) = resolve(name, &flags, &VALUES)? {
            self.pairs.push((flag, String::new()));
        } else if let Some(option) = resolve(name, &VALUES, &flags)? {
            let value = inline.or_else(|| rest.next().cloned());
            let value = value.ok_or_else(|| input_error!("Option {} requires an argument", option))?;
            self.pairs.push((option, value));
        } else if let Some(flag) =
            name.strip_prefix("no").map(|name| resolve(name, &flags, &[])).transpose()?.flatten()
        {
            self.pairs.retain(|(given, _)| *given != flag);
        } else {
            return Err(input_error!("Unknown option: {}; see jeprof --help", name));
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(given, _)| *given == name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().rev().find(|(given, _)| *given == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn regex(&self, name: &'static str) -> Outcome<Option<Regex>> {
        Ok(self.value(name).map(|text| pattern(name, text)).transpose()?)
    }

    /// The text of a pattern that compiles.
    fn pattern(&self, name: &'static str) -> Outcome<Option<String>> {
        self.regex(name)?;
        Ok(self.value(name).map(str::to_owned))
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Outcome<T> {
        let parse =
            |text: &str| text.parse().map_err(|_| input_error!("--{}: `{}` is not a number", name, text));
        self.value(name).map_or(Ok(default), parse)
    }

    /// The meaning of the only flag given of a table.
    fn one_of<T: Clone>(&self, table: &[(&str, T)], complaint: &str) -> Outcome<Option<T>> {
        let mut chosen = table.iter().filter(|(name, _)| self.has(name));
        let first = chosen.next();
        match chosen.next() {
            Some(_) => Err(input_error!("{}; see jeprof --help", complaint)),
            None => Ok(first.map(|(_, meaning)| meaning.clone())),
        }
    }
}

/// The option of a name: itself, or the only one with this prefix.
fn resolve(name: &str, among: &[&'static str], others: &[&'static str]) -> Outcome<Option<&'static str>> {
    if let Some(exact) = among.iter().find(|option| **option == name) {
        return Ok(Some(exact));
    }
    if others.contains(&name) {
        return Ok(None);
    }
    let mut begun = among.iter().filter(|option| option.starts_with(name));
    let first = begun.next().copied();
    let elsewhere = others.iter().any(|option| option.starts_with(name));
    match first {
        Some(_) if begun.next().is_some() || elsewhere => {
            Err(input_error!("Option {} is ambiguous; see jeprof --help", name))
        }
        first => Ok(first),
    }
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: &[String], stdout_is_terminal: bool) -> Outcome<Request> {
    let given = Given::parse(arguments)?;
    if given.has("help") {
        return Ok(Request::Help);
    }
    if given.has("version") {
        return Ok(Request::Version);
    }
    let metric = given.one_of(&METRICS, "Specify at most one of the --inuse/--alloc options")?;
    let granularity = given.one_of(&GRANULARITIES, "Only specify one output granularity option")?;
    let defaults = Prune::default();
    Ok(Request::Report(Box::new(Options {
        mode: mode(&given, stdout_is_terminal)?,
        query: QuerySpec {
            metric: metric.map(str::to_owned),
            granularity: Some(granularity.unwrap_or_default()),
            native: NativeFrames::Shown,
            names: NameStyle::Jeprof,
            leaf_cut: if given.has("keep_runtime") { LeafCut::Jeprof } else { LeafCut::Runtime },
            focus: given.pattern("focus")?,
            ignore: given.pattern("ignore")?,
            hide: given.pattern("exclude")?,
            show: given.pattern("retain")?,
            order: if given.has("cum") { Order::Cum } else { Order::Flat },
            prune: Prune {
                nodecount: given.number("nodecount", defaults.nodecount)?,
                nodefraction: given.number("nodefraction", defaults.nodefraction)?,
                edgefraction: given.number("edgefraction", defaults.edgefraction)?,
                maxdegree: given.number("maxdegree", defaults.maxdegree)?,
            },
            ..QuerySpec::default()
        },
        show_bytes: given.has("show_bytes"),
        heapcheck: given.has("heapcheck"),
        drop_negative: given.has("drop_negative"),
        base: given.value("base").map(str::to_owned),
        threads: match given.value("thread") {
            None => Threads::Merged,
            Some("*") => Threads::Each,
            Some(_) => Threads::One(given.number("thread", 0)?),
        },
        seconds: given.number("seconds", 30)?,
        lib_prefix: given.value("lib_prefix").map(str::to_owned),
        operands: given.operands,
    })))
}

fn mode(given: &Given, stdout_is_terminal: bool) -> Outcome<Mode> {
    let list = given.regex("list")?.map(Mode::List);
    let disasm = given.regex("disasm")?.map(Mode::Disasm);
    if given.has("stacks") {
        return Err(input_error!("--stacks is not here; use heapwise traces"));
    }
    let chosen = given.one_of(&MODES, "Only specify one output mode")?;
    let mut modes = [chosen, list, disasm].into_iter().flatten();
    match (modes.next(), modes.next()) {
        (_, Some(_)) => Err(input_error!("Only specify one output mode; see jeprof --help")),
        (Some(mode), None) => Ok(mode),
        (None, None) if stdout_is_terminal => Ok(Mode::Interactive),
        (None, None) => Ok(Mode::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Options {
        let arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
        match parse(&arguments, false) {
            Ok(Request::Report(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn prefixes_dashes_and_values() {
        let options = report("-show --focus=main prog --base old.heap new.heap --lin --nodecount 7");
        assert!(options.show_bytes);
        assert_eq!(options.operands, ["prog", "new.heap"]);
        assert_eq!(options.base.as_deref(), Some("old.heap"));
        assert_eq!(options.query.granularity, Some(Granularity::Lines));
        assert_eq!(options.query.prune.nodecount, 7);
        assert!(matches!(options.mode, Mode::Text));
    }

    #[test]
    fn contradictions_are_refused() {
        for text in [
            "--text --svg p f",
            "--lines --files p f",
            "--inuse_space --alloc_space p f",
            "--i p f",
            "--bogus",
        ] {
            let arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert!(parse(&arguments, false).is_err(), "{text}");
        }
    }
}
