//! Surroundings that only the kernel can make: file systems that fill up, another clock,
//! privileges, a recorder that stands still. `unshare` (util-linux) makes them without privileges.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::harness::{Scratch, copy_program, is_root, victims, witness};

const HEAPWISE: &str = env!("CARGO_BIN_EXE_heapwise");

/// Runs a shell script with a file system of `kilobytes` at `$SMALL`, which others do not see.
pub fn with_small_disk(scratch: &Scratch, kilobytes: u32, script: &str) -> Output {
    let small = scratch.path("small");
    fs::create_dir(&small).expect("created");
    let mount = format!("mount -t tmpfs -o mode=700,size={kilobytes}k none \"$SMALL\" && {script}");
    scratch
        .command("/usr/bin/unshare")
        .args(["-rm", "sh", "-c", &mount])
        .env("SMALL", small)
        .env("HEAPWISE", HEAPWISE)
        .env("VICTIMS", victims())
        .output()
        .expect("unshare starts")
}

/// The place of the segment is full at once, or fills up while the program runs.
#[test]
fn no_room_for_the_segment() {
    let expected = Scratch::new().command(victims().join("plain")).arg("50000").output().expect("starts");
    for kilobytes in [4, 64, 300] {
        for mode in ["--exact", "-c 1K", "--log"] {
            let script = format!(
                "HEAPWISE_DIR=\"$SMALL\" \"$HEAPWISE\" run {mode} -o out -- \"$VICTIMS/plain\" 50000"
            );
            let output = with_small_disk(&Scratch::new(), kilobytes, &script);
            let what = format!("{kilobytes} KiB {mode}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(witness(&output), witness(&expected), "{what}");
        }
    }
}

/// Nobody named a place, and the usual one is read-only, full or missing: another is found.
#[test]
fn the_usual_place_is_of_no_use() {
    let missing = "mkdir dev && mount -t tmpfs none dev && touch dev/null && mount --bind /dev/null dev/null && \
        mount --move dev /dev && ! test -e /dev/shm";
    for surroundings in
        ["mount -t tmpfs -o ro none /dev/shm", "mount -t tmpfs -o size=4k none /dev/shm", missing]
    {
        let script = format!(
            "{surroundings} && unset HEAPWISE_DIR XDG_RUNTIME_DIR && \
             \"$HEAPWISE\" run --exact -o out -- \"$VICTIMS/plain\" 5000 && \
             \"$HEAPWISE\" top --json --alloc_objects --focus ^w_ out | tr , '\\n' | grep '\"total\"'"
        );
        let output = with_small_disk(&Scratch::new(), 4, &script);
        let out = String::from_utf8_lossy(&output.stdout);
        let what = format!("{surroundings}: {out} {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{what}");
        assert!(out.contains(&format!("\"total\":{}", witness(&output)["alloc_objects"])), "{what}");
    }
}

/// What a full segment could not take is counted.
#[test]
fn losses_for_lack_of_room_are_told() {
    let script = "HEAPWISE_DIR=\"$SMALL\" \"$HEAPWISE\" run --exact -o out -- \"$VICTIMS/plain\" 50000";
    let output = with_small_disk(&Scratch::new(), 300, script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("counted as freed at once ("), "{said}");
}

/// The cause of these losses is the file system.
#[test]
fn losses_for_lack_of_room_name_the_file_system() {
    let script = "export HEAPWISE_DIR=\"$SMALL\"; \
        LD_PRELOAD=$(\"$HEAPWISE\" preload) HEAPWISE_CONF=mode:exact \"$VICTIMS/many_stacks\" 40000 >&2; \
        for segment in \"$SMALL\"/*.seg; do pid=${segment##*/}; \"$HEAPWISE\" stats --json ${pid%%-*}; done";
    let output = with_small_disk(&Scratch::new(), 1024, script);
    let said = String::from_utf8_lossy(&output.stderr);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&said);
    let number = |name: &str| stats[0]["probe"][name].as_u64().expect("a number");
    let lost: u64 = ["untracked_blocks", "lost_tallies", "lost_nodes"].map(number).iter().sum();
    assert!(lost > 0 && number("no_space_losses") == lost, "{stats}");
}

