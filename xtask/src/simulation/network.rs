//! Hosts of a simulated fleet: network namespaces on one bridge, without a way out.

use std::process::Command;

use crate::runner;
use heapwise_testkit::failure::Failure;

/// Address of the server, on the bridge.
pub(crate) const SERVER: &str = "10.77.0.1";

/// Address of a host, on the bridge.
pub(crate) fn address(host: usize) -> String {
    format!("10.77.0.{}", 10 + host)
}

/// Namespaces that are removed with the value. The bridge is in the namespace of the server.
pub(crate) struct Network {
    hub: String,
    hosts: Vec<String>,
}

impl Network {
    /// Makes the namespace of the server and one for each host.
    pub(crate) fn new(hosts: usize) -> Result<Self, Failure> {
        let prefix = format!("heapwise-{}", std::process::id());
        let mut network = Self { hub: format!("{prefix}-hub"), hosts: Vec::new() };
        let hub = network.hub.clone();
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "set", "lo", "up"])?;
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &hub, "addr", "add", &format!("{SERVER}/24"), "dev", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "bridge", "up"])?;
        for number in 0..hosts {
            let host = format!("{prefix}-{number}");
            network.hosts.push(host.clone());
            network.connect(&host, number)?;
        }
        Ok(network)
    }

    fn connect(&self, host: &str, number: usize) -> Result<(), Failure> {
        let (hub, port) = (self.hub.as_str(), format!("port{number}"));
        ip(&["netns", "add", host])?;
        ip(&["-n", host, "link", "set", "lo", "up"])?;
        ip(&["-n", hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", host])?;
        ip(&["-n", hub, "link", "set", &port, "master", "bridge", "up"])?;
        ip(&["-n", host, "addr", "add", &format!("{}/24", address(number)), "dev", "eth0"])?;
        ip(&["-n", host, "link", "set", "eth0", "up"])
    }

    /// A command on the machine of the server.
    pub(crate) fn on_server(&self, program: &str) -> Command {
        within(&self.hub, program)
    }

    /// A command on a host.
    pub(crate) fn on_host(&self, number: usize, program: &str) -> Command {
        within(&self.hosts[number], program)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain([&self.hub]) {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// The process of the command is the program itself: `ip` calls `exec`.
fn within(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    runner::output(Command::new("ip").args(arguments)).map(drop)
}
