//! An entry with stacks, names and sizes, for tests of receivers.

use heapwise_profile::{BuildId, Metric, Module, ModuleId, fixture};
use heapwise_render::export::{Format, export};

use crate::batch::{End, Entry, Labels, Moment};

/// When the sample process started; agents of tests started before.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;
pub(crate) const MINUTE_NS: u64 = 60_000_000_000;

/// The profile of a process `minutes` after its start: `left` and `right` hold 4096 and 10 bytes.
pub(crate) fn entry(pid: u32, minutes: u64, end: Option<End>) -> Entry {
    let mut profile = fixture::profile("main;left 4096 3\nmain;right 10 1\n");
    let build_id = BuildId(vec![0xab, 0xcd]);
    profile.modules.push(Module {
        path: "/bin/shop".into(),
        build_id,
        start: 0x1000,
        end: 0x9000,
        file_offset: 0x1000,
    });
    let module = Some(ModuleId::new(profile.modules.len() - 1));
    profile.locations.iter_mut().zip(0x2000u64..).for_each(|(location, address)| {
        (location.module, location.address) = (module, address);
    });
    for sample in &mut profile.samples {
        sample.values.alloc_bytes = sample.values.inuse_bytes * minutes as f64;
        sample.values.alloc_objects = sample.values.inuse_objects * minutes as f64;
    }
    let mut bytes = Vec::new();
    export(&profile, Format::Heapwise, Metric::InuseSpace, &mut bytes).expect("memory");
    let labels = Labels {
        service: "shop".into(),
        release: "2.1".into(),
        host: "web-1".into(),
        container: String::new(),
    };
    let moment = Moment {
        time_ns: START_NS + minutes * MINUTE_NS,
        labels,
        program: "/bin/shop".into(),
        pid,
        start_ns: START_NS,
        end,
    };
    Entry::new(moment, bytes)
}
