//! Processes of other users and in other namespaces, for root; and what they may plant.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::attach::Running;
use crate::harness::{Scratch, copy_program, is_root, victims, witness};

/// A user of one test alone, and files that every user can reach.
struct Public {
    user: u32,
    path: PathBuf,
}

impl Public {
    /// A directory with copies of programs.
    fn new(programs: &[&Path]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        assert!(is_root(), "this test starts programs as other users: run it as root");
        // Tests of another checkout may run beside.
        let user = 60_000_000 + std::process::id() * 16 + NUMBER.fetch_add(1, Ordering::Relaxed);
        let public = Self { user, path: std::env::temp_dir().join(format!("heapwise-user-{user}")) };
        fs::create_dir_all(&public.path).expect("made");
        fs::set_permissions(&public.path, fs::Permissions::from_mode(0o755)).expect("opened");
        for program in programs {
            let copy = public.path(program.file_name().expect("a name").to_str().expect("UTF-8"));
            copy_program(program, &copy);
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("opened");
        }
        public
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where segments of the user are.
    fn segments(&self) -> PathBuf {
        format!("/dev/shm/heapwise-{}", self.user).into()
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_dir_all(self.segments());
    }
}

/// A command as the other user.
fn as_user(scratch: &Scratch, public: &Public, program: &str) -> Command {
    as_user_with(scratch, public, &[], program)
}

/// A command as the other user, with variables that the program alone has: programs that start it
/// leave no segments behind.
fn as_user_with(scratch: &Scratch, public: &Public, variables: &[String], program: &str) -> Command {
    let mut command = scratch.command("/usr/bin/setpriv");
    command.args([format!("--reuid={}", public.user), "--regid=65534".into(), "--clear-groups".into()]);
    command
        .arg("/usr/bin/env")
        .args(variables)
        .arg(public.path(program))
        .current_dir("/")
        .env_remove("HEAPWISE_DIR")
        .env_remove("XDG_CACHE_HOME");
    command
}

/// The path of the library that all users can load.
fn library(scratch: &Scratch) -> String {
    let output = scratch.heapwise(&["preload"]).env_remove("XDG_CACHE_HOME").output().expect("it starts");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// Variables of a program that counts every block.
fn exact(scratch: &Scratch) -> [String; 2] {
    [format!("LD_PRELOAD={}", library(scratch)), "HEAPWISE_CONF=mode:exact".to_owned()]
}

fn heapwise(scratch: &Scratch, arguments: &[&str]) -> (bool, String) {
    let output = scratch.heapwise(arguments).output().expect("heapwise starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn blocks(scratch: &Scratch, source: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--alloc_objects", "--focus", "^w_", source]);
    top["total"].as_i64().expect("a total")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_pid(row: &Value, pid: &str) -> bool {
    row["pid"].as_u64() == pid.parse().ok()
}

/// Rows of `ps --all` with this program name.
fn listed(scratch: &Scratch, program: &str) -> Vec<Value> {
    let all = scratch.json_of(&["ps", "--all", "--json"]);
    let rows = all.as_array().expect("a list").iter();
    rows.filter(|row| row["program"] == program).cloned().collect()
}

#[test]
#[ignore = "needs root"]
fn root_reads_and_controls_processes_of_every_user() {
    let told = victims().join("allocates_when_told");
    let public = Public::new(&[&told]);
    let scratch = Scratch::new();
    let mut told = as_user_with(&scratch, &public, &exact(&scratch), "allocates_when_told");
    let mut told = Running::of(&mut told);
    told.allocate(300);
    let pid = told.pid();
    assert_eq!(blocks(&scratch, &pid), 300);
    let row = |row: &Value| is_pid(row, &pid) && row["uid"] == public.user;
    assert!(listed(&scratch, "allocates_when_told").iter().any(row));
    let own = scratch.json_of(&["ps", "--json"]);
    assert_eq!(own.as_array().expect("a list").len(), 0, "others only with --all");
    let (done, text) = heapwise(&scratch, &["stop", &pid]);
    assert!(done, "{text}");
    told.allocate(50);
    assert_eq!(blocks(&scratch, &pid), 300, "the state when it was stopped");
    let files = fs::read_dir(public.segments()).expect("its segments").flatten();
    let of_root = files.filter(|file| file.metadata().is_ok_and(|data| data.uid() == 0));
    assert_eq!(of_root.count(), 0, "root plants nothing there");
    let (done, text) = heapwise(&scratch, &["start", "--exact", &pid]);
    assert!(done, "{text}");
    // The probe looks for changes now and then while it is off.
    wait_until("it records again", || {
        told.allocate(100);
        blocks(&scratch, &pid) > 300
    });
}

#[test]
#[ignore = "needs root"]
fn run_follows_a_program_to_another_user() {
    let plain = victims().join("plain");
    let public = Public::new(&[&plain]);
    let scratch = Scratch::new();
    for (mode, file) in [(&["--exact"][..], "out.heap"), (&["--log", "--block", "60s"], "out.hwr")] {
        let mut run = scratch.heapwise(&["run", "-f", "-o", file]);
        run.args(mode).args(["--", "setpriv", &format!("--reuid={}", public.user), "--clear-groups"]);
        run.arg(public.path("plain")).arg("2000");
        let output = run.env_remove("HEAPWISE_DIR").env_remove("XDG_CACHE_HOME").output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(blocks(&scratch, file), witness(&output)["alloc_objects"], "{mode:?} {said}");
    }
    assert_eq!(fs::read_dir(public.segments()).expect("there").count(), 0, "nothing is left");
}

/// In a user namespace without users a program has a number of nobody's, and files of the user who
/// started it.
#[test]
#[ignore = "needs root"]
fn run_follows_a_program_that_is_no_user() {
    require_containers();
    let scratch = Scratch::new();
    for (mode, file) in [(&["--exact"][..], "out.heap"), (&["--log", "--block", "60s"], "out.hwr")] {
        let mut run = scratch.heapwise(&["run", "-f", "-o", file]);
        run.args(mode).args(["--", "unshare", "--user"]).arg(victims().join("plain")).arg("2000");
        let output = run.env_remove("HEAPWISE_DIR").env_remove("XDG_CACHE_HOME").output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(blocks(&scratch, file), witness(&output)["alloc_objects"], "{mode:?} {said}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_program_that_drops_its_rights_stays_visible() {
    let public = Public::new(&[]);
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "drops_rights", &[&public.user.to_string()]);
    assert_eq!(capture.total("alloc_objects"), 200, "{}", capture.stderr());
    assert_eq!(capture.total("inuse_objects"), 100);
}

/// A shell script in new user, pid and mount namespaces, with its own `/proc` and `/dev/shm`.
const CONTAINER: [&str; 8] =
    ["--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c"];
const IN_CONTAINER: &str =
    "mount -t proc proc /proc && mount -t tmpfs none /dev/shm && exec env $VARIABLES \"$0\" 2>/dev/null";
/// The same in a changed root directory.
const IN_CHROOT: &str = "mount --rbind / \"$1\" && mount -t proc proc \"$1/proc\" && \
    mount -t tmpfs none \"$1/dev/shm\" && exec chroot \"$1\" env $VARIABLES \"$0\" 2>/dev/null";

fn container(scratch: &Scratch, script: &str) -> Command {
    let mut command = scratch.command("/usr/bin/unshare");
    fs::create_dir_all(scratch.path("root")).expect("made");
    command.args(CONTAINER).arg(script).arg(victims().join("allocates_when_told")).arg(scratch.path("root"));
    command.env_remove("HEAPWISE_DIR").env_remove("XDG_CACHE_HOME");
    command
}

fn require_containers() {
    assert!(is_root(), "this test looks into containers: run it as root");
    let mut command = Command::new("/usr/bin/unshare");
    command.args(CONTAINER).arg("mount -t proc proc /proc && mount -t tmpfs none /dev/shm");
    let output = command.output().expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "this test needs new user, pid and mount namespaces: {said}");
}

/// The process that `unshare` started, as this namespace numbers it.
fn inside(unshare: &Running) -> String {
    let parent = format!("PPid:\t{}", unshare.pid());
    let is_child = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == parent)
    };
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.parse::<u32>().is_ok() && is_child(name)).expect("a process")
}

