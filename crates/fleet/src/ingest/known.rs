//! Ids that are stored already.

use std::collections::HashSet;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use heapwise_capture::failure::Outcome;

use crate::catalog::Catalog;
use crate::manifest::Manifest;
use crate::rows::Rows;
use crate::schema::Table;
use crate::store::Store;

/// Ids of stored profiles, stacks and functions.
#[derive(Debug, Default)]
pub(super) struct Known {
    profiles: HashSet<u64>,
    stacks: HashSet<u64>,
    functions: HashSet<u64>,
}

impl Known {
    /// The ids in the segments of a store.
    pub(super) fn load(store: &Store, manifest: &Manifest) -> Outcome<Self> {
        let catalog = Catalog::new(store, manifest)?;
        let ids = |table: Table, column: &str| -> Outcome<HashSet<u64>> {
            let rows = catalog.rows(&format!("SELECT {column} FROM {}", table.name()))?;
            let values = |batch: &RecordBatch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
            Ok(rows.iter().flat_map(values).collect())
        };
        Ok(Self {
            profiles: ids(Table::Profiles, "profile_id")?,
            stacks: ids(Table::Stacks, "stack_id")?,
            functions: ids(Table::Functions, "fn_id")?,
        })
    }

    /// Whether a stack is stored.
    pub(super) fn has_stack(&self, id: u64) -> bool {
        self.stacks.contains(&id)
    }

    /// Whether a profile is stored.
    pub(super) fn has_profile(&self, id: u64) -> bool {
        self.profiles.contains(&id)
    }

    /// Moves the rows of one profile to `pending`, without functions and stacks that are known;
    /// `false` when the profile itself is.
    pub(super) fn keep_new(&mut self, mut rows: Rows, pending: &mut Rows) -> bool {
        let is_new = rows.profiles.iter().all(|row| self.profiles.insert(row.origin.profile_id));
        if !is_new {
            return false;
        }
        let known = &self.stacks;
        rows.frames.retain(|row| !known.contains(&row.stack_id));
        rows.stacks.retain(|row| self.stacks.insert(row.stack_id));
        rows.functions.retain(|row| self.functions.insert(row.fn_id));
        pending.append(rows);
        true
    }

    /// Removes profiles that are neither stored nor pending: they have expired.
    pub(super) fn remove_expired(&mut self, stored: Known, pending: &Rows) {
        self.profiles = stored.profiles;
        self.profiles.extend(pending.profiles.iter().map(|row| row.origin.profile_id));
    }
}
