//! Which processes without the probe get it: by name, control group and user.

use std::collections::HashSet;
use std::fs;

use heapwise_capture::process;
use heapwise_format::paths::ProcessId;

use crate::cgroup::Cgroup;

/// Patterns of the user's. A process is attached when every kind of pattern that was given has one
/// that matches; without any pattern no process is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachPolicy {
    /// Patterns of program names; `*` matches any text.
    pub names: Vec<String>,
    /// Patterns of paths of control groups.
    pub cgroups: Vec<String>,
    /// Names or numbers of users.
    pub users: Vec<String>,
}

impl AttachPolicy {
    /// Whether no process is attached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.cgroups.is_empty() && self.users.is_empty()
    }

    fn allows(&self, name: &str, cgroup: &str, users: &[String]) -> bool {
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
        };
        !self.is_empty()
            && any(&self.names, name)
            && any(&self.cgroups, cgroup)
            && (self.users.is_empty() || self.users.iter().any(|user| users.contains(user)))
    }
}

/// Whether a pattern with `*` matches a whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

/// Finds processes that the policy allows, each once.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    policy: AttachPolicy,
    tried: HashSet<ProcessId>,
}

impl Candidates {
    pub(crate) fn new(policy: AttachPolicy) -> Self {
        Self { policy, tried: HashSet::new() }
    }

    /// Processes to attach to: those that the policy allows, that do not carry the probe and that
    /// were not tried before.
    pub(crate) fn find(&mut self, has_probe: impl Fn(u32) -> bool) -> Vec<u32> {
        if self.policy.is_empty() {
            return Vec::new();
        }
        let running: Vec<ProcessId> = process::list()
            .into_iter()
            .filter(|pid| *pid != std::process::id())
            .filter_map(|pid| Some(ProcessId { pid, starttime: process::starttime(pid)? }))
            .collect();
        self.tried.retain(|tried| running.contains(tried));
        let mut found = Vec::new();
        for process in running {
            let pid = process.pid;
            // Threads of the kernel have no program.
            let name = process::usual_name(pid);
            if name.is_empty() || self.tried.contains(&process) || has_probe(pid) {
                continue;
            }
            let users = process::uid(pid).map(users_of).unwrap_or_default();
            if self.policy.allows(&name, Cgroup::of(pid).path(), &users) {
                self.tried.insert(process);
                found.push(pid);
            }
        }
        found
    }
}

/// The number of a user, and the name by `/etc/passwd`.
fn users_of(uid: u32) -> Vec<String> {
    let number = uid.to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.into_iter().chain([number]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("redis-server", "redis-server", true),
            ("redis-server", "redis-serve", false),
            ("redis*", "redis-server", true),
            ("*server", "redis-server", true),
            ("r*s-*er", "redis-server", true),
            ("r*s-*es", "redis-server", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*a", "a", false),
            ("/sys*.slice/*", "/system.slice/x.service", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn every_given_kind_has_to_match() {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let users = strings(&["www", "33"]);
        assert!(!AttachPolicy::default().allows("a", "/", &users));
        let by_name = AttachPolicy { names: strings(&["b", "a*"]), ..AttachPolicy::default() };
        assert!(by_name.allows("ab", "/", &users) && !by_name.allows("c", "/", &users));
        let by_both = AttachPolicy { users: strings(&["33"]), ..by_name };
        assert!(by_both.allows("ab", "/", &users) && !by_both.allows("ab", "/", &strings(&["0"])));
        let by_cgroup = AttachPolicy { cgroups: strings(&["/x/*"]), ..AttachPolicy::default() };
        assert!(by_cgroup.allows("a", "/x/y", &users) && !by_cgroup.allows("a", "/y", &users));
    }

    #[test]
    fn users_have_names_and_numbers() {
        assert!(users_of(0).contains(&"root".to_owned()) && users_of(0).contains(&"0".to_owned()));
    }
}