#[test]
#[ignore = "needs root"]
fn the_host_reads_and_controls_processes_of_containers() {
    require_containers();
    for script in [IN_CONTAINER, IN_CHROOT] {
        let scratch = Scratch::new();
        let mut command = container(&scratch, script);
        let mut unshare = Running::of(command.env("VARIABLES", exact(&scratch).join(" ")));
        unshare.allocate(300);
        let pid = inside(&unshare);
        assert_eq!(blocks(&scratch, &pid), 300, "{script}");
        let rows = listed(&scratch, "allocates_when_told");
        let row = rows.iter().find(|row| is_pid(row, &pid)).expect("listed");
        assert_eq!(row["inner_pid"], 1);
        let (done, text) = heapwise(&scratch, &["stop", &pid]);
        assert!(done, "{text}");
        unshare.allocate(50);
        assert_eq!(blocks(&scratch, &pid), 300);
        unshare.end();
    }
}

#[test]
#[ignore = "needs root"]
fn root_attaches_to_other_users_and_into_containers() {
    let told = victims().join("allocates_when_told");
    let public = Public::new(&[&told]);
    let scratch = Scratch::new();
    let attached = |program: &mut Running, pid: &str| {
        let (done, text) = heapwise(&scratch, &["attach", "--exact", pid]);
        assert!(done && text.contains("attached") && !text.contains("not hooked"), "{text}");
        program.allocate(1000);
        assert_eq!(blocks(&scratch, pid), 1000);
        let (done, text) = heapwise(&scratch, &["detach", pid]);
        assert!(done, "{text}");
        program.allocate(1);
    };
    let mut told = Running::of(&mut as_user(&scratch, &public, "allocates_when_told"));
    told.allocate(1);
    let pid = told.pid();
    attached(&mut told, &pid);
    require_containers();
    for script in [IN_CONTAINER, IN_CHROOT] {
        let mut unshare = Running::of(&mut container(&scratch, script));
        unshare.allocate(1);
        let pid = inside(&unshare);
        attached(&mut unshare, &pid);
    }
}

