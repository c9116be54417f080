//! The benchmark's command line.

use std::path::PathBuf;
use std::time::Duration;

use super::measure::Patience;
use heapwise_testkit::failure::Failure;

pub(crate) const USAGE: &str = "cargo xtask bench [--quick] [--programs DIR] [--only NAME,…] [--systems NAME,…] \
     [--rounds N] [--heapwise FILE] [--out FILE]";

/// What to run, and where the answer goes.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub quick: bool,
    /// A folder of further executables.
    pub programs: Option<PathBuf>,
    /// Workloads by name; all when empty. `redis`, `pair`, `accuracy` and `report` name those
    /// sections.
    pub only: Vec<String>,
    /// Systems by the beginning of their names; all when empty.
    pub systems: Vec<String>,
    pub rounds: Option<usize>,
    /// A heapwise that is built already.
    pub heapwise: Option<PathBuf>,
    /// Where the page goes; `-` is stdout.
    pub out: PathBuf,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Options, Failure> {
        let mut options = Options { out: "docs/BENCHMARKS.md".into(), ..Options::default() };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value =
                || rest.next().ok_or_else(|| Failure::new(format!("{arg} needs a value; {USAGE}")));
            let list = |text: &String| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--programs" => options.programs = Some(value()?.into()),
                "--only" => options.only.extend(list(value()?)),
                "--systems" => options.systems.extend(list(value()?)),
                "--rounds" => {
                    let rounds = value()?.parse().map_err(|_| Failure::new("--rounds needs a number"))?;
                    options.rounds = Some(rounds);
                }
                "--heapwise" => options.heapwise = Some(value()?.into()),
                "--out" => options.out = value()?.into(),
                other => return Err(Failure::new(format!("unknown option {other}; usage: {USAGE}"))),
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == section)
    }

    pub(crate) fn patience(&self) -> Patience {
        let (rounds, run, cell) = if self.quick { (3, 20, 6.0) } else { (5, 120, 60.0) };
        Patience { rounds: self.rounds.unwrap_or(rounds), run: Duration::from_secs(run), cell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lists_may_be_given_in_parts() {
        let options = parse("--quick --only factor,redis --only pair --rounds 2").unwrap();
        assert!(options.quick && options.wants("redis") && options.wants("pair") && !options.wants("lua"));
        assert_eq!(options.patience().rounds, 2);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["--fast", "--only", "--rounds many"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
