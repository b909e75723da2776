//! Counts of verdicts, the rounds that decide the open ones, and the commands that measure them. Pure.

use crate::analysis::{Analysis, Family, Place, PlanFacts};
use crate::model::{Direction, PlanEnd, SampledPlan, show_duration};
use crate::stats::{Judged, Rounds, Verdict, Why};

use super::super::layout::clean;
use super::super::numbers::counted;
use super::verdicts::{bound, each};
use super::words::rough_time;

/// How many rounds something takes in all, those that are done included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Needed {
    About(u32),
    MoreThan(u32),
    /// Fewer rounds decide nothing, and there are too few to estimate more.
    AtLeast(u32),
}

/// Fewer values do not give the spread, which decides how many rounds it takes.
const MIN_SPREAD_PAIRS: usize = 4;

/// The rounds that an open verdict needs; `None` where no number of them decides it.
pub fn rounds(judged: &Judged) -> Option<Needed> {
    let Verdict::Inconclusive { why, rounds } = judged.verdict else { return None };
    let has_spread = judged.effect.is_ok_and(|effect| effect.pairs() >= MIN_SPREAD_PAIRS);
    Some(match (why, rounds) {
        // Beyond the margin, so it never is SAME.
        (Why::BelowFloor { .. }, Rounds::MoreThan(_)) => return None,
        (Why::TooFewRounds { least }, Rounds::Number(_)) if !has_spread => Needed::AtLeast(least),
        (Why::TooFewRounds { least }, Rounds::MoreThan(_)) => Needed::AtLeast(least),
        (_, Rounds::Number(rounds)) => Needed::About(rounds),
        (_, Rounds::MoreThan(rounds)) => Needed::MoreThan(rounds),
    })
}

/// `~14`, `>1000`, `>=6`.
pub fn show_rounds(rounds: Needed) -> String {
    match rounds {
        Needed::About(rounds) => format!("~{rounds}"),
        Needed::MoreThan(rounds) => format!(">{rounds}"),
        Needed::AtLeast(rounds) => format!(">={rounds}"),
    }
}

/// `about 14 rounds in all (3 min) decide them`; `None` where nothing is open that rounds decide.
pub fn decides(analysis: &Analysis, tally: &Tally) -> Option<String> {
    let decided = match tally.below_floor {
        0 => "them".to_string(),
        below => format!("all but {below} below the floor"),
    };
    Some(format!("{} decide {decided}", in_all(analysis, tally.rounds?)))
}

/// `about 14 rounds in all (3 min)`: as long as the rounds of the plan took.
pub fn in_all(analysis: &Analysis, needed: Needed) -> String {
    let fails = |plan: &PlanFacts| plan.rounds_that_count() < plan.rounds_done;
    let measured = if analysis.plans.iter().any(fails) { "measured " } else { "" };
    let each = format!("{measured}{}", each(analysis));
    let took_ns = match (analysis.plans.as_slice(), analysis.hosts.as_slice()) {
        ([plan], []) => {
            let took_ns = plan.took_ns.or(plan.simulated_ns);
            took_ns.filter(|took_ns| *took_ns > 0 && plan.rounds_that_count() > 0)
        }
        _ => None,
    };
    let time = |rounds: u32| {
        let (rounds, done) = (f64::from(rounds), f64::from(analysis.plans[0].rounds_that_count()));
        took_ns.map_or(String::new(), |ns| {
            format!(" ({})", rough_time((ns as f64 * rounds / done) as u64))
        })
    };
    let count = |rounds: u32| counted(rounds, &each);
    match needed {
        Needed::About(rounds) => format!("about {} in all{}", count(rounds), time(rounds)),
        Needed::MoreThan(rounds) => format!("more than {}", count(rounds)),
        Needed::AtLeast(rounds) => format!("{}{} or more", count(rounds), time(rounds)),
    }
}

/// How many verdicts of each kind one side has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    pub better: usize,
    pub worse: usize,
    pub same: usize,
    /// Not decided, with a bound that is of use.
    pub bounded: usize,
    /// Not decided, without one.
    pub open: usize,
    pub unjudged: usize,
    /// Not decided, and no number of rounds decides them.
    pub below_floor: usize,
    /// Counters, for which neither less nor more is better.
    pub less: usize,
    pub more: usize,
    /// After which all that is not decided is expected to be.
    pub rounds: Option<Needed>,
}

