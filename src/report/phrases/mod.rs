//! The only English about results: verdicts and their reasons, the method, sides, counts, and
//! the command. Facts come in, sentences go out; nothing reads a sentence again. Pure.

pub mod disturbance;
mod fold;
mod names;
mod notes;
mod sides;

use std::collections::BTreeMap;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::analysis::{
    Analysis, Cell, Family, InTurns, Method, Note, Pairing, Place, PlanFacts, Row, SetTable, Side,
    WorkTable, Workers, grouped,
};
use crate::model::{
    Cgroup, CgroupChange, CpuClocks, CpuSet, Direction, Environment, GuestTimes, Lab, LabModel,
    Measure, MemoryPlacement, Placement, PlanEnd, Reading, SampledPlan, SetChange, Unit, Value,
    Variant, Work, WorkerKind, show_duration,
};
use crate::stats::{Distance, NoEffect, Rounds, Shape, Unjudged, Verdict, Why};

use super::layout::clean;
use super::numbers::{Scale, counted, percent, significant};

pub use fold::folded_notes;
pub use names::{distinct_names, names};
pub use notes::{differs, note, one_line};
pub use sides::{Compared, compared, differing_knobs};

/// The longest list of names that is shown in full.
const MAX_NAMED: usize = 4;

/// Describes odd values of a cell: `two modes, 12 ms and 31 ms (4 of 10 rounds)`. Where
/// rounds of several plans are counted through, an outlier has its place among the values.
pub fn shapes(analysis: &Analysis, row: &Row, cell: &Cell) -> Vec<String> {
    let is_of_one_plan = analysis.sides.iter().all(|side| side.plans.len() <= 1);
    let are_rounds = analysis.method.pairing == Pairing::WithinRounds && is_of_one_plan;
    let each = if are_rounds { "round" } else { "value" };
    let which = |round: u32| match cell.values.iter().position(|(other, _)| *other == round) {
        _ if are_rounds => format!("round {}", round + 1),
        Some(at) => format!("value {} of {}", at + 1, cell.values.len()),
        None => "one value".to_string(),
    };
    let show = |value| Scale::for_values(row.kind.unit, Some(value)).with_suffix(Some(value));
    let one = |shape: &Shape| match *shape {
        Shape::TwoModes { low, high, in_high, of, .. } => {
            format!("two modes, {} and {} ({in_high} of {of} {each}s)", show(low), show(high))
        }
        Shape::Trend { last_over_first, p_value: p, .. } => {
            let change = format!("{:.1}", 100.0 * (last_over_first - 1.0));
            let (change, p) = (change.trim_end_matches(".0"), p_value(Some(p)));
            format!("a trend, {change} % from the first {each} to the last (p {p})")
        }
        Shape::Outlier { round, value, median, .. } => {
            let (which, value, median) = (which(round), show(value), show(median));
            format!("{which} is an outlier: {value}, the median is {median}")
        }
    };
    cell.shapes.iter().map(one).collect()
}

/// `kernel 6.18.5; machine M; backend local; 40 runs in 2 boots; plan P`. In the lab there are no
/// boots, but a clock: `virtual time, exact in all 40 runs`.
pub fn about(analysis: &Analysis, side: &Side) -> String {
    joined(about_parts(analysis, side), "; ")
}

