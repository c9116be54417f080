//! A program that profiles a part of itself: `LD_PRELOAD=$(heapwise preload) cargo run -p
//! heapwise-client --example profiles_itself`, then `heapwise top profiles_itself.heap`. Without
//! the probe it only works.

use heapwise_client::{Recording, dump, is_present, label, mark, snapshot, start, stop};

fn main() {
    println!("probe: {}", if is_present() { "here" } else { "not here" });
    start(Recording::Exact);
    let orders: Vec<String> = {
        let _label = label("orders");
        (0..1000).map(|number| format!("order {number}")).collect()
    };
    mark("orders read");
    let lengths: Vec<usize> = orders.iter().map(String::len).collect();
    if let Some(now) = snapshot() {
        println!("{} bytes live in {} orders", now.live_bytes, lengths.len());
    }
    if let Err(error) = dump("profiles_itself.heap") {
        eprintln!("no dump: {error}");
    }
    stop();
}