/// Whether a process has the segment of a container open.
fn has_open(pid: &str, root: &Path) -> bool {
    let root = root.canonicalize().expect("there");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
    files.any(|file| file.starts_with(&root) && file.extension().is_some_and(|end| end == "seg"))
}

/// Blocks in the profiles or recordings of children, which may be in the making: `out.PID.hwr`.
fn blocks_of_children(scratch: &Scratch, prefix: &str, ending: &str) -> Vec<i64> {
    let names = fs::read_dir(scratch.path("")).expect("files").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_child = |name: &String| {
        let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(ending));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let blocks = |name: String| {
        let mut top = scratch.heapwise(&["top", "--json", "--alloc_objects", "--focus", "^w_", &name]);
        let top: Value = serde_json::from_slice(&top.output().ok()?.stdout).ok()?;
        top["total"].as_i64()
    };
    names.filter(is_child).filter_map(blocks).collect()
}

/// The files of a container end with it: the recorder has them open.
#[test]
#[ignore = "needs root"]
fn run_follows_children_into_containers() {
    require_containers();
    for (mode, prefix, ending) in [("--exact", "out.heap.", ""), ("--log", "out.", ".hwr")] {
        let scratch = Scratch::new();
        let output = if mode == "--log" { "out.hwr" } else { "out.heap" };
        let mut run = scratch.heapwise(&["run", "--children", mode, "-o", output, "--", "/usr/bin/unshare"]);
        fs::create_dir_all(scratch.path("root")).expect("made");
        run.args(CONTAINER)
            .arg(IN_CHROOT)
            .arg(victims().join("allocates_when_told"))
            .arg(scratch.path("root"));
        run.env_remove("HEAPWISE_DIR").env_remove("XDG_CACHE_HOME").stderr(Stdio::piped());
        let mut run = Running::of(&mut run);
        run.allocate(300);
        let children = || blocks_of_children(&scratch, prefix, ending);
        wait_until("the container is recorded", || match mode {
            "--log" => children().contains(&300),
            _ => has_open(&run.pid(), &scratch.path("root")),
        });
        run.allocate(200);
        run.end();
        assert!(children().contains(&500), "{mode}: {:?}", children());
    }
}

