//! `heapwise-fleet serve`: receives batches, answers questions, opens profiles on the page of
//! `heapwise serve`.

mod answers;
mod maintenance;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapwise_agent::batch::MOST_PROFILE_BYTES;
use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::own_code::OwnRule;
use heapwise_serve::{Address, Limits, Method, Request, Response, Server, Settings, Status};

use crate::catalog::Catalog;
use crate::engine;
use crate::ingest::{Ingest, Refusal};
use crate::retention::Retention;
use crate::store::Store;

/// Largest body: the largest profile and its header.
const MOST_BATCH_BYTES: usize = MOST_PROFILE_BYTES as usize + (1 << 20);
/// Memory of the pages and profiles of the server's page.
const PAGE_MEMORY_BYTES: usize = 512 << 20;

/// What a server is started with.
#[derive(Debug)]
pub struct FleetSettings {
    /// Directory of the log and of opened profiles.
    pub data: PathBuf,
    /// Where segments are kept.
    pub store: Store,
    /// Where to listen.
    pub address: Address,
    /// Token for all requests.
    pub token: Option<String>,
    /// Time between flushes.
    pub flush: Duration,
    /// Scheduler of the cluster that questions run on; in this process without.
    pub scheduler: Option<String>,
    /// How long samples are kept.
    pub retention: Retention,
}

/// A server that is bound and ready.
pub struct FleetServer {
    pages: Server,
    state: Arc<State>,
    flush: Duration,
}

/// What requests share.
#[derive(Debug)]
struct State {
    ingest: Ingest,
    store: Store,
    /// Profiles that were opened; a source of the page.
    opened: PathBuf,
    scheduler: Option<String>,
    /// The token, where reading needs it.
    token: Option<String>,
}

impl State {
    /// The tables as of now.
    fn catalog(&self) -> Outcome<Catalog> {
        engine::catalog(&self.store, &self.ingest.current(), self.scheduler.as_deref())
    }
}

impl FleetServer {
    /// Replays the log and binds the address.
    pub fn new(settings: FleetSettings) -> Outcome<Self> {
        let FleetSettings { data, store, address, token, flush, scheduler, retention } = settings;
        let opened = data.join("opened");
        std::fs::create_dir_all(&opened).map_err(|why| Failure::file(&opened, why))?;
        let ingest = Ingest::open(store.clone(), &data, retention)?;
        let pages = Server::new(Settings {
            address,
            token,
            targets: vec![opened.display().to_string()],
            root: data.join("profiles"),
            most_profiles: 1,
            symbols: heapwise_symbolize::Options::default(),
            memory_bytes: PAGE_MEMORY_BYTES,
            own: OwnRule::default(),
        })?;
        let token = pages.token_for_reading().then(|| pages.token().to_owned());
        Ok(Self { pages, state: Arc::new(State { ingest, store, opened, scheduler, token }), flush })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.pages.address()
    }

    /// The token, where requests need it.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.state.token.as_deref()
    }

    /// Serves until the process ends. `report` gets failures of the maintenance, which is tried
    /// again; `end` gets the failure after which it cannot, and ends the process.
    pub fn run(
        self,
        report: impl Fn(&Failure) + Send + 'static,
        end: impl FnOnce(&Failure) + Send + 'static,
    ) -> ! {
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || end(&maintenance::run(&state.ingest, self.flush, report)));
        let state = self.state;
        let limits = Limits { body_bytes: MOST_BATCH_BYTES, ..Limits::default() };
        self.pages.run_with(limits, move |request| answer(&state, request))
    }
}

/// Now, in nanoseconds since the epoch.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The answer to a request about the fleet; `None` for those of the page.
fn answer(state: &State, request: &Request) -> Option<Response> {
    let path: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
    let answered = match (request.method, path.as_slice()) {
        (Method::Post, ["v1", "batches"]) => return Some(accept(state, request)),
        (_, ["v1", "status"]) => answers::status(state),
        (Method::Post, ["v1", "query"]) => answers::query(state, request),
        (_, ["v1", "ask", question]) => answers::question(state, request, question),
        (_, ["v1", "sql", question]) => answers::sql(state, request, question),
        (_, ["v1", "profile"]) => answers::open(state, request),
        (_, ["v1", "merged"]) => answers::open_merged(state, request),
        (_, []) => return Some(answers::page(state)),
        (_, ["v1", name]) => return answers::page_file(name),
        _ => return None,
    };
    Some(answered.unwrap_or_else(|why| Response::error(Status::BadRequest, &why.to_string())))
}

fn accept(state: &State, request: &Request) -> Response {
    match state.ingest.accept(&request.body, now_ns()) {
        Ok(receipt) => Response::json(serde_json::to_vec(&receipt).unwrap_or_default()),
        Err(refusal @ Refusal::Unreadable) => Response::error(Status::BadRequest, &refusal.to_string()),
        Err(refusal) => Response::error(Status::Unavailable, &refusal.to_string()),
    }
}
