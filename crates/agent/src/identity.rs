//! Names of a process: service, release, host, container.
//!
//! A name given by flag wins, then the environment of the process, then its control group, then
//! its program.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;

use heapwise_profile::Profile;

use crate::batch::Labels;
use crate::cgroup::Cgroup;

/// Most that is read of an environment.
const MOST_ENVIRONMENT: u64 = 256 << 10;
/// Longest name: names of services become parts of labels and paths.
const MOST_NAME: usize = 200;
/// Digits of a build-id that name a release.
const RELEASE_DIGITS: usize = 12;

/// Names that the user gave for every process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Name of the service.
    pub service: Option<String>,
    /// Version of the service.
    pub release: Option<String>,
    /// Name of this host.
    pub host: String,
}

impl Names {
    /// The labels of a running process; its release may be unknown.
    pub(crate) fn of_process(&self, pid: u32, program: &str, cgroup: &Cgroup) -> Labels {
        self.labels(&environment(pid), program, cgroup)
    }

    /// The labels of a process that has ended: its environment is gone.
    pub(crate) fn of_ended(&self, program: &str) -> Labels {
        self.labels(&HashMap::new(), program, &Cgroup::default())
    }

    fn labels(&self, environment: &HashMap<String, String>, program: &str, cgroup: &Cgroup) -> Labels {
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
        let resource = |name: &str| {
            let attributes = environment.get("OTEL_RESOURCE_ATTRIBUTES")?;
            attribute(attributes, name).filter(|value| !value.is_empty())
        };
        let service = (self.service.clone())
            .or_else(|| set("HEAPWISE_SERVICE"))
            .or_else(|| set("OTEL_SERVICE_NAME"))
            .or_else(|| resource("service.name"))
            .or_else(|| cgroup.unit().map(str::to_owned))
            .unwrap_or_else(|| program.rsplit('/').next().unwrap_or_default().to_owned());
        let release = (self.release.clone())
            .or_else(|| set("HEAPWISE_RELEASE"))
            .or_else(|| resource("service.version"))
            .unwrap_or_default();
        let container = cgroup.container().unwrap_or_default();
        Labels {
            service: cut(&service),
            release: cut(&release),
            host: cut(&self.host),
            container: container.to_owned(),
        }
    }
}

/// The build-id of a program, as the name of a release that has no other.
pub(crate) fn release_of(profile: &Profile) -> String {
    let is_program = |path: &str| path == profile.meta.program;
    let module = profile.modules.iter().find(|module| is_program(&module.path));
    let id = module.map(|module| module.build_id.to_string()).unwrap_or_default();
    id.chars().take(RELEASE_DIGITS).collect()
}

/// A value of `a=1,b=2`, with percent signs decoded as OpenTelemetry demands.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let pairs = attributes.split(',').filter_map(|pair| pair.split_once('='));
    let (_, value) = { pairs }.find(|(key, _)| key.trim() == name)?;
    let mut bytes = Vec::new();
    let mut rest = value.trim().as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn cut(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(MOST_NAME).collect()
}

/// The environment that a process was started with; empty where it may not be read.
fn environment(pid: u32) -> HashMap<String, String> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
        // What was read before an error is used.
        let _ = file.take(MOST_ENVIRONMENT).read_to_end(&mut bytes);
    }
    let pair = |entry: &[u8]| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &Names, environment: &[(&str, &str)], path: &str) -> (String, String) {
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let labels = names.labels(&environment, "/usr/bin/shopd", &Cgroup::in_test(path));
        (labels.service, labels.release)
    }

    fn pair(service: &str, release: &str) -> (String, String) {
        (service.to_owned(), release.to_owned())
    }

    #[test]
    fn the_more_explicit_name_wins() {
        let none = Names::default();
        let flags = Names { service: Some("flag".into()), release: Some("9".into()), ..Names::default() };
        let unit = "/system.slice/unit.service";
        let otel = ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=re%73ource%2C1 ,service.version=3");
        assert_eq!(labels(&none, &[], "/"), pair("shopd", ""));
        assert_eq!(labels(&none, &[], unit), pair("unit", ""));
        assert_eq!(labels(&none, &[otel], unit), pair("resource,1", "3"));
        let name = ("OTEL_SERVICE_NAME", "otel");
        assert_eq!(labels(&none, &[otel, name], unit), pair("otel", "3"));
        let own = [otel, name, ("HEAPWISE_SERVICE", "own"), ("HEAPWISE_RELEASE", "4")];
        assert_eq!(labels(&none, &own, unit), pair("own", "4"));
        assert_eq!(labels(&none, &[("OTEL_SERVICE_NAME", "")], unit), pair("unit", ""));
        assert_eq!(labels(&flags, &own, unit), pair("flag", "9"));
    }

    #[test]
    fn names_are_bounded() {
        let long = Names { service: Some("x\n".repeat(1000)), ..Names::default() };
        assert_eq!(labels(&long, &[], "/").0, "x".repeat(MOST_NAME));
    }

    #[test]
    fn percent_signs_that_encode_nothing_stay() {
        assert_eq!(attribute("a=100%,b=%zz%4", "a"), Some("100%".into()));
        assert_eq!(attribute("a=100%,b=%zz%4", "b"), Some("%zz%4".into()));
        assert_eq!(attribute("a=1", "c"), None);
    }

    #[test]
    fn the_environment_of_a_process_is_read() {
        let own = environment(std::process::id());
        assert_eq!(own.get("PATH"), std::env::var("PATH").ok().as_ref());
        assert!(environment(u32::MAX).is_empty());
    }
}
