//! `schedlab export --format rt-app`: the load of one plan as a file of rt-app.

use crate::model::{Plan, Value, ValueError, Variant, clean};
use crate::plan::{self, PlanErrors};
use crate::session::{self, known};

use super::{Database, Failure, terminal};
use crate::model::quoted;

/// The file with the load of this plan. It is read back here before anybody gets it: one that would be another load is
/// an error.
pub fn text(named: Option<&str>, db: &Database) -> Result<String, Failure> {
    let Some(named) = named else {
        let text = "--format rt-app needs a plan: a file, a built-in one, or one that is stored";
        return Err(Failure::usage(
            text,
            db.command("export plan.toml --format rt-app -o app.json"),
        ));
    };
    let plan = session::load_or_stored(named, db)?.parse(None)?;
    let unheld = |wrong: ValueError| Failure::usage(wrong.message, wrong.hint);
    let text = plan::to_rt_app(&plan).map_err(unheld)?;
    let name = format!("{} as a file of rt-app", clean(named));
    // Nobody has seen this file, so its places would say nothing.
    let unread = |errors: PlanErrors| {
        let first = errors.errors().first().map_or("", |error| &error.message);
        let text = format!("{} cannot be a file of rt-app: {first}", clean(named));
        Failure::usage(text, "schedlab help rt-app says what such a file holds")
    };
    let again = plan::from_rt_app(&name, &text).map_err(unread)?;
    let again = plan::parse(&name, &again, None, known()).map_err(unread)?;
    if let Some(difference) = plan::rt_app_difference(&plan, &again) {
        return Err(unheld(difference));
    }
    say(&plan);
    Ok(text)
}

/// Prints the variants, which rt-app has no words for.
fn say(plan: &Plan) {
    let variants = plan.variants.iter().filter(|variant| !variant.knobs.is_empty());
    let option = |variant: &Variant| {
        let knob = |(knob, value): (&String, &Value)| format!("{knob}={value}");
        let knobs: Vec<String> = variant.knobs.iter().map(knob).collect();
        format!("--variant {}", quoted(&format!("{}:{}", variant.name, knobs.join(","))))
    };
    let options: Vec<String> = variants.map(option).collect();
    if !options.is_empty() {
        let options = options.join(" ");
        terminal::message(&format!(
            "note: the file has no variants: schedlab run app.json {options}"
        ));
    }
}
