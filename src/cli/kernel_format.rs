//! The output of `schedlab kernel`.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}
