//! `--fleet` of a build without the feature `fleet`.

use std::convert::Infallible;

use clap::Args;

use crate::model::MissingFeature;
use crate::session::{FleetRequest, Problem};

#[derive(Args, Clone, Default)]
pub struct FleetArgs {
    #[arg(long, hide = true, value_parser = refuse)]
    fleet: Option<Infallible>,
}

fn refuse(_: &str) -> Result<Infallible, Problem> {
    Err(Problem::new(MissingFeature("fleet").to_string(), MissingFeature::HINT))
}

impl FleetArgs {
    pub fn request(&self) -> Option<FleetRequest> {
        None
    }
}
