//! `schedlab serve` of a build without the feature `serve`.

use clap::Args;

use crate::cli::Failure;
use crate::model::MissingFeature;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct ServeArgs {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true, hide = true)]
    _any: Vec<String>,
}

pub fn run(_: &ServeArgs) -> Result<(), Failure> {
    Err(MissingFeature("serve").into())
}
