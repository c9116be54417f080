//! ns per unwind, each contender on the same stacks in the same run.
//!
//! `cargo run --release --manifest-path benches/unwind/Cargo.toml [SCENARIO…]`
//!
//! The 5th percentile of many short batches: the cost on an undisturbed machine. The cost of the
//! calls themselves is measured with a contender that does nothing, and subtracted.

mod contender;
mod hopper;
mod scenario;

use std::time::Instant;

use contender::Contender;
use heapwise_probe::test_api::Memo;
use scenario::{Chain, Scenario};

const DEPTHS: [usize; 3] = [10, 30, 60];
const DEEP: [usize; 3] = [100, 200, 400];
const BATCHES: usize = 80;
const WARM_UP: usize = 8;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    // SAFETY: no other thread runs yet. The segment shall be memory of this process only.
    unsafe { std::env::set_var("HEAPWISE_DIR", "/dev/null/none") };
    let contenders = contender::all();
    for (name, scenario) in Scenario::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let depths = if matches!(scenario, Scenario::Recursion) { DEEP } else { DEPTHS };
        println!(
            "\n{name}: ns per unwind\n{:28}{}",
            "",
            depths.map(|d| format!("{:>12}", format!("depth {d}"))).concat()
        );
        let times: Vec<[f64; 3]> = contenders
            .iter()
            .map(|contender| depths.map(|depth| measure(contender, scenario, depth)))
            .collect();
        let floor = times[0];
        for (contender, time) in contenders.iter().zip(&times).skip(1) {
            let cells: String = (0..3).map(|i| format!("{:12.1}", time[i] - floor[i])).collect();
            println!("{:28}{cells}", contender.name);
        }
        report_ratio(&contenders, &times);
    }
}

fn report_ratio(contenders: &[Contender], times: &[[f64; 3]]) {
    let row = |name: &str| contenders.iter().position(|contender| contender.name.contains(name));
    let (Some(ours), Some(theirs)) = (row("memo"), row("libunwind")) else { return };
    let cells: String = (0..3)
        .map(|i| {
            format!(
                "{:>12}",
                format!("{:.1}×", (times[theirs][i] - times[0][i]) / (times[ours][i] - times[0][i]))
            )
        })
        .collect();
    println!("{:28}{cells}", "libunwind / memo");
}

/// ns per capture, the calls included.
fn measure(contender: &Contender, scenario: Scenario, depth: usize) -> f64 {
    // SAFETY: zeroed memory is a valid memo.
    let mut memo: Box<Memo> = unsafe { Box::new_zeroed().assume_init() };
    let body = contender.body.map_or(std::ptr::null_mut(), |body| body as *mut _);
    let mut chain = Chain::new(contender.leaf, body, (&raw mut *memo).cast());
    let scripts: Vec<Vec<u8>> = (0..4).map(|seed| scenario.steps(depth, contender.captures, seed)).collect();
    let mut times = Vec::new();
    for batch in 0..WARM_UP + BATCHES {
        let start = Instant::now();
        let captures = scenario.run(&mut chain, &scripts[batch % 4], depth, contender.captures, batch);
        times.push(start.elapsed().as_nanos() as f64 / captures as f64);
    }
    let measured = &mut times[WARM_UP..];
    measured.sort_by(f64::total_cmp);
    measured[BATCHES / 20]
}
