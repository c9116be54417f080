//! The number that is looked at, by the name users give it.

use heapwise_profile::{Metric, Profile};

use crate::failure::Outcome;
use crate::input_error;

/// A metric of the profile by its name.
pub fn by_name(profile: &Profile, name: &str) -> Outcome<Metric> {
    let shared = Metric::SHARED.into_iter().find(|metric| metric.name() == name);
    let extra = || profile.extra.iter().position(|column| column.name == name);
    shared.or_else(|| extra().map(|column| Metric::Extra(column as u16))).ok_or_else(|| {
        let names = Metric::SHARED.iter().map(|metric| metric.name());
        let known: Vec<&str> = names.chain(profile.extra.iter().map(|column| &*column.name)).collect();
        input_error!("this profile has no `{name}`; it has {}", known.join(", "))
    })
}
