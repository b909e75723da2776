//! What formats of comparisons say in the same words: names of sides, verdicts and their
//! reasons, the method, counts, and the command. Pure.

use crate::compare::{Cell, Comparison, Method, Pairing, Row, SetTable, Side, Switches, WorkTable};
use crate::model::{GuestTimes, Unit};
use crate::report::show::{Scale, clean, significant};
use crate::stats::{Rounds, Shape, Unjudged, Verdict, Why};
use unicode_width::UnicodeWidthStr;

/// More plans, kernels or machines of one side are counted, not named.
const MAX_NAMED: usize = 4;

/// Names of the sides, `plain`, at most `columns` wide and each another's. A `key=` that all
/// labels begin with is left out. What is too long is cut where it is as another one, which
/// `sign` stands for; what would be there twice even so ends in its number in the list of sides.
pub fn names(sides: &[Side], columns: usize, plain: fn(&str) -> String, sign: &str) -> Vec<String> {
    let labels: Vec<String> = sides.iter().map(|side| plain(&side.label)).collect();
    let key = if columns == usize::MAX { 0 } else { common_key(&labels) };
    let labels: Vec<&str> = labels.iter().map(|label| &label[key..]).collect();
    let names: Vec<String> =
        labels.iter().map(|label| shortened(label, &labels, columns, sign)).collect();
    let is_own = |names: &[String], at: usize| {
        !names[at].is_empty() && names.iter().filter(|other| **other == names[at]).count() == 1
    };
    let numbered = |at: usize| {
        let number = format!("#{}", at + 1);
        format!("{}{number}", headed(&names[at], columns.saturating_sub(number.len()), sign))
    };
    let name = |at| if is_own(&names, at) { names[at].clone() } else { numbered(at) };
    let told: Vec<String> = (0..names.len()).map(name).collect();
    match (0..told.len()).all(|at| is_own(&told, at)) {
        true => told,
        // A label that itself ends in a number.
        false => (0..names.len()).map(numbered).collect(),
    }
}

/// The length of `kernel=`, if all of several labels begin with that and none ends there.
fn common_key(labels: &[String]) -> usize {
    let key = labels.first().and_then(|label| label.split_once('='));
    let key = key.map(|(key, _)| key).filter(|key| key.chars().all(|c| c.is_ascii_lowercase()));
    let Some(key) = key.filter(|key| !key.is_empty() && labels.len() > 1) else { return 0 };
    let key = format!("{key}=");
    let begins = |label: &String| label.starts_with(&key) && label.len() > key.len();
    if labels.iter().all(begins) { key.len() } else { 0 }
}

/// A label of at most `columns`, without as much of its beginning as others share and as has
/// to go, in whole parts.
fn shortened(label: &str, labels: &[&str], columns: usize, sign: &str) -> String {
    if label.width() <= columns {
        return label.to_string();
    }
    let others = labels.iter().filter(|other| **other != label);
    let mut shared: Vec<usize> = others.map(|other| shared_parts(label, other)).collect();
    shared.sort_unstable();
    // Less than this gains nothing.
    shared.retain(|shared| label[..*shared].width() > 2 * sign.width());
    let tails = shared.iter().map(|shared| format!("{sign}{}", &label[*shared..]));
    let tails: Vec<String> = tails.collect();
    let fits = tails.iter().find(|tail| tail.width() <= columns);
    fits.cloned().unwrap_or_else(|| headed(tails.last().map_or(label, |tail| tail), columns, sign))
}

/// How much of its beginning a text has in common with another, up to what parts words.
fn shared_parts(text: &str, other: &str) -> usize {
    let same = text.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b);
    let ends =
        same.filter(|((_, c), _)| !c.is_alphanumeric()).map(|((at, c), _)| at + c.len_utf8());
    ends.filter(|end| *end < text.len()).last().unwrap_or(0)
}

