//! Usable instead of requested bytes, as allocators count them. Views convert as they sum
//! ([`crate::Query::usable`]).

use crate::Profile;
use crate::metric::column;

/// Whether a profile has usable bytes.
#[must_use]
pub fn is_known(profile: &Profile) -> bool {
    [column::INUSE_SLACK, column::ALLOC_SLACK].into_iter().all(|name| profile.column(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;
    use crate::model::ExtraColumn;
    use crate::{CallTree, Metric, Query, fixture};

    fn column(name: &str, values: &[f64]) -> ExtraColumn {
        ExtraColumn { name: name.to_owned(), unit: Unit::Bytes, values: values.to_vec() }
    }

    #[test]
    fn views_add_slack() {
        let mut profile = fixture::profile("main;f 100 2\nmain;g 50 1");
        assert!(!is_known(&profile));
        profile.extra = vec![
            column(column::PEAK_SPACE, &[100.0, 100.0]),
            column(column::INUSE_SLACK, &[12.0, 14.0]),
            column(column::ALLOC_SLACK, &[20.0, 25.0]),
        ];
        assert!(is_known(&profile));
        for (metric, expected) in
            [(Metric::InuseSpace, 176.0), (Metric::AllocSpace, 195.0), (Metric::Extra(0), 270.0)]
        {
            let query = Query { metric, usable: true, ..Query::default() };
            assert_eq!(CallTree::new(&profile, &query).total().value, expected);
        }
    }
}
