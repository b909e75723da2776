//! What `run` and `compare` share: which metrics are judged by which margins, how comparisons
//! are written, and what verdicts mean for the exit code.

use std::io::{self, BufWriter, Write};
use std::panic::{self, AssertUnwindSafe};

use clap::{Args, ValueEnum};

use crate::compare::{self, Comparison, Question, Selection};
use crate::model::{PlanHead, SampledPlan};
use crate::report::compare::{self as formats, Format};
use crate::report::{Options, clean};
use crate::stats::Verdict;
use crate::store::Store;

use super::{Failure, terminal};

/// A/A plans that are looked through for what this machine resolves.
const MOST_FLOORS: usize = 5;
/// Metrics that a message names.
const MOST_NAMED: usize = 5;

#[derive(Args, Clone)]
pub struct Judging {
    /// Call differences below this SAME: 2%, or for one metric throughput=1%; may be repeated
    #[arg(long, value_name = "[METRIC=]PERCENT", value_parser = parse_margin)]
    margin: Vec<(Option<String>, f64)>,
    /// Judge these alone: NAME, SET/NAME or WORK/SET/NAME, with * for anything; may be repeated
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Judge what only explains, too: maxima, means, spreads
    #[arg(long, conflicts_with = "metric")]
    all_metrics: bool,
}

impl Judging {
    pub fn question(&self, sides: Vec<Selection>, command: String) -> Question {
        let mut question = Question::new(sides, command);
        for (metric, margin) in &self.margin {
            match metric {
                None => question.margin = *margin,
                Some(metric) => question.margins.push((metric.clone(), *margin)),
            }
        }
        question.metrics = self.metric.clone();
        question.all_metrics = self.all_metrics;
        question
    }

    /// As they stand on a command line, with a space before each.
    pub fn words(&self) -> String {
        let mut words = String::new();
        for (metric, margin) in &self.margin {
            let metric = metric.as_ref().map_or(String::new(), |metric| format!("{metric}="));
            let percent = format!("{}", (margin * 1e6).round() / 1e4);
            words.push_str(&format!(" --margin {}", quoted(&format!("{metric}{percent}%"))));
        }
        for metric in &self.metric {
            words.push_str(&format!(" --metric {}", quoted(metric)));
        }
        if self.all_metrics {
            words.push_str(" --all-metrics");
        }
        words
    }
}

/// `2%` or `throughput=2%`: above 0, at most 100 %.
fn parse_margin(text: &str) -> Result<(Option<String>, f64), String> {
    let (metric, number) = match text.rsplit_once('=') {
        Some((metric, number)) => (Some(metric.to_string()), number),
        None => (None, text),
    };
    let wrong = || format!("`{}` is no margin: 2% or throughput=1%", text.escape_default());
    let percent: f64 =
        number.strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    if !(percent > 0.0 && percent <= 100.0) || metric.as_deref() == Some("") {
        return Err(wrong());
    }
    Ok((metric, percent / 100.0))
}