fn refuses(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// What another user's process has mapped in the name of a segment is a hostile file at most.
#[test]
#[ignore = "needs root"]
fn hostile_segments_of_other_users_do_not_hurt() {
    let planted = victims().join("maps_planted");
    let public = Public::new(&[&planted]);
    let scratch = Scratch::new();
    let folder = public.path("folder");
    fs::create_dir(&folder).and_then(|()| chown(&folder, Some(public.user), None)).expect("made");
    let mut planter = as_user(&scratch, &public, "maps_planted");
    let mut planter = Running::of(planter.arg(&folder));
    assert_eq!(planter.line(), "mapped\n");
    let pid = planter.pid();
    let file = folder.join(format!("{pid}-1.seg"));
    let segment = fs::OpenOptions::new().read(true).write(true).open(&file).expect("there");
    let orders = [&["top"][..], &["stop"], &["stats"], &["record", "-s", "1"], &["collect", "-s", "1"]];
    let all = |what: &str| {
        for order in orders {
            let arguments: Vec<&str> = order.iter().copied().chain([pid.as_str()]).collect();
            let output = scratch.heapwise(&arguments).output().expect("it starts");
            let said = refuses(&output);
            assert!(!said.contains("panicked"), "{what} {order:?}: {said}");
        }
    };
    all("zeros");
    segment.write_all_at(&[0xff; 1 << 16], 0).expect("written");
    all("ones");
    // A name that leads elsewhere: the mapped file is read, and nothing else.
    fs::write(scratch.path("precious"), [0; 70_000]).expect("written");
    fs::remove_file(&file).and_then(|()| symlink(scratch.path("precious"), &file)).expect("linked");
    all("link");
    assert_eq!(fs::read(scratch.path("precious")).expect("there"), [0; 70_000]);
    // Somebody else's file, which the process was given.
    segment.set_permissions(fs::Permissions::from_mode(0o600)).expect("its own");
    std::os::unix::fs::fchown(&segment, Some(public.user + 1), None).expect("given away");
    all("owner");
    assert!(listed(&scratch, "maps_planted").iter().all(|row| !is_pid(row, &pid)));
}

/// Names in the directories of other users: no link is followed, no pipe blocks.
#[test]
#[ignore = "needs root"]
fn names_that_other_users_plant_are_not_followed() {
    let public = Public::new(&[]);
    let scratch = Scratch::new();
    let folder = public.segments();
    fs::create_dir(&folder).and_then(|()| chown(&folder, Some(public.user), None)).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("closed");
    fs::write(public.path("precious"), [0; 70_000]).expect("written");
    symlink(public.path("precious"), folder.join("4194291-1.seg")).expect("linked");
    let pipe = Command::new("mkfifo").arg(folder.join("4194292-1.seg")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    fs::write(folder.join("4194293-1.seg"), [0; 70_000]).expect("root's, in a directory of another");
    for pid in ["4194291", "4194292", "4194293"] {
        let output = scratch.heapwise(&["top", pid]).output().expect("it starts");
        assert!(refuses(&output).contains("no process"), "{pid}");
    }
    let dead = scratch.json_of(&["ps", "--all", "--dead", "--json"]);
    assert!(dead.as_array().expect("a list").iter().all(|row| row["pid"].as_u64() < Some(4_194_291)));
    assert_eq!(fs::read(public.path("precious")).expect("there"), [0; 70_000]);
}

/// Only root can suspend a filter while the probe is loaded.
#[test]
#[ignore = "needs root"]
fn an_unprivileged_user_does_not_attach_behind_a_filter() {
    let own = Path::new(env!("CARGO_BIN_EXE_heapwise"));
    let public = Public::new(&[own, &victims().join("filtered_told")]);
    let scratch = Scratch::new();
    let mut filtered = Running::of(&mut as_user(&scratch, &public, "filtered_told"));
    filtered.allocate(1);
    let output = as_user(&scratch, &public, "heapwise").args(["attach", &filtered.pid()]).output();
    let said = refuses(&output.expect("it starts"));
    assert!(said.contains("behind a seccomp filter, which only root can suspend"), "{said}");
    filtered.allocate(1);
}

#[test]
#[ignore = "needs root"]
fn an_unprivileged_user_reaches_nobody_else() {
    let own = Path::new(env!("CARGO_BIN_EXE_heapwise"));
    let public = Public::new(&[own]);
    let scratch = Scratch::new();
    let mut told = Running::of(&mut scratch.command(victims().join("allocates_when_told")));
    told.allocate(1);
    let pid = told.pid();
    let mut carrier = scratch.command(victims().join("allocates_when_told"));
    let mut carrier = Running::of(carrier.env("LD_PRELOAD", library(&scratch)));
    carrier.allocate(1);
    let carried = carrier.pid();
    let orders =
        [vec!["attach", &*pid], vec!["detach", &*pid], vec!["top", &*carried], vec!["stop", &*carried]];
    for order in orders {
        let output = as_user(&scratch, &public, "heapwise").args(&order).output().expect("it starts");
        let said = refuses(&output);
        assert!(
            said.contains("belongs to user 0; run heapwise as that user, or as root"),
            "{order:?} {said}"
        );
    }
    let listed = as_user(&scratch, &public, "heapwise").args(["ps", "--all", "--json"]).output();
    let listed: Value = serde_json::from_slice(&listed.expect("it starts").stdout).expect("JSON");
    let has = |row: &Value| is_pid(row, &carried);
    assert!(!listed.as_array().expect("a list").iter().any(has), "{listed}");
}
