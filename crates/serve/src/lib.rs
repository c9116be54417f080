//! `heapwise serve`: the page, the API, and the addresses of other tools.
//!
//! ```text
//! http → security → route → endpoints → report → views → render cache → http
//!                              sources → cpu budget → profile cache (profiles with symbols)
//! ```
//!
//! Nothing here starts a shell or builds a path from a request: sources are found by id, profiles
//! by name in the listing of their source.

mod assets;
mod bounds;
mod context;
mod cpu_budget;
mod encode;
mod endpoints;
mod error;
mod finding;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod live_history;
mod lru;
mod memory_budget;
mod profile_cache;
mod profile_store;
mod query_params;
mod render_cache;
mod render_key;
mod report;
mod route;
mod security;
mod source;
mod sources;
mod statistics;
mod timeline;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use context::Context;
use http::Listener;
pub use http::{Address, Body, Limits, Method, QueryString, Request, Response, Status};
use memory_budget::MemoryBudget;
use profile_cache::ProfileCache;
use render_cache::RenderCache;
use security::Guard;
use sources::Sources;

use heapwise_capture::failure::Outcome;
use heapwise_capture::input_error;
use heapwise_profile::own_code::OwnRule;
use heapwise_symbolize::Options as SymbolOptions;

/// What a server is started with.
pub struct Settings {
    /// Where to listen.
    pub address: Address,
    /// Given by the user; a fresh one otherwise.
    pub token: Option<String>,
    /// Files, directories, pids, names; every process with the probe when empty.
    pub targets: Vec<String>,
    /// Where profiles taken are kept.
    pub root: PathBuf,
    /// Profiles kept of a process.
    pub most_profiles: usize,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// Which code is the program's own.
    pub own: OwnRule,
    /// Bytes that the server may take.
    pub memory_bytes: usize,
}

/// A server that is bound and ready.
pub struct Server {
    listener: Listener,
    context: Arc<Context>,
}

impl Server {
    /// Binds the address and looks at the targets.
    pub fn new(settings: Settings) -> Outcome<Self> {
        let sources = Sources::new(
            &settings.targets,
            settings.root,
            settings.most_profiles,
            &settings.symbols,
            &settings.own,
        )?;
        let listener = Listener::bind(&settings.address).map_err(|why| {
            input_error!("cannot listen on {}: {}; choose another with --port", settings.address, why)
        })?;
        let guard = Guard::new(listener.address(), settings.token)
            .map_err(|why| input_error!("cannot make a token: {}; give one with --token", why))?;
        let places = thread::available_parallelism().map_or(2, usize::from);
        let memory = Arc::new(MemoryBudget::new(settings.memory_bytes));
        let context = Context {
            sources,
            profiles: ProfileCache::new(settings.symbols, settings.own, Arc::clone(&memory)),
            renders: RenderCache::new(memory.render_cache(), places),
            memory,
            guard,
        };
        Ok(Self { listener, context: Arc::new(context) })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// The token for changes, and for reading where [`Self::token_for_reading`] says so.
    pub fn token(&self) -> &str {
        self.context.guard.token()
    }

    /// Whether readers need the token too.
    pub fn token_for_reading(&self) -> bool {
        self.context.guard.token_for_reading()
    }

    /// Serves until the process ends.
    pub fn run(self) -> ! {
        self.run_with(Limits::default(), |_| None)
    }

    /// Serves until the process ends. Requests that are admitted go to `own` first; those that it
    /// does not answer go to the endpoints of this crate.
    pub fn run_with(
        self,
        limits: Limits,
        own: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static,
    ) -> ! {
        let watched = Arc::clone(&self.context);
        thread::spawn(move || {
            loop {
                watched.sources.beat();
                thread::sleep(live_history::STEP);
            }
        });
        let context = self.context;
        self.listener.run(limits, Arc::new(move |request: &Request| route::answer(&context, request, &own)))
    }
}