/// The beginning, with `sign` behind it where something is missing.
fn headed(text: &str, columns: usize, sign: &str) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let ends = text.char_indices().map(|(at, _)| at);
    let heads = ends.map(|end| format!("{}{sign}", &text[..end]));
    heads.take_while(|head| head.width() <= columns).last().unwrap_or_default()
}

/// What is odd about the values of a cell, a phrase each: `two modes, 12 ms and 31 ms (4 of 10
/// rounds)`. Where rounds are counted through, a reader of the plans finds them under another
/// number: then it is the place among the values that is told.
pub fn shapes(comparison: &Comparison, row: &Row, cell: &Cell) -> Vec<String> {
    let is_of_one_plan = comparison.sides.iter().all(|side| side.plans.len() <= 1);
    let are_rounds = comparison.method.pairing == Pairing::WithinRounds && is_of_one_plan;
    let one = |found: &Shape| match (are_rounds, found) {
        (true, Shape::Outlier { round, .. }) => {
            shape(found, row.unit, "round", &format!("round {round}"))
        }
        (false, Shape::Outlier { round, .. }) => {
            let at = cell.values.iter().position(|(other, _)| other == round);
            let at = at.map_or("one value".to_string(), |at| {
                format!("value {} of {}", at + 1, cell.values.len())
            });
            shape(found, row.unit, "value", &at)
        }
        (true, _) => shape(found, row.unit, "round", ""),
        (false, _) => shape(found, row.unit, "value", ""),
    };
    cell.shapes.iter().map(one).collect()
}

/// `each`: what a value is of. `which` of them is apart.
fn shape(shape: &Shape, unit: Unit, each: &str, which: &str) -> String {
    let show = |value: f64| {
        let scale = Scale::of(unit, Some(value));
        format!("{} {}", scale.show(value), scale.suffix).trim_end().to_string()
    };
    match *shape {
        Shape::TwoModes { low, high, in_high, of, .. } => {
            format!("two modes, {} and {} ({in_high} of {of} {each}s)", show(low), show(high))
        }
        Shape::Trend { last_over_first, p_value, .. } => {
            let change = format!("{:.1}", 100.0 * (last_over_first - 1.0));
            let change = change.trim_end_matches(".0");
            format!("a trend, {change} % from the first {each} to the last (p {})", p(p_value))
        }
        Shape::Outlier { value, median, .. } => {
            format!("{which} is apart, {} where the median is {}", show(value), show(median))
        }
    }
}

fn p(value: f64) -> String {
    p_value(Some(value))
}

/// `kernel 6.18.5; machine M; backend local; 40 runs in 2 boots; plan P`. Guests of the lab have no
/// boots, but a clock: `virtual time, exact in all 40 runs`.
pub fn about(side: &Side) -> String {
    let Side { label: _, kernels, machines, backends, plans, boots, runs, times, guests: _ } = side;
    let boots = match boots {
        None => "an unknown number of boots".to_string(),
        Some(boots) => counted(*boots, "boot"),
    };
    let count = counted(*runs, "run");
    let runs = match times.runs() {
        0 => format!("{count} in {boots}"),
        of_lab if of_lab == *runs => clean(&times.to_string()),
        of_lab => format!("{count}, {of_lab} of them in the lab: {}", clean(&times.to_string())),
    };
    [
        list("kernel", kernels),
        list("machine", machines),
        list("backend", backends),
        runs,
        list("plan", plans),
    ]
    .join("; ")
}

/// By what clock all that is compared was measured, for the head of tables that are mailed; why
/// a run was not exact stands with its side. `None` where no run is of the lab.
pub fn time(comparison: &Comparison) -> Option<String> {
    let mut times = GuestTimes::default();
    comparison.sides.iter().for_each(|side| times.add_all(&side.times));
    times.why = None;
    let others = comparison.sides.iter().map(|side| side.runs).sum::<usize>() - times.runs();
    match (times.runs(), others) {
        (0, _) => None,
        (_, 0) => Some(format!("lab, {times}")),
        (_, others) => Some(format!("lab, {times}; {} on a host", counted(others, "run"))),
    }
}

