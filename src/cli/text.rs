//! Small texts that subcommands share.

pub use crate::model::quoted;
pub use crate::session::plural;
