//! A request of another client: the definitions of the strict decoder are those that it has.

use super::schemas;
use crate::strict::decode;

/// The body of `POST /push.v1.PusherService/Push`, `application/proto`, of PyPI's pyroscope-io
/// 1.4.0, unpacked.
const PUSH: &str = "\
    0aa2030a170a085f5f6e616d655f5f120b70726f636573735f6370750a0b0a06726567696f6e1201\
    780a140a0c736572766963655f6e616d65120473686f700a2f0a0f6f74656c2e73636f70652e6e61\
    6d65121c636f6d2e67726166616e612e7079726f73636f70652f707974686f6e0a1b0a126f74656c\
    2e73636f70652e76657273696f6e1205312e342e300a1f0a1470726f636573732e72756e74696d65\
    2e6e616d65120763707974686f6e0a210a1770726f636573732e72756e74696d652e76657273696f\
    6e1206332e31312e3712d1010aa8010a040801100212090a0101120480c2d72f120a0a0102120580\
    d5e5a00c120b0a020102120580adc3f01722080801220408011016220808022204080210162a0608\
    01100320042a0608021005200432003203637075320b6e616e6f7365636f6e647332093c67656e65\
    7870723e32142f746d702f68772f666c6565742f7265632e707932083c6d6f64756c653e48ad88a9\
    cddaa2c3f41850e39299a2255a04080110026080ade204122464343331303265372d373834622d34\
    3636332d393734612d613238303033346136333966\
";

#[test]
fn the_recorded_request_of_pyroscopes_client_is_strictly_read() {
    let byte = |at: usize| u8::from_str_radix(&PUSH[at..at + 2], 16).unwrap();
    let recorded: Vec<u8> = (0..PUSH.len()).step_by(2).map(byte).collect();
    let tree = decode(&schemas::PUSH_REQUEST, &recorded).unwrap();
    let series = tree.message("series");
    let labels = super::labels_of(&series.messages("labels"));
    assert_eq!(labels[0], ("__name__".to_owned(), "process_cpu".to_owned()));
    assert!(labels.contains(&("service_name".to_owned(), "shop".to_owned())), "{labels:?}");
    let profile = decode(&schemas::PPROF, series.message("samples").bytes("raw_profile")).unwrap();
    let kind = profile.message("sample_type").number("type") as usize;
    assert_eq!(profile.texts("string_table")[kind], "cpu");
}
