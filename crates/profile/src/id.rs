//! A type per id, so that a stack can never be taken for a location.

macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of the `index`-th row of its table; tables are bounded far below 2³² rows.
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// The row in its table.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

define_id!(
    /// A row of [`crate::Profile::modules`].
    ModuleId
);
define_id!(
    /// A row of [`crate::Profile::locations`].
    LocationId
);
define_id!(
    /// A row of [`crate::Profile::functions`].
    FunctionId
);
define_id!(
    /// A node of [`crate::StackTable`]: a whole stack, by its leaf.
    StackId
);
define_id!(
    /// A row of [`crate::Profile::threads`].
    ThreadId
);
