//! Schemas after the published definitions: Pyroscope's `push.v1`, Parca's
//! `profilestore.v1alpha1`, OpenTelemetry's profiles 1.11.0, pprof's `profile.proto`.

use crate::strict::Count::{Many, One};
use crate::strict::Kind::{Bytes, Double, Fixed64, Message, PackedFixed64, PackedVarints, Text, Varint};
use crate::strict::Schema;

macro_rules! schema {
    ($name:ident, $text:literal, $fields:expr) => {
        pub(super) static $name: Schema = Schema { name: $text, fields: $fields };
    };
}

schema!(LABEL_PAIR, "LabelPair", &[(1, "name", Text, One), (2, "value", Text, One)]);
schema!(PUSH_SAMPLE, "RawSample", &[(1, "raw_profile", Bytes, One), (2, "ID", Text, One)]);
schema!(
    PUSH_SERIES,
    "RawProfileSeries",
    &[(1, "labels", Message(&LABEL_PAIR), Many), (2, "samples", Message(&PUSH_SAMPLE), Many)]
);
schema!(PUSH_REQUEST, "PushRequest", &[(1, "series", Message(&PUSH_SERIES), Many)]);

schema!(LABEL_SET, "LabelSet", &[(1, "labels", Message(&LABEL_PAIR), Many)]);
schema!(LOAD_SEGMENT, "LoadSegment", &[(1, "offset", Varint, One), (2, "vaddr", Varint, One)]);
schema!(
    EXECUTABLE_INFO,
    "ExecutableInfo",
    &[(1, "elf_type", Varint, One), (2, "load_segment", Message(&LOAD_SEGMENT), One)]
);
schema!(
    PARCA_SAMPLE,
    "RawSample",
    &[(1, "raw_profile", Bytes, One), (2, "executable_info", Message(&EXECUTABLE_INFO), Many)]
);
schema!(
    PARCA_SERIES,
    "RawProfileSeries",
    &[(1, "labels", Message(&LABEL_SET), One), (2, "samples", Message(&PARCA_SAMPLE), Many)]
);
schema!(
    WRITE_RAW_REQUEST,
    "WriteRawRequest",
    &[(1, "tenant", Text, One), (2, "series", Message(&PARCA_SERIES), Many), (3, "normalized", Varint, One)]
);

schema!(
    ANY_VALUE,
    "AnyValue",
    &[
        (1, "string_value", Text, One),
        (2, "bool_value", Varint, One),
        (3, "int_value", Varint, One),
        (4, "double_value", Double, One),
        (7, "bytes_value", Bytes, One),
        (8, "string_value_strindex", Varint, One),
    ]
);
schema!(
    KEY_VALUE,
    "KeyValue",
    &[(1, "key", Text, One), (2, "value", Message(&ANY_VALUE), One), (3, "key_strindex", Varint, One)]
);
schema!(
    RESOURCE,
    "Resource",
    &[(1, "attributes", Message(&KEY_VALUE), Many), (2, "dropped_attributes_count", Varint, One)]
);
schema!(
    SCOPE,
    "InstrumentationScope",
    &[
        (1, "name", Text, One),
        (2, "version", Text, One),
        (3, "attributes", Message(&KEY_VALUE), Many),
        (4, "dropped_attributes_count", Varint, One),
    ]
);
schema!(VALUE_TYPE, "ValueType", &[(1, "type_strindex", Varint, One), (2, "unit_strindex", Varint, One)]);
schema!(
    SAMPLE,
    "Sample",
    &[
        (1, "stack_index", Varint, One),
        (2, "attribute_indices", PackedVarints, One),
        (3, "link_index", Varint, One),
        (4, "values", PackedVarints, One),
        (5, "timestamps_unix_nano", PackedFixed64, One),
    ]
);
schema!(
    PROFILE,
    "Profile",
    &[
        (1, "sample_type", Message(&VALUE_TYPE), One),
        (2, "samples", Message(&SAMPLE), Many),
        (3, "time_unix_nano", Fixed64, One),
        (4, "duration_nano", Varint, One),
        (5, "period_type", Message(&VALUE_TYPE), One),
        (6, "period", Varint, One),
        (7, "profile_id", Bytes, One),
        (8, "dropped_attributes_count", Varint, One),
        (9, "original_payload_format", Text, One),
        (10, "original_payload", Bytes, One),
        (11, "attribute_indices", PackedVarints, One),
    ]
);
schema!(
    SCOPE_PROFILES,
    "ScopeProfiles",
    &[
        (1, "scope", Message(&SCOPE), One),
        (2, "profiles", Message(&PROFILE), Many),
        (3, "schema_url", Text, One),
    ]
);
schema!(
    RESOURCE_PROFILES,
    "ResourceProfiles",
    &[
        (1, "resource", Message(&RESOURCE), One),
        (2, "scope_profiles", Message(&SCOPE_PROFILES), Many),
        (3, "schema_url", Text, One),
    ]
);
schema!(
    MAPPING,
    "Mapping",
    &[
        (1, "memory_start", Varint, One),
        (2, "memory_limit", Varint, One),
        (3, "file_offset", Varint, One),
        (4, "filename_strindex", Varint, One),
        (5, "attribute_indices", PackedVarints, One),
    ]
);
schema!(
    LINE,
    "Line",
    &[(1, "function_index", Varint, One), (2, "line", Varint, One), (3, "column", Varint, One)]
);
schema!(
    LOCATION,
    "Location",
    &[
        (1, "mapping_index", Varint, One),
        (2, "address", Varint, One),
        (3, "lines", Message(&LINE), Many),
        (4, "attribute_indices", PackedVarints, One),
    ]
);
schema!(
    FUNCTION,
    "Function",
    &[
        (1, "name_strindex", Varint, One),
        (2, "system_name_strindex", Varint, One),
        (3, "filename_strindex", Varint, One),
        (4, "start_line", Varint, One),
    ]
);
schema!(LINK, "Link", &[(1, "trace_id", Bytes, One), (2, "span_id", Bytes, One)]);
schema!(
    KEY_VALUE_AND_UNIT,
    "KeyValueAndUnit",
    &[
        (1, "key_strindex", Varint, One),
        (2, "value", Message(&ANY_VALUE), One),
        (3, "unit_strindex", Varint, One),
    ]
);
schema!(STACK, "Stack", &[(1, "location_indices", PackedVarints, One)]);
schema!(
    DICTIONARY,
    "ProfilesDictionary",
    &[
        (1, "mapping_table", Message(&MAPPING), Many),
        (2, "location_table", Message(&LOCATION), Many),
        (3, "function_table", Message(&FUNCTION), Many),
        (4, "link_table", Message(&LINK), Many),
        (5, "string_table", Text, Many),
        (6, "attribute_table", Message(&KEY_VALUE_AND_UNIT), Many),
        (7, "stack_table", Message(&STACK), Many),
    ]
);
schema!(
    EXPORT_PROFILES,
    "ExportProfilesServiceRequest",
    &[
        (1, "resource_profiles", Message(&RESOURCE_PROFILES), Many),
        (2, "dictionary", Message(&DICTIONARY), One),
    ]
);