/// The parts of [`about`]: kernels, machines, backends, runs and plans.
fn about_parts(analysis: &Analysis, side: &Side) -> [String; 5] {
    let Side { label, kernels, machines, backends, plans, boots, runs, times, .. } = side;
    if *runs == 0 {
        let others = analysis.notes.iter().find_map(|found| match found {
            Note::OtherRuns { side, runs, .. } if side == label => Some(counted(*runs, "run")),
            _ => None,
        });
        let none = || "no measured run".to_string();
        let none = others.map_or_else(none, |runs| format!("{runs}, of which none is compared"));
        return [String::new(), String::new(), String::new(), none, String::new()];
    }
    let boots = match boots {
        None => "unknown boots".to_string(),
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
}

/// The clock of all runs, for the head of mailed tables; `None` where no run is of the lab.
pub fn analysis_time(analysis: &Analysis) -> Option<String> {
    let mut times = GuestTimes::default();
    analysis.sides.iter().for_each(|side| times.add_all(&side.times));
    times.why = None;
    let others = analysis.sides.iter().map(|side| side.runs).sum::<usize>() - times.runs();
    match (times.runs(), others) {
        (0, _) => None,
        (_, 0) => Some(format!("lab, {times}{}", fidelity(analysis))),
        (_, others) => Some(format!("lab, {times}; {} on a host", counted(others, "run"))),
    }
}

/// The properties of the guests' machine in virtual time, if all plans have the same: `; own clocks, 0.5 ns an
/// instruction, work in time skipped`.
fn fidelity(analysis: &Analysis) -> String {
    let mut labs = analysis.plans.iter().filter_map(|plan| plan.lab.as_ref());
    let Some(lab) = labs.next().filter(|lab| !lab.realtime) else { return String::new() };
    let of = |lab: &Lab| {
        let speed = (lab.clocks, lab.instruction_ps, lab.executed);
        (speed, lab.kernel_args.clone(), lab.model.clone())
    };
    if labs.any(|other| of(other) != of(lab)) {
        return "; with several clocks or command lines".to_string();
    }
    let clocks = match lab.clocks {
        CpuClocks::Own => format!("fidelity {}: own clocks", lab.fidelity().word()),
        CpuClocks::Shared => lab.fidelity().word().to_string(),
    };
    let work = if lab.executed { "executed" } else { "skipped" };
    let ns = lab.instruction_ns();
    let words = match lab.kernel_args.as_str() {
        "" => String::new(),
        words => format!(", {}", clean(words)),
    };
    let model = added(&lab.model);
    format!("; {clocks}, {ns} ns an instruction, work in time {work}{words}{model}")
}

/// The costs of a real machine that the lab adds: `, exit from idle 12us, of AMD EPYC, 2 CPUs`.
fn added(model: &LabModel) -> String {
    let LabModel {
        twin,
        idle_exit_ns,
        short_idle,
        ipi_near_ns,
        ipi_far_ns,
        migration_ns,
        timer_slack_ns,
        stretch,
    } = model;
    let times = [
        ("exit from idle", idle_exit_ns),
        ("from short idle", &short_idle.map(|short| short.exit_ns)),
        ("interrupts near", ipi_near_ns),
        ("far", ipi_far_ns),
        ("migration", migration_ns),
        ("timer slack", timer_slack_ns),
    ];
    let times = times
        .into_iter()
        .filter_map(|(name, ns)| ns.map(|ns| format!(", {name} {}", show_duration(ns.into()))));
    let percent = |permille: u32| f64::from(permille) / 10.0;
    let work = (!stretch.is_off())
        .then(|| format!(", work +{}% +-{}%", percent(stretch.longer), percent(stretch.jitter)));
    let twin = twin.iter().map(|twin| format!(", measured on {}", clean(twin)));
    times.chain(work).chain(twin).collect()
}

fn list(word: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| clean(name)).collect();
    match names.as_slice() {
        [] => format!("{word} unknown"),
        [one] => format!("{word} {one}"),
        many => format!("{word}s {}", first_of(many, MAX_NAMED)),
    }
}

/// `a, b and 3 more`: at most `most` of them by name.
pub fn first_of(names: &[String], most: usize) -> String {
    match names.split_at_checked(most) {
        Some((first, more @ [_, ..])) => format!("{} and {} more", first.join(", "), more.len()),
        _ => names.join(", "),
    }
}

/// `a, b (batch)`: each name once, with its sides unless these are `all` that there may be.
pub fn with_sides(cells: Vec<(String, &str)>, all: usize) -> Vec<String> {
    let shown = grouped(cells).into_iter().map(|(name, sides)| {
        if sides.len() == all { name } else { format!("{name} ({})", sides.join(", ")) }
    });
    shown.collect()
}

