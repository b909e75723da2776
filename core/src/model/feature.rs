//! Parts that a build may leave out: features of Cargo.toml. Plain data.

use thiserror::Error;

/// A part that was asked for, and that this build lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this schedlab was built without `{0}`")]
pub struct MissingFeature(pub &'static str);

impl MissingFeature {
    pub const HINT: &str = "cargo install --path . --features full, or make dist, in a checkout";
}
