//! `fragmentation`: pages that few live blocks keep resident, by the sites of these blocks.

use clap::Args;
use heapwise_capture::{ledger, target};
use heapwise_profile::ledger::fragmentation;
use heapwise_render::{json, text};

use crate::failure::Outcome;
use crate::input_error;
use crate::output::{self, Overwrite};
use crate::symbols::SymbolArgs;

/// Rows unless `-n` says otherwise.
const DEFAULT_ROWS: usize = 20;

/// Options of `fragmentation`.
#[derive(Debug, Args)]
pub(crate) struct FragmentationArgs {
    /// Pid or program name
    #[arg(value_name = "PID|NAME")]
    target: String,
    #[command(flatten)]
    symbols: SymbolArgs,
    /// Show at most N rows (0 = all)
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = DEFAULT_ROWS, help_heading = "Output options")]
    rows: usize,
    /// Print JSON
    #[arg(long, help_heading = "Output options")]
    json: bool,
}

/// Shows the fragmentation of one process.
pub(crate) fn run(args: &FragmentationArgs) -> Outcome {
    let found = target::process(&args.target)?;
    let Some(reading) = ledger::read(&found)? else {
        return Err(input_error!("process {} has ended: its pages are gone", found.process.pid));
    };
    let Some(pages) = reading.ledger.pages else {
        return Err(input_error!(
            "fragmentation needs every live block: start the program with --exact or --log"
        ));
    };
    let mut profile = fragmentation::profile(&reading.ledger, reading.stacks);
    args.symbols.symbolize(&mut profile);
    let limit = (args.rows > 0).then_some(args.rows);
    let view = fragmentation::view(&reading.ledger, pages, &profile, limit);
    let text = if args.json {
        json::fragmentation(&view).to_string() + "\n"
    } else {
        text::fragmentation::fragmentation(&view)
    };
    output::write_result(None, Overwrite::Refuse, |out| out.write_all(text.as_bytes()))
}