/// The verdict of a cell as people read it, or what it is not: `<6.1 %`. `None` where none was to be.
pub fn verdict(row: &Row, cell: &Cell) -> Option<String> {
    let verdict = cell.verdict()?;
    let bound = bound(row, cell).filter(|_| !is_maybe(&verdict));
    Some(match bound {
        Some(bound) => format!("<{bound}"),
        None => verdict_on(row.kind.direction, verdict).to_string(),
    })
}

fn is_maybe(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Inconclusive { why: Why::OnlyAlone, .. })
}

/// Behind a verdict on rounds that something from outside spoilt.
pub const SPOILT: &str = "!";

/// Whether a verdict has that mark.
pub fn is_spoilt(analysis: &Analysis, row: &Row, cell: &Cell) -> bool {
    matches!(cell.verdict(), Some(Verdict::Better | Verdict::Worse | Verdict::Same))
        && analysis.counts_spoilt(row)
}

/// A bound of a ratio beyond this says nothing that a reader could use, or of a tail latency beyond the
/// second.
const MAX_BOUNDS: [f64; 2] = [0.5, 1.0];

/// The bound of a cell that is not decided: `6.1 %`, `0.4 ms`. `None` where it has none, or one that is
/// too far out to be of use.
pub fn bound(row: &Row, cell: &Cell) -> Option<String> {
    match cell.judged?.bound? {
        Distance::Ratio(bound) => {
            let max = MAX_BOUNDS[usize::from(row.kind.is_tail_latency())];
            (bound <= max).then(|| format!("{} %", rounded_up(100.0 * bound)))
        }
        Distance::Difference(bound) => {
            let scale = Scale::for_values(row.kind.unit, Some(bound));
            Some(
                format!("{} {}", rounded_up(scale.scaled(bound)), scale.suffix)
                    .trim_end()
                    .to_string(),
            )
        }
    }
}

/// Two digits, so that what is below the value is below what is shown.
fn rounded_up(value: f64) -> String {
    let step = 10f64.powi(value.max(1e-9).log10().floor() as i32 - 1);
    significant((value / step - 1e-9).ceil() * step, 2)
}

pub fn verdict_on(direction: Direction, verdict: Verdict) -> &'static str {
    let is_neutral = direction == Direction::Neutral;
    match verdict {
        Verdict::Better if is_neutral => "LESS",
        Verdict::Worse if is_neutral => "MORE",
        Verdict::Better => "BETTER",
        Verdict::Worse => "WORSE",
        Verdict::Same => "SAME",
        // The interval is of this ratio alone: where it excludes 1 the word says what is missing.
        Verdict::Inconclusive { why, .. } => match why {
            Why::TooFewRounds { .. } => "too-few",
            Why::OnlyAlone => "maybe",
            Why::BelowFloor { .. } | Why::SameOnlyAlone | Why::Denied | Why::Noise => "open",
        },
        Verdict::Unjudged(_) => "-",
    }
}

/// The verdict for programs, and one word for why there is none.
pub fn keys(verdict: &Verdict) -> (String, Option<String>) {
    let why = match verdict {
        Verdict::Better | Verdict::Worse | Verdict::Same => None,
        Verdict::Inconclusive { why, .. } => Some(key(why)),
        Verdict::Unjudged(why) => Some(key(why)),
    };
    (key(verdict), why)
}

/// The word that JSON has for it: the value, or the key of what it holds.
pub fn key(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(of)) => of.into_iter().map(|(key, _)| key).collect(),
        _ => String::new(),
    }
}

