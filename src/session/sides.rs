//! The sides of a comparison: their plans in the store, the command that compares them again, and the analysis.

use crate::analysis::{self, Analysis, Note, Question, Selection, WithoutEffect};
use crate::model::{Judged, PlanHead, SampledPlan, clean, quoted};
use crate::store::Store;
use crate::variant;

use super::{Database, SessionError, metrics, states};

/// A/A plans that are read for what this machine resolves.
const MAX_FLOORS: usize = 5;
/// Plans that a hint names as sides.
const MAX_SIDES: usize = 4;

/// The variants of one plan.
pub fn variants(head: &PlanHead) -> Vec<Selection> {
    head.variants.iter().map(|variant| Selection::of_variant(&head.id, variant)).collect()
}

/// The variants that `side` takes of one plan. One alone has the plan's first one before it.
pub fn taken_variants(side: &Selection, head: &PlanHead) -> Vec<Selection> {
    let is_taken = |name: &String| side.takes_variant(name);
    let is_alone = head.variants.iter().filter(|name| is_taken(name)).count() == 1;
    let named = head.variants.iter().enumerate();
    let shown = named.filter(|(at, name)| is_taken(name) || (*at == 0 && is_alone));
    shown.map(|(_, name)| Selection::of_variant(&head.id, name)).collect()
}

/// The question about these sides; `explaining`: the report shows every metric.
pub fn question(
    judged: &Judged,
    sides: Vec<Selection>,
    command: String,
    explaining: bool,
    db: &Database,
) -> Question {
    Question { explaining, store: db.words(), ..Question::new(sides, command) }.judging(judged)
}

/// The command that compares the same sides again, however many plans are stored by then.
/// `against`: the first side is what the others are compared with by `--against`.
pub fn command(sides: &[Selection], against: bool, heads: &[PlanHead]) -> String {
    let whole = heads.iter().find(|head| variants(head) == sides);
    let mut words: Vec<String> = match whole {
        Some(head) => vec![format!("plan={}", head.id)],
        None => sides.iter().map(|side| side.words(heads)).collect(),
    };
    if against {
        let baseline = words.remove(0);
        words.extend(["--against".to_string(), baseline]);
    }
    let words = words.iter().map(|word| format!(" {}", quoted(word)));
    format!("schedlab compare{}", words.collect::<String>())
}

/// The sides and plans of a comparison.
pub struct Comparison {
    pub sides: Vec<Selection>,
    /// See [`command`].
    pub command: String,
    /// The plans of all sides, oldest first.
    pub plans: Vec<SampledPlan>,
    /// Why further plans were refused.
    pub refused: Vec<Note>,
}

/// The error where one side is all that is named, with the command that compares what it has.
pub fn one_side(side: &Selection, heads: &[PlanHead], db: &Database) -> SessionError {
    let is_own = |head: &&PlanHead| side.plans.contains(&head.id);
    let own: Vec<&PlanHead> = heads.iter().filter(is_own).collect();
    let label = clean(&side.label);
    // Plans of other works or places are refused as sides of one comparison.
    let is_like = |head: &&&PlanHead| {
        let facts = |head: &PlanHead| (head.title.clone(), head.backend.clone());
        own.first().is_some_and(|newest| facts(newest) == facts(head))
    };
    let alike: Vec<&PlanHead> = own.iter().filter(is_like).copied().collect();
    let one_of_many =
        || format!("`{label}` is one side, of {} plans: nothing to compare", own.len());
    let [plan] = alike.as_slice() else {
        let newest = alike.iter().take(MAX_SIDES).rev();
        let sides: Vec<Selection> =
            newest.map(|head| side.with_plans(vec![head.id.clone()])).collect();
        let is_all = alike.len() == own.len() && own.len() <= MAX_SIDES;
        let which = if is_all { "its plans" } else { "the newest of its plans" };
        let command = command(&sides, false, heads) + &db.words();
        return SessionError::usage(
            one_of_many(),
            format!("{which} against each other: {command}"),
        );
    };
    let id = quoted(&format!("plan={}", plan.id));
    let (hint, command) = match (plan.variants.len() > 1, heads.len() > 1) {
        (true, _) if own.len() > 1 => ("all variants of the newest", format!("compare {id}")),
        (true, _) => ("all variants of that plan", format!("compare {id}")),
        (false, true) => ("with another plan", format!("compare {id} --against last")),
        (false, false) => ("measure it again, then compare both", format!("run {id}")),
    };
    let (of, command) = (clean(&plan.id), db.command(&command));
    let text = if own.len() > 1 {
        one_of_many()
    } else {
        format!("`{label}` of {of} is one side alone: nothing to compare")
    };
    SessionError::usage(text, format!("{hint}: {command}"))
}

