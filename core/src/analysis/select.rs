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

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::lists::once;
use crate::model::clean;
use crate::model::{
    EnvironmentHead, PlanHead, Reading, RunCounts, SampledPlan, ScoreHead, ValueError, mistyped,
};

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

/// Ids or names that a message has.
const MAX_NAMED: usize = 5;
/// In nanoseconds; messages have no moments that are finer.
const S: u64 = 1_000_000_000;

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

/// The terms that the user wrote for one side.
#[derive(Debug, Default)]
struct Terms {
    /// How many of the newest plans.
    newest: Option<usize>,
    /// By key; `*` stands for anything.
    patterns: BTreeMap<&'static str, String>,
    /// `since` and `until`, in Unix nanoseconds.
    moments: BTreeMap<&'static str, u64>,
    /// The terms as written, with moments in place of relative dates.
    fixed: Vec<String>,
}

/// The terms as completions show them.
pub const TERMS: [&str; 12] = [
    LAST, "last:", ALL, "variant=", "kernel=", "machine=", "plan=", "backend=", "tag=", "title=",
    "since=", "until=",
];
const LAST: &str = "last";
const ALL: &str = "all";
/// The keys that a bare word is tried as; the first that fits counts.
const KEYS_OF_WORDS: [&str; 5] = ["variant", "kernel", "machine", "tag", "plan"];
/// In place of a score's backend.
const SCORE: &str = "score";

fn keys() -> impl Iterator<Item = &'static str> + Clone {
    TERMS.iter().filter_map(|term| term.strip_suffix('='))
}

/// Whether the text begins as a selection of what is stored, and as no name of a plan or a file.
pub fn is_selection(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or_default().trim();
    let key = first.split_once('=').map(|(key, _)| key.trim());
    first == LAST
        || first == ALL
        || first.starts_with("last:")
        || keys().any(|own| key == Some(own))
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
        ended: None,
        environments: vec![environment],
        variants: Vec::new(),
        aa: false,
        sharding: None,
        runs: RunCounts { done: 1, ..RunCounts::default() },
        booted: Vec::new(),
        tags: head.tags.clone(),
    }
}

fn is_of_scores(heads: &[PlanHead]) -> bool {
    heads.first().is_some_and(|head| head.backend == SCORE)
}

/// The command that lists what there is.
fn list(heads: &[PlanHead]) -> &'static str {
    if is_of_scores(heads) { "schedlab list scores" } else { "schedlab list runs" }
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

/// The command that lists what there is, and before it the name that may be meant, else names under these keys.
fn listed(near: Option<&str>, keys: &[&str], heads: &[PlanHead]) -> String {
    let near = near.map(|near| format!("did you mean `{}`? ", clean(near)));
    format!("{}{}", near.unwrap_or_else(|| existing(keys, heads)), list(heads))
}

