//! stress-ng: allocators, mappings, forks and threads, each for a fixed number of operations and
//! verified.

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite =
    Suite { name: "stress", packages: &[("/usr/bin/stress-ng", "stress-ng")], is_short: false, run };

/// Stressor, instances, operations.
const STRESSORS: [(&str, &str, &str); 9] = [
    ("malloc", "1", "50000"),
    ("vm", "1", "2000"),
    ("fork", "1", "1000"),
    ("vfork", "1", "1000"),
    ("pthread", "1", "1000"),
    ("clone", "1", "300"),
    ("mmap", "1", "50"),
    ("exec", "1", "100"),
    ("dynlib", "1", "300"),
];

fn run(_: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let mut verdicts = String::new();
    for (name, instances, operations) in STRESSORS {
        let (which, count) = (format!("--{name}"), format!("--{name}-ops"));
        let options =
            [&which, instances, &count, operations, "--verify", "--timeout", "120", "--vm-bytes", "64m"];
        let output = under.output("/usr/bin/stress-ng", &options)?;
        verdicts += &format!("{name} {}\n", output.status);
        let said = String::from_utf8_lossy(&output.stderr);
        for line in said.lines().filter(|line| line.contains("fail") && !line.contains("failed: 0")) {
            // Behind the process id, which differs.
            verdicts += &format!("{name} {}\n", line.split_once(']').map_or(line, |(_, rest)| rest));
        }
    }
    Ok(Some(verdicts))
}
