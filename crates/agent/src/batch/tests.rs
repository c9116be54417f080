//! Batches: torn at every byte, sent twice, damaged.

use super::*;

fn entry(pid: u32, profile: &[u8]) -> Entry {
    let labels = Labels {
        service: "shop \"1\"".into(),
        release: "v2\n".into(),
        host: "h".into(),
        container: String::new(),
    };
    let moment = Moment {
        time_ns: 1_700_000_000_000_000_000,
        labels,
        program: "/bin/a".into(),
        pid,
        start_ns: 7,
        end: (pid == 2).then_some(End::OutOfMemory),
    };
    Entry::new(moment, profile.to_vec())
}

fn batch(entries: &[Entry]) -> Vec<u8> {
    let mut batch = Vec::new();
    entries.iter().for_each(|entry| entry.append_to(&mut batch));
    batch
}

fn whole(batch: &[u8]) -> Vec<Entry> {
    read(batch).map_while(Result::ok).collect()
}

#[test]
fn entries_come_back() {
    let entries = [entry(1, b"{\n}\n"), entry(2, b""), entry(3, &[0, 255, b'\n'])];
    assert_eq!(whole(&batch(&entries)), entries);
    assert!(read(b"").next().is_none());
}

#[test]
fn a_header_has_the_documented_fields() {
    let line = batch(&[entry(2, b"xyz")]);
    let line = line.strip_suffix(b"xyz").expect("the profile is last");
    let header: serde_json::Value = serde_json::from_slice(line).expect("JSON");
    let names: Vec<&str> = header.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = [
        "id",
        "time_ns",
        "service",
        "release",
        "host",
        "container",
        "program",
        "pid",
        "start_ns",
        "end",
        "bytes",
        "crc",
    ];
    let mut sorted = names.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!((header["end"].as_str(), header["bytes"].as_u64()), (Some("oom"), Some(3)));
    assert_eq!(header["service"], "shop \"1\"");
}

/// A batch cut at any byte gives the entries before the cut, and one error when the cut is inside
/// an entry.
#[test]
fn a_torn_batch_keeps_the_entries_before_the_tear() {
    let entries = [entry(1, b"first profile"), entry(2, b"second\n{\"id\"}"), entry(3, b"third")];
    let all = batch(&entries);
    let ends: Vec<usize> = (0..=3).map(|count| batch(&entries[..count]).len()).collect();
    for length in 0..=all.len() {
        let complete = ends.iter().filter(|end| **end <= length).count() - 1;
        assert_eq!(whole(&all[..length]), entries[..complete], "{length}");
        let errors = read(&all[..length]).filter(Result::is_err).count();
        assert_eq!(errors, usize::from(!ends.contains(&length)), "{length}");
    }
}

#[test]
fn a_changed_byte_never_changes_a_profile() {
    let entries = [entry(1, b"first"), entry(2, b"second")];
    let all = batch(&entries);
    for at in 0..all.len() {
        let mut damaged = all.clone();
        damaged[at] ^= 1;
        for found in whole(&damaged) {
            let same = entries.iter().find(|known| known.header.id == found.header.id);
            assert!(same.is_some_and(|same| same.profile == found.profile), "{at}");
        }
    }
}

#[test]
fn a_repeated_entry_has_the_same_id() {
    let all = batch(&[entry(1, b"first"), entry(2, b"second")]);
    let ids: Vec<EntryId> = whole(&[all.clone(), all].concat()).iter().map(|entry| entry.header.id).collect();
    assert_eq!(ids[..2], ids[2..]);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn impossible_lengths_are_refused() {
    let all = batch(&[entry(1, b"12345")]);
    let text = String::from_utf8(all).expect("text");
    for length in ["4", "6", "18446744073709551615"] {
        let changed = text.replace("\"bytes\":5", &format!("\"bytes\":{length}"));
        assert_ne!(changed, text);
        assert!(read(changed.as_bytes()).next().is_some_and(|first| first.is_err()), "{length}");
    }
    let endless = vec![b' '; MOST_HEADER_BYTES + 10];
    assert_eq!(read(&endless).next(), Some(Err(Torn::Header)));
}