/// Why a verdict is not BETTER, WORSE or SAME; `None` for noise: the wide interval shows it.
/// `each` is one of what is judged: see [`each`].
pub fn why(verdict: &Verdict, unit: Unit, family: usize, each: &str) -> Option<String> {
    let why = match verdict {
        Verdict::Unjudged(Unjudged::NoEffect(why)) => {
            return Some(format!("cannot be compared: {}", no_effect(why, each)));
        }
        Verdict::Inconclusive { why, .. } => why,
        _ => return None,
    };
    let by_chance = |seen: &str, alone: &str, it: &str| match family {
        1 => format!("the interval {seen}, but a verdict takes more: it may still be chance"),
        _ => format!(
            "alone it would be {alone}; as one of {family} verdicts {it} may still be chance"
        ),
    };
    Some(match why {
        Why::Noise => return None,
        Why::TooFewRounds { least } => {
            format!("too few {each}s for any verdict: it takes at least {least}")
        }
        Why::OnlyAlone => by_chance("excludes 1", "a difference", "it"),
        Why::SameOnlyAlone => by_chance("is within the margin", "SAME", "that"),
        Why::Denied => {
            format!("a test showed a verdict, but the interval over all {each}s does not")
        }
        Why::BelowFloor { floor } => format!(
            "the difference is within the floor: equal runs differ by as much here, in A/A or from \
             plan to plan: {}",
            show_floor(floor, unit)
        ),
    })
}

/// Why two sides cannot be compared; rounds, or hosts, count from 1.
pub fn no_effect(why: &NoEffect, each: &str) -> String {
    match why {
        NoEffect::NotFinite { round, value } => format!("{each} {} has {value}", round + 1),
        NoEffect::NoPairs | NoEffect::NoRuns => why.to_string(),
    }
}

/// The word for the things that give one ratio each.
pub fn each(analysis: &Analysis) -> &'static str {
    match analysis.method.pairing {
        Pairing::OverHosts => "host",
        Pairing::WithinRounds | Pairing::None => "round",
    }
}

/// `over 8 hosts, each one draw: 5 to 21 rounds`; `None` where verdicts are not over hosts.
pub fn over_hosts(analysis: &Analysis) -> Option<String> {
    let rounds = || analysis.hosts.iter().map(|host| host.rounds);
    let (least, most) = (rounds().min()?, rounds().max()?);
    let hosts = counted(analysis.hosts.len(), "host");
    let rounds = if least == most {
        counted(most, "round")
    } else {
        format!("{least} to {}", counted(most, "round"))
    };
    Some(format!("over {hosts}, each one draw: {rounds}"))
}

/// How many rounds something takes in all, those that are done included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Needed {
    About(u32),
    MoreThan(u32),
    /// Fewer rounds decide nothing, and there are too few to estimate more.
    AtLeast(u32),
}

