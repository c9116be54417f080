//! `attach`, `detach`: the probe into a running process, and its code as it was.

use clap::Args;
use heapwise_capture::attach::{self as attached, Attached};
use heapwise_capture::control;
use heapwise_capture::segments::SegmentFile;
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
        return Err(input_error!("log mode needs a recorder; attach, then `heapwise record {pid}`"));
    }
    let attached = attached::attach(pid, &args.mode.conf())?;
    let segment = SegmentFile::open(&target::process(&pid.to_string())?.path)?;
    attached::note_hooks(&segment, attached.functions);
    control::write(&segment, &args.mode.change())?;
    let loading = attached.loading.map_or_else(String::new, |time| {
        format!("; one thread was busy for {} with loading the probe", quantity::duration(time))
    });
    note!("{pid}: attached, {}{loading}", stop_of(&attached));
    for (function, why) in &attached.refused {
        note!("{pid}: {function} is not hooked: {why}");
    }
    note!("{pid}: blocks allocated earlier are not seen; next: heapwise top {pid}");
    Ok(())
}

/// Stops recording and restores the code.
pub(crate) fn detach(args: &DetachArgs) -> Outcome {
    let pid = args.pid;
    if let Ok(found) = target::process(&pid.to_string()) {
        let segment = SegmentFile::open(&found.path)?;
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
    format!("{functions} functions, {threads} threads stopped for {time:.2} ms")
}
