//! The selection of stored plans and scores by the words of a command, and of the runs of a side.
//!
//! Input: what the user wrote, the heads of what is stored, and the time of asking. Output: for
//! each side its plans and what its runs must be like. Pure.
//!
//! A selection is written as terms with commas between: `KEY=VALUE`, or a word alone that is `last`,
//! `last:N`, `all`, or the name of a variant, of a kernel or of a machine, a tag, or the beginning of
//! an id. In values `*` stands for anything. A variant says which runs of a plan are meant, the other
//! terms which plans; where no term does, it is the newest plan with the variants of all sides.
//! `last`, `last:N` and `all` are plans that measured something; those of the null backend are meant
//! only by `backend=null`.

mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::model::{
    EnvironmentHead, PlanHead, Reading, RunCounts, SampledPlan, ScoreHead, ValueError, clean,
    mistyped,
};
use terms::{
    LAST, MAX_NAMED, SCORE, Terms, all_names, date, fits, is_of_scores, list, listed, wrong,
};

pub use terms::{TERMS, is_selection, matches, near_term, without_maker};

/// The variants that a side takes, where it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// As a user wrote it: `*` stands for anything.
    Like(String),
    /// As a plan names it: `b*` is a name like any other.
    Named(String),
}

/// Runs of stored plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub label: String,
    /// The label with moments in place of `since=7d`.
    fixed: String,
    /// Ids, oldest first.
    pub plans: Vec<String>,
    /// Ids of plans that would be of it if they had measured something on a real backend, newest
    /// first: newer ones, and with `all` older ones, too.
    pub passed_over: Vec<String>,
    /// By terms of several plans, however many there are by now.
    pub names_several: bool,
    variant: Option<Wanted>,
    kernel: Option<String>,
    machine: Option<String>,
}

impl Selection {
    /// Whether runs made on a kernel of these names, and on this machine, are of this side.
    pub fn takes(&self, kernels: &[&str], hostname: &str) -> bool {
        let fits = |pattern: &Option<String>, texts: &[&str]| {
            let fits = |pattern: &String| texts.iter().any(|text| matches(pattern, text));
            pattern.as_ref().is_none_or(fits)
        };
        fits(&self.kernel, kernels) && fits(&self.machine, &[hostname])
    }

    pub fn takes_variant(&self, name: &str) -> bool {
        match &self.variant {
            None => true,
            Some(Wanted::Like(pattern)) => matches(pattern, name),
            Some(Wanted::Named(wanted)) => wanted == name,
        }
    }

    pub fn names_variants(&self) -> bool {
        self.variant.is_some()
    }

    pub fn names_machines(&self) -> bool {
        self.machine.is_some()
    }

    /// The words that take the same from a store that has got newer plans since: one plan by
    /// its id, several by what was written and a moment just after the newest of them.
    pub fn words(&self, heads: &[PlanHead]) -> String {
        if let [plan] = self.plans.as_slice() {
            let variant = self.variant.as_ref().map(|wanted| match wanted {
                Wanted::Like(text) | Wanted::Named(text) => text,
            });
            // A variant's name may have commas, and ends what is written.
            let terms = [("kernel", self.kernel.as_ref()), ("machine", self.machine.as_ref())];
            let terms = terms.into_iter().chain([("variant", variant)]);
            let terms = terms.filter_map(|(key, value)| Some(format!(",{key}={}", value?)));
            return format!("plan={plan}{}", terms.collect::<String>());
        }
        let newest = self.plans.last().and_then(|id| heads.iter().find(|head| head.id == *id));
        match newest {
            Some(newest) if !self.fixed.contains("until=") => {
                format!("{},until={}", self.fixed, date(newest.started_unix_ns.saturating_add(1)))
            }
            _ => self.fixed.clone(),
        }
    }

    /// Whether both take the same runs, but for the variant.
    pub fn is_of_the_runs_of(&self, other: &Selection) -> bool {
        (&self.plans, &self.kernel, &self.machine) == (&other.plans, &other.kernel, &other.machine)
    }

    /// One variant of the same plans, kernels and machines.
    pub fn with_variant(&self, variant: &str) -> Selection {
        let (label, variant) = (variant.to_string(), Wanted::Named(variant.to_string()));
        Selection { label, variant: Some(variant), ..self.clone() }
    }

    /// The same of these plans, oldest first.
    pub fn with_plans(&self, plans: Vec<String>) -> Selection {
        Selection { plans, ..self.clone() }
    }

    pub fn of_plan(plan: &str) -> Selection {
        let label = plan.to_string();
        let (fixed, plans) = (label.clone(), vec![label.clone()]);
        let (passed_over, names_several) = (Vec::new(), false);
        Selection {
            label,
            fixed,
            plans,
            passed_over,
            names_several,
            variant: None,
            kernel: None,
            machine: None,
        }
    }