/// The variants of one plan.
pub fn variants(head: &PlanHead) -> Vec<Selection> {
    head.variants.iter().map(|variant| Selection::of_variant(&head.id, variant)).collect()
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

/// A word for a shell to take back: data from outside stays one word.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[derive(Args, Clone)]
pub struct Gate {
    /// Exit with 1 where a metric is WORSE
    #[arg(long, value_name = "WHAT", value_enum)]
    fail_on: Option<FailOn>,
    /// Exit for `git bisect run`: 0 good, 1 bad (WORSE), 125 not decided or not measured
    #[arg(long)]
    pub bisect: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FailOn {
    Regression,
}

impl Gate {
    /// Whether the exit code is to say what the verdicts say.
    pub fn is_asked(&self) -> bool {
        self.fail_on.is_some() || self.bisect
    }

    /// What the verdicts mean for the exit code.
    pub fn judge(&self, comparison: &Comparison) -> Result<(), Failure> {
        if !self.is_asked() {
            return Ok(());
        }
        anything(comparison)?;
        let worse = named(comparison, |verdict| matches!(verdict, Verdict::Worse));
        if !worse.is_empty() {
            let (is, list) = (if worse.len() == 1 { "is" } else { "are" }, listed(&worse));
            return Err(Failure::Regression(format!("regression: {list} {is} WORSE")));
        }
        let open = named(comparison, |verdict| matches!(verdict, Verdict::Inconclusive { .. }));
        if self.bisect && !open.is_empty() {
            let text = format!("not decided: {}\nhint: more --rounds, or --metric", listed(&open));
            return Err(Failure::Bisect { code: 125, text });
        }
        Ok(())
    }

    /// Does the work. With --bisect no failure may be taken for a bad commit, nor a panic.
    pub fn translate(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.bisect {
            return work();
        }
        match panic::catch_unwind(AssertUnwindSafe(work)) {
            Err(_) => {
                let text = "a fault of schedlab itself: nothing is known of this commit";
                Err(Failure::Bisect { code: 125, text: text.to_string() })
            }
            Ok(Err(failure @ (Failure::Here(_) | Failure::Store(_)))) => {
                Err(Failure::Bisect { code: 125, text: failure.to_string() })
            }
            Ok(Err(failure @ (Failure::Usage(_) | Failure::Plan(_)))) => {
                Err(Failure::Bisect { code: 255, text: failure.to_string() })
            }
            Ok(done) => done,
        }
    }
}

/// Fails where there is not one verdict: that is no good news.
pub fn anything(comparison: &Comparison) -> Result<(), Failure> {
    if comparison.method.family > 0 {
        return Ok(());
    }
    let text = "nothing of it can be compared; the reasons are above";
    Err(Failure::Here(format!("{text}\nhint: schedlab list runs")))
}

fn named(comparison: &Comparison, is: impl Fn(&Verdict) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for work in &comparison.works {
        for set in &work.sets {
            for row in &set.rows {
                for (side, cell) in comparison.sides.iter().zip(&row.cells) {
                    if cell.judged.as_ref().is_some_and(|judged| is(&judged.verdict)) {
                        let (work, label) = (clean(&work.label), clean(&side.label));
                        found.push(format!("{work} {} of {label}", clean(&row.metric)));
                    }
                }
            }
        }
    }
    found
}

fn listed(names: &[String]) -> String {
    match names.len() {
        0..=MOST_NAMED => names.join(", "),
        count => format!("{} and {} more", names[..MOST_NAMED].join(", "), count - MOST_NAMED),
    }
}

/// The comparison that `question` asks for, from the store.
pub fn compare_stored(store: &Store, question: &Question) -> Result<Comparison, Failure> {
    let mut ids: Vec<&String> = question.sides.iter().flat_map(|side| &side.plans).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut plans: Vec<SampledPlan> =
        ids.into_iter().map(|id| store.sampled(id)).collect::<Result<_, _>>()?;
    plans.sort_by_key(|plan| plan.started_unix_ns);
    let floors = floors(store, &store.plan_heads()?, &plans)?;
    Ok(compare::compare(&plans, &floors, question))
}

/// The newest A/A plans of the machines of these plans, oldest first; none for A/A itself.
pub fn floors(
    store: &Store,
    heads: &[PlanHead],
    plans: &[SampledPlan],
) -> Result<Vec<SampledPlan>, Failure> {
    if plans.iter().any(|plan| plan.plan.aa) {
        return Ok(Vec::new());
    }
    let hosts: Vec<&str> = plans
        .iter()
        .flat_map(|plan| &plan.environments)
        .map(|environment| environment.hostname.as_str())
        .collect();
    let is_here = |head: &&PlanHead| {
        head.aa && head.environments.iter().any(|of| hosts.contains(&of.hostname.as_str()))
    };
    let heads = heads.iter().filter(is_here).take(MOST_FLOORS);
    let mut floors: Vec<SampledPlan> =
        heads.map(|head| store.sampled(&head.id)).collect::<Result<_, _>>()?;
    floors.reverse();
    Ok(floors)
}

/// Writes a comparison to standard output.
pub fn write(
    comparison: &Comparison,
    format: Option<&'static dyn Format>,
    verbose: u8,
) -> Result<(), Failure> {
    let options =
        Options { width: terminal::width(), color: terminal::color(&io::stdout()), verbose };
    let mut out = BufWriter::new(io::stdout().lock());
    format.unwrap_or(formats::formats()[0]).render(comparison, &options, &mut out)?;
    Ok(out.flush()?)
}

pub fn parse_format(name: &str) -> Result<&'static dyn Format, String> {
    formats::find(name).ok_or_else(|| {
        let names: Vec<&str> = formats::formats().iter().map(|format| format.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EnvironmentHead, Reading};

    #[test]
    fn margins_are_percents_of_all_or_of_one_metric() {
        assert_eq!(parse_margin("2%"), Ok((None, 0.02)));
        assert_eq!(parse_margin("a/b=0.5 %"), Ok((Some("a/b".to_string()), 0.005)));
        for wrong in ["2", "%", "0%", "-1%", "101%", "nan%", "=2%", "x=y", ""] {
            assert!(parse_margin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_fault_of_ours_is_no_bad_commit() {
        let gate = |bisect| Gate { fail_on: None, bisect };
        type Work = fn() -> Result<(), Failure>;
        let cases: &[(Work, u8)] = &[
            (|| panic!("a fault"), 125),
            (|| Err(Failure::Here(String::new())), 125),
            (|| Err(Failure::Usage(String::new())), 255),
        ];
        for (work, expected) in cases {
            let done = gate(true).translate(work);
            assert!(matches!(done, Err(Failure::Bisect { code, .. }) if code == *expected));
        }
        assert!(matches!(gate(false).translate(cases[1].0), Err(Failure::Here(_))));
    }

    #[test]
    fn the_command_names_what_it_was_about_when_it_ran() {
        let head = |id: &str, second: u64, variants: &[&str]| PlanHead {
            id: id.to_string(),
            title: String::new(),
            backend: "local".to_string(),
            started_unix_ns: second * 1_000_000_000,
            ended: None,
            environments: vec![EnvironmentHead {
                hostname: "big".to_string(),
                kernel_release: "6.1.7".to_string(),
                boot_id: Reading::Unknown("invented".to_string()),
            }],
            variants: variants.iter().map(|name| name.to_string()).collect(),
            aa: false,
        };
        let heads = [
            head("p3", 3, &["default", "batch", "x,y"]),
            head("p2", 2, &["default"]),
            head("p1", 1, &["default"]),
        ];
        let select = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            compare::select(&words, &heads).unwrap()
        };
        let cases: &[(Vec<Selection>, bool, &str)] = &[
            (variants(&heads[0]), false, "plan=p3"),
            (select(&["default", "batch"]), false, "plan=p3,variant=default plan=p3,variant=batch"),
            (select(&["p1", "last"]), false, "plan=p1 plan=p3"),
            (select(&["last", "p1"]), true, "plan=p1 --against plan=p3"),
            (
                select(&["last:2", "6.1.*"]),
                false,
                "last:2,until=1970-01-01T00:00:03.000000001 \
                 '6.1.*,until=1970-01-01T00:00:03.000000001'",
            ),
            (
                select(&["all,until=1970-01-02", "last,6.1.7"]),
                false,
                "all,until=1970-01-02 plan=p3,kernel=6.1.7",
            ),
        ];
        for (sides, against, expected) in cases {
            assert_eq!(command(sides, *against, &heads), format!("schedlab compare {expected}"));
        }
        let again = select(&["last:2,until=1970-01-01T00:00:03.000000001"]);
        assert_eq!(again[0].plans, select(&["last:2"])[0].plans);
    }

    #[test]
    fn words_for_a_shell_stay_one_word() {
        for (word, expected) in [
            ("last:10", "last:10"),
            ("kernel=6.1.*", "'kernel=6.1.*'"),
            ("a b", "'a b'"),
            ("it's;rm", "'it'\\''s;rm'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
