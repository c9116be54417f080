//! OTLP profiles over HTTP (`/v1development/profiles`) or gRPC.
//!
//! An OTLP profile has one sample type, so a heap profile is four of them with one dictionary.

use std::collections::HashMap;

use heapwise_profile::{Metric, Profile, Sampling, StackId};
use prost::Message as _;

use crate::batch::{Entry, Header};
use crate::delta::Deltas;
use crate::grpc::Method;
use crate::receiver::{Encode, profile_of};
use crate::request::{Address, Grpc, Http, Request, Verdict};
use crate::wire::otlp::{self as wire, Value};

const PATH: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

pub(super) struct Otlp {
    address: Address,
    headers: Vec<(String, String)>,
    deltas: Deltas,
}

impl Otlp {
    pub(super) fn new(address: Address, headers: Vec<(String, String)>, since_ns: u64) -> Self {
        Self { address, headers, deltas: Deltas::new(since_ns) }
    }
}

impl Encode for Otlp {
    fn encode(&mut self, entries: &[Entry]) -> Option<Request> {
        let [entry] = entries else { return None };
        let mut profile = profile_of(entry)?;
        let since_ns = self.deltas.subtract(&entry.header, &mut profile);
        let body = export_request(&entry.header, &profile, since_ns).encode_to_vec();
        let verdict = Verdict::Otlp;
        let headers = self.headers.clone();
        Some(match self.address.is_grpc() {
            true => {
                let authority = self.address.authority().to_owned();
                Request::Grpc(Grpc { method: Method { authority, path: PATH, headers }, body, verdict })
            }
            false => {
                let url = self.address.url("/v1development/profiles");
                Request::Http(Http { url, content_type: "application/x-protobuf", headers, body, verdict })
            }
        })
    }
}

fn export_request(header: &Header, profile: &Profile, since_ns: u64) -> wire::ExportRequest {
    let mut dictionary = Dictionary::of(profile);
    let stacks = dictionary.stacks(profile);
    let profiles = Metric::SHARED
        .into_iter()
        .zip(0..)
        .map(|(metric, number)| {
            let unit = match metric {
                Metric::AllocObjects | Metric::InuseObjects => "count",
                _ => "bytes",
            };
            let mut value_type = |name: &str, unit: &str| {
                let type_strindex = dictionary.string(name);
                Some(wire::ValueType { type_strindex, unit_strindex: dictionary.string(unit) })
            };
            wire::Profile {
                sample_type: value_type(metric.name(), unit),
                samples: samples(profile, &stacks, metric),
                time_unix_nano: since_ns,
                duration_nano: header.time_ns - since_ns,
                period_type: value_type("allocated_bytes", "bytes"),
                period: match profile.meta.sampling {
                    Sampling::Exact => 1,
                    Sampling::Poisson { mean_bytes } => mean_bytes.cast_signed(),
                },
                profile_id: (header.id.0 ^ number).to_be_bytes().to_vec(),
            }
        })
        .collect();
    let scope = wire::Scope { name: "heapwise".into(), version: env!("CARGO_PKG_VERSION").into() };
    let scope_profiles = vec![wire::ScopeProfiles { scope: Some(scope), profiles }];
    let resource = Some(wire::Resource { attributes: attributes(header) });
    wire::ExportRequest {
        resource_profiles: vec![wire::ResourceProfiles { resource, scope_profiles }],
        dictionary: Some(dictionary.message),
    }
}

/// Values by stack: samples that differ in thread and size only are one sample of OTLP.
fn samples(profile: &Profile, stacks: &HashMap<StackId, i32>, metric: Metric) -> Vec<wire::Sample> {
    let mut sums: HashMap<i32, f64> = HashMap::new();
    for sample in &profile.samples {
        *sums.entry(stacks[&sample.stack]).or_default() += sample.values.get(metric);
    }
    let whole = |sum: f64| sum.round() as i64;
    let sample = |(stack_index, sum)| wire::Sample { stack_index, values: vec![whole(sum)] };
    let mut samples: Vec<_> = sums.into_iter().filter(|(_, sum)| whole(*sum) != 0).map(sample).collect();
    samples.sort_by_key(|sample| sample.stack_index);
    samples
}

