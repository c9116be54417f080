//! References between the tables of a message. A file that is cut between two fields is a valid
//! message that lacks the later tables, so that references into them lead nowhere.

use std::collections::HashSet;

use crate::pprof_proto::{Label, Line, Profile, ValueType};

/// Whether every string, mapping and function that the message refers to is in it. Samples check
/// their locations themselves.
pub(super) fn are_complete(message: &Profile) -> bool {
    strings(message).all(|index| usize::try_from(index).is_ok_and(|at| at < message.string_table.len()))
        && tables_are_complete(message)
}

fn tables_are_complete(message: &Profile) -> bool {
    let mappings: HashSet<u64> = message.mapping.iter().map(|mapping| mapping.id).collect();
    let functions: HashSet<u64> = message.function.iter().map(|function| function.id).collect();
    let has_function = |line: &Line| line.function_id == 0 || functions.contains(&line.function_id);
    message.location.iter().all(|location| {
        let has_mapping = location.mapping_id == 0 || mappings.contains(&location.mapping_id);
        has_mapping && location.line.iter().all(has_function)
    })
}

/// All indices of the string table.
fn strings(message: &Profile) -> impl Iterator<Item = i64> + '_ {
    let type_strings = |kind: &ValueType| [kind.r#type, kind.unit];
    let label_strings = |label: &Label| [label.key, label.str, label.num_unit];
    let types = message.sample_type.iter().chain(&message.period_type).flat_map(type_strings);
    let mappings = message.mapping.iter().flat_map(|mapping| [mapping.filename, mapping.build_id]);
    let functions = message.function.iter();
    let functions = functions.flat_map(|function| [function.name, function.system_name, function.filename]);
    let labels = message.sample.iter().flat_map(|sample| &sample.label).flat_map(label_strings);
    types.chain(mappings).chain(functions).chain(labels).chain(message.comment.iter().copied())
}
