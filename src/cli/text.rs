//! Small texts that subcommands share.

pub use crate::model::quoted;
pub use crate::report::numbers::counted as plural;