/// `stored: variant default, batch; kernel 6.12.1; `, those of the newest plans; empty without any.
fn existing(keys: &[&str], heads: &[PlanHead]) -> String {
    let of_key = |key: &&str| {
        let mut found: Vec<&str> = Vec::new();
        all_names(key, heads).for_each(|name| once(&mut found, name));
        let more = if found.len() > MAX_NAMED { ", ..." } else { "" };
        let shown: Vec<String> = found.iter().take(MAX_NAMED).map(|name| clean(name)).collect();
        (!found.is_empty()).then(|| format!("{key} {}{more}", shown.join(", ")))
    };
    let all: Vec<String> = keys.iter().filter_map(of_key).collect();
    if all.is_empty() { String::new() } else { format!("stored: {}; ", all.join("; ")) }
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

impl Terms {
    fn read(text: &str, heads: &[PlanHead], now_unix_ns: u64) -> Result<Terms, ValueError> {
        let mut terms = Terms::default();
        for term in split(text, heads) {
            let (key, value) = match term.split_once('=') {
                Some(_) if is_variant(term, heads) => ("variant", term),
                Some((key, value)) => (key_of(key.trim(), value.trim(), heads)?, value.trim()),
                None => (key_of_word(term, heads)?, term),
            };
            let mut fixed = term.to_string();
            let newest = if key == "plan" { newest(value)? } else { None };
            let twice = match (key, newest) {
                (_, Some(count)) => terms.newest.replace(count).map(|_| "plans"),
                ("since" | "until", _) => {
                    let moment = moment(value, now_unix_ns).ok_or_else(|| no_date(key, value))?;
                    if absolute(value).is_none() {
                        fixed = format!("{key}={}", date(moment));
                    }
                    if key == "since" && moment > now_unix_ns {
                        let message = format!("`{key}={}` lies in the future", clean(value));
                        return Err(wrong(
                            message,
                            &format!(
                                "it is {} UTC: {}",
                                date(now_unix_ns - now_unix_ns % S),
                                list(heads)
                            ),
                        ));
                    }
                    terms.moments.insert(key, moment).map(|_| key)
                }
                ("plan", _) => {
                    // The whole id of one may be the beginning of another's.
                    let is_whole = heads.iter().any(|head| head.id == value);
                    let any = if is_whole { "" } else { "*" };
                    terms.patterns.insert(key, format!("{value}{any}")).map(|_| key)
                }
                _ => terms.patterns.insert(key, value.to_string()).map(|_| key),
            };
            if let Some(what) = twice {
                let message = format!("`{}` names its {what} twice", clean(text));
                return Err(wrong(
                    message,
                    &format!("name it once, or separate sides: {}", list(heads)),
                ));
            }
            terms.fixed.push(fixed);
        }
        Ok(terms)
    }

    fn name_several(&self) -> bool {
        let has = |key: &str| self.patterns.contains_key(key);
        !self.moments.is_empty() || has("tag") || has("title")
    }

    /// Nothing but a variant.
    fn is_variant(&self) -> bool {
        self.patterns.keys().eq(&["variant"]) && self.newest.is_none() && self.moments.is_empty()
    }

    /// Whether the plan has a name that was asked for under this key.
    fn fit(&self, key: &str, head: &PlanHead) -> bool {
        let is = |pattern: &String| names(key, head).any(|name| fits(key, pattern, name));
        self.patterns.get(key).is_none_or(is)
    }

    fn take(&self, head: &PlanHead) -> bool {
        // The last plans measured something, on a real backend unless another was asked for.
        let is_asked = self.patterns.contains_key("backend");
        let is_score = head.backend == SCORE;
        let may_be_last = head.is_measured() || is_score || (is_asked && head.runs.done > 0);
        (self.newest.is_none() || may_be_last) && self.fit_all(head)
    }

    /// Whether the plan is as all terms say, but for `last`.
    fn fit_all(&self, head: &PlanHead) -> bool {
        let started = head.started_unix_ns;
        ["plan", "backend", "tag", "title", "variant"].iter().all(|key| self.fit(key, head))
            && self.moments.get("since").is_none_or(|since| started >= *since)
            && self.moments.get("until").is_none_or(|until| started < *until)
            && head.environments.iter().any(|environment| {
                let is_of =
                    |wanted: &String| kernels(head, environment).any(|name| matches(wanted, name));
                let is_on = |wanted: &String| matches(wanted, &environment.hostname);
                self.patterns.get("kernel").is_none_or(is_of)
                    && self.patterns.get("machine").is_none_or(is_on)
            })
    }
}

/// The terms of a side. Its last one may be the name of a variant that has commas itself, as
/// `pinned affinity=0,2`.
fn split<'t>(text: &'t str, heads: &[PlanHead]) -> Vec<&'t str> {
    let commas = text.match_indices(',').map(|(at, _)| at);
    for from in std::iter::once(0).chain(commas.map(|at| at + 1)) {
        let last = text[from..].trim();
        if is_variant(last.strip_prefix("variant=").unwrap_or(last), heads) {
            let before = text[..from].trim_end_matches(',').split(',').map(str::trim);
            return before.filter(|_| from > 0).chain([last]).collect();
        }
    }
    text.split(',').map(str::trim).collect()
}

/// Whether a stored plan has a variant of exactly this name.
fn is_variant(name: &str, heads: &[PlanHead]) -> bool {
    heads.iter().any(|head| head.variants.iter().any(|variant| variant == name))
}

/// The names of a plan under a key.
fn names<'h>(key: &str, head: &'h PlanHead) -> std::vec::IntoIter<&'h str> {
    let environments = head.environments.iter();
    let names: Vec<&String> = match key {
        "kernel" => {
            return environments.flat_map(|of| kernels(head, of)).collect::<Vec<_>>().into_iter();
        }
        "variant" => head.variants.iter().collect(),
        "machine" => environments.map(|of| &of.hostname).collect(),
        "backend" => vec![&head.backend],
        "tag" => head.tags.iter().collect(),
        "title" => vec![&head.title],
        _ => vec![&head.id],
    };
    names.into_iter().map(String::as_str).collect::<Vec<_>>().into_iter()
}

/// The names under a key that are not empty, of all plans.
fn all_names<'h>(key: &str, heads: &'h [PlanHead]) -> impl Iterator<Item = &'h str> + use<'h> {
    let key = key.to_string();
    heads.iter().flat_map(move |head| names(&key, head)).filter(|name| !name.is_empty())
}

/// The names of the kernels of a plan in this environment. In the lab these are the ones that were asked for,
/// with and without their maker, and the ones that booted.
fn kernels<'h>(
    head: &'h PlanHead,
    environment: &'h EnvironmentHead,
) -> impl Iterator<Item = &'h str> {
    let own = environment.kernel_release.as_str();
    let asked: Vec<&str> = if head.backend == SampledPlan::LAB {
        own.split(", ").flat_map(|name| [name, without_maker(name)]).collect()
    } else {
        vec![own]
    };
    asked.into_iter().chain(head.booted.iter().map(String::as_str))
}

/// A title may be named by any part of it, in any case.
fn fits(key: &str, pattern: &str, name: &str) -> bool {
    match key {
        "title" => matches(&format!("*{}*", pattern.to_lowercase()), &name.to_lowercase()),
        _ => matches(pattern, name),
    }
}

