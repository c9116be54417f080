//! Kills agents, the server and executors at random moments and starts them again.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, EXECUTORS};
use super::host::Host;
use super::server::Server;
use heapwise_testkit::failure::Failure;
use heapwise_testkit::random::Random;

/// Time between two looks at what is due.
const STEP: Duration = Duration::from_millis(200);
/// Least and further time between two kills.
const KILL_MS: (u64, u64) = (4000, 8000);
/// Longest time that what was killed stays down.
const DOWN_MS: u64 = 3000;

/// The processes that are killed.
pub(crate) struct Fleet<'a, 'b> {
    pub(crate) hosts: &'b mut [Host<'a>],
    pub(crate) server: &'b mut Server<'a>,
    pub(crate) cluster: &'b mut Cluster<'a>,
}

/// Kills of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kills {
    pub(crate) agents: usize,
    pub(crate) servers: usize,
    pub(crate) executors: usize,
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Agent(usize),
    Server,
    Executor(usize),
}

impl Fleet<'_, '_> {
    /// Kills and starts for some time; then everything runs.
    pub(crate) fn disturb(&mut self, time: Duration, random: &mut Random) -> Result<Kills, Failure> {
        let (started, mut kills) = (Instant::now(), Kills::default());
        let wait = |random: &mut Random| Duration::from_millis(KILL_MS.0) + random.moment(KILL_MS.1);
        let mut kill_at = Instant::now() + wait(random);
        let mut restart_at: Vec<(Instant, Victim)> = Vec::new();
        while started.elapsed() < time {
            std::thread::sleep(STEP);
            self.hosts.iter_mut().try_for_each(Host::restart_ended)?;
            let now = Instant::now();
            if now >= kill_at {
                let victim = self.choose(random);
                self.kill(victim, &mut kills);
                restart_at.push((now + random.moment(DOWN_MS), victim));
                kill_at = now + wait(random);
            }
            for (_, victim) in restart_at.extract_if(.., |(at, _)| *at <= now) {
                self.start(victim)?;
            }
        }
        (0..self.hosts.len()).try_for_each(|number| self.start(Victim::Agent(number)))?;
        (0..EXECUTORS).try_for_each(|number| self.start(Victim::Executor(number)))?;
        self.start(Victim::Server)?;
        self.server.wait()?;
        Ok(kills)
    }

    fn choose(&self, random: &mut Random) -> Victim {
        let hosts = self.hosts.len();
        match random.below((hosts + EXECUTORS) as u64 + 1) as usize {
            0 => Victim::Server,
            number if number <= hosts => Victim::Agent(number - 1),
            number => Victim::Executor(number - hosts - 1),
        }
    }

    fn kill(&mut self, victim: Victim, kills: &mut Kills) {
        match victim {
            Victim::Agent(number) => {
                self.hosts[number].kill_agent();
                kills.agents += 1;
            }
            Victim::Server => {
                self.server.kill();
                kills.servers += 1;
            }
            Victim::Executor(number) => {
                self.cluster.kill_executor(number);
                kills.executors += 1;
            }
        }
    }

    fn start(&mut self, victim: Victim) -> Result<(), Failure> {
        match victim {
            Victim::Agent(number) => self.hosts[number].start_agent(),
            Victim::Server => self.server.start(),
            Victim::Executor(number) => self.cluster.start_executor(number),
        }
    }
}
