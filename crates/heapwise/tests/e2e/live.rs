//! The live view in a real terminal emulator.

use std::time::{Duration, Instant};

use crate::coverage::Told;
use crate::harness::Scratch;

/// A terminal of tmux with `heapwise live` in it. The server is this test's own.
struct Screen<'a> {
    scratch: &'a Scratch,
}

impl<'a> Screen<'a> {
    fn open(scratch: &'a Scratch, arguments: &str) -> Self {
        let screen = Self { scratch };
        let command = format!("{} live {arguments}; read wait", env!("CARGO_BIN_EXE_heapwise"));
        screen.tmux(&["new-session", "-d", "-s", "live", "-x", "100", "-y", "24", &command]);
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.scratch.path("tmux");
        let mut command = self.scratch.command("tmux");
        command.env("LC_ALL", "C.UTF-8").arg("-u").arg("-S").arg(socket).args(arguments);
        let output = command.output().expect("tmux is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "live"], keys].concat());
    }

    /// Waits until the terminal shows `text`; all that it shows.
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(|shown| shown.contains(text))
    }

    fn wait_until(&self, is_it: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let shown = self.tmux(&["capture-pane", "-p", "-t", "live"]);
            if is_it(&shown) {
                return shown;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
#[ignore = "needs tmux"]
fn the_live_view_follows_a_process_and_controls_it() {
    let scratch = Scratch::new();
    let mut program = Told::start(&scratch, "mode:exact");
    program.allocate(100);
    let screen = Screen::open(&scratch, &format!("-i 100ms {}", program.pid()));
    let shown = screen.wait_for("w_allocate");
    assert!(shown.contains("exact") && shown.contains("97.7 KiB"), "{shown}");
    program.allocate(900);
    screen.wait_for("977 KiB");
    screen.press(&["Enter"]);
    screen.wait_for("← main");
    screen.press(&["r"]);
    screen.wait_for("recording is off");
    // The probe obeys at the program's next allocations.
    program.allocate(1000);
    let process = scratch.json_of(&["ps", "--json"]);
    assert!(process.to_string().contains("\"off\""), "{process}");
    screen.press(&["q"]);
    let left = screen.wait_until(|shown| !shown.contains("q quit"));
    assert!(left.trim().is_empty(), "the terminal is as it was: {left}");
    program.end();
}
