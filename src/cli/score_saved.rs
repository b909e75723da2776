//! Saved scoreboards: `schedlab score --save`, `list scores`, `show` and `compare score=A score=B`.

use std::io::{self, BufWriter, Write};

use clap::Args;

use crate::analysis::{self, By};
use crate::model::{Judged, PlanHead, SavedScore, Score, ScoreHead, Watched};
use crate::report::score::{self, Layout};
use crate::report::{Options, clean, shortened};
use crate::session::running;
use crate::store::{self, Annotations, Store, Subject};
use crate::sys::clock;
use crate::sys::environment::Identity;

use super::labelled::laid_out;
use super::offering::{FOLDINGS, folding};
use super::output::Output;
use super::stored::moment;
use super::{Database, Failure, labelled, table, terminal};
use crate::model::quoted;

/// Before the tag, the id or `last` of a saved score, where plans could be meant.
pub const PREFIX: &str = "score=";
/// Rows of a saved score that `show` prints.
const SHOWN_ROWS: usize = 15;
const MAX_NAME_COLUMNS: usize = 20;

#[derive(Args)]
pub struct SaveArgs {
    /// Keep the scoreboard in the store, with this tag if one is given: schedlab compare score=NAME score=last
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    save: Option<Option<String>>,
    #[command(flatten)]
    db: Database,
}

/// A place in the store for what is counted next.
pub struct Place {
    store: Store,
    db: Database,
    tag: Option<String>,
    started_unix_ns: u64,
}

impl SaveArgs {
    /// Before anything is started; `None`: nothing is to be kept.
    pub fn place(&self) -> Result<Option<Place>, Failure> {
        let Some(tag) = &self.save else { return Ok(None) };
        if let Some(tag) = tag {
            let example = "schedlab score --save before -- make";
            store::check_tag(tag).map_err(|wrong| Failure::usage(wrong.to_string(), example))?;
        }
        let (store, db) = (self.db.open()?, self.db.clone());
        Ok(Some(Place { store, db, tag: tag.clone(), started_unix_ns: clock::unix_ns() }))
    }

    /// A tag that may have been meant as the command.
    pub fn tag(&self) -> Option<&str> {
        self.save.as_ref()?.as_deref()
    }
}

impl Place {
    /// Stores it, and returns what there is to say about it.
    pub fn keep(mut self, score: &Score) -> Result<String, Failure> {
        let here = Identity::here();
        let saved = SavedScore {
            id: running::execution_id(self.started_unix_ns),
            started_unix_ns: self.started_unix_ns,
            hostname: here.hostname,
            kernel_release: here.kernel_release,
            score: score.clone(),
        };
        let earlier = self.store.score_heads()?.into_iter().next();
        self.store.save_score(&saved)?;
        let id = &saved.id;
        if let Some(tag) = &self.tag {
            self.store.tag(Subject::Score(id), tag)?;
        }
        let tagged = self.tag.map(|tag| format!(" with the tag {tag}")).unwrap_or_default();
        let next = match earlier {
            Some(earlier) => format!("compare {PREFIX}{} {PREFIX}{id}", clean(&earlier.id)),
            None => format!("show {id}"),
        };
        Ok(format!("saved {id}{tagged}: {}", self.db.command(&next)))
    }
}

/// The plan or the score that a name on the command line means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stored<'h> {
    Plan(&'h PlanHead),
    Score(&'h ScoreHead),
}

impl<'h> Stored<'h> {
    pub fn id(&self) -> &'h str {
        match self {
            Stored::Plan(head) => &head.id,
            Stored::Score(head) => &head.id,
        }
    }

    pub fn subject(&self) -> Subject<'h> {
        match self {
            Stored::Plan(head) => Subject::Plan(&head.id),
            Stored::Score(head) => Subject::Score(&head.id),
        }
    }
}

/// All stored plans and scores, newest first.
pub type Heads = (Vec<PlanHead>, Vec<ScoreHead>);

/// The one plan or score that `text` selects.
pub fn find<'h>(text: &str, heads: &'h Heads, db: &Database) -> Result<Stored<'h>, Failure> {
    match of_scores(text, heads, db)? {
        Some(text) => Ok(Stored::Score(db.score(text, &heads.1)?)),
        None => Ok(Stored::Plan(db.plan(text, &heads.0)?)),
    }
}

/// The plans or scores that `text` selects, oldest first.
pub fn select<'h>(text: &str, heads: &'h Heads, db: &Database) -> Result<Vec<Stored<'h>>, Failure> {
    if let Some(text) = of_scores(text, heads, db)? {
        return Ok(db.scores(text, &heads.1)?.into_iter().rev().map(Stored::Score).collect());
    }
    let sides = db.select_whole(text, &heads.0)?;
    let plans = heads.0.iter().rev();
    let plans = plans.filter(|head| sides.iter().any(|side| side.plans.contains(&head.id)));
    Ok(plans.map(Stored::Plan).collect())
}