schema!(PPROF_VALUE_TYPE, "ValueType", &[(1, "type", Varint, One), (2, "unit", Varint, One)]);
schema!(
    PPROF_LABEL,
    "Label",
    &[
        (1, "key", Varint, One),
        (2, "str", Varint, One),
        (3, "num", Varint, One),
        (4, "num_unit", Varint, One)
    ]
);
schema!(
    PPROF_SAMPLE,
    "Sample",
    &[
        (1, "location_id", PackedVarints, One),
        (2, "value", PackedVarints, One),
        (3, "label", Message(&PPROF_LABEL), Many),
    ]
);
schema!(
    PPROF_MAPPING,
    "Mapping",
    &[
        (1, "id", Varint, One),
        (2, "memory_start", Varint, One),
        (3, "memory_limit", Varint, One),
        (4, "file_offset", Varint, One),
        (5, "filename", Varint, One),
        (6, "build_id", Varint, One),
        (7, "has_functions", Varint, One),
        (8, "has_filenames", Varint, One),
        (9, "has_line_numbers", Varint, One),
        (10, "has_inline_frames", Varint, One),
    ]
);
schema!(
    PPROF_LINE,
    "Line",
    &[(1, "function_id", Varint, One), (2, "line", Varint, One), (3, "column", Varint, One)]
);
schema!(
    PPROF_LOCATION,
    "Location",
    &[
        (1, "id", Varint, One),
        (2, "mapping_id", Varint, One),
        (3, "address", Varint, One),
        (4, "line", Message(&PPROF_LINE), Many),
        (5, "is_folded", Varint, One),
    ]
);
schema!(
    PPROF_FUNCTION,
    "Function",
    &[
        (1, "id", Varint, One),
        (2, "name", Varint, One),
        (3, "system_name", Varint, One),
        (4, "filename", Varint, One),
        (5, "start_line", Varint, One),
    ]
);
schema!(
    PPROF,
    "Profile",
    &[
        (1, "sample_type", Message(&PPROF_VALUE_TYPE), Many),
        (2, "sample", Message(&PPROF_SAMPLE), Many),
        (3, "mapping", Message(&PPROF_MAPPING), Many),
        (4, "location", Message(&PPROF_LOCATION), Many),
        (5, "function", Message(&PPROF_FUNCTION), Many),
        (6, "string_table", Text, Many),
        (7, "drop_frames", Varint, One),
        (8, "keep_frames", Varint, One),
        (9, "time_nanos", Varint, One),
        (10, "duration_nanos", Varint, One),
        (11, "period_type", Message(&PPROF_VALUE_TYPE), One),
        (12, "period", Varint, One),
        (13, "comment", PackedVarints, One),
        (14, "default_sample_type", Varint, One),
        (15, "doc_url", Varint, One),
    ]
);