/// Attributes of the process, by OpenTelemetry's names.
fn attributes(header: &Header) -> Vec<wire::KeyValue> {
    let labels = &header.labels;
    let end = header.end.map(|end| end.to_string()).unwrap_or_default();
    let texts = [
        ("service.name", &labels.service),
        ("service.version", &labels.release),
        ("host.name", &labels.host),
        ("container.id", &labels.container),
        ("process.executable.path", &header.program),
        ("heapwise.process.end", &end),
    ];
    let texts = texts.into_iter().filter(|(_, value)| !value.is_empty());
    let texts = texts.map(|(key, value)| (key, Value::Text(value.clone())));
    let numbers = [("process.pid", Value::Number(header.pid.into()))];
    let pair = |(key, value): (&str, Value)| wire::KeyValue {
        key: key.to_owned(),
        value: Some(wire::AnyValue { value: Some(value) }),
    };
    texts.chain(numbers).map(pair).collect()
}

/// The dictionary; row 0 of each table is the zero value, so that rows of a profile are one more.
struct Dictionary {
    message: wire::Dictionary,
    strings: HashMap<String, i32>,
}

impl Dictionary {
    fn of(profile: &Profile) -> Self {
        let message = wire::Dictionary {
            mapping_table: vec![wire::Mapping::default()],
            location_table: vec![wire::Location::default()],
            function_table: vec![wire::Function::default()],
            link_table: vec![wire::Link { trace_id: vec![0; 16], span_id: vec![0; 8] }],
            string_table: vec![String::new()],
            attribute_table: vec![wire::KeyValueAndUnit::default()],
            stack_table: vec![wire::Stack::default()],
        };
        let mut dictionary = Self { message, strings: HashMap::from([(String::new(), 0)]) };
        dictionary.add_mappings(profile);
        dictionary.add_functions(profile);
        dictionary.add_locations(profile);
        dictionary
    }

    fn string(&mut self, text: &str) -> i32 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let index = row(self.message.string_table.len());
        self.message.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    fn add_mappings(&mut self, profile: &Profile) {
        for module in &profile.modules {
            let mut attribute_indices = Vec::new();
            if !module.build_id.is_empty() {
                attribute_indices.push(row(self.message.attribute_table.len()));
                let attribute = wire::KeyValueAndUnit {
                    key_strindex: self.string("process.executable.build_id.gnu"),
                    value: Some(wire::AnyValue { value: Some(Value::Text(module.build_id.to_string())) }),
                };
                self.message.attribute_table.push(attribute);
            }
            let mapping = wire::Mapping {
                memory_start: module.start,
                memory_limit: module.end,
                file_offset: module.file_offset,
                filename_strindex: self.string(&module.path),
                attribute_indices,
            };
            self.message.mapping_table.push(mapping);
        }
    }

    fn add_functions(&mut self, profile: &Profile) {
        for function in &profile.functions {
            let function = wire::Function {
                name_strindex: self.string(&function.name),
                system_name_strindex: self.string(&function.system_name),
                filename_strindex: self.string(&function.file),
                start_line: function.start_line.into(),
            };
            self.message.function_table.push(function);
        }
    }

    fn add_locations(&mut self, profile: &Profile) {
        let line = |line: &heapwise_profile::Line| wire::Line {
            function_index: row(line.function.index() + 1),
            line: line.line.into(),
        };
        self.message.location_table.extend(profile.locations.iter().map(|location| wire::Location {
            mapping_index: location.module.map_or(0, |module| row(module.index() + 1)),
            address: location.lookup_address(),
            lines: location.lines.iter().map(line).collect(),
        }));
    }

    /// Adds the stacks of all samples, the leaf first; their rows.
    fn stacks(&mut self, profile: &Profile) -> HashMap<StackId, i32> {
        let mut rows = HashMap::new();
        for stack in profile.samples.iter().map(|sample| sample.stack) {
            rows.entry(stack).or_insert_with(|| {
                let location = |node| row(profile.stacks.location(node).index() + 1);
                let location_indices = profile.stacks.leaf_to_root(stack).map(location).collect();
                self.message.stack_table.push(wire::Stack { location_indices });
                row(self.message.stack_table.len() - 1)
            });
        }
        rows
    }
}

/// Tables of a profile are bounded far below 2³¹ rows.
fn row(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
