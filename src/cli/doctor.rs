//! `schedlab doctor`: what this machine can measure, what disturbs it, and what to do.

use std::io::{self, Write};

use crate::probe::checkup;
use crate::sys::Host;

use super::{Failure, terminal};

pub fn run() -> Result<(), Failure> {
    let findings = checkup::checkup(&Host::default());
    let text = checkup::render(&findings, terminal::width(), terminal::color(&io::stdout()));
    Ok(write!(io::stdout().lock(), "{text}")?)
}
