//! The claims of THREAT_MODEL.md about files, directories, sockets and other users. Tests that need
//! a second user run only as root, with the user `nobody`.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Scratch, copy_program, is_root, victims, witness};

const NOBODY: u32 = 65534;

/// The leading pages of a segment; the whole is sparse and of many gigabytes.
fn head_of(segment: &Path) -> Vec<u8> {
    let mut head = vec![0; 64 * 1024];
    fs::File::open(segment).and_then(|file| file.read_exact_at(&mut head, 0)).expect("readable");
    head
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

/// A program with the probe inside, for as long as this lives.
struct Carrier(Child);

impl Carrier {
    fn start(scratch: &Scratch) -> (Self, PathBuf) {
        let library = scratch.output_of(&["preload"]);
        let mut command = scratch.command(victims().join("live_switch"));
        command.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", "mode:exact");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("victim starts");
        let carrier = Self(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !scratch.heapwise(&["stats", &carrier.pid()]).output().is_ok_and(|out| out.status.success()) {
            assert!(Instant::now() < deadline, "no segment appeared");
            std::thread::sleep(Duration::from_millis(10));
        }
        let entries = fs::read_dir(scratch.path("segments")).expect("readable");
        let segment = entries.flatten().map(|entry| entry.path()).next().expect("a segment");
        (carrier, segment)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn refuses(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(word), "{said}");
}

#[test]
fn a_segment_is_its_users_alone() {
    let scratch = Scratch::new();
    let (carrier, segment) = Carrier::start(&scratch);
    assert_eq!(mode_of(&segment), 0o600);
    assert_eq!(mode_of(&scratch.path("segments")), 0o700);
    // Once others may write there, names are no longer believed.
    assert!(scratch.output_of(&["ps"]).contains(&carrier.pid()));
    fs::set_permissions(scratch.path("segments"), fs::Permissions::from_mode(0o777)).expect("opened");
    assert!(!scratch.output_of(&["ps"]).contains(&carrier.pid()));
}

#[test]
fn what_only_looks_like_a_segment_is_not_opened() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path("segments").join(name);
    fs::write(scratch.path("elsewhere"), [0; 70_000]).expect("written");
    symlink(scratch.path("elsewhere"), at("4194301-1.seg")).expect("linked");
    fs::create_dir(at("4194302-1.seg")).expect("made");
    assert!(Command::new("mkfifo").arg(at("4194303-1.seg")).status().is_ok_and(|status| status.success()));
    fs::write(at("4194304-1.seg"), b"HEAPWISE").expect("written");
    for pid in ["4194301", "4194302", "4194303", "4194304"] {
        let output = scratch.heapwise(&["top", pid]).output().expect("heapwise starts");
        refuses(&output, "seg");
    }
    // They do not keep anybody from the others.
    let (carrier, _) = Carrier::start(&scratch);
    assert!(scratch.output_of(&["ps"]).contains(&carrier.pid()));
    assert_eq!(fs::read(scratch.path("elsewhere")).expect("still there"), [0; 70_000]);
}

#[test]
fn a_directory_of_others_holds_no_segment() {
    let scratch = Scratch::new();
    let planted = scratch.path("planted");
    fs::create_dir(&planted).expect("made");
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o777)).expect("opened");
    symlink(scratch.path("segments"), scratch.path("link")).expect("linked");
    for place in [&planted, &scratch.path("link")] {
        let mut command = scratch.heapwise(&["run", "--exact", "-o", "out", "--"]);
        command.arg(victims().join("plain")).arg("100").env("HEAPWISE_DIR", place);
        let output = command.output().expect("heapwise starts");
        assert_eq!(output.status.code(), Some(0));
        assert!(witness(&output).contains_key("alloc_objects"));
        assert_eq!(fs::read_dir(place).expect("readable").count(), 0, "{}", place.display());
    }
}

#[test]
fn the_preload_library_is_compared_before_each_use() {
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    let library = || {
        let output = scratch.heapwise(&["preload"]).env("XDG_CACHE_HOME", &cache).output().expect("starts");
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    };
    let first = library();
    assert!(first.starts_with(&cache), "{}", first.display());
    let genuine = fs::read(&first).expect("readable");
    assert_eq!(mode_of(&first) & 0o022, 0);
    // Changed in one byte, cut off, replaced by a link.
    let mut changed = genuine.clone();
    changed[genuine.len() / 2] ^= 1;
    for bad in [&changed[..], &genuine[..100]] {
        fs::remove_file(&first).and_then(|()| fs::write(&first, bad)).expect("replaced");
        assert_eq!(fs::read(library()).expect("readable"), genuine);
    }
    fs::write(scratch.path("evil.so"), &genuine).expect("written");
    fs::remove_file(&first).and_then(|()| symlink(scratch.path("evil.so"), &first)).expect("linked");
    let again = library();
    assert!(fs::symlink_metadata(&again).is_ok_and(|data| data.is_file()), "no link is used");
    // A directory that others may write to is not used at all.
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(first.parent().expect("a directory"), open).expect("opened");
    assert!(!library().starts_with(&cache));
}

