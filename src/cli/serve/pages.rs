//! The pages that are served: what is stored, a plan, sides against each other, and one plan over dates.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::{Analysis, Selection};
use crate::cli::judging;
use crate::cli::pictures::pictures;
use crate::cli::{Database, Failure, stored};
use crate::model::PlanHead;
use crate::report::{self, clean, page};
use crate::store::Store;

use super::http::{Answer, Status};

/// Plans of a history at most, the newest.
const MAX_HISTORY: usize = 50;

/// What plans can be chosen by.
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
}

#[derive(Serialize)]
struct Index {
    policy: String,
    style: String,
    plans: Vec<Entry>,
    /// How many are stored, filtered or not.
    stored: usize,
    filters: Vec<Filter>,
}

#[derive(Serialize)]
struct Entry {
    id: String,
    title: String,
    started: String,
    machines: String,
    kernels: String,
    backend: String,
    variants: String,
    runs: String,
    end: String,
    tags: String,
    /// Whether another plan has its title.
    has_history: bool,
}

/// A choice of the plans that are shown.
#[derive(Serialize)]
struct Filter {
    name: &'static str,
    values: Vec<String>,
    chosen: String,
}

#[derive(Serialize)]
struct Fault<'a> {
    policy: String,
    style: String,
    title: &'a str,
    text: String,
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
        let title = status.reason();
        let fault = Fault {
            policy,
            style,
            title,
            text: text.lines().map(clean).collect::<Vec<_>>().join("\n"),
        };
        Answer { status, page: rendered("fault.html", include_str!("fault.html"), &fault) }
    }

    fn of(made: Result<String, Failure>) -> Answer {
        match made {
            Ok(page) => Answer { status: Status::OK, page },
            Err(failure @ (Failure::Usage(_) | Failure::Plan(_))) => {
                Answer::refused(Status::NOT_FOUND, &failure.to_string())
            }
            Err(failure) => Answer::refused(Status::INTERNAL, &failure.to_string()),
        }
    }
}

/// A template that is part of the program renders.
fn rendered(name: &'static str, source: &'static str, values: &impl Serialize) -> String {
    let mut out = Vec::new();
    let own = [(name, source)];
    let templates = page::templates(&own).expect("a template of ours");
    page::render(&mut out, &templates, name, values).expect("a Vec takes everything");
    String::from_utf8(out).expect("a template is UTF-8")
}

impl Pages {
    pub fn index(&self, query: &Query) -> Answer {
        Answer::of(self.stored_plans(query))
    }

    pub fn plan(&self, id: &str) -> Answer {
        let sides = |heads: &[PlanHead]| Ok(judging::variants(self.db.plan(id, heads)?));
        Answer::of(self.analysis(sides))
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
        let sides = |heads: &[PlanHead]| self.db.select("", &words, heads);
        Answer::of(self.analysis(sides))
    }

    /// All plans of one title, oldest first, each a side.
    pub fn history(&self, query: &Query) -> Answer {
        let title = values(query, "title").first().copied().unwrap_or_default().to_string();
        let sides = |heads: &[PlanHead]| {
            let own = heads.iter().filter(|head| clean(&head.title) == title && head.runs.done > 0);
            let mut own: Vec<&PlanHead> = own.take(MAX_HISTORY).collect();
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
        Answer::of(self.analysis(sides))
    }

    /// The page of an analysis of these sides.
    fn analysis(
        &self,
        sides: impl FnOnce(&[PlanHead]) -> Result<Vec<Selection>, Failure>,
    ) -> Result<String, Failure> {
        let store = self.db.open_read_only()?;
        let heads = store.plan_heads()?;
        let sides = sides(&heads)?;
        let analysis = self.judged(&store, &heads, sides)?;
        let mut out = Vec::new();
        report::html::page_of(&[analysis], Some("/"), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn judged(
        &self,
        store: &Store,
        heads: &[PlanHead],
        sides: Vec<Selection>,
    ) -> Result<Analysis, Failure> {
        let plans = judging::sampled(store, &sides)?;
        let command = judging::command(&sides, false, heads) + &self.db.words();
        let question = judging::Judging::default().question(sides, command, true, &self.db);
        let mut analysis = judging::analyse(store, &plans, question)?;
        analysis.pictures = pictures(store, &analysis)?;
        Ok(analysis)
    }

    fn stored_plans(&self, query: &Query) -> Result<String, Failure> {
        let heads = self.db.open_read_only()?.plan_heads()?;
        let filters = FILTERS.map(|(name, of)| filter(name, &heads, query, of));
        let is_shown = |head: &&PlanHead| {
            let mut pairs = filters.iter().zip(FILTERS);
            pairs.all(|(filter, (_, of))| {
                filter.chosen.is_empty() || of(head).contains(&filter.chosen)
            })
        };
        let style = page::style();
        let index = Index {
            policy: page::policy(&style, None, page::Forms::Own),
            plans: heads.iter().filter(is_shown).map(|head| entry(head, &heads)).collect(),
            stored: heads.len(),
            filters: filters.into_iter().filter(|filter| filter.values.len() > 1).collect(),
            style,
        };
        Ok(rendered("index.html", include_str!("index.html"), &index))
    }
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

fn entry(head: &PlanHead, heads: &[PlanHead]) -> Entry {
    let listed = |names: &[String]| clean(&names.join(", "));
    Entry {
        id: clean(&head.id),
        title: clean(&head.title),
        started: stored::moment(head.started_unix_ns),
        machines: listed(&machines(head)),
        kernels: listed(&kernels(head)),
        backend: clean(&head.backend),
        variants: listed(&head.variants),
        runs: format!("{} of {}", head.runs.done, head.runs.total),
        end: stored::end(head),
        tags: listed(&head.tags),
        has_history: !head.title.is_empty()
            && heads.iter().filter(|other| other.title == head.title).count() > 1,
    }
}
