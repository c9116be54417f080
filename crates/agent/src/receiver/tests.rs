//! What each receiver gets, read with a strict decoder that knows the published definitions.

mod recorded;
mod schemas;

use heapwise_profile::Metric;

use super::*;
use crate::batch::{self, End};
use crate::receiver::sample::{MINUTE_NS, START_NS, entry};
use crate::strict::{Tree, decode};

const SINCE: u64 = START_NS - 1;

fn encoder(receiver: fn(Address) -> Receiver, url: &str) -> Box<dyn Encode> {
    let headers = [("x-scope-orgid".to_owned(), "team".to_owned())];
    receiver(url.parse().expect("an address")).encoder(&headers, SINCE)
}

fn http(request: Option<Request>) -> crate::request::Http {
    match request {
        Some(Request::Http(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn grpc(request: Option<Request>) -> crate::request::Grpc {
    match request {
        Some(Request::Grpc(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Allocated and live bytes of a pprof file.
fn bytes_of_pprof(bytes: &[u8]) -> (f64, f64) {
    let profile = heapwise_profile::read(bytes).expect("pprof");
    let total = profile.total();
    (total.get(Metric::AllocSpace), total.get(Metric::InuseSpace))
}

fn labels_of(labels: &[&Tree]) -> Vec<(String, String)> {
    labels.iter().map(|label| (label.text("name").to_owned(), label.text("value").to_owned())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn fleet_gets_whole_batches() {
    let mut fleet = encoder(Receiver::Fleet, "http://fleet:8095");
    assert!(fleet.takes_batches());
    let entries = [entry(1, 1, None), entry(2, 1, Some(End::OutOfMemory))];
    let request = http(fleet.encode(&entries));
    assert_eq!(request.url, "http://fleet:8095/v1/batches");
    let sent: Vec<Entry> = batch::read(&request.body).map(Result::unwrap).collect();
    assert_eq!(sent, entries);
}

#[test]
fn pyroscope_gets_deltas_of_allocations() {
    let mut pyroscope = encoder(Receiver::Pyroscope, "http://p:4040/base");
    let mut push = |minutes| http(pyroscope.encode(&[entry(7, minutes, None)]));
    let (first, second) = (push(1), push(3));
    assert_eq!(first.url, "http://p:4040/base/push.v1.PusherService/Push");
    assert_eq!(first.content_type, "application/proto");
    assert_eq!(first.headers, pairs(&[("connect-protocol-version", "1"), ("x-scope-orgid", "team")]));
    let tree = decode(&schemas::PUSH_REQUEST, &first.body).unwrap();
    let series = tree.message("series");
    let labels = labels_of(&series.messages("labels"));
    let session = labels.iter().find(|(name, _)| name == "__session_id__").map(|(_, value)| value.clone());
    let session = session.expect("a session");
    assert_eq!(session.len(), 16);
    assert_eq!(
        labels,
        pairs(&[
            ("__name__", "memory"),
            ("__delta__", "false"),
            ("__session_id__", &session),
            ("service_name", "shop"),
            ("service_version", "2.1"),
            ("host", "web-1"),
        ])
    );
    let sample = series.message("samples");
    assert_eq!(sample.text("ID"), entry(7, 1, None).header.id.to_string());
    assert_eq!(bytes_of_pprof(sample.bytes("raw_profile")), (4106.0, 4106.0));
    let tree = decode(&schemas::PUSH_REQUEST, &second.body).unwrap();
    let profile = tree.message("series").message("samples");
    assert_eq!(bytes_of_pprof(profile.bytes("raw_profile")), (2.0 * 4106.0, 4106.0));
}

#[test]
fn the_pprof_file_is_strictly_pprof() {
    let mut pyroscope = encoder(Receiver::Pyroscope, "http://p:4040");
    let request = http(pyroscope.encode(&[entry(7, 2, None)]));
    let tree = decode(&schemas::PUSH_REQUEST, &request.body).unwrap();
    let packed = tree.message("series").message("samples").bytes("raw_profile").to_vec();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut plain).unwrap();
    let profile = decode(&schemas::PPROF, &plain).unwrap();
    let strings = profile.texts("string_table");
    let types: Vec<&str> =
        profile.messages("sample_type").iter().map(|kind| strings[kind.number("type") as usize]).collect();
    assert_eq!(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    assert_eq!(profile.number("time_nanos"), START_NS + 2 * MINUTE_NS);
    assert_eq!(profile.number("duration_nanos"), 2 * MINUTE_NS);
    assert_eq!(profile.messages("sample").len(), 2);
}

#[test]
fn parca_gets_cumulative_pprof_over_grpc() {
    let mut parca = encoder(Receiver::Parca, "grpc://p:7070");
    let request = grpc(parca.encode(&[entry(7, 5, Some(End::Killed(Some(9))))]));
    assert_eq!(request.method.authority, "p:7070");
    assert_eq!(request.method.path, "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw");
    assert_eq!(request.method.headers, pairs(&[("x-scope-orgid", "team")]));
    let tree = decode(&schemas::WRITE_RAW_REQUEST, &request.body).unwrap();
    assert_eq!(tree.number("normalized"), 0);
    let series = tree.message("series");
    assert_eq!(
        labels_of(&series.message("labels").messages("labels")),
        pairs(&[
            ("__name__", "memory"),
            ("instance", "web-1:7"),
            ("service_name", "shop"),
            ("service_version", "2.1"),
            ("host", "web-1"),
            ("end", "killed:9"),
        ])
    );
    let profile = series.message("samples").bytes("raw_profile");
    assert_eq!(bytes_of_pprof(profile), (5.0 * 4106.0, 4106.0));
}

#[test]
fn otlp_is_four_profiles_with_one_dictionary() {
    let mut otlp = encoder(Receiver::Otlp, "http://o:4318");
    let request = http(otlp.encode(&[entry(7, 1, None)]));
    assert_eq!(request.url, "http://o:4318/v1development/profiles");
    assert_eq!(request.content_type, "application/x-protobuf");
    let tree = decode(&schemas::EXPORT_PROFILES, &request.body).unwrap();
    let dictionary = tree.message("dictionary");
    let strings = dictionary.texts("string_table");
    let resource = tree.message("resource_profiles");
    let attributes = resource.message("resource").messages("attributes");
    let attribute = |key: &str| {
        let found = attributes.iter().find(|attribute| attribute.text("key") == key);
        found.map(|attribute| attribute.message("value").clone()).unwrap_or_default()
    };
    assert_eq!(attribute("service.name").text("string_value"), "shop");
    assert_eq!(attribute("service.version").text("string_value"), "2.1");
    assert_eq!(attribute("host.name").text("string_value"), "web-1");
    assert_eq!(attribute("process.pid").number("int_value"), 7);
    let profiles = resource.message("scope_profiles").messages("profiles");
    let total = |profile: &Tree| -> u64 {
        profile.messages("samples").iter().flat_map(|sample| sample.numbers("values")).sum()
    };
    let seen: Vec<(&str, &str, u64)> = profiles
        .iter()
        .map(|profile| {
            let kind = profile.message("sample_type");
            let text = |name| strings[kind.number(name) as usize];
            (text("type_strindex"), text("unit_strindex"), total(profile))
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("alloc_objects", "count", 4),
            ("alloc_space", "bytes", 4106),
            ("inuse_objects", "count", 4),
            ("inuse_space", "bytes", 4106)
        ]
    );
    let ids: std::collections::BTreeSet<&[u8]> =
        profiles.iter().map(|profile| profile.bytes("profile_id")).collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| id.len() == 16));
    for profile in profiles {
        assert_eq!(profile.number("time_unix_nano"), START_NS);
        assert_eq!(profile.number("duration_nano"), MINUTE_NS);
    }
}

/// Row 0 of each table is the zero value, every index has a row, and the leaf comes first.
#[test]
fn the_dictionary_of_otlp_is_consistent() {
    let mut otlp = encoder(Receiver::Otlp, "grpc://o:4317");
    let request = grpc(otlp.encode(&[entry(7, 1, None)]));
    assert_eq!(
        request.method.path,
        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
    );
    let tree = decode(&schemas::EXPORT_PROFILES, &request.body).unwrap();
    let dictionary = tree.message("dictionary");
    let strings = dictionary.texts("string_table");
    assert_eq!(strings[0], "");
    for table in ["mapping_table", "location_table", "function_table", "attribute_table", "stack_table"] {
        assert_eq!(dictionary.messages(table)[0], &Tree::default(), "{table}");
    }
    let link = dictionary.message("link_table");
    assert_eq!((link.bytes("trace_id"), link.bytes("span_id")), (&[0; 16][..], &[0; 8][..]));
    let (locations, functions) =
        (dictionary.messages("location_table"), dictionary.messages("function_table"));
    let stacks = dictionary.messages("stack_table");
    let names = |stack: &Tree| -> Vec<&str> {
        let location = |index: u64| locations[index as usize].message("lines").number("function_index");
        let name = |index| strings[functions[index as usize].number("name_strindex") as usize];
        stack.numbers("location_indices").into_iter().map(location).map(name).collect()
    };
    let all: Vec<Vec<&str>> = stacks[1..].iter().map(|stack| names(stack)).collect();
    assert_eq!(all, [["left", "main"], ["right", "main"]]);
    let attribute = dictionary.messages("attribute_table")[1];
    assert_eq!(strings[attribute.number("key_strindex") as usize], "process.executable.build_id.gnu");
    assert_eq!(attribute.message("value").text("string_value"), "abcd");
    let mapping = *dictionary.messages("mapping_table").last().expect("a mapping");
    assert_eq!(mapping.numbers("attribute_indices"), [1]);
    assert_eq!(strings[mapping.number("filename_strindex") as usize], "/bin/shop");
}

#[test]
fn files_are_named_by_program_pid_and_time() {
    let receiver = Receiver::Files("/tmp/profiles".into());
    let one = entry(7, 1, None);
    let request = receiver.encoder(&[], 0).encode(std::slice::from_ref(&one));
    let path = format!("/tmp/profiles/shop.7.{}.hwp", one.header.time_ns).into();
    assert_eq!(request, Some(Request::File { path, content: one.profile }));
}

#[test]
fn an_unreadable_profile_makes_no_request() {
    let mut broken = entry(7, 1, None);
    broken.profile.truncate(10);
    for receiver in [Receiver::Pyroscope, Receiver::Otlp] {
        assert_eq!(encoder(receiver, "http://h:1").encode(std::slice::from_ref(&broken)), None);
    }
}
