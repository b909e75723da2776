//! `--fleet` of a build without the feature `fleet`.

use std::convert::Infallible;

use clap::Args;

use crate::backend::{Backend, BackendError, Mode};
use crate::cli::Failure;
use crate::cli::exit_code::Problem;
use crate::engine::Job;
use crate::model::MissingFeature;

#[derive(Args, Clone, Default)]
pub struct FleetArgs {
    #[arg(long, hide = true, value_parser = refuse)]
    fleet: Option<Infallible>,
}

fn refuse(_: &str) -> Result<Infallible, Problem> {
    Err(Problem::new(MissingFeature("fleet").to_string(), MissingFeature::HINT))
}

impl FleetArgs {
    pub fn is_given(&self) -> bool {
        self.fleet.is_some()
    }

    pub fn words(&self) -> String {
        String::new()
    }

    pub fn over(
        &self,
        backend: Box<dyn Backend>,
        _: &Job,
        _: Mode,
        _: bool,
        _: &[String],
    ) -> Result<Box<dyn Backend>, Failure> {
        Ok(backend)
    }
}

pub fn cancel_left() -> Result<Vec<String>, Failure> {
    Ok(Vec::new())
}

pub fn leave(_: &str) -> Result<(), Failure> {
    Ok(())
}

pub fn alarm(_: &BackendError) -> Option<String> {
    None
}
