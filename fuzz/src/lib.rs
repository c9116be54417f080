//! What the fuzz targets call. The executable is no library, so those of its sources that take in
//! bytes of others are compiled along.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "parts of the executable, of which only the readers are called")]

#[path = "../../crates/heapwise/src/failure.rs"]
mod failure;
#[path = "../../crates/heapwise/src/compat/jeprof/options.rs"]
mod jeprof_options;
#[path = "../../crates/heapwise/src/metric.rs"]
mod metric;
#[path = "../../crates/heapwise/src/recording/moment.rs"]
mod moment;
#[path = "../../crates/heapwise/src/quantity.rs"]
mod quantity;
#[path = "../../crates/heapwise/src/serve"]
mod serve {
    pub(crate) mod http {
        mod body;
        pub(crate) mod connection;
        mod limits;
        mod request;
        mod response;
        mod terms;

        pub(crate) use body::Body;
        pub(crate) use limits::Limits;
        pub(crate) use request::{Method, Query, Request};
        pub(crate) use response::{Response, Status};
        pub(crate) use terms::Terms;
    }
    pub(crate) mod question;
    mod trouble;
}

pub mod entry;
