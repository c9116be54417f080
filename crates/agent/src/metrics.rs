//! `/metrics`: the status in Prometheus' text format.

use std::fmt::Write as _;

use crate::budget::Budget;
use crate::cost::Cost;
use crate::status::{ProcessStatus, Status};

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kind of a metric.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

struct Page {
    text: String,
}

impl Page {
    fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.metric(name, kind, help);
        self.value(name, &[], value);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The page of a status.
pub(crate) fn page(status: &Status) -> String {
    let mut page = Page { text: String::new() };
    write_agent(&mut page, status);
    write_cost(&mut page, &status.cost, &status.budget);
    write_receivers(&mut page, status);
    write_processes(&mut page, &status.processes);
    page.text
}

fn write_agent(page: &mut Page, status: &Status) {
    use Kind::{Counter, Gauge};
    let counts = &status.counts;
    let number = |value: u64| value as f64;
    for (name, kind, help, value) in [
        ("processes", Gauge, "Followed processes.", status.processes.len() as f64),
        ("rounds_total", Counter, "Rounds of profiles.", number(counts.rounds)),
        ("profiles_total", Counter, "Profiles taken.", number(counts.profiles)),
        ("profile_bytes_total", Counter, "Bytes of profiles taken.", number(counts.profile_bytes)),
        ("profile_failures_total", Counter, "Profiles that could not be taken.", number(counts.failures)),
        ("ended_processes_total", Counter, "Last profiles of ended processes.", number(counts.ended)),
        ("attached_total", Counter, "Processes attached to.", number(counts.attached)),
        ("attach_failures_total", Counter, "Attaches that failed.", number(counts.attach_failures)),
        (
            "over_budget",
            Gauge,
            "1 when the last round was above the budget.",
            f64::from(status.excess.is_some()),
        ),
        ("interval_seconds", Gauge, "Interval of profiles in force.", status.interval.as_secs_f64()),
        ("spool_batches", Gauge, "Batches in the spool.", number(status.spool.batches)),
        ("spool_bytes", Gauge, "Bytes in the spool.", number(status.spool.bytes)),
        ("scrapes_total", Counter, "Times that this page was read.", number(status.scrapes)),
        ("dropped_profiles_total", Counter, "Profiles dropped by the spool.", number(status.spool.dropped)),
    ] {
        page.single(&format!("heapwise_agent_{name}"), kind, help, value);
    }
}

fn write_cost(page: &mut Page, cost: &Cost, budget: &Budget) {
    use Kind::{Counter, Gauge};
    let number = |value: u64| value as f64;
    for (name, kind, help, value) in [
        ("cpu_seconds_total", Counter, "CPU time of the agent.", cost.cpu_time.as_secs_f64()),
        ("cpu_ratio", Gauge, "Share of one core in the last round.", cost.cpu),
        ("cpu_budget_ratio", Gauge, "Budget of CPU time, as a share of one core.", budget.cpu),
        ("resident_bytes", Gauge, "Resident memory of the agent.", number(cost.resident_bytes)),
        (
            "round_peak_resident_bytes",
            Gauge,
            "Peak of the agent's memory in the last round.",
            number(cost.round_peak_bytes),
        ),
        (
            "peak_resident_bytes",
            Gauge,
            "Peak of the agent's memory since the start.",
            number(cost.peak_bytes),
        ),
        ("memory_budget_bytes", Gauge, "Budget of memory.", number(budget.memory_bytes)),
    ] {
        page.single(&format!("heapwise_agent_{name}"), kind, help, value);
    }
}

fn write_receivers(page: &mut Page, status: &Status) {
    type Value = fn(&crate::delivery::DeliveryCounts) -> u64;
    let metrics: [(&str, &str, Value); 4] = [
        ("sent_profiles_total", "Profiles accepted by a receiver.", |counts| counts.sent),
        ("rejected_profiles_total", "Profiles refused by a receiver.", |counts| counts.rejected),
        ("unreadable_profiles_total", "Profiles that could not be read.", |counts| counts.unreadable),
        ("request_failures_total", "Requests that failed and are sent again.", |counts| counts.failures),
    ];
    for (name, help, value) in metrics.iter().filter(|_| !status.receivers.is_empty()) {
        let name = format!("heapwise_agent_{name}");
        page.metric(&name, Kind::Counter, help);
        for (receiver, counts) in &status.receivers {
            page.value(&name, &[("receiver", receiver)], value(counts) as f64);
        }
    }
}

fn write_processes(page: &mut Page, processes: &[ProcessStatus]) {
    type Value = fn(&ProcessStatus) -> u64;
    let metrics: [(&str, Kind, &str, Value); 6] = [
        ("live_bytes", Kind::Gauge, "Live heap bytes.", |process| process.live_bytes),
        ("live_objects", Kind::Gauge, "Live heap blocks.", |process| process.live_objects),
        ("allocated_bytes_total", Kind::Counter, "Heap bytes allocated.", |process| process.allocated_bytes),
        ("allocated_objects_total", Kind::Counter, "Heap blocks allocated.", |process| {
            process.allocated_objects
        }),
        ("peak_bytes", Kind::Gauge, "Most live heap bytes.", |process| process.peak_bytes),
        ("process_resident_bytes", Kind::Gauge, "Resident memory.", |process| process.resident_bytes),
    ];
    for (name, kind, help, value) in metrics.iter().filter(|_| !processes.is_empty()) {
        let name = format!("heapwise_{name}");
        page.metric(&name, *kind, help);
        for process in processes {
            let pid = process.pid.to_string();
            let labels = [
                ("service", process.labels.service.as_str()),
                ("release", &process.labels.release),
                ("container", &process.labels.container),
                ("program", &process.program),
                ("pid", &pid),
            ];
            page.value(&name, &labels, value(process) as f64);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::batch::Labels;
    use crate::delivery::DeliveryCounts;

    pub(crate) fn sample_status() -> Status {
        let labels = Labels { service: "a \"b\"\\\n".into(), ..Labels::default() };
        let process = ProcessStatus {
            labels,
            program: "/bin/a".into(),
            pid: 7,
            live_bytes: 1 << 40,
            ..ProcessStatus::default()
        };
        let counts = DeliveryCounts { sent: 3, ..DeliveryCounts::default() };
        Status {
            processes: vec![process.clone(), ProcessStatus { pid: 8, ..process }],
            receivers: vec![("fleet", counts)],
            ..Status::default()
        }
    }

    #[test]
    fn labels_are_escaped_and_every_metric_has_a_type() {
        let page = page(&sample_status());
        let expected = "heapwise_live_bytes{service=\"a \\\"b\\\"\\\\\\n\",release=\"\",container=\"\",\
                        program=\"/bin/a\",pid=\"7\"} 1099511627776\n";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("heapwise_agent_sent_profiles_total{receiver=\"fleet\"} 3\n"), "{page}");
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(page.contains(&format!("# TYPE {name} ")), "{line}");
            assert!(page.contains(&format!("# HELP {name} ")), "{line}");
        }
    }
}