/// The selection of scores: the text behind `score=`, or the beginning of a score's id alone.
fn of_scores<'t>(
    text: &'t str,
    (plans, scores): &Heads,
    db: &Database,
) -> Result<Option<&'t str>, Failure> {
    if let Some(text) = text.strip_prefix(PREFIX) {
        return Ok(Some(text));
    }
    let begins = |id: &String| !text.is_empty() && id.starts_with(text);
    let is_score = scores.iter().any(|head| begins(&head.id));
    match plans.iter().any(|head| begins(&head.id)) {
        _ if plans.iter().any(|head| head.id == text) => Ok(None),
        true if is_score => {
            let text = format!("ids of plans and of scores begin with `{}`", clean(text));
            Err(Failure::usage(text, db.command("list scores")))
        }
        _ => Ok(is_score.then_some(text)),
    }
}

/// A line about one.
pub fn described(head: &ScoreHead) -> String {
    let length = score::time(head.wall_ns);
    format!("{}  score of {}, {length}", clean(&head.id), clean(&head.title))
}

/// `show` of a score: what it is of, and all that it says.
pub fn print(store: &Store, head: &ScoreHead, db: &Database) -> Result<(), Failure> {
    let saved = store.score(&head.id)?;
    let Annotations { tags, notes } = store.annotations(Subject::Score(&head.id))?;
    let mut lines = vec![
        ("score", head.id.clone()),
        ("when", format!("{} UTC", moment(head.started_unix_ns))),
        ("where", format!("{}, Linux {}", head.hostname, head.kernel_release)),
    ];
    if !tags.is_empty() {
        lines.push(("tags", tags.join(", ")));
    }
    lines.extend(labelled::notes(&notes));
    lines.push(("compare", db.command(&format!("compare {PREFIX}OTHER {PREFIX}{}", head.id))));
    let columns = terminal::width();
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}", laid_out(&lines, columns))?;
    let color = terminal::color(&io::stdout());
    let options = Options { width: columns, color, verbose: 1 };
    score::text(&saved.score, &Layout { by: By::Name, top: SHOWN_ROWS }, &options, &mut out)?;
    Ok(out.flush()?)
}

pub fn list(heads: &[&ScoreHead], columns: usize) -> String {
    let rows = heads.iter().map(|head| {
        vec![
            clean(&head.id),
            clean(&head.title),
            score::time(head.wall_ns),
            clean(head.source.as_deref().unwrap_or("-")),
            shortened(&head.kernel_release, MAX_NAME_COLUMNS),
            shortened(&head.tags.join(", "), MAX_NAME_COLUMNS),
        ]
    });
    let header = ["id", "score of", "length", "source", "kernel", "tag"];
    let layout = table::Columns {
        fixed: &["id", "length", "source", "kernel", "tag"],
        main: "score of",
        spare: &["source", "kernel", "length", "tag"],
    };
    table::rows(&header, rows.collect(), &layout, columns)
}

/// How two scores are compared.
#[derive(Args, Default)]
pub struct CompareScoresArgs {
    /// Scores (score=A score=B): fold tasks by
    #[arg(long, value_parser = folding(&FOLDINGS[..3]))]
    by: Option<By>,
    /// Scores: names, pairs and CPUs to show [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
}

const TOP: u32 = 5;

impl CompareScoresArgs {
    pub fn is_asked(&self) -> bool {
        self.by.is_some() || self.top.is_some()
    }

    /// `sides`: two, each with [`PREFIX`].
    pub fn run(
        &self,
        sides: &[String],
        is_json: bool,
        (output, judged): (&Output, &Judged),
        db: &Database,
    ) -> Result<(), Failure> {
        let store = db.open_read_only()?;
        let heads = store.score_heads()?;
        let names: Vec<&str> = sides.iter().filter_map(|side| side.strip_prefix(PREFIX)).collect();
        let ([before, after], true) = (names.as_slice(), names.len() == sides.len()) else {
            let text = "scores are compared two by two, and not with plans";
            return Err(Failure::usage(text, db.command("compare score=A score=B")));
        };
        let (before, after) = (db.score(before, &heads)?, db.score(after, &heads)?);
        if before.id == after.id {
            let text = format!("both sides are score {}", clean(&before.id));
            return Err(Failure::usage(text, db.command("list scores")));
        }
        let by = self.by.unwrap_or(By::Name);
        let scores = [store.score(&before.id)?, store.score(&after.id)?];
        let tags = [before.tags.as_slice(), after.tags.as_slice()];
        let comparison = analysis::compare_scores(&scores[0], &scores[1], tags, by);
        output.write_by(judged, |options, out| {
            if is_json {
                return score::comparison_json(&comparison, out);
            }
            let top = self.top.unwrap_or(TOP) as usize;
            let repeat = repeat(&scores[1].score.watched);
            out.write_all(score::comparison(&comparison, top, &repeat, options).as_bytes())
        })
    }
}

/// The command that measures it in rounds, with the same telemetry.
fn repeat(watched: &Watched) -> String {
    match watched {
        // A command that a terminal would act on cannot be pasted.
        Watched::Command(words) if words.iter().all(|word| clean(word) == *word) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("schedlab run --probe sched -- {}", words.join(" "))
        }
        Watched::Command(_) => "schedlab run --probe sched -- COMMAND".to_string(),
        _ => "schedlab run PLAN --probe sched".to_string(),
    }
}