/// The rounds that an open verdict needs.
pub fn rounds(verdict: &Verdict) -> Option<Needed> {
    let Verdict::Inconclusive { why, rounds } = *verdict else { return None };
    Some(match (why, rounds) {
        // One round has no spread to estimate from.
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

/// `about 14 rounds in all (3 min) decide them`.
pub fn decides(analysis: &Analysis, needed: Needed) -> String {
    format!("{} decide them", in_all(analysis, needed))
}

/// `about 14 rounds in all (3 min)`: as long as the rounds of the plan took.
pub fn in_all(analysis: &Analysis, needed: Needed) -> String {
    let each = each(analysis);
    let took_ns = match (analysis.plans.as_slice(), analysis.hosts.as_slice()) {
        ([plan], []) => plan.took_ns.filter(|took_ns| *took_ns > 0 && plan.rounds_done > 0),
        _ => None,
    };
    let time = |rounds: u32| {
        let (rounds, done) = (f64::from(rounds), f64::from(analysis.plans[0].rounds_done));
        took_ns.map_or(String::new(), |ns| {
            format!(" ({})", rough_time((ns as f64 * rounds / done) as u64))
        })
    };
    let count = |rounds: u32| counted(rounds as usize, each);
    match needed {
        Needed::About(rounds) => format!("about {} in all{}", count(rounds), time(rounds)),
        Needed::MoreThan(rounds) => format!("more than {}", count(rounds)),
        Needed::AtLeast(rounds) => format!("at least {}{}", count(rounds), time(rounds)),
    }
}

/// `10 %`, `0.53 %`: a floor is an estimate of two digits.
pub fn floor_percent(floor: f64) -> String {
    format!("{} %", significant(100.0 * floor, 2))
}

/// As [`floor_percent`], or a number in the metric's unit.
pub fn show_floor(floor: &Distance, unit: Unit) -> String {
    match floor {
        Distance::Ratio(floor) => floor_percent(*floor),
        Distance::Difference(floor) => {
            Scale::for_values(unit, Some(*floor)).with_suffix(Some(*floor))
        }
    }
}

/// How the verdicts were reached, a phrase each.
pub fn method(analysis: &Analysis) -> Vec<String> {
    let Method { margin, tail_margin, margins, alpha, pairing, floors, looks, seed, .. } =
        &analysis.method;
    let paired = match pairing {
        Pairing::WithinRounds => "ratios paired within rounds",
        Pairing::OverHosts => {
            "each host is one draw, the geometric mean of the ratios within its rounds: verdicts and \
             intervals hold for hosts like these"
        }
        Pairing::None if analysis.is_exact() => {
            "ratios not paired: the sides are exact runs of different plans"
        }
        Pairing::None => {
            "ratios not paired: the sides were measured at different times, and what changed in \
             between is in the ratios"
        }
    };
    let mut said = vec![paired.to_string()];
    said.extend(analysis.method.turns.map(describe_turns));
    let range = |margin: &f64| {
        let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
        format!("margin {}: SAME is a ratio from {low:.3} to {high:.3}", percent(*margin))
    };
    said.push(range(margin));
    if tail_margin != margin {
        said.push(format!("of tail latencies (p99 and beyond) {}", range(tail_margin)));
    }
    if !margins.is_empty() {
        let own = margins.iter().map(|(name, own)| format!("{} {}", clean(name), percent(*own)));
        said.push(format!("margins of single metrics: {}", joined(own, ", ")));
    }
    let families = [
        (analysis.method.headline_verdicts, "headline family"),
        (analysis.method.explaining_verdicts, "explaining family"),
    ];
    for (verdicts, family) in families.into_iter().filter(|(verdicts, _)| *verdicts > 0) {
        said.push(format!(
            "{family} of {}, error rate {} over all of them, and again for SAME",
            counted(verdicts, "verdict"),
            percent(*alpha)
        ));
    }
    said.push(match looks {
        None => format!("one look at all {}s", each(analysis)),
        Some(looks) => {
            format!(
                "looks after rounds {}",
                joined(looks.iter().map(|look| look.rounds.to_string()), ", ")
            )
        }
    });
    if !floors.is_empty() {
        let ids = joined(floors.iter().map(|id| clean(id)), ", ");
        said.push(format!("no difference below what A/A resolves here ({ids})"));
    }
    said.push("intervals are 95 %, each for its ratio alone".to_string());
    said.push(format!("seed {seed}"));
    said
}

/// `in turns of 100ms inside one run, a switch takes 3.1 us`.
fn describe_turns(turns: InTurns) -> String {
    let InTurns { block_ns, switch_ns } = turns;
    let block = show_duration(block_ns);
    let switch = switch_ns.map_or(String::new(), |ns| {
        let took = Some(ns as f64);
        format!(", a switch takes {}", Scale::for_values(Unit::Ns, took).with_suffix(took))
    });
    format!("in turns of {block} inside one run{switch}")
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
            let needed = tally.rounds.into_iter().chain(rounds(&judged.verdict));
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

/// A p-value with two digits.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_string(),
        Some(p) if p < 0.00001 => "<0.00001".to_string(),
        Some(p) => significant(p, 2),
    }
}

/// A command in lines of `columns`, broken with `\` outside of quotes; longer words stand alone.
pub fn command_lines(command: &str, columns: usize) -> Vec<String> {
    const GO_ON: &str = " \\";
    let mut lines: Vec<String> = Vec::new();
    for word in shell_words(&clean(command)) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() + GO_ON.len() <= columns => {
                line.push_str(&format!(" {word}"));
            }
            Some(line) => {
                line.push_str(GO_ON);
                lines.push(format!("    {word}"));
            }
            None => lines.push(word.to_string()),
        }
    }
    lines
}

