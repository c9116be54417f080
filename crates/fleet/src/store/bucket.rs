//! Buckets of S3 and of servers that speak its protocol.

use std::sync::Arc;

use datafusion::datasource::object_store::ObjectStoreUrl;
use heapwise_capture::failure::{Failure, Outcome};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;

use super::{Place, Store};

/// What the address of a bucket begins with.
const SCHEME: &str = "s3://";

/// Opens `s3://BUCKET/PREFIX`; `None` for other places. Keys and region are those of the
/// environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, …).
pub(super) fn open(place: &str, endpoint: Option<&str>) -> Option<Outcome<Store>> {
    let (bucket, prefix) = parse(place)?;
    let endpoint = endpoint.map(str::to_owned).or_else(|| std::env::var("AWS_ENDPOINT_URL").ok());
    Some(connect(bucket, prefix, endpoint.as_deref()).map_err(|why| Failure::new(format!("{place}: {why}"))))
}

fn connect(bucket: &str, prefix: &str, endpoint: Option<&str>) -> Outcome<Store> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    let objects = builder.build().map_err(|why| Failure::new(why.to_string()))?;
    let scheme = ObjectStoreUrl::parse(format!("{SCHEME}{bucket}"));
    let scheme = scheme.map_err(|why| Failure::new(why.strip_backtrace()))?;
    let prefix = Path::parse(prefix).map_err(|why| Failure::new(why.to_string()))?;
    let base = match endpoint {
        Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        None => format!("https://{bucket}.s3.amazonaws.com"),
    };
    Store::new(Arc::new(objects), scheme, prefix, Place::Bucket { base })
}

/// Bucket and prefix of an address.
fn parse(place: &str) -> Option<(&str, &str)> {
    let path = place.strip_prefix(SCHEME)?;
    Some(path.split_once('/').unwrap_or((path, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_bucket_and_a_prefix() {
        assert_eq!(parse("s3://profiles/fleet/one"), Some(("profiles", "fleet/one")));
        assert_eq!(parse("s3://profiles"), Some(("profiles", "")));
        assert_eq!(parse("/var/lib/fleet"), None);
    }
}
