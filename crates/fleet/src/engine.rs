//! Where queries run: in this process, or on a Ballista cluster.

use heapwise_capture::failure::Outcome;

use crate::catalog::Catalog;
use crate::manifest::Manifest;
use crate::store::Store;

/// All segments of a manifest, queried on the cluster of a scheduler (HOST:PORT), or in this
/// process without one.
pub fn catalog(store: &Store, manifest: &Manifest, scheduler: Option<&str>) -> Outcome<Catalog> {
    match scheduler {
        None => Catalog::new(store, manifest),
        #[cfg(feature = "ballista")]
        Some(scheduler) => {
            let context = crate::cluster::context(store, scheduler)?;
            Catalog::with_context(store, context, &crate::catalog::all_segments(manifest))
        }
        #[cfg(not(feature = "ballista"))]
        Some(_) => Err(heapwise_capture::failure::Failure::new(
            "this heapwise-fleet has no Ballista; build it with --features ballista",
        )),
    }
}
