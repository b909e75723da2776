//! Arguments that take more than the words that completions offer for them.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::analysis;
use crate::backend;

/// Takes all that `parser` takes. Where help is not to list the words: `hide_possible_values`.
#[derive(Clone)]
pub struct Offering<P> {
    pub parser: P,
    pub words: fn() -> Vec<&'static str>,
}

/// A text that selects what is stored; it is understood once the store is open.
pub fn selection() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), words: || analysis::TERMS.to_vec() }
}

/// The name of a backend.
pub fn backend() -> Offering<StringValueParser> {
    let words = || backend::registry().iter().map(|entry| entry.name).collect();
    Offering { parser: StringValueParser::new(), words }
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().map(PossibleValue::new)))
    }
}