impl Tally {
    /// Counts the verdicts of these rows, for the side at this place in the list of sides.
    pub fn count<'a>(rows: impl Iterator<Item = Place<'a>>, side: usize) -> Tally {
        let mut tally = Tally::default();
        for (.., row) in rows {
            let Some(cell) = row.cells.get(side) else { continue };
            let Some(judged) = cell.judged else { continue };
            let is_neutral = row.kind.direction == Direction::Neutral;
            let count = match judged.verdict {
                Verdict::Better if is_neutral => &mut tally.less,
                Verdict::Worse if is_neutral => &mut tally.more,
                Verdict::Better => &mut tally.better,
                Verdict::Worse => &mut tally.worse,
                Verdict::Same => &mut tally.same,
                Verdict::Inconclusive { .. } if bound(row, cell).is_some() => &mut tally.bounded,
                Verdict::Inconclusive { .. } => &mut tally.open,
                Verdict::Unjudged(_) => &mut tally.unjudged,
            };
            *count += 1;
            let own = rounds(&judged);
            let is_open = matches!(judged.verdict, Verdict::Inconclusive { .. });
            tally.below_floor += usize::from(is_open && own.is_none());
            let needed = tally.rounds.into_iter().chain(own);
            tally.rounds = needed.reduce(later);
        }
        tally
    }

    /// `2 BETTER, 1 WORSE, 5 SAME, 3 bounded, 4 open`.
    pub fn counts(&self) -> String {
        let Tally { better, worse, same, unjudged, less, more, .. } = self;
        let undecided = self.undecided();
        let mut said = format!("{better} BETTER, {worse} WORSE, {same} SAME, {undecided}");
        if less + more > 0 {
            said.push_str(&format!(", {less} LESS, {more} MORE"));
        }
        if *unjudged > 0 {
            said.push_str(&format!(", {unjudged} not judged"));
        }
        said
    }

    /// `3 bounded, 4 open`.
    pub fn undecided(&self) -> String {
        let open = format!("{} open", self.open);
        if self.bounded > 0 { format!("{} bounded, {open}", self.bounded) } else { open }
    }

    /// Verdicts that could have been reached.
    pub fn judged(&self) -> usize {
        self.better + self.worse + self.same + self.bounded + self.open
    }
}

pub fn later(one: Needed, other: Needed) -> Needed {
    use Needed::{About, AtLeast, MoreThan};
    match (one, other) {
        (About(one), About(other)) => About(one.max(other)),
        (more @ MoreThan(_), _) | (_, more @ MoreThan(_)) => more,
        (AtLeast(one) | About(one), AtLeast(other) | About(other)) => AtLeast(one.max(other)),
    }
}

/// The command that measures what is open with enough rounds; none where no number is known.
pub fn more_rounds(analysis: &Analysis, needed: Needed) -> Option<String> {
    let ([plan], true) = (analysis.plans.as_slice(), analysis.hosts.is_empty()) else {
        return None;
    };
    if plan.backend == SampledPlan::IMPORTED {
        return None;
    }
    let (Needed::About(rounds) | Needed::AtLeast(rounds)) = needed else { return None };
    let has_ended = matches!(plan.ended, Some(PlanEnd::Complete | PlanEnd::Budget));
    let (id, store) = (clean(&plan.id), clean(&analysis.store));
    // A run that is missing of fixed or added rounds decides nothing that takes more of them.
    let is_open_ended = plan.measure.until_decided && plan.measure.ends.is_empty();
    let goes_far_enough = is_open_ended || rounds <= plan.measure.rounds;
    if plan.ended == Some(PlanEnd::Interrupted) && goes_far_enough {
        return Some(format!("schedlab run --resume {id}{store}"));
    }
    Some(match rounds.saturating_sub(plan.rounds_that_count()) {
        more @ 1.. if has_ended && plan.measure.leaves_a_look() => {
            format!("schedlab run --resume {id} --rounds +{more}{store}")
        }
        _ => format!("schedlab run plan={id}{} --rounds {rounds}{store}", options(plan, rounds)),
    })
}

/// The options that a plan was measured with, which its text may not have, and the time that so many rounds take.
fn options(plan: &PlanFacts, rounds: u32) -> String {
    let mut options = String::new();
    if plan.backend != SampledPlan::LOCAL {
        options.push_str(&format!(" --backend {}", clean(&plan.backend)));
    }
    if let Some(lab) = &plan.lab {
        options.push_str(&format!(" --kernel {}", clean(&lab.kernel)));
    }
    if plan.aa {
        options.push_str(" --aa");
    }
    // It would replace those of works, which then are the text's.
    if plan.durations_ns.iter().all(|ns| *ns == plan.measure.duration_ns) {
        options.push_str(&format!(" --duration {}", show_duration(plan.measure.duration_ns)));
    }
    if let Some(budget_ns) = plan.measure.budget_ns {
        let took_ns = plan.took_ns.or(plan.simulated_ns).unwrap_or(budget_ns).max(1);
        let needed_ns =
            u128::from(took_ns) * u128::from(rounds) / u128::from(plan.rounds_that_count().max(1));
        // A minute more, since rounds are not alike.
        options.push_str(&format!(" --budget {}min", needed_ns / 60_000_000_000 + 2));
    }
    options
}

/// The time and the command of the same plan in the lab, where a host's plan has ended with undecided rows.
pub fn in_lab(analysis: &Analysis) -> Option<(String, String)> {
    let ([plan], true) = (analysis.plans.as_slice(), analysis.hosts.is_empty()) else {
        return None;
    };
    let has_ended = matches!(plan.ended, Some(PlanEnd::Complete | PlanEnd::Budget));
    let time_ns = plan.in_lab_ns.filter(|_| has_ended)?;
    let mut cells = analysis.rows_of(Family::Headline).flat_map(|(.., row)| &row.cells);
    cells.find(|cell| matches!(cell.verdict(), Some(Verdict::Inconclusive { .. })))?;
    let (id, store) = (clean(&plan.id), clean(&analysis.store));
    Some((
        format!("without noise, in about {}:", rough_time(time_ns)),
        format!("schedlab run --resume {id} --and-lab{store}"),
    ))
}