fn list(word: &str, names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_NAMED).map(|name| clean(name)).collect();
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names.len() {
        0 => format!("{word} unknown"),
        1 => format!("{word} {}", shown[0]),
        _ => format!("{word}s {}{more}", shown.join(", ")),
    }
}

/// Every worker set with its work, in order.
pub fn sets(comparison: &Comparison) -> impl Iterator<Item = (&WorkTable, &SetTable)> {
    comparison.works.iter().flat_map(|work| work.sets.iter().map(move |set| (work, set)))
}

/// Every row with where it stands, in order.
pub fn rows(comparison: &Comparison) -> impl Iterator<Item = (&WorkTable, &SetTable, &Row)> {
    sets(comparison).flat_map(|(work, set)| set.rows.iter().map(move |row| (work, set, row)))
}

/// Whether a role gave up its CPU or lost it.
pub fn kind(switches: &Switches) -> &'static str {
    if switches.is_voluntary { "voluntary" } else { "involuntary" }
}

/// What is counted once for: `per operation (requests)`.
pub fn per_op(ops: &str) -> String {
    match ops {
        "kops" => "per 1000 operations".to_string(),
        ops => format!("per operation ({ops})"),
    }
}

/// The verdict of a cell as people read it; `None` where none was to be.
pub fn verdict(cell: &Cell) -> Option<&'static str> {
    Some(match cell.judged.as_ref()?.verdict {
        Verdict::Better => "BETTER",
        Verdict::Worse => "WORSE",
        Verdict::Same => "SAME",
        Verdict::Inconclusive { .. } => "INCONCLUSIVE",
        Verdict::Unjudged(Unjudged::Neutral) => "neutral",
        Verdict::Unjudged(Unjudged::NoRatio(_)) => "-",
    })
}

/// The verdict for programs, and one word for why there is none.
pub fn keys(verdict: &Verdict) -> (&'static str, Option<&'static str>) {
    match verdict {
        Verdict::Better => ("better", None),
        Verdict::Worse => ("worse", None),
        Verdict::Same => ("same", None),
        Verdict::Inconclusive { why, .. } => {
            let why = match why {
                Why::TooFewRounds { .. } => "too_few_rounds",
                Why::OnlyAlone => "only_alone",
                Why::SameOnlyAlone => "same_only_alone",
                Why::BelowFloor { .. } => "below_floor",
                Why::Noise => "noise",
            };
            ("inconclusive", Some(why))
        }
        Verdict::Unjudged(Unjudged::Neutral) => ("unjudged", Some("neutral")),
        Verdict::Unjudged(Unjudged::NoRatio(_)) => ("unjudged", Some("no_ratio")),
    }
}

/// Why a verdict is not BETTER, WORSE or SAME, as a sentence; `None` where nothing has to be
/// said.
pub fn why(verdict: &Verdict, method: &Method) -> Option<String> {
    let family = method.family;
    Some(match verdict {
        Verdict::Better | Verdict::Worse | Verdict::Same => return None,
        Verdict::Unjudged(Unjudged::Neutral) => return None,
        Verdict::Unjudged(Unjudged::NoRatio(why)) => format!("no ratio: {why}"),
        Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } => {
            format!("so few rounds decide nothing, whatever the data: it takes at least {least}")
        }
        Verdict::Inconclusive { why: Why::OnlyAlone, .. } if family == 1 => {
            "its interval does not hold 1, but a verdict takes more: it may still be chance"
                .to_string()
        }
        Verdict::Inconclusive { why: Why::OnlyAlone, .. } => format!(
            "alone it would be a difference; as one of {family} verdicts it may still be chance"
        ),
        Verdict::Inconclusive { why: Why::SameOnlyAlone, .. } if family == 1 => {
            "its interval is within the margin, but a verdict takes more: that may still be chance"
                .to_string()
        }
        Verdict::Inconclusive { why: Why::SameOnlyAlone, .. } => {
            format!("alone it would be SAME; as one of {family} verdicts that may still be chance")
        }
        Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. } => format!(
            "a difference that is no larger than what equal runs differ by here, in A/A or from plan \
             to plan: {}",
            floor_percent(*floor)
        ),
        Verdict::Inconclusive { why: Why::Noise, .. } => {
            "noise: its interval holds 1, and more than the margin".to_string()
        }
    })
}