/// Words as they are written, quotes and all.
fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    let (mut quote, mut escaped) = (None, false);
    let ends = move |c: char| {
        let is_plain = !escaped;
        escaped = c == '\\' && !escaped && quote != Some('\'');
        match quote {
            Some(open) if c == open && is_plain => quote = None,
            None if is_plain && (c == '\'' || c == '"') => quote = Some(c),
            None => return c == ' ' && is_plain,
            _ => {}
        }
        false
    };
    command.split(ends).filter(|word| !word.is_empty())
}

/// `a, b and c`; of a long list the first ones and a count.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().map(|name| clean(name.as_ref())).collect();
    match shown.as_slice() {
        many if many.len() > MAX_NAMED + 1 => first_of(many, MAX_NAMED),
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        few => few.concat(),
    }
}

/// `web threads=4`, with the set where the work has several: `pair left`.
pub fn place(work: &WorkTable, set: &SetTable) -> String {
    place_of(work, &set.name)
}

/// As [`place`], of a set that is known by its name.
pub fn place_of(work: &WorkTable, set: &str) -> String {
    match work.sets.as_slice() {
        [_] => clean(&work.label),
        _ => clean(&format!("{} {set}", work.label)),
    }
}

/// `9 rounds in 1 min 38 s, Linux 6.18.44, 2 CPUs (kvm)`.
pub fn plan(analysis: &Analysis, plan: &PlanFacts) -> String {
    let asked = Some(plan.measure.rounds).filter(|_| plan.measured_again() > 0);
    let asked = asked.map_or(String::new(), |asked| format!(" ({asked} asked for)"));
    let rounds = counted(plan.rounds_done as usize, "round") + &asked;
    // Runs that a backend invents take no time.
    let took_ns = plan.took_ns.filter(|took_ns| *took_ns > 0);
    let took = took_ns.map(|took_ns| format!(" in {}", time(took_ns))).unwrap_or_default();
    // Each variant of an imported plan has a session, which may be of a machine of its own.
    let is_of_one = |last: &&Environment| {
        plan.backend != SampledPlan::IMPORTED
            || plan.environments.iter().all(|of| machine(of, &[]) == machine(last, &[]))
    };
    let last = plan.environments.last().filter(is_of_one);
    let variants: Vec<&Variant> = analysis.sides.iter().flat_map(|side| &side.variants).collect();
    let machine = analysis_time(analysis).or_else(|| last.map(|last| machine(last, &variants)));
    let ended = match plan.ended {
        // In the lab the number of rounds otherwise depends on the plan alone, so the budget is named.
        Some(PlanEnd::Budget) if plan.lab.is_some() => Some(budget_end(plan)),
        Some(PlanEnd::Complete | PlanEnd::Decided | PlanEnd::Budget) => None,
        Some(PlanEnd::Interrupted) => Some("interrupted".to_string()),
        None => Some("not ended".to_string()),
    };
    let turns = in_turns(&plan.measure);
    let parts = [Some(format!("{rounds}{took}")), turns, machine, ended];
    joined(parts.into_iter().flatten(), ", ")
}

/// `variants in turns of 300ms inside one run, 900ms of each, for 1s is not whole blocks`.
pub fn in_turns(measure: &Measure) -> Option<String> {
    let turns = format!("variants in turns of {} inside one run", show_duration(measure.turns_ns?));
    Some(match measure.variant_ns() {
        whole if whole == measure.duration_ns => turns,
        cut => {
            let [cut, asked] = [cut, measure.duration_ns].map(show_duration);
            format!("{turns}, {cut} of each, for {asked} is not whole blocks")
        }
    })
}

/// `ended by its budget of 2 min`: with more time there would have been more rounds.
fn budget_end(plan: &PlanFacts) -> String {
    let budget = plan.measure.budget_ns.map(|ns| format!(" of {}", show_duration(ns)));
    format!("ended by its budget{}", budget.unwrap_or_default())
}