/// Refuses a side that stands twice.
pub fn check_distinct(sides: &[Selection], db: &Database) -> Result<(), SessionError> {
    match (1..sides.len()).find(|&at| sides[..at].contains(&sides[at])) {
        None => Ok(()),
        Some(twice) => {
            let label = clean(&sides[twice].label);
            Err(SessionError::usage(format!("`{label}` stands twice"), db.command("list runs")))
        }
    }
}

/// The plans of all sides, oldest first.
pub fn sampled(store: &Store, sides: &[Selection]) -> Result<Vec<SampledPlan>, SessionError> {
    let mut ids: Vec<&String> = sides.iter().flat_map(|side| &side.plans).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut plans: Vec<SampledPlan> =
        ids.into_iter().map(|id| store.sampled(id)).collect::<Result<_, _>>()?;
    plans.sort_by_key(|plan| plan.started_unix_ns);
    Ok(plans)
}

/// Whether the metrics that are named are there in these plans.
pub fn check_named(
    judged: &Judged,
    plans: &[SampledPlan],
    sides: &[Selection],
) -> Result<(), SessionError> {
    let by_variant = !sides.iter().any(Selection::names_variants);
    metrics::check(judged.patterns(), || {
        plans.iter().flat_map(|plan| {
            metrics::places(&plan.cells, metrics::Added::by(&plan.plan), &plan.metrics, by_variant)
        })
    })
}

/// This request, or the one that a plan was begun with if this one asks for nothing. That one may come from outside, or
/// name what a comparison with other plans had: it counts where all that it names is here.
pub fn asked_or_begun(
    asked: &Judged,
    begun: &Judged,
    plans: &[SampledPlan],
    sides: &[Selection],
) -> Judged {
    let judged = asked.or(begun);
    let is_here = check_named(&judged, plans, sides).is_ok();
    if is_here { judged } else { asked.clone() }
}

/// The analysis that `question` asks for; `plans` are those of its sides.
pub fn analyse(
    store: &Store,
    plans: &[SampledPlan],
    question: Question,
) -> Result<Analysis, SessionError> {
    if let Some((runs, sides)) = analysis::overlap(plans, &question.sides) {
        let [first, other] = sides.map(|side| clean(&question.sides[side].label));
        let text = format!(
            "`{first}` and `{other}` have {runs} runs in common, which cannot be compared with \
             themselves"
        );
        return Err(SessionError::usage(text, without_overlap(store, plans, &question)?));
    }
    // The resolution of one machine says nothing about the mean of many.
    let floors = if question.ratios_alone || question.over_hosts {
        Vec::new()
    } else {
        floors(store, &store.plan_heads()?, plans)?
    };
    let without_effect = without_effect(plans, &question.sides);
    let windows = states::windows(store, plans, &question)?;
    Ok(analysis::analyse(plans, &floors, &Question { without_effect, windows, ..question }))
}