    pub fn of_variant(plan: &str, variant: &str) -> Selection {
        let label = variant.to_string();
        let (fixed, variant) = (label.clone(), Some(Wanted::Named(label.clone())));
        Selection { label, fixed, variant, ..Selection::of_plan(plan) }
    }
}

/// The sides that `texts` name at `now_unix_ns`; `heads` are all stored plans, newest first.
pub fn select(
    texts: &[String],
    heads: &[PlanHead],
    now_unix_ns: u64,
) -> Result<Vec<Selection>, ValueError> {
    if heads.is_empty() {
        return Err(nothing_measured(heads, 1));
    }
    let terms = texts.iter().map(|text| Terms::read(text, heads, now_unix_ns));
    let terms: Vec<Terms> = terms.collect::<Result<_, _>>()?;
    // Sides that are variants and nothing else are of one plan: the newest that has them all,
    // of those that measured something where there is such a one.
    let has_all = |head: &&PlanHead| {
        terms.iter().filter(|terms| terms.is_variant()).all(|terms| terms.fit("variant", head))
    };
    let measured = heads.iter().filter(|head| head.is_measured()).find(has_all);
    let common = measured.or_else(|| heads.iter().find(has_all));
    let sides = texts.iter().zip(&terms);
    let sides = sides.map(|(text, terms)| {
        let mut side = selection(text, terms, heads, common)?;
        let had_all = |id: &String| heads.iter().any(|head| head.id == *id && has_all(&head));
        side.passed_over.retain(|id| !terms.is_variant() || had_all(id));
        Ok(side)
    });
    Ok(by_own_variants(sides.collect::<Result<_, _>>()?, heads))
}

/// Sides that have one variant each, and not all the same one, as result files of other tools have for each kernel:
/// these variants are what is compared.
fn by_own_variants(sides: Vec<Selection>, heads: &[PlanHead]) -> Vec<Selection> {
    let variant_of = |side: &Selection| {
        let heads = heads.iter().filter(|head| side.plans.contains(&head.id));
        let mut variants = heads.flat_map(|head| &head.variants);
        let first = variants.next().filter(|_| !side.names_variants())?;
        variants.all(|other| other == first).then(|| first.clone())
    };
    let Some(variants) = sides.iter().map(variant_of).collect::<Option<Vec<String>>>() else {
        return sides;
    };
    if variants.iter().all(|variant| *variant == variants[0]) {
        return sides;
    }
    let is_alone = |name: &String| variants.iter().filter(|other| *other == name).count() == 1;
    let sides = sides.into_iter().zip(&variants).map(|(side, variant)| {
        let label = if is_alone(variant) { variant.clone() } else { side.label.clone() };
        Selection { label, ..side.with_variant(variant) }
    });
    sides.collect()
}

/// The one plan that `text` selects; `heads` newest first.
pub fn plan<'h>(
    text: &str,
    heads: &'h [PlanHead],
    now_unix_ns: u64,
) -> Result<(Selection, &'h PlanHead), ValueError> {
    let side = select(&[text.to_string()], heads, now_unix_ns)?.remove(0);
    let alone = heads.iter().find(|head| [head.id.as_str()] == *side.plans);
    match alone {
        Some(head) => Ok((side, head)),
        None => Err(several(text, &side.plans, heads)),
    }
}

/// The error where one plan or score is wanted.
fn several(text: &str, ids: &[String], heads: &[PlanHead]) -> ValueError {
    let newest = ids.iter().rev().take(MAX_NAMED).map(|id| clean(id));
    let more = if ids.len() > MAX_NAMED { ", ..." } else { "" };
    let newest = newest.collect::<Vec<_>>().join(", ");
    let noun = if is_of_scores(heads) { "scores" } else { "plans" };
    let shown = clean(text);
    let message =
        format!("`{shown}` is {} stored {noun}, and one is wanted: {newest}{more}", ids.len());
    // `last` passes over plans that measured nothing, of which these may be.
    wrong(message, &format!("name one by its id: {}", list(heads)))
}

/// The scores that `text` selects, newest first; `heads` are all, newest first.
pub fn scores<'h>(
    text: &str,
    heads: &'h [ScoreHead],
    now_unix_ns: u64,
) -> Result<Vec<&'h ScoreHead>, ValueError> {
    if heads.is_empty() {
        let message = "no score is stored yet".to_string();
        return Err(wrong(message, "schedlab list scores"));
    }
    let plans: Vec<PlanHead> = heads.iter().map(as_plan).collect();
    let side = select(&[text.to_string()], &plans, now_unix_ns)?.remove(0);
    Ok(heads.iter().filter(|head| side.plans.contains(&head.id)).collect())
}