/// How many rounds something takes in all, those that are done included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Needed {
    About(u32),
    MoreThan(u32),
    /// Fewer decide nothing, whatever the data; from so few nothing more can be told.
    AtLeast(u32),
}

/// Of a verdict that is open.
pub fn rounds(verdict: &Verdict) -> Option<Needed> {
    match *verdict {
        // One round has no spread to estimate from: that is not a need of many.
        Verdict::Inconclusive { why: Why::TooFewRounds { least }, rounds: Rounds::MoreThan(_) } => {
            Some(Needed::AtLeast(least))
        }
        Verdict::Inconclusive { rounds: Rounds::Number(rounds), .. } => Some(Needed::About(rounds)),
        Verdict::Inconclusive { rounds: Rounds::MoreThan(rounds), .. } => {
            Some(Needed::MoreThan(rounds))
        }
        _ => None,
    }
}

/// `~14`, `>1000`, `>=6`.
pub fn show_rounds(rounds: Needed) -> String {
    match rounds {
        Needed::About(rounds) => format!("~{rounds}"),
        Needed::MoreThan(rounds) => format!(">{rounds}"),
        Needed::AtLeast(rounds) => format!(">={rounds}"),
    }
}

/// `2 %`, `0.5 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e6).round() / 1e4;
    format!("{percent} %")
}

/// `10 %`, `0.53 %`: a floor is an estimate, and two digits of it are all that can be meant.
pub fn floor_percent(floor: f64) -> String {
    format!("{} %", significant(100.0 * floor, 2))
}

/// `1 verdict`, `12 verdicts`.
fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// How the verdicts were reached, a phrase each.
pub fn method(comparison: &Comparison) -> Vec<String> {
    let Method { margin, margins, alpha, family, pairing, floors, looks, seed } =
        &comparison.method;
    let mut said = vec![match pairing {
        Pairing::WithinRounds => "ratios paired within rounds".to_string(),
        Pairing::None if comparison.is_exact() => {
            "ratios not paired: the sides are of different plans, of exact runs, in whose ratios \
             it makes no difference when they were made"
                .to_string()
        }
        Pairing::None => {
            "ratios not paired: the sides were measured at different times, and what changed in \
             between is in the ratios"
                .to_string()
        }
    }];
    let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
    said.push(format!("margin {}: SAME is a ratio from {low:.3} to {high:.3}", percent(*margin)));
    let own = margins.iter().map(|(name, margin)| format!("{} {}", clean(name), percent(*margin)));
    let own: Vec<String> = own.collect();
    if !own.is_empty() {
        said.push(format!("margins of single metrics: {}", own.join(", ")));
    }
    said.push(format!(
        "family of {}, error rate {} over all of them, and again for SAME",
        counted(*family, "verdict"),
        percent(*alpha)
    ));
    said.push(match looks {
        None => "one look at all rounds".to_string(),
        Some(looks) => {
            let looks: Vec<String> = looks.iter().map(u32::to_string).collect();
            format!("looks after rounds {}", looks.join(", "))
        }
    });
    if !floors.is_empty() {
        let ids: Vec<String> = floors.iter().map(|id| clean(id)).collect();
        said.push(format!("no difference below what A/A resolved here ({})", ids.join(", ")));
    }
    said.push("intervals are 95 %, each for its ratio alone".to_string());
    said.push(format!("seed {seed}"));
    said
}