/// The command that compares the named variants without the plan that has them, or that plan with all of its variants,
/// or else a plan with those before it.
fn without_overlap(
    store: &Store,
    plans: &[SampledPlan],
    question: &Question,
) -> Result<String, SessionError> {
    let (named, whole): (Vec<Selection>, Vec<Selection>) =
        question.sides.iter().cloned().partition(Selection::names_variants);
    let heads = store.plan_heads()?;
    let words = |sides: &[Selection]| sides.iter().map(|of| quoted(&of.words(&heads))).collect();
    let words: Vec<String> = match (named.as_slice(), whole.as_slice()) {
        ([_, _, ..], _) if analysis::overlap(plans, &named).is_none() => words(&named),
        // A plan alone is compared by its variants, the named one among them.
        ([_], [plan]) if plan.plans.len() == 1 => words(&whole),
        _ => ["last", "--against", "last:10"].map(String::from).to_vec(),
    };
    Ok(format!("schedlab compare {}{}", words.join(" "), question.store))
}

/// The knobs that cannot make a difference in the cells of these sides, each once.
fn without_effect(plans: &[SampledPlan], sides: &[Selection]) -> Vec<WithoutEffect> {
    let mut all = Vec::new();
    for side in sides {
        let plans = plans.iter().filter(|plan| side.plans.contains(&plan.id));
        let cells = plans.flat_map(|plan| plan.cells.iter().map(move |cell| (plan, cell)));
        let cells = cells.filter(|(plan, cell)| {
            side.takes_variant(&cell.variant.name) && !plan.plan.is_solo_run(&cell.work)
        });
        let found = cells.flat_map(|(_, cell)| {
            variant::without_effect(cell).into_iter().map(move |found| (cell, found))
        });
        for (cell, found) in found {
            let (side, knob) = (side.label.clone(), found.knob.to_string());
            let scheduler = match found.why {
                variant::WithoutEffect::Scheduler => cell.variant.scx().map(str::to_string),
                _ => None,
            };
            let own_of_sets = found.why == variant::WithoutEffect::OwnOfSets;
            let work = cell.work.label();
            let found = WithoutEffect { side, knob, work, scheduler, own_of_sets };
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    all
}

/// The command that gives the analysis of a plan of so many variants again: one alone has nothing to be
/// compared with.
pub fn plan_command(id: &str, variants: usize) -> String {
    match variants {
        1 => format!("schedlab report {id}"),
        _ => format!("schedlab compare plan={id}"),
    }
}

/// The newest A/A plans whose floors may hold for these plans, oldest first.
fn floors(
    store: &Store,
    heads: &[PlanHead],
    plans: &[SampledPlan],
) -> Result<Vec<SampledPlan>, SessionError> {
    let heads = analysis::with_floors(heads, plans).into_iter().take(MAX_FLOORS);
    let mut floors: Vec<SampledPlan> =
        heads.map(|head| store.sampled(&head.id)).collect::<Result<_, _>>()?;
    floors.reverse();
    Ok(floors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing;

    fn head(id: &str, second: u64, variants: &[&str]) -> PlanHead {
        testing::heads(&[testing::plan(id, second * 1_000_000_000, variants)]).remove(0)
    }

    #[test]
    fn a_report_of_variants_has_these_and_one_alone_its_baseline() {
        let heads = [head("p", 1, &["default", "batch", "idle"])];
        for (text, expected) in [
            ("p", &["default", "batch", "idle"][..]),
            ("variant=idle", &["default", "idle"]),
            ("variant=*a*", &["default", "batch"]),
            ("variant=b*,all", &["default", "batch"]),
        ] {
            let side = selected(&[text], &heads).remove(0);
            let labels: Vec<String> =
                taken_variants(&side, &heads[0]).into_iter().map(|side| side.label).collect();
            assert_eq!(labels, expected, "{text}");
        }
    }

    /// Newest first.
    fn heads() -> [PlanHead; 3] {
        [
            head("p3", 3, &["default", "batch", "x,y"]),
            head("p2", 2, &["default"]),
            head("p1", 1, &["default"]),
        ]
    }

    fn selected(words: &[&str], heads: &[PlanHead]) -> Vec<Selection> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        analysis::select(&words, heads, 3_600_000_000_000).unwrap()
    }

    /// The suggested command has the ids of the selected plans.
    #[test]
    fn one_side_alone_has_the_command_that_compares_what_it_has() {
        let heads = heads();
        for (word, count, expected) in [
            ("last:2", 3, "its plans against each other: schedlab compare plan=p2 plan=p3"),
            (
                "variant=default,since=1970-01-01",
                3,
                "schedlab compare plan=p1,variant=default plan=p2,variant=default \
                 plan=p3,variant=default",
            ),
            ("variant=batch", 3, "all variants of that plan: schedlab compare plan=p3"),
            ("p2", 3, "with another plan: schedlab compare plan=p2 --against last"),
            ("default", 1, "measure it again, then compare both: schedlab run plan=p1"),
        ] {
            let heads = &heads[3 - count..];
            let side = selected(&[word], heads).remove(0);
            let said = one_side(&side, heads, &Database::default()).to_string();
            let hint = said.split_once("hint: ").map(|(_, hint)| hint.to_string());
            assert!(hint.is_some_and(|hint| hint.ends_with(expected)), "{word}: {said}");
        }
        let many: Vec<PlanHead> =
            (1..=9).rev().map(|at| head(&format!("p{at}"), at, &["default"])).collect();
        let said = one_side(&selected(&["all"], &many)[0], &many, &Database::default());
        let newest = "the newest of its plans against each other: schedlab compare plan=p6 plan=p7 \
                      plan=p8 plan=p9";
        assert!(said.to_string().ends_with(newest), "{said}");
        // Plans that did other work, or elsewhere, cannot be compared with the newest one.
        let mut others = many.clone();
        others[1].title = "another".to_string();
        others[2].backend = "null".to_string();
        let said = one_side(&selected(&["all"], &others)[0], &others, &Database::default());
        let alike = "the newest of its plans against each other: schedlab compare plan=p4 plan=p5 \
                     plan=p6 plan=p9";
        assert!(said.to_string().ends_with(alike), "{said}");
        let mut lone = others[..3].to_vec();
        lone[0].variants.push("batch".to_string());
        let said = one_side(&selected(&["all"], &lone)[0], &lone, &Database::default()).to_string();
        assert!(said.contains("is one side, of 2 plans: nothing to compare"), "{said}");
        assert!(said.ends_with("all variants of the newest: schedlab compare plan=p9"), "{said}");
    }

    #[test]
    fn the_command_names_what_it_was_about_when_it_ran() {
        let heads = heads();
        let select = |words: &[&str]| selected(words, &heads);
        let cases: &[(Vec<Selection>, bool, &str)] = &[
            (variants(&heads[0]), false, "plan=p3"),
            (select(&["default", "batch"]), false, "plan=p3,variant=default plan=p3,variant=batch"),
            (select(&["p1", "last"]), false, "plan=p1 plan=p3"),
            (select(&["last", "p1"]), true, "plan=p1 --against plan=p3"),
            (
                select(&["last:2", "6.12.*"]),
                false,
                "last:2,until=1970-01-01T00:00:03.000000001 \
                 '6.12.*,until=1970-01-01T00:00:03.000000001'",
            ),
            (
                select(&["all,until=1970-01-02", "last,6.12.0"]),
                false,
                "all,until=1970-01-02 plan=p3,kernel=6.12.0",
            ),
        ];
        for (sides, against, expected) in cases {
            assert_eq!(command(sides, *against, &heads), format!("schedlab compare {expected}"));
        }
        let again = select(&["last:2,until=1970-01-01T00:00:03.000000001"]);
        assert_eq!(again[0].plans, select(&["last:2"])[0].plans);
    }
}
