//! Where the server listens, and the bounded threads that serve what comes in.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::Mode;

use super::connection::{Stream, serve};
use super::{Limits, Negotiation, Request, Response, Status};

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A port of an address of this machine.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Parses `PORT`, `ADDRESS:PORT`, or a path (anything with a `/`) of a Unix socket.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('/') {
            return Some(Address::Unix(PathBuf::from(text)));
        }
        let text = text.replace("localhost", "127.0.0.1");
        match text.parse::<u16>() {
            Ok(port) => Some(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))),
            Err(_) => text.parse().ok().map(Address::Tcp),
        }
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// The address itself, when it is one of the network's.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Address::Tcp(address) => Some(address.ip()),
            Address::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(out, "http://{address}/"),
            Address::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A bound socket that has not accepted a connection yet.
pub(crate) struct Listener {
    socket: Socket,
    address: Address,
}

impl Listener {
    /// Binds. A Unix socket gets mode 0600; one left behind by a dead server is replaced.
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(address) => Socket::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => {
                let stale = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
                    && std::os::unix::net::UnixStream::connect(path).is_err();
                if stale {
                    fs::remove_file(path)?;
                }
                Socket::Unix(bind_private(path)?)
            }
        };
        let address = match &socket {
            Socket::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Socket::Unix(_) => address.clone(),
        };
        Ok(Self { socket, address })
    }

    /// Where it listens, with the port that was really taken.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Serves until the process ends.
    pub(crate) fn run(self, limits: Limits, handle: Arc<dyn Fn(&Request) -> Response + Send + Sync>) -> ! {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let mut stream = match self.accept() {
                Ok(stream) => stream,
                // Out of descriptors or the client is gone already: others may do better later.
                Err(_) => {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            if open.fetch_add(1, Ordering::Relaxed) >= limits.connections {
                open.fetch_sub(1, Ordering::Relaxed);
                refuse(&mut *stream);
                continue;
            }
            let slot = Slot(Arc::clone(&open));
            let handle = Arc::clone(&handle);
            let spawned = thread::Builder::new().name("http".into()).spawn(move || {
                let _slot = slot;
                serve(&mut *stream, &limits, &*handle);
            });
            if spawned.is_err() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Socket::Unix(listener) => Ok(Box::new(listener.accept()?.0)),
        }
    }
}

/// A socket of mode 0600 from its first moment on: changed afterwards, others could connect in
/// between. The mask is the process's; the server has no other thread yet that makes files.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let usual = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(usual);
    listener
}

/// A place among the served connections, released when its thread ends, even by a panic.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(stream: &mut dyn Stream) {
    if stream.limit(Duration::from_millis(200)).is_ok() {
        let busy = Response::error(Status::Unavailable, "too many connections, try again in a moment");
        let _ = busy.write(&mut &mut *stream, &Negotiation::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_judged() {
        let local = |text: &str| Address::parse(text).map(|address| address.is_local());
        assert_eq!(local("8090"), Some(true));
        assert_eq!(local("127.0.0.1:0"), Some(true));
        assert_eq!(local("localhost:80"), Some(true));
        assert_eq!(local("[::1]:80"), Some(true));
        assert_eq!(local("0.0.0.0:80"), Some(false));
        assert_eq!(local("192.168.1.2:80"), Some(false));
        assert_eq!(local("./s.sock"), Some(true));
        assert_eq!(local("99999"), None);
        assert_eq!(local("example.com"), None);
    }
}