#[test]
fn a_socket_is_its_users_alone() {
    let scratch = Scratch::new();
    let socket = scratch.path("socket");
    let path = socket.to_str().expect("UTF-8");
    let (carrier, _) = Carrier::start(&scratch);
    // Nobody's mask may open it. Changed after it was made it would be open for a moment; then
    // chmod would be called.
    let mut server = scratch.command("/bin/sh");
    server.args(["-c", "umask 0; exec \"$0\" serve --listen \"$1\" \"$2\"", env!("CARGO_BIN_EXE_heapwise")]);
    let server = server.args([path, &carrier.pid()]).stderr(Stdio::null()).spawn();
    let server = Carrier(server.expect("heapwise starts"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "no socket appeared");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(mode_of(&socket) & 0o077, 0, "{:o}", mode_of(&socket));
    drop(server);
}

/// The names of automatic dumps can be guessed: what a link of that name points to is not
/// overwritten.
#[test]
fn a_dump_goes_through_no_link() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    fs::write(scratch.path("precious"), "ours").expect("written");
    let run = |plant: &str| {
        let mut shell = scratch.command("/bin/sh");
        let script = format!("{plant}; LD_PRELOAD=\"$1\" exec \"$0\" 100");
        let output = shell
            .args(["-c", &script])
            .arg(victims().join("plain"))
            .arg(library.trim())
            .env("MALLOC_CONF", "prof:true,prof_final:true,prof_prefix:out")
            .output()
            .expect("sh starts");
        assert!(witness(&output).contains_key("alloc_objects"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // The link is older than the program: the names of files that appear later are passed over.
    let said = run("ln -s precious out.$$.0.f.heap; sleep 1");
    assert!(said.contains("failed to open"), "{said}");
    assert_eq!(fs::read(scratch.path("precious")).expect("there"), b"ours");
    // Without the link the same program writes one.
    assert_eq!(run("true"), "");
    let dumps = fs::read_dir(scratch.path("")).expect("readable").flatten();
    let is_dump = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_file())
            && entry.file_name().to_string_lossy().ends_with(".0.f.heap")
    };
    assert_eq!(dumps.filter(is_dump).count(), 1);
}

/// heapwise as nobody, from a place where nobody can run it.
fn as_nobody(scratch: &Scratch, arguments: &[&str]) -> Output {
    let place = std::env::temp_dir().join(format!("heapwise-test-{}", std::process::id()));
    let executable = place.join("heapwise");
    fs::create_dir_all(&place).expect("made");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("opened");
    copy_program(env!("CARGO_BIN_EXE_heapwise"), &executable);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&executable)
        .args(arguments)
        .current_dir("/")
        .env("HEAPWISE_DIR", scratch.path("segments"))
        .env_remove("XDG_CACHE_HOME")
        .output()
        .expect("setpriv starts");
    fs::remove_dir_all(&place).expect("removed");
    output
}

#[test]
fn another_user_neither_reads_nor_controls() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (carrier, segment) = Carrier::start(&scratch);
    // Even when the directory is open and the name is known, the file is not.
    fs::set_permissions(scratch.path("segments"), fs::Permissions::from_mode(0o755)).expect("opened");
    let control = || head_of(&segment)[4096..8192].to_vec();
    let (before, pid) = (control(), carrier.pid());
    for order in [&["top"][..], &["stop"], &["reset"], &["dump"], &["record", "-s", "1"], &["stats"]] {
        let arguments: Vec<&str> = order.iter().copied().chain([pid.as_str()]).collect();
        let output = as_nobody(&scratch, &arguments);
        assert_eq!(output.status.code(), Some(2), "{order:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty(), "{order:?}");
    }
    assert_eq!(control(), before, "not a word was changed");
}

/// A program that gives up root's rights and runs another: the loader finds the library, and says
/// nothing.
#[test]
fn a_program_that_drops_its_rights_can_still_run_others() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let dropping = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/echo", "fine"];
    let mut command = scratch.heapwise(&["run", "-q", "-o", "out", "--"]);
    let output = command.args(dropping).env_remove("XDG_CACHE_HOME").output().expect("heapwise starts");
    assert_eq!(output.stdout, b"fine\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("ld.so"), "{said}");
}

/// A segment of somebody else's, planted in our directory, is not believed.
#[test]
fn a_segment_of_another_user_is_not_opened() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (carrier, segment) = Carrier::start(&scratch);
    let planted = scratch.path("segments").join("4194301-1.seg");
    fs::write(&planted, head_of(&segment))
        .and_then(|()| chown(&planted, Some(NOBODY), None))
        .expect("planted");
    drop(carrier);
    refuses(&scratch.heapwise(&["top", "4194301"]).output().expect("starts"), "not a file of this user");
}
