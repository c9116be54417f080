//! Draws the pictures of the README from a made-up program: `cargo run --example pictures DIR`.

use heapwise_profile::fixture::profile;
use heapwise_profile::query::Prune;
use heapwise_profile::{CallTree, Query, view};
use heapwise_render::{GraphOptions, graph, raster};

#[path = "program/mod.rs"]
mod program;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: pictures DIR")?;
    let folded = program::folded(60, 1500, 20);
    let profile = profile(&folded);
    for nodes in [20, 60] {
        let query = Query { prune: Prune { nodecount: nodes, ..Prune::default() }, ..Query::default() };
        let tree = CallTree::new(&profile, &query);
        let view = view::graph::graph(&tree, &query);
        let options = GraphOptions { program: "/usr/bin/shop-server".into(), ..Default::default() };
        let started = std::time::Instant::now();
        let svg = graph::svg(&view, &options);
        eprintln!("{nodes} nodes, {} edges: {:?}", view.edges.len(), started.elapsed());
        std::fs::write(format!("{directory}/graph{nodes}.svg"), &svg)?;
        std::fs::write(format!("{directory}/graph{nodes}.dot"), graph::dot(&view, &options))?;
        std::fs::write(format!("{directory}/graph{nodes}.png"), raster::png(&svg, 1.0)?)?;
        std::fs::write(format!("{directory}/graph{nodes}.pdf"), raster::pdf(&svg)?)?;
    }
    Ok(())
}