/// `6.1` of `debian:6.1`.
pub fn without_maker(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, version)| version)
}

fn key_of(word: &str, value: &str, heads: &[PlanHead]) -> Result<&'static str, ValueError> {
    if value.is_empty() {
        let message = format!("`{}=` names nothing", clean(word));
        return Err(wrong(message, list(heads)));
    }
    if word == SCORE && !is_of_scores(heads) {
        let message = format!("`{SCORE}={}` is a score, and stored plans are wanted", clean(value));
        return Err(wrong(message, &format!("schedlab show '{SCORE}={}'", clean(value))));
    }
    keys().find(|key| *key == word).ok_or_else(|| {
        let known = keys().collect::<Vec<_>>().join(", ");
        let message = format!("`{}` is none of {known}", clean(word));
        let near = mistyped(word, keys()).map(|key| format!("{key}={value}"));
        wrong(message, &listed(near.as_deref(), &[], heads))
    })
}

fn no_date(key: &str, value: &str) -> ValueError {
    let message = format!("`{key}={}` is not a date", clean(value));
    // It may be meant for months, which have no length.
    let minutes = value.strip_suffix('m').filter(|count| count.parse::<u64>().is_ok());
    let near = minutes.map(|count| format!("minutes are `{key}={count}min`, months dates; "));
    let dates = "today, yesterday, 10min, 2h, 7d, 2w, 2026-11-01 or 2026-11-01T12:00:00";
    let near = near.unwrap_or_default();
    wrong(message, &format!("{near}{dates}: schedlab list runs since=7d"))
}

/// Finds the key of a bare word, by the names in the stored plans.
fn key_of_word(word: &str, heads: &[PlanHead]) -> Result<&'static str, ValueError> {
    if newest(word)?.is_some() {
        return Ok("plan");
    }
    let is_of = |key: &str, head: &PlanHead| {
        let is_it = |name: &str| fits(key, word, name) || (key == "plan" && name.starts_with(word));
        names(key, head).any(is_it)
    };
    let has = |key: &&str| !word.is_empty() && heads.iter().any(|head| is_of(key, head));
    KEYS_OF_WORDS.into_iter().find(has).ok_or_else(|| {
        let shown = clean(word);
        let what = if is_of_scores(heads) { "score" } else { "plan" };
        let keys = if what == "score" { "" } else { "variant, " };
        let message = format!("no stored {what} has a {keys}kernel, machine, tag or id `{shown}`");
        let near = mistyped(word, KEYS_OF_WORDS.iter().flat_map(|key| all_names(key, heads)));
        wrong(message, &listed(near, &["variant", "kernel"], heads))
    })
}

/// How many of the newest plans; `None` where the word says nothing of it.
fn newest(word: &str) -> Result<Option<usize>, ValueError> {
    match word {
        LAST => return Ok(Some(1)),
        ALL => return Ok(Some(usize::MAX)),
        _ => {}
    }
    let Some(count) = word.strip_prefix("last:") else { return Ok(None) };
    match count.parse() {
        Ok(count @ 1..) => Ok(Some(count)),
        _ => {
            let message = format!("`last:{}` names no number of plans", clean(count));
            Err(wrong(message, "`last:1` is the newest: schedlab list runs last:10"))
        }
    }
}

/// A time before now (`2h`), the beginning of a day (`today`, `2026-11-01`), or a moment, in UTC.
pub fn moment(text: &str, now_unix_ns: u64) -> Option<u64> {
    const DAY_NS: u64 = 86_400_000_000_000;
    let today = now_unix_ns - now_unix_ns % DAY_NS;
    match text {
        "now" => return Some(now_unix_ns),
        "today" => return Some(today),
        "yesterday" => return Some(today.saturating_sub(DAY_NS)),
        _ => {}
    }
    let units = [("min", DAY_NS / 1440), ("h", DAY_NS / 24), ("d", DAY_NS), ("w", 7 * DAY_NS)];
    for (unit, unit_ns) in units {
        if let Some(Ok(count)) = text.strip_suffix(unit).map(str::parse::<u64>) {
            return Some(now_unix_ns.saturating_sub(count.checked_mul(unit_ns)?));
        }
    }
    absolute(text)
}

fn absolute(text: &str) -> Option<u64> {
    let moment: jiff::civil::DateTime =
        text.parse().ok().or_else(|| text.parse::<jiff::civil::Date>().ok().map(Into::into))?;
    let zoned = moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    let unix_ns = zoned.timestamp().as_nanosecond();
    // One that is too late to count lies in the future as well.
    (unix_ns >= 0).then(|| u64::try_from(unix_ns).unwrap_or(u64::MAX))
}

/// As [`moment`] reads it.
fn date(unix_ns: u64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.to_zoned(jiff::tz::TimeZone::UTC).datetime().to_string()
}

/// Whether `pattern`, in which `*` stands for anything, is all of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of each part leaves the most for the parts after it.
    for part in middle.split('*') {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(tail)
}

/// `hint` ends in a command on stored plans.
fn wrong(message: String, hint: &str) -> ValueError {
    ValueError { message, hint: hint.to_string() }
}
