//! Bad input gets one line that says what and what to do, exit status 2, and nothing half-written.

use crate::harness::Scratch;

fn refuses(scratch: &Scratch, arguments: &[&str], says: &str) {
    let output = scratch.heapwise(arguments).output().expect("heapwise starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(error.contains(says), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?} wrote to stdout");
}

#[test]
fn wrong_targets() {
    let scratch = Scratch::new();
    refuses(&scratch, &["top", "no-such-file.heap"], "no such file");
    refuses(&scratch, &["start", "4194304"], "no process 4194304");
    refuses(&scratch, &["start", "1"], "does not carry the probe");
    refuses(&scratch, &["collect", "-s", "1"], "no running process carries the probe");
    refuses(&scratch, &["run", "--", "no-such-program"], "no such program");
}

#[test]
fn wrong_numbers() {
    let scratch = Scratch::new();
    refuses(&scratch, &["run", "-c", "0", "--", "true"], "rate of 0");
    refuses(&scratch, &["run", "-c", "5Q", "--", "true"], "unknown unit");
    refuses(&scratch, &["start", "--depth", "100000", "1"], "100000");
}

#[test]
fn files_are_never_overwritten_unless_told() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("there.heap"), "precious").expect("written");
    refuses(&scratch, &["run", "-o", "there.heap", "--", "true"], "exists already");
    assert_eq!(std::fs::read_to_string(scratch.path("there.heap")).expect("readable"), "precious");
}

/// `-o /dev/null -f` as root must not turn the device into a file; a pipe represents it here.
#[test]
fn devices_and_pipes_are_written_to_and_stay() {
    use std::os::unix::fs::FileTypeExt;
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe.heap");
    assert!(scratch.command("/usr/bin/mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let mut reader = scratch.command("/bin/cat");
    let reader = reader.arg(&pipe).stdout(std::process::Stdio::piped()).spawn().expect("cat starts");
    scratch.output_of(&["run", "-q", "--exact", "-f", "-o", "pipe.heap", "--", "sh", "-c", ":"]);
    assert!(std::fs::symlink_metadata(&pipe).is_ok_and(|data| data.file_type().is_fifo()));
    let read = reader.wait_with_output().expect("cat ends").stdout;
    assert!(read.starts_with(b"heap_v2/"), "{} bytes", read.len());
}

#[test]
fn garbage_is_not_a_profile() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("garbage"), [0xfe; 1000]).expect("written");
    refuses(&scratch, &["top", "garbage"], "garbage");
    std::fs::write(scratch.path("empty"), []).expect("written");
    refuses(&scratch, &["top", "empty"], "empty");
}

/// A terabyte of holes, or a device that never ends, costs no memory to speak of.
#[test]
fn what_is_too_large_is_not_read() {
    let scratch = Scratch::new();
    let sparse = std::fs::File::create(scratch.path("sparse.heap")).expect("created");
    sparse.set_len(1 << 40).expect("a hole");
    refuses(&scratch, &["top", "sparse.heap"], "larger than 4 GiB");
}

/// A profile says where its functions' sources are; such a file may be a device or a pipe.
#[test]
fn a_source_file_that_never_ends_is_not_read() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe.c");
    assert!(scratch.command("/usr/bin/mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let profile = format!(
        r#"{{"dhatFileVersion":2,"mode":"rust-heap","verb":"Allocated","bklt":false,"bkacc":false,"tu":"us",
        "Mtu":"s","cmd":"c","pid":1,"tg":1,"te":2,"pps":[{{"tb":8,"tbk":1,"mb":8,"mbk":1,"gb":8,"gbk":1,"eb":8,
        "ebk":1,"fs":[1]}}],"ftbl":["[root]","0x1: lister ({}:3)"]}}"#,
        pipe.display()
    );
    std::fs::write(scratch.path("dhat.json"), profile).expect("written");
    let mut list = scratch.command("/usr/bin/timeout");
    list.args(["20", env!("CARGO_BIN_EXE_heapwise"), "list", "lister", "dhat.json"]);
    let output = list.output().expect("heapwise starts");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("lister"));
}

#[test]
fn a_static_program_is_told_so() {
    let scratch = Scratch::new();
    let program = crate::harness::victims().join("static_program");
    refuses(&scratch, &["run", "--", program.to_str().expect("UTF-8")], "statically linked");
}

#[test]
fn a_sanitized_program_is_told_so() {
    let scratch = Scratch::new();
    let program = crate::harness::victims().join("sanitized");
    refuses(&scratch, &["run", "--", program.to_str().expect("UTF-8")], "built with a sanitizer");
}

#[test]
fn a_directory_open_to_others_is_named() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("open")).expect("created");
    let mut command = scratch.heapwise(&["run", "-o", "p.heap", "--", "sh", "-c", ":"]);
    let output = command.env("HEAPWISE_DIR", scratch.path("open")).output().expect("heapwise starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("open to other users"));
}

#[test]
fn the_programs_output_and_status_are_its_own() {
    let scratch = Scratch::new();
    let output = scratch
        .heapwise(&["run", "-o", "p.heap", "--", "sh", "-c", "echo out; echo err >&2; exit 7"])
        .output()
        .expect("heapwise starts");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("err\n"));
}
