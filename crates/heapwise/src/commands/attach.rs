//! `attach`, `detach`: the probe into a running process, and its code as it was.

use clap::Args;
use heapwise_capture::attach::{self as attached, Attached};
use heapwise_capture::control::{self, Change};
use heapwise_capture::{stopped, target};
use heapwise_format::segment::Mode;
use heapwise_profile::quantity;

use super::switch::ModeArgs;
use crate::failure::Outcome;
use crate::input_error;

/// Options of `attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    mode: ModeArgs,
    /// Pid of a running process
    #[arg(value_name = "PID")]
    pid: u32,
}

/// Options of `detach`.
#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// Pid of an attached process
    #[arg(value_name = "PID")]
    pid: u32,
}

/// Attaches and starts recording.
pub(crate) fn attach(args: &AttachArgs) -> Outcome {
    let pid = args.pid;
    if args.mode.mode() == Mode::Log {
        return Err(input_error!("log mode needs a recorder; attach, then `heapwise record {}`", pid));
    }
    bring_in(pid, &args.mode.conf(), &args.mode.change())?;
    note!("{pid}: blocks allocated earlier are not seen; next: heapwise top {pid}");
    Ok(())
}

/// Whether a command may attach to processes that do not carry the probe.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OfferArgs {
    /// Bring the probe into named pids that do not carry it
    #[arg(long, help_heading = "Capture options")]
    attach: bool,
}

impl OfferArgs {
    /// Attaches to those of the named processes that need it. Nothing is recorded yet.
    pub(crate) fn bring_in(self, targets: &[String]) -> Outcome {
        let pids = targets.iter().filter_map(|target| target.parse::<u32>().ok());
        for pid in pids.filter(|pid| self.attach && !attached::is_hooked(*pid)) {
            bring_in(pid, "mode:off", &Change::new().mode(Mode::Off))?;
        }
        Ok(())
    }
}

fn bring_in(pid: u32, conf: &str, change: &Change) -> Outcome {
    let attached = attached::attach(pid, conf)?;
    let segment = target::process(&pid.to_string())?.open()?;
    attached::note_hooks(&segment, attached.functions);
    control::write(&segment, change)?;
    let loading = attached.loading.map_or_else(String::new, |time| {
        format!("; one thread was busy for {} with loading the probe", quantity::duration(time))
    });
    note!("{pid}: attached, {}{loading}", stop_of(&attached));
    for (function, why) in &attached.refused {
        note!("{pid}: {function} is not hooked: {why}");
    }
    Ok(())
}

/// Stops recording and restores the code.
pub(crate) fn detach(args: &DetachArgs) -> Outcome {
    let pid = args.pid;
    if let Ok(found) = target::process(&pid.to_string()) {
        let segment = found.open()?;
        stopped::save(&segment)?;
        control::apply(&segment, &control::Change::new().mode(Mode::Off))?;
        attached::note_hooks(&segment, 0);
    }
    let detached = attached::detach(pid)?;
    note!("{pid}: detached, {}", stop_of(&detached));
    Ok(())
}

/// `42 functions, 4 threads stopped for 0.8 ms`.
fn stop_of(attached: &Attached) -> String {
    let Attached { functions, threads, stopped, .. } = attached;
    let time = stopped.as_secs_f64() * 1e3;
    let noun = if *threads == 1 { "thread" } else { "threads" };
    format!("{functions} functions, {threads} {noun} stopped for {time:.2} ms")
}