/// How many verdicts of each kind one side has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    pub better: usize,
    pub worse: usize,
    pub same: usize,
    pub inconclusive: usize,
    pub unjudged: usize,
    /// After which all that is open is expected to be decided.
    pub rounds: Option<Needed>,
}

impl Tally {
    /// Of the side at this place in the list of sides.
    pub fn of(comparison: &Comparison, side: usize) -> Tally {
        let mut tally = Tally::default();
        for (_, _, row) in rows(comparison) {
            let Some(judged) = row.cells.get(side).and_then(|cell| cell.judged.as_ref()) else {
                continue;
            };
            match judged.verdict {
                Verdict::Better => tally.better += 1,
                Verdict::Worse => tally.worse += 1,
                Verdict::Same => tally.same += 1,
                Verdict::Inconclusive { .. } => {
                    tally.inconclusive += 1;
                    let needed = rounds(&judged.verdict).into_iter();
                    tally.rounds = tally.rounds.into_iter().chain(needed).reduce(later);
                }
                Verdict::Unjudged(_) => tally.unjudged += 1,
            }
        }
        tally
    }

    /// `2 BETTER, 1 WORSE, 5 SAME, 4 INCONCLUSIVE (about 14 rounds decide all)`.
    pub fn sentence(&self) -> String {
        let Tally { better, worse, same, inconclusive, unjudged, rounds } = self;
        let mut said =
            format!("{better} BETTER, {worse} WORSE, {same} SAME, {inconclusive} INCONCLUSIVE");
        match rounds {
            None => {}
            Some(Needed::About(rounds)) => {
                said.push_str(&format!(" (about {rounds} rounds decide all)"));
            }
            Some(Needed::MoreThan(rounds)) => {
                said.push_str(&format!(" (to decide all takes more than {rounds} rounds)"));
            }
            Some(Needed::AtLeast(rounds)) => {
                said.push_str(&format!(" (to decide all takes at least {rounds} rounds)"));
            }
        }
        if *unjudged > 0 {
            said.push_str(&format!(", {unjudged} not judged"));
        }
        said
    }
}

fn later(one: Needed, other: Needed) -> Needed {
    use Needed::{About, AtLeast, MoreThan};
    match (one, other) {
        (About(one), About(other)) => About(one.max(other)),
        (more @ MoreThan(_), _) | (_, more @ MoreThan(_)) => more,
        (AtLeast(one), AtLeast(other) | About(other)) | (About(one), AtLeast(other)) => {
            AtLeast(one.max(other))
        }
    }
}

/// A p-value with two digits; the least that 20,000 sign patterns tell is far above the limit.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_string(),
        Some(p) if p < 0.00001 => "<0.00001".to_string(),
        Some(p) => significant(p, 2),
    }
}

/// A command in lines of at most `columns`, broken only where a shell takes `\` for a break: at
/// spaces outside of quotes. A longer word stands in a line of its own.
pub fn command_lines(command: &str, columns: usize) -> Vec<String> {
    const GO_ON: &str = " \\";
    let mut lines: Vec<String> = Vec::new();
    let words = shell_words(&clean(command));
    for word in &words {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() + GO_ON.len() <= columns => {
                line.push_str(&format!(" {word}"));
            }
            Some(line) => {
                line.push_str(GO_ON);
                lines.push(format!("    {word}"));
            }
            None => lines.push(word.clone()),
        }
    }
    lines
}

