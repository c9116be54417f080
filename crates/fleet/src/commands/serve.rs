//! `serve`: the server, until it is interrupted.

use std::io::Write;
use std::path::PathBuf;

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_fleet::retention::Retention;
use heapwise_fleet::server::{FleetServer, FleetSettings};
use heapwise_fleet::store::Store;
use heapwise_serve::Address;

use crate::args::ServeArgs;

/// Serves until the process ends.
pub(super) fn run(data: PathBuf, store: Store, args: ServeArgs) -> Outcome {
    let address = Address::parse(&args.listen).ok_or_else(|| {
        Failure::new(format!("--listen {}: not an address; give ADDRESS:PORT", args.listen))
    })?;
    let retention = Retention { minutes: args.keep_minutes, hours: args.keep_hours, days: args.keep_days };
    let server = FleetServer::new(FleetSettings {
        data,
        store,
        address,
        token: args.token,
        flush: args.flush,
        scheduler: args.engine.ballista,
        retention,
    })?;
    let token = server.token().map_or_else(String::new, |token| format!("?token={token}"));
    let _ = writeln!(std::io::stderr(), "heapwise-fleet: serving at {}{token}", server.address());
    let tell = |line: String| {
        let _ = writeln!(std::io::stderr(), "heapwise-fleet: {line}");
    };
    let end = move |failure: &Failure| {
        tell(failure.to_string());
        std::process::exit(2);
    };
    server.run(move |failure| tell(format!("{failure}; trying again")), end)
}
