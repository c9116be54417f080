//! `kills`: everything but recordings (see `torture`) under SIGKILL at random moments: a program
//! without a controller, controllers in the middle of a write, servers, writers of caches. The
//! remaining files must be usable by the next command, and a profiled program must not be affected.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::account;
use crate::random::Random;

/// What the kills need.
pub struct Kills {
    /// The heapwise executable.
    pub heapwise: PathBuf,
    /// The compiled `tortured`.
    pub victim: PathBuf,
    /// A directory of its own.
    pub scratch: PathBuf,
}

/// A program with the probe inside, killed when dropped.
struct Running(Child);

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kills {
    /// A quarter of `rounds` for each kind of process that is killed; each restarts its helpers now
    /// and then.
    pub fn run(&self, rounds: u32, seed: u64) -> Result<(), String> {
        let mut random = Random::new(seed);
        self.clear()?;
        let each = rounds.div_ceil(4);
        let failed = |who: &str, round: u32, problem: String| format!("{who}, round {round}: {problem}");
        for round in 0..each {
            self.program(&mut random).map_err(|problem| failed("program", round, problem))?;
        }
        self.controllers(each, &mut random)?;
        self.servers(each, &mut random)?;
        for round in 0..each {
            self.cache_writer(&mut random).map_err(|problem| failed("cache", round, problem))?;
        }
        Ok(())
    }

    /// The program dies alone; its last state holds every block it had finished and none it had not
    /// begun.
    fn program(&self, random: &mut Random) -> Result<(), String> {
        let running = self.start()?;
        std::thread::sleep(random.moment(60));
        let pid = running.pid();
        drop(running);
        let found = account::total(self.command(), Path::new(&pid), "alloc_objects", "^w_malloc$")?;
        let (begun, done) = self.account();
        if found < done || found > begun {
            return Err(format!("{found} found, {done} done, {begun} begun"));
        }
        self.succeeds(&["ps", "--clean"])
    }

    /// Controllers die in the middle of their orders; the program goes on, the next order is
    /// obeyed, a dump is whole.
    fn controllers(&self, rounds: u32, random: &mut Random) -> Result<(), String> {
        let running = self.start()?;
        let pid = running.pid();
        let dump = self.scratch.join("dumped.heap");
        let file = dump.to_string_lossy().into_owned();
        let orders: [&[&str]; 7] = [
            &["start", "--exact", &pid],
            &["set", "-c", "4K", &pid],
            &["stop", &pid],
            &["reset", &pid],
            &["mark", &pid, "here"],
            &["dump", "-f", "-o", &file, &pid],
            &["collect", "-s", "1", "-f", "-o", &file, &pid],
        ];
        for round in 0..rounds {
            let order = orders[random.below(orders.len() as u64) as usize];
            self.kill_midway(order, random.moment(40))?;
            let check = || -> Result<(), String> {
                if dump.exists() {
                    account::total(self.command(), &dump, "alloc_objects", ".")?;
                    fs::remove_file(&dump).map_err(|error| error.to_string())?;
                }
                self.succeeds(&["start", "--exact", &pid])?;
                self.says(&["stats", "--json", &pid], "exact")?;
                self.goes_on()
            };
            check().map_err(|problem| format!("controller {order:?}, round {round}: {problem}"))?;
        }
        Ok(())
    }

    /// Servers die while they answer; the next one listens on the same socket, and shows what was
    /// kept.
    fn servers(&self, rounds: u32, random: &mut Random) -> Result<(), String> {
        let running = self.start()?;
        let (socket, kept) = (self.scratch.join("socket"), self.scratch.join("kept"));
        for round in 0..rounds {
            let mut server = self
                .command()
                .args(["serve", "--listen"])
                .arg(&socket)
                .arg("--profile-dir")
                .arg(&kept)
                .arg(running.pid())
                .stdout(Stdio::null())
                .spawn()
                .map_err(|error| error.to_string())?;
            let answer = self.ask(&socket, "/pprof/heap");
            let pending = Command::new("curl")
                .args(["-s", "-m", "5", "--unix-socket"])
                .arg(&socket)
                .arg("http://localhost/hotspots/heap?display_type=text")
                .stdout(Stdio::null())
                .spawn();
            std::thread::sleep(random.moment(80));
            let _ = server.kill().and_then(|()| server.wait().map(drop));
            if let Ok(mut pending) = pending {
                let _ = pending.wait();
            }
            let whole = answer.and_then(|()| self.kept_profiles_open(&kept)).and_then(|()| self.goes_on());
            whole.map_err(|problem| format!("server, round {round}: {problem}"))?;
        }
        Ok(())
    }

    /// The process that fills the caches is killed; the next report is the same as one without a
    /// cache, and the next program gets a whole library.
    fn cache_writer(&self, random: &mut Random) -> Result<(), String> {
        let cache = self.scratch.join("cache");
        let _ = fs::remove_dir_all(&cache);
        let profile = self.scratch.join("profile.heap");
        let path = profile.to_string_lossy().into_owned();
        // A program that ends by itself, of the same machine as heapwise.
        let victim = self.victim.to_string_lossy().into_owned();
        let account = self.scratch.join("account").to_string_lossy().into_owned();
        let program = ["--", &victim, &account, "10", "1"];
        if !profile.exists() {
            self.succeeds(&[&["run", "--exact", "-o", &path], &program[..]].concat())?;
        }
        let with_cache = |arguments: &[&str]| {
            let mut command = self.command();
            command.args(arguments).env("XDG_CACHE_HOME", &cache).stdout(Stdio::piped());
            command
        };
        let other = self.scratch.join("other.heap").to_string_lossy().into_owned();
        let run = [&["run", "--exact", "-f", "-o", &other], &program[..]].concat();
        for writer in [&["top", &path][..], &run] {
            let mut child = with_cache(writer).spawn().map_err(|error| error.to_string())?;
            std::thread::sleep(random.moment(60));
            let _ = child.kill().and_then(|()| child.wait().map(drop));
        }
        let report = |command: &mut Command| command.output().map(|output| output.stdout).ok();
        if report(&mut with_cache(&["top", &path])) != report(&mut with_cache(&["top", "--no-cache", &path]))
        {
            return Err("a report changed with what a killed writer left in the cache".into());
        }
        let run = [&["run", "--exact", "-q", "-f", "-o", &path], &program[..]].concat();
        if with_cache(&run).output().is_ok_and(|output| output.status.success() && profile.exists()) {
            return Ok(());
        }
        Err("no program runs with what a killed writer left of the library".into())
    }

    fn kept_profiles_open(&self, kept: &Path) -> Result<(), String> {
        let folders = fs::read_dir(kept).into_iter().flatten().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten().flatten();
        for file in files.map(|file| file.path()) {
            let is_profile = file.extension().is_some_and(|ending| ending == "heap");
            // A name taken by a server that died before it had the content; the page does not show
            // it.
            let is_empty = fs::metadata(&file).is_ok_and(|data| data.len() == 0);
            if is_profile && !is_empty {
                account::total(self.command(), &file, "alloc_objects", ".")?;
                let _ = fs::remove_file(&file);
            }
        }
        Ok(())
    }

    fn kill_midway(&self, order: &[&str], after: Duration) -> Result<(), String> {
        let mut child = self.command().args(order).spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(after);
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    fn succeeds(&self, arguments: &[&str]) -> Result<(), String> {
        self.says(arguments, "")
    }

    fn says(&self, arguments: &[&str], word: &str) -> Result<(), String> {
        let output = self.command().args(arguments).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let fine = output.status.success() && text.contains(word);
        if fine { Ok(()) } else { Err(format!("heapwise {arguments:?}: {}: {text}", output.status)) }
    }

    /// Waits for a server to answer.
    fn ask(&self, socket: &Path, page: &str) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let status = Command::new("curl")
                .args(["-s", "-f", "-m", "10", "-o", "/dev/null", "--unix-socket"])
                .arg(socket)
                .arg(format!("http://localhost{page}"))
                .status();
            if status.is_ok_and(|status| status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("the server does not answer".into())
    }

    fn start(&self) -> Result<Running, String> {
        let text = |error: std::io::Error| error.to_string();
        let library = self.command().arg("preload").output().map_err(text)?;
        let account = self.scratch.join("account");
        let _ = fs::remove_file(&account);
        let child = Command::new(&self.victim)
            .arg(&account)
            .args(["3600000", "2"])
            .env("LD_PRELOAD", String::from_utf8_lossy(&library.stdout).trim())
            .env("HEAPWISE_CONF", "mode:exact")
            .env("HEAPWISE_DIR", self.segments())
            .stdout(Stdio::null())
            .spawn()
            .map_err(text)?;
        let running = Running(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.account().0 == 0 {
            if Instant::now() > deadline {
                return Err("the victim did not start".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(running)
    }

    /// Allocations begun and done by the victim.
    fn account(&self) -> (u64, u64) {
        account::begun_and_done(&self.scratch.join("account"))
    }

    fn goes_on(&self) -> Result<(), String> {
        let before = self.account().1;
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.account().1 > before {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("the program stands still".into())
    }

    fn segments(&self) -> PathBuf {
        self.scratch.join("segments")
    }

    fn clear(&self) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let _ = fs::remove_dir_all(&self.scratch);
        fs::create_dir_all(&self.scratch).map_err(text)?;
        fs::DirBuilder::new().mode(0o700).create(self.segments()).map_err(text)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.heapwise);
        command.env("HEAPWISE_DIR", self.segments()).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}