/// How many rounds a plan until it is decided took, and what ended it. `None`: fixed beforehand.
pub fn until_decided(plan: &PlanFacts) -> Option<String> {
    let rounds = counted(plan.rounds_done as usize, "round");
    let ended = match plan.ended {
        _ if !plan.measure.until_decided => return None,
        Some(PlanEnd::Decided) => "all is decided".to_string(),
        Some(PlanEnd::Budget) => budget_end(plan),
        Some(PlanEnd::Complete) => "no more were allowed".to_string(),
        Some(PlanEnd::Interrupted) | None => "interrupted".to_string(),
    };
    Some(format!("{rounds}, {ended}"))
}

/// With all schedulers that these variants ran under.
fn machine(of: &Environment, variants: &[&Variant]) -> String {
    let cpus = match of.topology.usable().len() {
        0 => String::new(),
        cpus => format!(", {}", counted(cpus, "CPU")),
    };
    let virtualisation = match &of.virtualisation {
        Reading::Known(name) if name != "none" => format!(" ({})", clean(name)),
        _ => String::new(),
    };
    let own = of.scheduler.as_ref().and_then(|of| of.as_ref().known());
    let mut schedulers: Vec<String> = Vec::new();
    if variants.is_empty() || variants.iter().any(|variant| variant.scx().is_none()) {
        schedulers.extend(own.map(|name| clean(name)));
    }
    for scx in variants.iter().filter_map(|variant| variant.scx()) {
        let name = format!("scx {}", clean(scx));
        if !schedulers.contains(&name) {
            schedulers.push(name);
        }
    }
    let schedulers = if schedulers.is_empty() {
        String::new()
    } else {
        format!(" with {}", joined(schedulers, ", "))
    };
    format!("Linux {}{schedulers}{cpus}{virtualisation}", clean(&of.kernel_release))
}