/// The disk fills up under a recording: the program does not notice, the user gets a message, what
/// was written opens.
#[test]
fn a_disk_full_of_recording() {
    let scratch = Scratch::new();
    let script = "\"$HEAPWISE\" run --log -o \"$SMALL/out.hwr\" -- \"$VICTIMS/plain\" 500000; \
        echo \"status $?\"; \"$HEAPWISE\" top --json --alloc_objects \"$SMALL/out.hwr\" | tr , '\\n' | grep '\"total\"'";
    let output = with_small_disk(&scratch, 32, script);
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(witness(&output).contains_key("alloc_objects"), "the program ends by itself: {out} {said}");
    assert!(said.contains("No space left") || said.contains("cannot write"), "{said}");
    assert!(out.contains("\"total\":"), "{out} {said}");
}

/// The disk fills up under a recording that the program began itself: a report is the program's
/// account, or an error, and never an earlier state.
#[test]
fn a_disk_full_of_the_programs_own_recording() {
    let script = "cd \"$SMALL\" && LD_PRELOAD=$(\"$HEAPWISE\" preload) HEAPWISE_EXE=\"$HEAPWISE\" \"$VICTIMS/gs_full_disk\"";
    let output = with_small_disk(&Scratch::new(), 256, script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let counted = witness(&output);
    assert!(counted["reports"] >= 1 && counted["refused"] == 6, "{counted:?}: {said}");
}

/// A restart in a container: the program has the same pid and the same directory. Every file of the
/// first run is as it was, and the second run has files of its own.
#[test]
fn a_restart_with_the_same_pid_overwrites_nothing() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let start = |script: &str| {
        let mut command = scratch.command("/usr/bin/unshare");
        command.args(["-r", "--pid", "--fork", "--mount-proc", "sh", "-c", script]);
        command.env("HEAPWISE", HEAPWISE).env("HEAPWISE_EXE", HEAPWISE).env("VICTIMS", victims());
        command.env("PROBE", library.trim()).output().expect("unshare starts")
    };
    if !start("true").status.success() {
        eprintln!("skipped: this kernel gives no pid namespaces to users");
        return;
    }
    let recorded = "\"$HEAPWISE\" run --log --rotate 64K -- \"$VICTIMS/steps\" 2";
    let profiled = "\"$HEAPWISE\" run --exact -- \"$VICTIMS/plain\" 1000";
    let itself = "exec env LD_PRELOAD=\"$PROBE\" \"$VICTIMS/gs_log\"";
    for script in [recorded, profiled, itself] {
        let files = || -> BTreeMap<String, Vec<u8>> {
            let files = fs::read_dir(scratch.path("")).expect("a directory").flatten();
            let files = files.filter(|file| file.path().is_file());
            files
                .map(|file| (file.file_name().to_string_lossy().into(), fs::read(file.path()).expect("read")))
                .collect()
        };
        let before = files();
        let first = start(script);
        assert!(first.status.success(), "{script}: {}", String::from_utf8_lossy(&first.stderr));
        let kept = files();
        assert!(kept.len() > before.len(), "{script}");
        let second = start(script);
        let said = String::from_utf8_lossy(&second.stderr);
        let after = files();
        for (name, bytes) in &kept {
            assert!(after.get(name) == Some(bytes), "{script}: {name} was changed: {said}");
        }
        assert!(after.len() > kept.len(), "{script}: {said}");
    }
}

