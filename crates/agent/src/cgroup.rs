//! The control group of a process: the container's id, the service's unit, kills for want of
//! memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
pub(crate) const ROOT: &str = "/sys/fs/cgroup";

/// The control group of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cgroup {
    /// Path below the mount of version 2, or of version 1's memory controller.
    path: String,
    is_version_1: bool,
}

impl Cgroup {
    /// That of a process; an empty one where it cannot be read.
    pub(crate) fn of(pid: u32) -> Self {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default())
    }

    #[cfg(test)]
    pub(crate) fn in_test(path: &str) -> Self {
        Self { path: path.to_owned(), is_version_1: false }
    }

    /// Reads the text of `/proc/PID/cgroup`.
    fn parse(text: &str) -> Self {
        let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let memory = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
        let unified = lines().find(|(controllers, _)| controllers.is_empty());
        match (memory, unified) {
            (Some((_, path)), _) => Self { path: path.to_owned(), is_version_1: true },
            (None, Some((_, path))) => Self { path: path.to_owned(), is_version_1: false },
            (None, None) => Self::default(),
        }
    }

    /// The path, for patterns of the user's.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The id of the container, by the names that Docker, containerd, CRI-O and Podman give to
    /// groups: 64 hexadecimal digits, alone or between a prefix and `.scope`.
    pub(crate) fn container(&self) -> Option<&str> {
        let start_of_id = |part: &str| {
            let stem = part.strip_suffix(".scope").unwrap_or(part);
            let start = stem.len().checked_sub(64)?;
            let (before, id) = (stem.get(..start)?, stem.get(start..)?);
            let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_id && (before.is_empty() || before.ends_with('-'))).then_some(start)
        };
        self.path.rsplit('/').find_map(|part| start_of_id(part).map(|start| &part[start..start + 64]))
    }

    /// The name of the systemd service, without its ending. Services of a user's session manager
    /// count, the manager itself does not.
    pub(crate) fn unit(&self) -> Option<&str> {
        let is_manager = |name: &&str| !name.starts_with("user@");
        self.path.rsplit('/').find_map(|part| part.strip_suffix(".service").filter(is_manager))
    }

    /// How many processes of the group the kernel has killed for want of memory; `None` where the
    /// group is gone or has no memory controller.
    pub(crate) fn oom_kills(&self, root: &Path) -> Option<u64> {
        let names: &[&str] = match self.is_version_1 {
            true => &["memory.oom_control"],
            false => &["memory.events.local", "memory.events"],
        };
        let mut folder = PathBuf::from(root);
        if self.is_version_1 {
            folder.push("memory");
        }
        folder.push(self.path.trim_start_matches('/'));
        let text = names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok())?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn group(path: &str) -> Cgroup {
        Cgroup::parse(&format!("0::{path}\n"))
    }

    #[test]
    fn containers_have_ids() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
        ] {
            assert_eq!(group(&path).container(), Some(ID), "{path}");
        }
        for path in ["/", "/user.slice", "/docker/0123", &format!("/x{ID}"), &format!("/{}", "z".repeat(64))]
        {
            assert_eq!(group(path).container(), None, "{path}");
        }
    }

    #[test]
    fn services_have_units() {
        assert_eq!(group("/system.slice/shop.service").unit(), Some("shop"));
        let of_user = "/user.slice/user-1.slice/user@1.service/app.slice/shop.service";
        assert_eq!(group(of_user).unit(), Some("shop"));
        assert_eq!(group("/user.slice/user-1.slice/user@1.service/app.slice").unit(), None);
        assert_eq!(group("/init.scope").unit(), None);
    }

    #[test]
    fn version_1_has_a_line_per_controller() {
        let text = "3:cpu,memory:/docker/a\n2:pids:/docker/b\n0::/c\n";
        assert_eq!(Cgroup::parse(text), Cgroup { path: "/docker/a".into(), is_version_1: true });
        assert_eq!(Cgroup::parse(""), Cgroup::default());
    }

    #[test]
    fn kills_are_counted() {
        let root = std::env::temp_dir().join(format!("heapwise-cgroup-{}", std::process::id()));
        let folder = root.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(group("/a/b").oom_kills(&root), None);
        fs::write(folder.join("memory.events"), "low 0\noom 5\noom_kill 2\noom_group_kill 0\n").unwrap();
        assert_eq!(group("/a/b").oom_kills(&root), Some(2));
        fs::write(folder.join("memory.events.local"), "oom_kill 1\n").unwrap();
        assert_eq!(group("/a/b").oom_kills(&root), Some(1));
        fs::remove_dir_all(&root).unwrap();
    }
}
