//! The pages that are served: what is stored, a plan, sides against each other, and one plan over dates.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use crate::analysis::{self, Analysis, Selection};
use crate::cli::pictures::pictures;
use crate::cli::{Failure, stored};
use crate::model::{Judged, PlanHead, Progress, RunCounts, ValueError};
use crate::report::numbers::counted;
use crate::report::{self, clean, page};
use crate::session::{Database, sides};
use crate::store::Store;
use crate::sys::clock;
use crate::sys::lock;

use super::http::{Answer, Status};

/// Plans of a history at most, the newest.
const MAX_HISTORY: usize = 50;

/// Plans of a list at most: each has its verdict.
const MAX_LISTED: usize = 25;
/// A list waits so long for verdicts that are not known yet; the next request has more of them.
const VERDICTS_LIMIT: Duration = Duration::from_secs(2);

/// A property that filters plans.
type Property = (&'static str, fn(&PlanHead) -> Vec<String>);
const FILTERS: [Property; 5] = [
    ("machine", machines),
    ("kernel", kernels),
    ("title", |head| vec![clean(&head.title)]),
    ("backend", |head| vec![clean(&head.backend)]),
    ("tag", |head| head.tags.iter().map(|tag| clean(tag)).collect()),
];

pub struct Pages {
    pub db: Database,
    /// By the plan's id, with the runs that they are of.
    pub verdicts: Mutex<HashMap<String, (u64, Vec<String>)>>,
}

/// A choice of the plans that are shown.
#[derive(Serialize)]
struct Filter {
    name: &'static str,
    values: Vec<String>,
    chosen: String,
}

type Query = [(String, String)];

fn values<'q>(query: &'q Query, name: &str) -> Vec<&'q str> {
    let own = query.iter().filter(|(own, value)| own == name && !value.is_empty());
    own.map(|(_, value)| value.as_str()).collect()
}

impl Answer {
    pub fn refused(status: Status, text: &str) -> Answer {
        let style = page::style();
        let policy = page::policy(&style, None, page::Forms::None);
        let text = text.lines().map(clean).collect::<Vec<_>>().join("\n");
        let fault = context! { policy, style, title => status.reason(), text };
        Answer { status, page: rendered("fault.html", include_str!("fault.html"), fault) }
    }

    fn from_result(made: Result<String, Failure>) -> Answer {
        match made {
            Ok(page) => Answer { status: Status::OK, page },
            Err(Failure::Session(error)) if error.is_usage() => {
                Answer::refused(Status::NOT_FOUND, &error.to_string())
            }
            Err(failure) => Answer::refused(Status::INTERNAL, &failure.to_string()),
        }
    }
}

/// A template that is part of the program renders.
fn rendered(name: &'static str, source: &'static str, values: Value) -> String {
    let mut out = Vec::new();
    let own = [(name, source)];
    let templates = page::templates(&own).expect("a template of ours");
    page::render(&mut out, &templates, name, &values).expect("a Vec takes everything");
    String::from_utf8(out).expect("a template is UTF-8")
}

impl Pages {
    pub fn index(&self, query: &Query) -> Answer {
        Answer::from_result(self.stored_plans(query))
    }

    pub fn plan(&self, id: &str) -> Answer {
        let sides = |heads: &[PlanHead]| Ok(sides::variants(self.db.plan(id, heads)?));
        Answer::from_result(self.analysis(sides))
    }

    /// `against` is the baseline, each `side` is another side, as `compare` takes them.
    pub fn compare(&self, query: &Query) -> Answer {
        let words = [values(query, "against"), values(query, "side")].concat();
        let against = values(query, "against");
        let words = words.iter().enumerate();
        let words = words.filter(|(at, word)| *at == 0 || !against.contains(word));
        let words: Vec<String> = words.map(|(_, word)| word.to_string()).collect();
        if words.len() < 2 || against.len() != 1 {
            let text = "choose one baseline and at least one other plan to compare with it";
            return Answer::refused(Status::BAD_REQUEST, text);
        }
        let sides = |heads: &[PlanHead]| Ok(self.db.select("", &words, heads)?);
        Answer::from_result(self.analysis(sides))
    }