/// The one score that `text` selects.
pub fn score<'h>(
    text: &str,
    heads: &'h [ScoreHead],
    now_unix_ns: u64,
) -> Result<&'h ScoreHead, ValueError> {
    match scores(text, heads, now_unix_ns)?.as_slice() {
        [head] => Ok(head),
        many => {
            let ids: Vec<String> = many.iter().rev().map(|head| head.id.clone()).collect();
            Err(several(
                &format!("score={text}"),
                &ids,
                &many.iter().map(|head| as_plan(head)).collect::<Vec<_>>(),
            ))
        }
    }
}

/// The facts by which a score is selected.
fn as_plan(head: &ScoreHead) -> PlanHead {
    let environment = EnvironmentHead {
        hostname: head.hostname.clone(),
        kernel_release: head.kernel_release.clone(),
        boot_id: Reading::Unknown("a score has none".to_string()),
    };
    PlanHead {
        id: head.id.clone(),
        title: head.title.clone(),
        backend: SCORE.to_string(),
        started_unix_ns: head.started_unix_ns,
        environments: vec![environment],
        runs: RunCounts { done: 1, ..RunCounts::default() },
        tags: head.tags.clone(),
        ..PlanHead::default()
    }
}

/// Why none of the plans counts where the newest `count` were asked for.
fn nothing_measured(heads: &[PlanHead], count: usize) -> ValueError {
    if heads.is_empty() {
        return wrong("nothing is stored yet".to_string(), "schedlab run quick");
    }
    let message = "no stored plan has measured anything on a real backend";
    if count == 1 {
        let hint = "name a plan by its id: schedlab list runs";
        return wrong(format!("{message}, so none is `{LAST}`"), hint);
    }
    let mut stored: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for head in heads {
        *stored.entry((&head.backend, head.runs.done > 0)).or_default() += 1;
    }
    let parts = stored.iter().map(|((backend, has_runs), plans)| {
        let without = if *has_runs { "" } else { " without a measured run" };
        format!("{plans} of backend `{}`{without}", clean(backend))
    });
    let stored_null = stored.contains_key(&(SampledPlan::NULL, true));
    let hint = if stored_null { "schedlab report all,backend=null" } else { "schedlab list runs" };
    wrong(format!("{message}; the store has {}", parts.collect::<Vec<_>>().join(", ")), hint)
}

fn selection(
    text: &str,
    terms: &Terms,
    heads: &[PlanHead],
    common: Option<&PlanHead>,
) -> Result<Selection, ValueError> {
    let shown = clean(text);
    let plans: Vec<String> = if terms.is_variant() {
        // Each result file of another tool has what was measured under one kernel.
        let imported = || {
            let mut imported = heads.iter().filter(|head| head.backend == SampledPlan::IMPORTED);
            imported.find(|head| terms.fit("variant", head))
        };
        let found = common.or_else(imported);
        if found.is_none() && heads.iter().any(|head| terms.fit("variant", head)) {
            let message = format!("no stored plan has `{shown}` together with the other variants");
            let hint =
                "each variant from every plan that has it, by `,all`: schedlab compare A,all B,all";
            return Err(wrong(message, hint));
        }
        found.into_iter().map(|head| head.id.clone()).collect()
    } else {
        let newest = heads.iter().filter(|head| terms.take(head)).map(|head| head.id.clone());
        let mut plans: Vec<String> = newest.take(terms.newest.unwrap_or(usize::MAX)).collect();
        plans.reverse();
        plans
    };
    if plans.is_empty() {
        return Err(match terms.newest {
            Some(count) if terms.patterns.is_empty() && terms.moments.is_empty() => {
                nothing_measured(heads, count)
            }
            _ => {
                // A name that some plan has is not mistyped.
                let unknown = terms.patterns.iter().filter(|(key, pattern)| {
                    !all_names(key, heads).any(|name| fits(key, pattern, name))
                });
                let near = unknown.clone().find_map(|(key, pattern)| {
                    let near = mistyped(pattern.trim_end_matches('*'), all_names(key, heads))?;
                    Some(format!("{key}={near}"))
                });
                let keys: Vec<&str> = unknown.map(|(key, _)| *key).collect();
                let hint = listed(near.as_deref(), &keys, heads);
                wrong(format!("nothing stored is `{shown}`"), &hint)
            }
        });
    }
    let pattern = |key: &str| terms.patterns.get(key).cloned();
    // A choice of the newest, or of all, passes over what measured nothing.
    let newest = terms.newest.or(terms.is_variant().then_some(1));
    let is_newer = |head: &&PlanHead| newest == Some(usize::MAX) || plans.last() != Some(&head.id);
    let passed_over = heads.iter().take_while(is_newer).filter(|head| {
        newest.is_some() && !plans.contains(&head.id) && !head.is_measured() && terms.fit_all(head)
    });
    Ok(Selection {
        names_several: terms.name_several(),
        passed_over: passed_over.map(|head| head.id.clone()).collect(),
        label: text.to_string(),
        fixed: terms.fixed.join(","),
        plans,
        variant: pattern("variant").map(Wanted::Like),
        kernel: pattern("kernel"),
        machine: pattern("machine"),
    })
}