/// Words as they are written, quotes and all.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut escaped = false;
    for c in command.chars() {
        let word = words.len() - 1;
        match quote {
            None if c == ' ' && !escaped => {
                words.push(String::new());
                continue;
            }
            None if !escaped && (c == '\'' || c == '"') => quote = Some(c),
            Some(open) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = c == '\\' && !escaped && quote != Some('\'');
        words[word].push(c);
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing;
    use proptest::prelude::*;

    fn named(labels: &[&str], columns: usize) -> Vec<String> {
        let sides: Vec<Side> = labels.iter().map(|label| testing::side(label)).collect();
        names(&sides, columns, clean, "…")
    }

    #[test]
    fn names_stay_apart_and_fit() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["default", "batch"], &["default", "batch"]),
            (&["default", "default"], &["default#1", "default#2"]),
            (&["default", "default", "default#1"], &["default#1", "default#2", "default…#3"]),
            (&["6.18.5-custom-one", "6.18.5-custom-two"], &["…one", "…two"]),
            (&["6.18.5-lavd", "6.6.87-cfs"], &["6.18.5-la…", "6.6.87-cfs"]),
            (&["a-long-name-a", "a-long-name-a"], &["a-long-…#1", "a-long-…#2"]),
            (&["6.12.0-rc1-tip", "6.12.0-rc1-tip+debug"], &["…tip", "…tip+debug"]),
            (&["", "a\n"], &["#1", "a\\n"]),
            (&["kernel=6.1", "kernel=6.12"], &["6.1", "6.12"]),
            (&["kernel=", "kernel=6.12"], &["kernel=", "…6.12"]),
            (&["kernel=6.1", "plan=last"], &["kernel=6.1", "plan=last"]),
            (&["kernel=6.12.0-rc1-tip+", "kernel=6.12.0-rc1-parity+"], &["…tip+", "…parity+"]),
        ];
        for (labels, expected) in cases {
            assert_eq!(named(labels, 10), *expected);
        }
        let full = names(&[testing::side("k=a"), testing::side("k=b")], usize::MAX, clean, "…");
        assert_eq!(full, ["k=a", "k=b"], "nothing has to go");
    }

    #[test]
    fn counts_of_verdicts_and_the_rounds_for_all() {
        let comparison = testing::ordinary();
        assert_eq!(
            Tally::of(&comparison, 1).sentence(),
            "2 BETTER, 1 WORSE, 2 SAME, 2 INCONCLUSIVE (about 31 rounds decide all), 1 not judged"
        );
        assert_eq!(Tally::of(&comparison, 0), Tally::default(), "the baseline has no verdict");
        let cases: &[(Needed, Needed, Needed)] = &[
            (Needed::About(9), Needed::About(3), Needed::About(9)),
            (Needed::About(9), Needed::MoreThan(1000), Needed::MoreThan(1000)),
            (Needed::AtLeast(6), Needed::MoreThan(1000), Needed::MoreThan(1000)),
            (Needed::AtLeast(6), Needed::About(3), Needed::AtLeast(6)),
            (Needed::AtLeast(6), Needed::About(9), Needed::AtLeast(9)),
        ];
        for (one, other, expected) in cases {
            assert_eq!(later(*one, *other), *expected);
            assert_eq!(later(*other, *one), *expected);
        }
        let many = Tally { inconclusive: 1, rounds: Some(Needed::MoreThan(9)), ..Tally::default() };
        assert!(
            many.sentence().ends_with("1 INCONCLUSIVE (to decide all takes more than 9 rounds)")
        );
    }

    #[test]
    fn of_one_round_no_need_is_told_but_the_least() {
        let few = Why::TooFewRounds { least: 6 };
        let mut comparison = testing::sides_only();
        let unknown = testing::open(few, Rounds::MoreThan(1000));
        let cell = testing::cell(vec![(0, 2.0)]).single(unknown, 2.0);
        let cells = vec![testing::cell(vec![(0, 1.0)]), cell];
        let row = testing::row("x_p99", Unit::Ns, testing::LOWER, cells);
        comparison.works = vec![testing::work("w", &[], "w", "w", vec![row])];
        let tally = Tally::of(&comparison, 1).sentence();
        assert!(tally.ends_with("1 INCONCLUSIVE (to decide all takes at least 6 rounds)"));
        for format in crate::report::compare::formats() {
            let shown = testing::render(*format, &comparison, Default::default());
            assert!(!shown.contains("1000"), "{}: {shown}", format.name());
        }
        let known = testing::open(few, Rounds::Number(14));
        assert_eq!(rounds(&known), Some(Needed::About(14)));
        let noise = testing::open(Why::Noise, Rounds::MoreThan(1000));
        assert_eq!(rounds(&noise), Some(Needed::MoreThan(1000)));
    }

    #[test]
    fn one_verdict_is_singular_and_is_no_family() {
        let mut of = testing::ordinary();
        let whys = [Why::OnlyAlone, Why::SameOnlyAlone];
        let told = |of: &Comparison| {
            let whys = whys.map(|why| testing::open(why, Rounds::Number(9)));
            let whys = whys.iter().filter_map(|verdict| super::why(verdict, &of.method));
            [method(of).join("; "), whys.collect::<Vec<_>>().join("; ")].join("; ")
        };
        assert_eq!(told(&of).matches("7 verdicts").count(), 3, "{}", told(&of));
        of.method.family = 1;
        assert!(told(&of).contains("family of 1 verdict,"), "{}", told(&of));
        assert!(!told(&of).contains("1 verdicts"), "{}", told(&of));
        assert_eq!(told(&of).matches("a verdict takes more").count(), 2);
    }

    #[test]
    fn what_is_not_paired_owes_nothing_to_its_time_where_all_is_exact() {
        let told = |mut comparison: Comparison| {
            comparison.method.pairing = Pairing::None;
            method(&comparison).remove(0)
        };
        assert!(told(testing::in_the_lab(0)).contains("makes no difference when they were made"));
        for other in [testing::in_the_lab(1), testing::ordinary()] {
            assert!(told(other).contains("what changed in between is in the ratios"));
        }
    }

    /// Whoever reads a table that was mailed has to know by what clock it was measured.
    #[test]
    fn every_format_says_by_what_clock_the_lab_measured() {
        for format in crate::report::compare::formats() {
            let of = |comparison| testing::render(*format, &comparison, Default::default());
            let shown =
                |comparison| of(comparison).split_whitespace().collect::<Vec<_>>().join(" ");
            let [exact, not] = [0, 2].map(|wrong| shown(testing::in_the_lab(wrong)));
            let (all, some) = match format.name() {
                "json" => ("\"clock\": \"exact\"", "\"clock\": \"not_exact\""),
                "csv" => (",exact ", ",not_exact "),
                _ => (
                    "virtual time, exact in all 40 runs",
                    "virtual time, NOT exact in 2 of 40 runs",
                ),
            };
            let name = format.name();
            assert!(exact.contains(all) && !exact.contains(some), "{name}: {exact}");
            assert!(not.contains(some), "{name}: {not}");
            let on_a_host = shown(testing::ordinary());
            assert!(!on_a_host.contains(all) && !on_a_host.contains(some), "{name}: {on_a_host}");
        }
    }

    #[test]
    fn a_head_tells_the_clock_of_all_sides() {
        assert_eq!(time(&testing::ordinary()), None);
        let told = |wrong| time(&testing::in_the_lab(wrong)).unwrap();
        assert_eq!(told(0), "lab, virtual time, exact in all 80 runs");
        assert_eq!(told(2), "lab, virtual time, NOT exact in 2 of 80 runs");
        let mut mixed = testing::in_the_lab(0);
        mixed.sides[0] = testing::side("host");
        let expected = "lab, virtual time, exact in all 40 runs; 40 runs on a host";
        assert_eq!(time(&mixed).unwrap(), expected);
    }

    #[test]
    fn a_floor_has_two_digits() {
        let cases: &[(f64, &str)] =
            &[(0.103_949, "10 %"), (0.005_312, "0.53 %"), (0.0996, "10 %"), (1.234, "123 %")];
        for (floor, expected) in cases {
            assert_eq!(floor_percent(*floor), *expected);
            let verdict = testing::open(Why::BelowFloor { floor: *floor }, Rounds::Number(9));
            let told = why(&verdict, &testing::ordinary().method).unwrap();
            assert!(told.ends_with(&format!("plan to plan: {expected}")), "{told}");
        }
    }

    #[test]
    fn a_round_has_its_number_only_where_the_plan_has_it() {
        let apart = Shape::Outlier { round: 7, value: 9e6, median: 1e6, deviations: 30.0 };
        let values = [0, 2, 3, 4, 5, 6, 7, 8].map(|round| (round, 1e6)).to_vec();
        let shapes = [testing::TWO_MODES, testing::TREND, apart];
        let cell = Cell { shapes: shapes.to_vec(), ..testing::cell(values) };
        let row = testing::row("x", Unit::Ns, testing::LOWER, Vec::new());
        let mut comparison = testing::ordinary();
        let told = |comparison: &Comparison| super::shapes(comparison, &row, &cell);
        let of_rounds = [
            "two modes, 12.0 ms and 31.0 ms (4 of 10 rounds)",
            "a trend, 3 % from the first round to the last (p 0.0020)",
            "round 7 is apart, 9.00 ms where the median is 1.00 ms",
        ];
        let of_values = [
            "two modes, 12.0 ms and 31.0 ms (4 of 10 values)",
            "a trend, 3 % from the first value to the last (p 0.0020)",
            "value 7 of 8 is apart, 9.00 ms where the median is 1.00 ms",
        ];
        assert_eq!(told(&comparison), of_rounds);
        comparison.sides[1].plans.push("another".to_string());
        assert_eq!(told(&comparison), of_values, "rounds of several plans are counted through");
        comparison.sides[1].plans.pop();
        comparison.method.pairing = Pairing::None;
        assert_eq!(told(&comparison), of_values, "there are no common rounds");
    }

    #[test]
    fn percentages() {
        let cases: &[(f64, &str)] =
            &[(0.02, "2 %"), (0.005, "0.5 %"), (0.07, "7 %"), (1.0, "100 %")];
        for (share, expected) in cases {
            assert_eq!(percent(*share), *expected);
        }
    }

    #[test]
    fn commands_break_only_where_a_shell_goes_on() {
        let cases: &[(&str, usize, &[&str])] = &[
            ("schedlab compare a b", 80, &["schedlab compare a b"]),
            ("schedlab compare 'a b' c", 22, &["schedlab compare \\", "    'a b' c"]),
            (
                "x 'a  b' \"c ' d\" e\\ f",
                6,
                &["x \\", "    'a  b' \\", "    \"c ' d\" \\", "    e\\ f"],
            ),
            ("x 'a\\' b", 6, &["x \\", "    'a\\' \\", "    b"]),
            ("", 80, &[]),
        ];
        for (command, columns, expected) in cases {
            assert_eq!(command_lines(command, *columns), *expected, "{command}");
        }
    }

    proptest! {
        #[test]
        fn any_names_fit_and_stay_apart(
            labels in proptest::collection::vec("(kernel=)?(6\\.1[0-2]-){0,3}[a-b漢#1-3]{0,9}", 1..6),
            columns in 8usize..24,
        ) {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            let names = named(&labels, columns);
            for (at, name) in names.iter().enumerate() {
                prop_assert!(name.width() <= columns && !name.is_empty(), "{:?}", names);
                prop_assert!(!names[..at].contains(name), "{:?}", names);
            }
        }

        #[test]
        fn a_broken_command_is_the_same_command(words in proptest::collection::vec("[a-z]{1,12}", 1..20)) {
            let command = words.join(" ");
            let lines = command_lines(&command, 30);
            prop_assert!(lines.iter().all(|line| line.width() <= 30));
            let back = lines.join("\n").replace(" \\\n    ", " ");
            prop_assert_eq!(back, command);
        }
    }
}
