//! Arguments of the commands.

use heapwise_testkit::failure::Failure;

/// The number after `name`.
pub(crate) fn number(args: &[String], name: &str, default: u64) -> Result<u64, Failure> {
    match args.iter().position(|arg| arg == name) {
        Some(at) => args
            .get(at + 1)
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| Failure::new(format!("{name} needs a number"))),
        None => Ok(default),
    }
}
