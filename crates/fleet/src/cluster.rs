//! A cluster of Ballista: the scheduler, the executors, and contexts whose queries run on them.
//!
//! Every process reads the store itself: a bucket, or a directory that all of them share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ballista::prelude::SessionContextExt;
use ballista_core::RuntimeProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use heapwise_capture::failure::{Failure, Outcome};

use crate::catalog::{self, QUERY_MEMORY_BYTES};
use crate::store::Store;

/// Seconds without a request of an executor after which its tasks go to others.
const EXECUTOR_TIMEOUT_S: u64 = 20;
/// Seconds between looks for executors that are gone.
const EXPIRY_INTERVAL_S: u64 = 5;
/// Seconds that a query waits for an executor when there is none.
const NO_EXECUTOR_S: u64 = 60;
/// Seconds that intermediate results of a query are kept, and between looks for old ones.
const SHUFFLE_S: u64 = 3600;

/// What an executor is started with.
#[derive(Debug, Clone)]
pub struct ExecutorSettings {
    /// Where other executors and clients fetch results.
    pub address: SocketAddr,
    /// Host of the scheduler.
    pub scheduler_host: String,
    /// Port of the scheduler.
    pub scheduler_port: u16,
    /// Tasks that run at the same time.
    pub cores: usize,
    /// Directory of intermediate results.
    pub work: PathBuf,
}

/// A context whose queries run on a cluster; `scheduler` is HOST:PORT.
///
/// Hash joins: the other side of a join with samples is small in every question, and a sort-merge
/// join would sort all samples (`top` over 10⁸ rows: 40 CPU seconds instead of 2). Plans are made
/// once: the adaptive planner of Ballista 54 dropped limits inside a query.
pub fn context(store: &Store, scheduler: &str) -> Outcome<SessionContext> {
    let config = SessionConfig::new_with_ballista()
        .set_bool("datafusion.optimizer.prefer_hash_join", true)
        .with_ballista_adaptive_query_planner(false);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let connected = store.wait(SessionContext::remote_with_state(&format!("df://{scheduler}"), state));
    connected.map_err(catalog::failure)
}

/// Plans queries and hands out their tasks, until the process ends.
pub fn run_scheduler(store: &Store, address: SocketAddr) -> Outcome {
    let readable = store.clone();
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        external_host: address.ip().to_string(),
        bind_port: address.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: EXECUTOR_TIMEOUT_S,
        expire_dead_executor_interval_seconds: EXPIRY_INTERVAL_S,
        no_executors_grace_period_seconds: NO_EXECUTOR_S,
        ..SchedulerConfig::default()
    }
    .with_override_session_builder(Arc::new(move |config| {
        let state = default_session_builder(config)?;
        register(&readable, state.runtime_env());
        Ok(state)
    }));
    let served = store.wait(async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, address, Arc::new(config)).await
    });
    served.map_err(|why| failure("scheduler", &why))
}

/// Runs tasks of a scheduler, until the process ends.
pub fn run_executor(store: &Store, settings: ExecutorSettings) -> Outcome {
    let ExecutorSettings { address, scheduler_host, scheduler_port, cores, work } = settings;
    std::fs::create_dir_all(&work).map_err(|why| Failure::file(&work, why))?;
    let config = ExecutorProcessConfig {
        bind_host: address.ip().to_string(),
        external_host: Some(address.ip().to_string()),
        port: address.port(),
        scheduler_host,
        scheduler_port,
        vcores: cores,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(work.display().to_string()),
        job_data_ttl_seconds: SHUFFLE_S,
        job_data_clean_up_interval_seconds: SHUFFLE_S,
        memory_pool_size: Some(QUERY_MEMORY_BYTES as u64),
        override_runtime_producer: Some(runtime(store, work)),
        ..ExecutorProcessConfig::default()
    };
    let run = store.wait(start_executor_process(Arc::new(config)));
    run.map_err(|why| failure("executor", &why))
}

/// Makes the environment of tasks, which can read the store.
fn runtime(store: &Store, work: PathBuf) -> RuntimeProducer {
    let store = store.clone();
    Arc::new(move |_: &SessionConfig| {
        let made = RuntimeEnvBuilder::new().with_temp_file_path(work.clone()).build_arc()?;
        register(&store, &made);
        Ok(made)
    })
}

fn register(store: &Store, environment: &Arc<RuntimeEnv>) {
    let (url, objects) = store.objects();
    environment.register_object_store(url.as_ref(), objects);
}

fn failure(what: &str, why: &BallistaError) -> Failure {
    Failure::new(format!("{what}: {why}"))
}
