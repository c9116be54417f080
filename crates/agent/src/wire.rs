//! Messages of receivers, declared by hand after their published definitions: no `protoc`, no build
//! script. Field numbers are the format; fields that are never sent are left out.

pub(crate) mod otlp;
pub(crate) mod parca;
pub(crate) mod pyroscope;
