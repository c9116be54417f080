//! Debian packages that tests and suites need.

use std::path::Path;
use std::process::Command;

use heapwise_testkit::failure::Failure;

/// Installs what is missing of (file, package); as root, else says what to install.
pub(crate) fn install(wanted: &[(&str, &str)]) -> Result<(), Failure> {
    let missing: Vec<&str> =
        wanted.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("== install: {}", missing.join(" "));
    let hint =
        || Failure::new(format!("install these first, as root: apt-get install {}", missing.join(" ")));
    let apt = |arguments: &[&str]| {
        Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .is_ok_and(|status| status.success())
    };
    apt(&["update", "-q"]);
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(&missing);
    if apt(&install) { Ok(()) } else { Err(hint()) }
}