    /// All plans of one title and one backend, oldest first, each a side.
    pub fn history(&self, query: &Query) -> Answer {
        let title = values(query, "title").first().copied().unwrap_or_default().to_string();
        let sides = |heads: &[PlanHead]| {
            let backend = values(query, "backend").first().copied();
            let newest = heads.iter().find(|head| {
                let is_asked = backend.is_none_or(|of| of == clean(&head.backend));
                is_asked && clean(&head.title) == title && head.runs.done > 0
            });
            let own = newest.into_iter().flat_map(|newest| {
                heads.iter().filter(|head| is_comparable(newest, head)).take(MAX_HISTORY)
            });
            let mut own: Vec<&PlanHead> = own.collect();
            own.reverse();
            let sides: Vec<Selection> =
                own.iter().map(|head| Selection::of_plan(&head.id)).collect();
            match sides.len() {
                0 | 1 => Err(Failure::usage(
                    format!("one plan or none is called `{}`", clean(&title)),
                    "measure it again, on another day or kernel",
                )),
                _ => Ok(sides),
            }
        };
        Answer::from_result(self.analysis(sides))
    }

    /// The page of an analysis of these sides.
    fn analysis(
        &self,
        sides: impl FnOnce(&[PlanHead]) -> Result<Vec<Selection>, Failure>,
    ) -> Result<String, Failure> {
        let store = self.db.open_read_only()?;
        let heads = store.plan_heads()?;
        let sides = sides(&heads)?;
        let mut analysis = self.judged(&store, &heads, sides, true)?;
        analysis.pictures = pictures(&store, &analysis)?;
        let mut out = Vec::new();
        report::html::page_of(&[analysis], Some("/"), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn judged(
        &self,
        store: &Store,
        heads: &[PlanHead],
        sides: Vec<Selection>,
        explaining: bool,
    ) -> Result<Analysis, Failure> {
        let plans = sides::sampled(store, &sides)?;
        let begun = match &plans[..] {
            [plan] => store.plan_started(&plan.id)?.judged,
            _ => Judged::default(),
        };
        let judged = sides::asked_or_begun(&Judged::default(), &begun, &plans, &sides);
        let command = sides::command(&sides, false, heads) + &judged.words() + &self.db.words();
        let question = sides::question(&judged, sides, command, explaining, &self.db);
        Ok(sides::analyse(store, &plans, question)?)
    }

    fn stored_plans(&self, query: &Query) -> Result<String, Failure> {
        let store = self.db.open_read_only()?;
        let heads = store.plan_heads()?;
        let filters = FILTERS.map(|(name, of)| filter(name, &heads, query, of));
        let search = values(query, "search").join(" ");
        let selected = selected(&search, &heads, clock::unix_ns());
        let problem = selected.as_ref().and_then(|found| found.as_ref().err());
        let problem = problem.map(|wrong| clean(&format!("{}: {}", wrong.message, wrong.hint)));
        let selected = selected.map(Result::unwrap_or_default);
        let is_shown = |head: &&PlanHead| {
            let mut pairs = filters.iter().zip(FILTERS);
            selected.as_ref().map_or_else(|| is_found(head, &search), |ids| ids.contains(&head.id))
                && pairs.all(|(filter, (_, of))| {
                    filter.chosen.is_empty() || of(head).contains(&filter.chosen)
                })
        };
        let found: Vec<&PlanHead> = heads.iter().filter(is_shown).collect();
        let from = values(query, "from").first().and_then(|from| from.parse().ok()).unwrap_or(0);
        let from = found.len().saturating_sub(1).min(from);
        let link = |from: usize| {
            let others = query.iter().filter(|(name, _)| name != "from");
            let mut link = form_urlencoded::Serializer::new("/?".to_string());
            link.extend_pairs(others).append_pair("from", &from.to_string()).finish()
        };
        let shown = found.iter().skip(from).take(MAX_LISTED);
        let deadline = Instant::now() + VERDICTS_LIMIT;
        let entry =
            |head: &&PlanHead| entry(head, &heads, self.verdicts(&store, &heads, head, deadline));
        let style = page::style();
        let filters = filters.iter().filter(|filter| filter.values.len() > 1);
        let index = context! {
            policy => page::policy(&style, None, page::Forms::Own),
            plans => shown.map(entry).collect::<Vec<_>>(),
            stored => heads.len(),
            found => found.len(),
            first => from + 1,
            older => (from + MAX_LISTED < found.len()).then(|| link(from + MAX_LISTED)),
            newer => (from > 0).then(|| link(from.saturating_sub(MAX_LISTED))),
            search => clean(&search),
            // Why a search that is a selection finds nothing.
            problem,
            filters => Serde(filters.collect::<Vec<_>>()),
            style,
        };
        Ok(rendered("index.html", include_str!("index.html"), index))
    }

    /// The counts of verdicts of each side of a plan; kept as long as it has no further runs.
    fn verdicts(
        &self,
        store: &Store,
        heads: &[PlanHead],
        head: &PlanHead,
        deadline: Instant,
    ) -> Vec<String> {
        let known = || lock(&self.verdicts);
        if let Some((runs, verdicts)) = known().get(&head.id)
            && *runs == head.runs.total
        {
            return verdicts.clone();
        }
        if Instant::now() >= deadline {
            return vec!["not judged yet: load the list again".to_string()];
        }
        let sides = self.db.plan(&head.id, heads).map(sides::variants).map_err(Failure::from);
        let analysis = sides.and_then(|sides| self.judged(store, heads, sides, false));
        let verdicts = match analysis {
            Ok(analysis) if analysis.sides.len() < 2 => vec!["nothing to compare".to_string()],
            Ok(analysis) => report::counts(&analysis),
            Err(failure) => vec![clean(failure.to_string().lines().next().unwrap_or_default())],
        };
        known().insert(head.id.clone(), (head.runs.total, verdicts.clone()));
        verdicts
    }
}

/// The plans of a search that is a selection as commands take it; the words of others are looked for.
fn selected(
    search: &str,
    heads: &[PlanHead],
    now_unix_ns: u64,
) -> Option<Result<Vec<String>, ValueError>> {
    let search = search.trim();
    let sides = analysis::is_selection(search)
        .then(|| analysis::select(&[search.to_string()], heads, now_unix_ns))?;
    Some(sides.map(|sides| sides.into_iter().flat_map(|side| side.plans).collect()))
}

/// Whether each word of a search is in what the list shows of a plan.
fn is_found(head: &PlanHead, search: &str) -> bool {
    let properties = FILTERS.iter().flat_map(|(_, of)| of(head));
    let shown: Vec<String> =
        properties.chain(head.variants.clone()).chain([head.id.clone()]).collect();
    let shown = shown.join("\n").to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| shown.contains(word))
}

fn machines(head: &PlanHead) -> Vec<String> {
    once(head.environments.iter().map(|of| clean(&of.hostname)))
}

fn kernels(head: &PlanHead) -> Vec<String> {
    once(head.environments.iter().map(|of| clean(&of.kernel_release)))
}

fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn filter(
    name: &'static str,
    heads: &[PlanHead],
    query: &Query,
    of: fn(&PlanHead) -> Vec<String>,
) -> Filter {
    let values_of = once(heads.iter().flat_map(of));
    let chosen = values(query, name).first().copied().unwrap_or_default().to_string();
    Filter { name, values: values_of, chosen }
}

fn entry(head: &PlanHead, heads: &[PlanHead], verdicts: Vec<String>) -> Value {
    let listed = |names: &[String]| clean(&names.join(", "));
    context! {
        id => clean(&head.id),
        title => clean(&head.title),
        started => stored::moment(head.started_unix_ns),
        machines => listed(&machines(head)),
        kernels => listed(&kernels(head)),
        backend => clean(&head.backend),
        verdicts,
        rounds => rounds(head),
        end => stored::end(head),
        tags => listed(&head.tags),
        has_history => has_history(head, heads),
    }
}

/// Whether another plan has its title and its backend.
fn has_history(head: &PlanHead, heads: &[PlanHead]) -> bool {
    heads.iter().filter(|other| is_comparable(head, other)).count() > 1
}

/// Whether both are plans of one title and one backend, with results.
fn is_comparable(head: &PlanHead, other: &PlanHead) -> bool {
    let of = |head: &PlanHead| (head.title.clone(), head.backend.clone());
    !head.title.is_empty()
        && of(head) == of(other)
        && [head, other].iter().all(|head| head.runs.done > 0)
}

/// The rounds that were begun, of those that the plan asks for, and its runs without a result: `4 rounds and
/// 4 repeated, 1 run failed`.
fn rounds(head: &PlanHead) -> String {
    let RunCounts { failed, skipped, .. } = head.runs;
    let all = |rounds: u64| counted(rounds, "round");
    let begun = match head.progress() {
        Progress::Runs { done, total } => format!("{done} of {}", counted(total, "run")),
        Progress::Rounds { begun, asked: None, .. } => all(begun),
        Progress::Rounds { begun, repeated, .. } if repeated > 0 => {
            format!("{} and {repeated} repeated", all(begun))
        }
        Progress::Rounds { begun, asked: Some(asked), .. } if begun == asked => all(asked),
        Progress::Rounds { begun, asked: Some(asked), .. } => format!("{begun} of {}", all(asked)),
    };
    let without = [(failed, "failed"), (skipped, "skipped")];
    let without = without.into_iter().filter(|(runs, _)| *runs > 0);
    let without = without.map(|(runs, how)| format!("{} {how}", counted(runs, "run")));
    [begun].into_iter().chain(without).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