/// The program's clock is a day ahead of the recorder's, or up to an hour behind it. The kernel
/// refuses a clock below zero, so a machine that was booted just now goes back by half of its
/// uptime only.
#[test]
fn a_clock_that_jumped() {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("readable");
    let uptime: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("seconds");
    let behind = format!("-{}", (uptime as u64 / 2).clamp(1, 3600));
    for offset in ["86400", &behind] {
        let scratch = Scratch::new();
        let output = scratch
            .heapwise(&[
                "run",
                "--log",
                "-q",
                "-o",
                "out.hwr",
                "--",
                "/usr/bin/unshare",
                "-rT",
                "--monotonic",
            ])
            .args([offset, victims().join("plain").to_str().expect("UTF-8"), "100000"])
            .output()
            .expect("heapwise starts");
        let what = format!("{offset}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{what}");
        let report = ["top", "--json", "--alloc_objects", "--focus", "^w_", "out.hwr"];
        let total = scratch.json_of(&report)["total"].as_i64();
        assert_eq!(total, Some(witness(&output)["alloc_objects"]), "{what}");
        let timeline = scratch.json_of(&["timeline", "--json", "out.hwr"]);
        let last_ms = timeline.as_array().and_then(|rows| rows.last()?.get(0)?.as_i64());
        assert!(last_ms.is_some_and(|ms| ms < 120_000), "{what}: {last_ms:?}");
    }
}

/// A recorder that is stopped for a while (a suspended machine, a debugger) costs waiting; and no
/// event, unless it cannot catch up in the second that the program waits for it, which is reported.
#[test]
fn a_recorder_that_stands_still() {
    let scratch = Scratch::new();
    let mut recorder = scratch
        .heapwise(&["run", "--log", "-q", "-o", "out.hwr", "--"])
        .arg(victims().join("tortured"))
        .args(["account", "1500", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("heapwise starts");
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &recorder.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    };
    std::thread::sleep(Duration::from_millis(500));
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(600));
    signal("-CONT");
    let mut out = String::new();
    std::io::Read::read_to_string(&mut recorder.stdout.take().expect("piped"), &mut out).expect("readable");
    assert!(recorder.wait().expect("ends").success());
    let own = heapwise_testkit::account::witness(&out, "alloc_objects").expect("the victim's account");
    let report = ["top", "--json", "--alloc_objects", "--focus", "^w_", "out.hwr"];
    let recorded = scratch.json_of(&report)["total"].as_u64().expect("a total");
    let lost = heapwise_testkit::account::lost(scratch.heapwise(&[]), "out.hwr".as_ref()).expect("opens");
    assert!(recorded <= own && own <= recorded + lost, "{recorded} recorded, {own} allocated, {lost} lost");
}

/// A set-user-ID program of somebody else: heapwise says why not, and the loader keeps the probe
/// out.
#[test]
fn a_privileged_program_is_told_so() {
    let scratch = Scratch::new();
    let program = scratch.path("privileged");
    if is_root() {
        copy_program(victims().join("plain"), &program);
        std::os::unix::fs::chown(&program, Some(65534), None).expect("given away");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("set-user-ID");
    } else {
        std::os::unix::fs::symlink("/usr/bin/su", &program).expect("linked");
    }
    let output = scratch.heapwise(&["run", "-o", "out", "--"]).arg(&program).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("set-user-ID"), "{said}");
}

/// A program that replaces itself by one without the probe: what it left is not taken for a running
/// one.
#[test]
fn replaced_by_a_program_without_the_probe() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut child = scratch
        .command("sh")
        .args(["-c", "exec env -u LD_PRELOAD sleep 30"])
        .env("LD_PRELOAD", library.trim())
        .spawn()
        .expect("sh starts");
    let pid = child.id().to_string();
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    while name() != "sleep\n" {
        std::thread::sleep(Duration::from_millis(5));
    }
    let running = scratch.output_of(&["ps", "--json"]);
    let left = scratch.output_of(&["ps", "--dead", "--json"]);
    let refused = scratch.heapwise(&["start", &pid]).output().expect("heapwise starts");
    child.kill().and_then(|()| child.wait()).expect("killed");
    assert!(!running.contains(&pid), "{running}");
    assert!(left.contains(&pid) && left.contains("replaced"), "{left}");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exec"));
}
