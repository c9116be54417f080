//! Firefox Profiler's processed format: one metric as the weight of samples, so that the call tree
//! and the flame graph count bytes (or blocks) instead of time.

use std::io::{self, Write};
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile as FirefoxProfile, ReferenceTimestamp,
    SamplingInterval, Timestamp, WeightType,
};
use heapwise_profile::{Metric, Profile};

use super::frames::{FrameList, value_of, whole};

pub(super) fn write(profile: &Profile, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let time = Duration::from_nanos(profile.meta.time_unix_ns.unwrap_or(0));
    let mut firefox = FirefoxProfile::new(
        &profile.meta.program,
        ReferenceTimestamp::from_duration_since_unix_epoch(time),
        SamplingInterval::from_millis(1),
    );
    let start = Timestamp::from_millis_since_reference(0.0);
    let pid = profile.meta.pid.unwrap_or(1);
    let process = firefox.add_process(&profile.meta.program, pid, start);
    // Not the main thread: that one would be shown under the program's name instead of the
    // metric's.
    let thread = firefox.add_thread(process, pid, start, false);
    firefox.add_initial_visible_thread(thread);
    firefox.add_initial_selected_thread(thread);
    firefox.set_thread_name(thread, metric.name());
    firefox.set_thread_samples_weight_type(
        thread,
        match metric {
            Metric::AllocObjects | Metric::InuseObjects => WeightType::Samples,
            _ => WeightType::Bytes,
        },
    );
    let frames = FrameList::new(profile);
    let mut time_ms = 0.0;
    for (row, sample) in profile.samples.iter().enumerate() {
        let names: Vec<FrameInfo> = frames
            .root_to_leaf(sample.stack)
            .into_iter()
            .map(|frame| FrameInfo {
                frame: Frame::Label(firefox.intern_string(&frame.name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = firefox.intern_stack_frames(thread, names.into_iter());
        for weight in weights(whole(value_of(profile, row, metric))) {
            let at = Timestamp::from_millis_since_reference(time_ms);
            firefox.add_sample(thread, at, stack, CpuDelta::ZERO, weight);
            time_ms += 1.0;
        }
    }
    serde_json::to_writer(out, &firefox).map_err(io::Error::from)
}

/// A value in parts that fit the 32 bits of a weight; nothing for 0.
fn weights(mut value: i64) -> impl Iterator<Item = i32> {
    std::iter::from_fn(move || {
        let part = i32::try_from(value).unwrap_or(if value > 0 { i32::MAX } else { i32::MIN });
        value -= i64::from(part);
        (part != 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_beyond_32_bits_are_split() {
        for value in [0, 5, -5, 5_000_000_000, -5_000_000_000] {
            assert_eq!(weights(value).map(i64::from).sum::<i64>(), value);
        }
    }
}
