//! Names of things in the registries: what is wrong with one that is not there. Pure.

use crate::model::clean;
use crate::plan::nearest;

use super::Problem;

/// Nothing has the name. `what`: the kind of the name, as `workload`. `list`: the command that lists the known
/// ones; empty where they are few and the message has them.
pub fn unknown_name<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    list: &str,
) -> Problem {
    let known: Vec<&str> = known.collect();
    let near = nearest(name, &known).map(|near| format!("did you mean `{}`? ", clean(near)));
    let rest = if list.is_empty() { format!("one of {}", known.join(", ")) } else { list.into() };
    let hint = near.unwrap_or_default() + &rest;
    Problem::new(format!("there is no {what} `{}`", clean(name)), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_where_there_is_one() {
        let hint = |name: &str, list| {
            let known = ["quick", "smoke", "messaging"].into_iter();
            unknown_name("plan", name, known, list).hint.expect("a hint")
        };
        assert_eq!(
            hint("quik", "schedlab list plans"),
            "did you mean `quick`? schedlab list plans"
        );
        assert_eq!(hint("nonesuch", "schedlab list plans"), "schedlab list plans");
        assert_eq!(hint("nonesuch", ""), "one of quick, smoke, messaging");
        let near = hint("sched-messaging", "");
        assert!(near.starts_with("did you mean `messaging`?"), "{near}");
    }
}
