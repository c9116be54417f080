//! Draws the pictures of the README from a made-up program: `cargo run --example pictures DIR`.

use heapwise_profile::query::Prune;
use heapwise_profile::view::flame::Shape;
use heapwise_profile::{CallTree, Profile, Query, fixture, view};
use heapwise_render::{GraphOptions, Language, flame, graph, raster};

mod program;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: pictures DIR")?;
    let folded = program::folded(60, 1500, 20);
    let profile = fixture::profile(&folded);
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
    flames(&profile, &directory)
}

fn flames(profile: &Profile, directory: &str) -> Result<(), Box<dyn std::error::Error>> {
    let query = Query::default();
    let tree = CallTree::new(profile, &query);
    let base = fixture::profile(&program::folded(60, 1100, 20));
    let compared = CallTree::compare(profile, Some(&base), &query);
    let title = "shop-server";
    for (name, tree) in [("flame", &tree), ("flame-diff", &compared)] {
        let down = view::flame::flame(tree, &Shape::TopDown, flame::SVG_DETAIL);
        let svg = flame::svg(&down, title);
        std::fs::write(format!("{directory}/{name}.svg"), &svg)?;
        std::fs::write(format!("{directory}/{name}.png"), raster::png(&svg, 1.0)?)?;
        let [down, up] = [Shape::TopDown, Shape::BottomUp]
            .map(|shape| view::flame::flame(tree, &shape, flame::PAGE_DETAIL));
        std::fs::write(
            format!("{directory}/{name}.html"),
            flame::page(&down, &up, title, Language::English),
        )?;
    }
    Ok(())
}
