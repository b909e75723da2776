//! The output of commands that have no other formats: `schedlab score`, `schedlab kernel`.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}
