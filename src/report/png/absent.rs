//! The picture of a build without the feature `png`: there is none.

use std::io::{self, Write};

use crate::analysis::Analysis;
use crate::model::MissingFeature;

pub fn write(_: &[Analysis], _: &mut dyn Write) -> io::Result<()> {
    Err(io::Error::other(MissingFeature("png")))
}