/// `1 min 38 s`, `3 h 2 min`, `450 ms`.
pub fn time(ns: u64) -> String {
    let seconds = (ns + 500_000_000) / 1_000_000_000;
    match seconds {
        0 => show_duration(ns / 1_000_000 * 1_000_000),
        1..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `98 s`, `14 min`, `3 h 2 min`: of what is an estimate.
pub fn rough_time(ns: u64) -> String {
    match (ns + 500_000_000) / 1_000_000_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7170 => format!("{} min", (seconds + 30) / 60),
        seconds if (seconds + 30) % 3600 < 60 => format!("{} h", (seconds + 30) / 3600),
        seconds => format!("{} h {} min", (seconds + 30) / 3600, (seconds + 30) % 3600 / 60),
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
    // A run that is missing of fixed rounds decides nothing that takes more of them.
    let goes_far_enough = plan.measure.until_decided || rounds <= plan.measure.rounds;
    if plan.ended == Some(PlanEnd::Interrupted) && goes_far_enough {
        return Some(format!("schedlab run --resume {id}{store}"));
    }
    Some(match rounds.saturating_sub(plan.rounds_done) {
        more @ 1.. if has_ended && plan.measure.leaves_a_look() => {
            format!("schedlab run --resume {id} --rounds +{more}{store}")
        }
        _ => {
            let backend = clean(&plan.backend);
            let backend = if plan.backend == SampledPlan::LOCAL {
                String::new()
            } else {
                format!(" --backend {backend}")
            };
            format!("schedlab run plan={id}{backend} --rounds {rounds}{store}")
        }
    })
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

/// `pool bench, CPUs 0-1, memory interleave`; empty where the plan leaves it to the kernel.
pub fn placement(placement: &Placement) -> String {
    let pool = placement.pool.as_ref().map(|pool| format!("pool {pool}"));
    let cpus = placement.cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    let memory = Some(placement.memory).filter(|memory| *memory != MemoryPlacement::Kernel);
    let memory = memory.map(|memory| format!("memory {}", memory.word()));
    joined([pool, cpus, memory].into_iter().flatten(), ", ")
}

/// `schbench, count 4, nice 5, throughput in requests`, not yet clean.
pub fn set(set: &SetTable) -> String {
    // A workload with threads of its own runs `count` times.
    let workers = set.workers.and_then(|Workers { count, kind }| match (kind, count) {
        (WorkerKind::Threads, 1) => None,
        (WorkerKind::Threads, _) => Some(format!("count {count}")),
        (WorkerKind::Processes, 1) => Some("in a process".to_string()),
        (WorkerKind::Processes, _) => Some(format!("count {count}, in processes")),
        (WorkerKind::Guests, 1) => Some("in a guest of Xen".to_string()),
        (WorkerKind::Guests, _) => Some(format!("count {count}, in guests of Xen")),
        (WorkerKind::GuestsOrProcesses, 1) => Some("in a guest of Xen or a process".to_string()),
        (WorkerKind::GuestsOrProcesses, _) => {
            Some(format!("count {count}, in guests of Xen or processes"))
        }
    });
    let ops = (!set.ops.is_empty()).then(|| format!("throughput in {}", set.ops));
    let parts = [
        Some(set.workload.clone()),
        workers,
        Some(knobs(&set.knobs)),
        in_cgroup(&set.cgroups),
        Some(joined(set.changes.iter().map(|change| timed(change.at_ns, &of_set(change))), ", ")),
        ops,
    ];
    joined(parts.into_iter().flatten(), ", ")
}

/// `in cgroup web (weight 200) > web/front (max 50%)`; `None`: in the run's own.
fn in_cgroup(cgroups: &[Cgroup]) -> Option<String> {
    let one = |cgroup: &Cgroup| {
        let changes = cgroup.changes.iter().map(|change| timed(change.at_ns, &of_cgroup(change)));
        let first = settings(&cgroup.knobs, &cgroup.cpus);
        let settings = joined([first].into_iter().chain(changes), ", ");
        let settings = if settings.is_empty() { settings } else { format!(" ({settings})") };
        format!("{}{settings}", cgroup.path)
    };
    let all: Vec<String> = cgroups.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("in cgroup {}", all.join(" > ")))
}

/// `weight 200, CPUs 0-1`, of a cgroup.
fn settings(knobs: &BTreeMap<String, Value>, cpus: &Option<CpuSet>) -> String {
    let of_knob = |(knob, value): (&String, &Value)| {
        format!("{} {value}", knob.strip_prefix("cgroup-").unwrap_or(knob))
    };
    let cpus = cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    joined(knobs.iter().map(of_knob).chain(cpus), ", ")
}

/// `at 1s light nice 5; at 2s cgroup web weight 400`: a work's changes in mid-run, not yet clean. `None`: it has none.
pub fn changes(work: &Work) -> Option<String> {
    let sets = work.sets.iter().flat_map(|set| {
        let of_set = |change| format!("{} {}", set.name, of_set(change));
        set.changes.iter().map(move |change| (change.at_ns, of_set(change)))
    });
    let cgroups = work.cgroups.iter().flat_map(|of| {
        let of_cgroup = |change| format!("cgroup {} {}", of.path, of_cgroup(change));
        of.changes.iter().map(move |change| (change.at_ns, of_cgroup(change)))
    });
    let mut all: Vec<(u64, String)> = cgroups.chain(sets).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let all = joined(all.iter().map(|(at_ns, what)| timed(*at_ns, what)), "; ");
    (!all.is_empty()).then_some(all)
}

fn timed(at_ns: u64, what: &str) -> String {
    format!("at {} {what}", show_duration(at_ns))
}

fn of_set(change: &SetChange) -> String {
    let cgroup = change.cgroup.as_ref().map(|cgroup| format!("in cgroup {cgroup}"));
    joined([knobs(&change.knobs)].into_iter().chain(cgroup), ", ")
}

fn of_cgroup(change: &CgroupChange) -> String {
    settings(&change.knobs, &change.cpus)
}

/// `nice 5, policy batch`, not yet clean; empty without knobs.
pub fn knobs(knobs: &BTreeMap<String, Value>) -> String {
    joined(knobs.iter().map(|(knob, value)| format!("{knob} {value}")), ", ")
}

/// Joins the parts that are not empty.
pub fn joined(parts: impl IntoIterator<Item = String>, between: &str) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(between)
}
#[cfg(test)]
mod tests;
