//! Arguments with words that completions offer; most take more than these.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::analysis::{self, By};
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

/// The words for what tasks are folded by; the last one folds none.
pub const FOLDINGS: [(&str, By); 4] =
    [("name", By::Name), ("process", By::Process), ("cgroup", By::Cgroup), ("task", By::Task)];

/// Takes one of these words.
pub fn folding(words: &'static [(&str, By)]) -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).try_map(|own: String| {
        words.iter().find(|(word, _)| *word == own).map(|(_, by)| *by).ok_or("no such word")
    })
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
