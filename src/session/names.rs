//! Names of things in the registries: what is wrong with one that is not there. Pure.

use std::fmt;

use crate::plan::nearest;

use crate::model::clean;

use super::{Problem, SessionError};

/// A name that nothing has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of the name: `workload`, `report format`.
    what: &'static str,
    name: String,
    known: Vec<String>,
    /// The command that lists the known ones; empty where they are few and the message has them.
    list: &'static str,
}

impl UnknownName {
    pub fn new<'a>(
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
        list: &'static str,
    ) -> UnknownName {
        let known = known.map(str::to_string).collect();
        UnknownName { what, name: name.to_string(), known, list }
    }

    pub fn problem(&self) -> Problem {
        let message = format!("there is no {} `{}`", self.what, clean(&self.name));
        Problem::new(message, self.hint())
    }

    fn hint(&self) -> String {
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let near =
            nearest(&self.name, &known).map(|near| format!("did you mean `{}`?", clean(near)));
        let rest = match self.list {
            "" => format!("one of {}", self.known.join(", ")),
            list => list.to_string(),
        };
        near.map_or(rest.clone(), |near| format!("{near} {rest}"))
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem())
    }
}

impl std::error::Error for UnknownName {}

impl From<UnknownName> for SessionError {
    fn from(unknown: UnknownName) -> Self {
        SessionError::Usage(unknown.problem())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_where_there_is_one() {
        let hint = |name: &str, list| {
            UnknownName::new("plan", name, ["quick", "smoke"].into_iter(), list).hint()
        };
        assert_eq!(
            hint("quik", "schedlab list plans"),
            "did you mean `quick`? schedlab list plans"
        );
        assert_eq!(hint("nonesuch", "schedlab list plans"), "schedlab list plans");
        assert_eq!(hint("nonesuch", ""), "one of quick, smoke");
        let known = ["messaging", "pipe"].into_iter();
        let unknown = UnknownName::new("workload", "sched-messaging", known, "");
        assert!(unknown.hint().starts_with("did you mean `messaging`?"), "{}", unknown.hint());
    }
}
