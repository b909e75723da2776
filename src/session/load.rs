//! The text of a plan: a built-in one by name, a file with its programs, or what is stored.

use std::io;
use std::path::Path;

use crate::analysis;
use crate::model::{Plan, PlanHead, Topology, clean, clean_path};
use crate::plan;
use crate::sys::remedy;
use crate::workload;

use super::no_plan::{self, Wanted};
use super::text_file::{read_plan, read_text};
use super::{Database, SessionError, known, machine};

/// Whether a plan is named by what is stored, and is neither built in nor a file.
pub fn is_stored(named: &str, db: &Database) -> bool {
    let begins_id = || {
        let heads = db.open_read_only().and_then(|store| Ok(store.plan_heads()?));
        heads.is_ok_and(|heads| heads.iter().any(|head| head.id.starts_with(named)))
    };
    let is_other = plan::builtin(named).is_some() || Path::new(named).exists();
    !is_other && !named.is_empty() && (analysis::is_selection(named) || begins_id())
}

/// A plan as text.
#[derive(Debug, Clone)]
pub struct PlanText {
    /// Names the plan in messages.
    pub name: String,
    pub text: String,
    /// The files of rt-app that it was made of, with their texts.
    pub rt_app: Vec<(String, String)>,
}

impl PlanText {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> PlanText {
        PlanText { name: name.into(), text: text.into(), rt_app: Vec::new() }
    }

    /// The plan for this machine; `None`: for any.
    pub fn parse(&self, machine: Option<&Topology>) -> Result<Plan, SessionError> {
        let parsed = plan::parse(&self.name, &self.text, machine, known());
        parsed.map_err(|errors| self.placed(errors.into()))
    }

    /// Fails where the text is no plan on any machine.
    pub fn check(&self) -> Result<(), SessionError> {
        let checked = plan::check(&self.name, &self.text, known());
        checked.map_err(|errors| self.placed(errors.into()))
    }

    /// An error of this plan, at its place in a file of rt-app if it is about one.
    pub(super) fn placed(&self, error: SessionError) -> SessionError {
        match error {
            SessionError::Plan(errors) => plan::at_rt_app(errors, &self.text, &self.rt_app).into(),
            other => other,
        }
    }
}

/// As [`load`], or the text of a stored plan.
pub fn load_or_stored(named: &str, db: &Database) -> Result<PlanText, SessionError> {
    load_wanted(named, Wanted::Plan, db)
}

/// As [`load_or_stored`]; an unknown name leads to the cases of `schedlab hunt`.
pub fn load_case(named: &str, db: &Database) -> Result<PlanText, SessionError> {
    load_wanted(named, Wanted::Case, db)
}

fn load_wanted(named: &str, wanted: Wanted, db: &Database) -> Result<PlanText, SessionError> {
    if !is_stored(named, db) {
        return load_named(named, wanted);
    }
    let store = db.open_read_only()?;
    let heads = store.plan_heads()?;
    let PlanHead { id, title, .. } = db.plan(named, &heads)?;
    let text = plan::with_title(store.source(id)?, title);
    Ok(PlanText::new(format!("plan={id}"), text))
}

/// A built-in plan by name, else a file, which may be one of rt-app.
pub fn load(named: &str) -> Result<PlanText, SessionError> {
    load_named(named, Wanted::Plan)
}

fn load_named(named: &str, wanted: Wanted) -> Result<PlanText, SessionError> {
    if let Some(builtin) = plan::builtin(named) {
        let name = format!("built-in plan {}", builtin.name);
        return Ok(PlanText::new(name, builtin.text));
    }
    let read = read_plan(Path::new(named));
    let text = read.map_err(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            let text = format!("cannot read the plan `{}`: {error}", clean(named));
            let remedy = || remedy::read(Path::new(named), &error);
            let hint = no_plan::program(named).unwrap_or_else(remedy);
            return SessionError::unread(text, hint, &error);
        }
        no_plan::failure(named, wanted)
    });
    let text = text?;
    if let Some(hint) = no_plan::program(named).filter(|_| text.starts_with("#!")) {
        return Err(SessionError::usage(
            format!("`{}` is a script, not a plan", clean(named)),
            hint,
        ));
    }
    if plan::is_rt_app(named, &text) {
        let name = format!("{named} as a plan, which --print shows");
        let made = plan::from_rt_app(named, &text)?;
        return Ok(PlanText { name, text: made, rt_app: vec![(named.to_string(), text)] });
    }
    let (text, rt_app) = with_rt_app(named, text)?;
    Ok(PlanText { name: named.to_string(), text: with_programs(named, text)?, rt_app })
}

/// A file that a plan names, with its text. `hint`: where it is not there.
fn read_next_to(
    named: &str,
    (what, hint): (&str, &str),
    file: String,
) -> Result<(String, String), SessionError> {
    let path = machine::next_to(named, &file);
    read_text(&path).map(|text| (file, text)).map_err(|error| {
        let text = format!("cannot read the {what} `{}`: {error}", clean_path(&path));
        let hint = match error.kind() {
            io::ErrorKind::NotFound => hint.to_string(),
            _ => remedy::read(&path, &error),
        };
        SessionError::unread(text, hint, &error)
    })
}

/// With the sets of the files of rt-app that it names, and these.
fn with_rt_app(named: &str, text: String) -> Result<(String, Vec<(String, String)>), SessionError> {
    let what =
        ("file of rt-app", "use = \"app.json\" is a file next to the plan; schedlab help rt-app");
    let files = plan::rt_app_files(&text).into_iter();
    let files = files.map(|file| read_next_to(named, what, file)).collect::<Result<Vec<_>, _>>()?;
    Ok((plan::with_rt_app_files(&text, &files)?, files))
}

/// With the programs that it names by files next to it.
fn with_programs(named: &str, text: String) -> Result<String, SessionError> {
    let what =
        ("program", "use = \"mine.toml\" is a file next to the plan; schedlab help commands");
    let (files, others) = plan::used(&text);
    let is_known = |name: &String| {
        workload::find(name).is_some() || plan::programs().iter().any(|known| known.name == *name)
    };
    for name in others.iter().filter(|name| !is_known(name)) {
        let file = format!("{name}.toml");
        if machine::next_to(named, &file).is_file() {
            let shown = clean(name);
            let text = format!("there is no workload `{shown}`, but a file `{shown}.toml`");
            return Err(SessionError::usage(text, format!("use = \"{shown}.toml\"")));
        }
    }
    let files = files.into_iter().map(|file| read_next_to(named, what, file));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    Ok(plan::with_program_files(&text, &files)?)
}
