//! Arguments that select what is stored: any text, with the terms that completions offer.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::analysis;

/// The text is understood once the store is open.
#[derive(Clone)]
pub struct SelectionParser;

impl TypedValueParser for SelectionParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(analysis::TERMS.iter().map(PossibleValue::new)))
    }
}
