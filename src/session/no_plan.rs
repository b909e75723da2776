//! A plan that is neither built in nor a file: what may be meant, of the files where it was looked for too.

use std::fs;
use std::path::Path;

use crate::analysis::near_term;
use crate::model::{clean, mistyped, quoted};
use crate::plan;
use crate::sys;

use super::SessionError;

/// Files of plans that a message looks at.
const MAX_FILES: usize = 1000;

/// The files where a plan was looked for that may be plans, as they would be named.
fn plans_next_to(named: &str) -> Vec<String> {
    let folder = Path::new(named).parent().unwrap_or(Path::new(""));
    let here = if folder == Path::new("") { Path::new(".") } else { folder };
    let files = fs::read_dir(here).into_iter().flatten().take(MAX_FILES).flatten();
    let names = files.map(|file| folder.join(file.file_name()));
    let plans = names.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut plans: Vec<String> =
        plans.filter_map(|path| Some(path.to_str()?.to_string())).collect();
    plans.sort();
    plans
}

/// The kind of plan that a name was given for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    Plan,
    /// A plan that the rules of a hunt judge.
    Case,
}

/// The error of a plan that is neither built in nor a file. A name without its ending may mean a file.
pub fn failure(named: &str, wanted: Wanted) -> SessionError {
    let files = plans_next_to(named);
    let builtins: Vec<&str> = match wanted {
        Wanted::Plan => plan::embedded().map(|builtin| builtin.name).collect(),
        Wanted::Case => plan::cases().iter().map(|builtin| builtin.name).collect(),
    };
    let stem = |file: &str| {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    };
    let stems: Vec<String> = files.iter().map(|file| stem(file)).collect();
    let known = stems.iter().map(String::as_str).chain(builtins.iter().copied());
    let near = mistyped(&stem(named), known).or_else(|| plan::nearest(named, &builtins));
    let file = |near: &str| stems.iter().position(|stem| stem == near).map(|at| &files[at]);
    let near = near.map(|near| file(near).map_or(near, String::as_str));
    let (what, list) = match wanted {
        Wanted::Plan => ("built-in plan", near.map_or("plans", list_of)),
        Wanted::Case => ("case", "cases"),
    };
    let near = near.map(str::to_string).or_else(|| near_term(named));
    let near = near.map(|near| format!("did you mean `{}`? ", clean(&near))).unwrap_or_default();
    let text = format!("there is no {what} or file `{}`", clean(named));
    let program = program(named).filter(|_| wanted == Wanted::Plan);
    let hint = program.unwrap_or_else(|| format!("{near}schedlab list {list}"));
    SessionError::usage(text, hint)
}

/// The list that has a plan of this name.
fn list_of(name: &str) -> &'static str {
    let has = |plans: &[plan::Builtin]| plans.iter().any(|builtin| builtin.name == name);
    match () {
        () if has(plan::cases()) => "cases",
        () if has(plan::findings()) => "findings",
        () => "plans",
    }
}

/// The command that measures it, if it is a program of this machine.
pub fn program(named: &str) -> Option<String> {
    sys::command::find(named).ok()?;
    let command = format!("schedlab run -- {}", clean(&quoted(named)));
    Some(format!("to measure this program: {command}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_next_to_it_and_built_in_plans_may_be_meant() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["latency.toml", "notes.txt", "web-small.toml"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let path = |name: &str| folder.path().join(name).display().to_string();
        for (named, near) in [
            (path("latecny.toml"), Some(path("latency.toml"))),
            (path("web-smal.toml"), Some(path("web-small.toml"))),
            (path("latency"), Some(path("latency.toml"))),
            (path("notes"), None),
            ("quik".to_string(), Some("quick".to_string())),
            ("varian=batch".to_string(), Some("variant=batch".to_string())),
            ("lst:3".to_string(), Some("last:3".to_string())),
            ("nonesuch".to_string(), None),
        ] {
            let said = failure(&named, Wanted::Plan).to_string();
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            assert!(said.contains(&format!("no built-in plan or file `{named}`\n")), "{said}");
            assert!(said.ends_with(&format!("hint: {near}schedlab list plans")), "{said}");
        }
        let said = failure("idle-smtt", Wanted::Plan).to_string();
        assert!(said.ends_with("did you mean `idle-smt`? schedlab list cases"), "{said}");
        let said = failure("sh", Wanted::Plan).to_string();
        assert!(said.ends_with("hint: to measure this program: schedlab run -- sh"), "{said}");
    }

    #[test]
    fn a_name_that_was_given_for_a_case_leads_to_the_cases() {
        for (named, near) in
            [("idle-smtt", "did you mean `idle-smt`? "), ("nonesuch", ""), ("quik", ""), ("sh", "")]
        {
            let said = failure(named, Wanted::Case).to_string();
            let expected = format!(
                "error: there is no case or file `{named}`\nhint: {near}schedlab list cases"
            );
            assert_eq!(said, expected);
        }
    }
}
