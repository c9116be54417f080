//! Redis's own tests, in Tcl (the folder `tests` of its repository, of the version of
//! `redis-server`), whose repository `REDIS_TESTS` names. They start some hundred servers, fork for
//! snapshots, kill and restart.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "redis-tests",
    packages: &[
        ("/usr/bin/redis-server", "redis-server"),
        ("/usr/bin/redis-cli", "redis-tools"),
        ("/usr/bin/tclsh", "tcl"),
    ],
    is_short: false,
    run,
};

/// Left out: what needs modules compiled, clusters, and tests of timing.
const UNITS: &str = "
    unit/type/string unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/zset
    unit/type/hash unit/type/stream unit/type/stream-cgroups unit/expire unit/scan unit/dump unit/keyspace unit/sort
    unit/scripting unit/functions unit/multi unit/bitops unit/bitfield unit/geo unit/hyperloglog unit/other unit/auth
    unit/aofrw unit/lazyfree unit/introspection unit/introspection-2 unit/pubsub unit/tracking unit/acl unit/protocol
    unit/querybuf unit/limits unit/slowlog unit/shutdown unit/info unit/quit unit/networking unit/maxmemory
    integration/rdb integration/aof integration/aof-multi-part integration/logging integration/redis-cli
    integration/convert-ziplist-hash-on-load integration/convert-zipmap-hash-on-load integration/replication-2
    integration/replication-4 integration/shutdown";

/// The tests kill and stop the server by its process number, so the probe is preloaded and nobody
/// stands between.
const SERVER: &str =
    "#!/bin/sh\n[ -z \"$PROBE\" ] || export LD_PRELOAD=\"$PROBE\"\nexec /usr/bin/redis-server \"$@\"\n";

fn run(stage: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let Some(repository) = std::env::var_os("REDIS_TESTS").map(PathBuf::from) else {
        eprintln!(
            "redis-tests: not run; REDIS_TESTS names Redis's repository at the tag of redis-server's version"
        );
        return Ok(None);
    };
    let place = stage.scratch.join("redis");
    furnish(&place, &repository).map_err(|error| Failure::at(&place, error))?;
    let mut tests = Command::new("/usr/bin/tclsh");
    tests.current_dir(&place).args([
        "tests/test_helper.tcl",
        "--clients",
        "2",
        "--tags",
        "-slow -large-memory",
    ]);
    for unit in UNITS.split_whitespace() {
        tests.args(["--single", unit]);
    }
    if let Some((mode, _)) = under.mode {
        let library = Command::new(&stage.heapwise).arg("preload").output();
        let library = library.map_err(|error| Failure::at(&stage.heapwise, error))?.stdout;
        let rate = if mode == "sampled" { ",rate:1024" } else { "" };
        tests.env("PROBE", String::from_utf8_lossy(&library).trim());
        tests.env("HEAPWISE_CONF", format!("mode:{mode}{rate}")).env("HEAPWISE_DIR", stage.segments());
    }
    let output = tests.output().map_err(|error| Failure::new(format!("tclsh: {error}")))?;
    Ok(Some(verdicts(&String::from_utf8_lossy(&output.stdout))))
}

/// The tests look for the programs in `src` and write into `tests/tmp`.
fn furnish(place: &Path, repository: &Path) -> std::io::Result<()> {
    let programs = place.join("src");
    fs::create_dir_all(&programs)?;
    for file in ["tests", "redis.conf", "sentinel.conf"] {
        let copied = Command::new("cp").arg("-r").arg(repository.join(file)).arg(place).status()?;
        if !copied.success() {
            return Err(std::io::Error::other(format!("no {file} in {}", repository.display())));
        }
    }
    for program in ["redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"] {
        symlink(Path::new("/usr/bin").join(program), programs.join(program))?;
    }
    let server = programs.join("redis-server");
    fs::write(&server, SERVER)?;
    fs::set_permissions(&server, Permissions::from_mode(0o755))
}

/// `[ok]: NAME (3 ms)` and `[err]: NAME in FILE`, in colors.
fn verdicts(printed: &str) -> String {
    let mut verdicts = String::new();
    for line in printed.lines() {
        let Some((state, name)) = line.split_once("]: ") else { continue };
        let state =
            ["ok", "err", "skip"].into_iter().find(|known| state.contains(&format!("m{known}\u{1b}")));
        if let Some(state) = state {
            let name = name
                .rsplit_once(" (")
                .filter(|(_, rest)| rest.ends_with(" ms)"))
                .map_or(name, |(name, _)| name);
            verdicts += &format!("{state} {name}\n");
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::verdicts;

    #[test]
    fn one_verdict_a_test() {
        let printed = "[\u{1b}[0;32;49mok\u{1b}[0m]: SORT (with) BY (12 ms)\n\
            [\u{1b}[0;31;49merr\u{1b}[0m]: XADD fails in tests/unit/x.tcl\n\
            [\u{1b}[0;36;49mignore\u{1b}[0m]: Tag: slow denied\n\
            [1/2 \u{1b}[0;33;49mdone\u{1b}[0m]: unit/sort (3 seconds)\n";
        assert_eq!(verdicts(printed), "ok SORT (with) BY\nerr XADD fails in tests/unit/x.tcl\n");
    }
}
