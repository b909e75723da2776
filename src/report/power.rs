//! Renders what a plan's rounds find and how many it takes: `schedlab plan-power`. Pure.

use std::io::{self, Write};

use super::Options;
use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::{counted, percent};
use super::phrases::{self, floor_percent};
use crate::analysis::{Flaws, LengthAdvice, MetricPower, NotKnown, Power, RunLength, WorkPower};
use crate::model::show_duration;
use crate::stats::Rounds;

/// A spread from fewer ratios is known to a third, more or less.
const FEW_RATIOS: u32 = 10;

/// `again`: the command that runs the plan, without its rounds. Fails only where `out` does.
pub fn render(
    power: &Power,
    again: &str,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    for work in &power.works {
        page.wrapped(Tone::Bold, "== ", &clean(&work.label));
        match &work.rows {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => page.table(&table(power, rows)),
            Err(why) => {
                let text = format!("{}; hint: {}", not_known(why), noise(power, again, FEW_RATIOS));
                page.wrapped(Tone::Warning, "not known: ", &text);
            }
        }
        for ((set, metric), reason) in &work.without_values {
            let text = format!("{set}/{metric}: stored runs have no value, for example: {reason}");
            page.wrapped(Tone::Warning, "not known: ", &clean(&text));
        }
        if let Some(advice) = &work.run_length {
            page.wrapped(Tone::Plain, "run length  ", &length_advice(advice));
        }
        if !work.by_differences.is_empty() {
            let all = work.by_differences.iter().map(|(set, metric)| format!("{set}/{metric}"));
            let text = format!(
                "{}: 0 in some runs, so it is judged by differences, and how many rounds these take is \
                 not computed; --metric names one that is never 0, such as throughput",
                clean(&phrases::joined(all, ", ")),
            );
            page.wrapped(Tone::Warning, "not known: ", &text);
        }
        page.gap();
    }
    if power.rows().next().is_some() {
        let legend = format!(
            "sd: of the ratios within rounds; finds: the smallest difference that {} find; for {}, \
             for SAME: the rounds that this verdict takes; from: what is stored",
            counted(power.rounds, "round"),
            percent(power.difference)
        );
        page.wrapped(Tone::Plain, "columns   ", &legend);
    }
    for note in notes(power, again) {
        page.wrapped(Tone::Warning, "note      ", &note);
    }
    answer(power, again, &mut page);
    out.write_all(page.text().as_bytes())
}

fn length_advice(advice: &LengthAdvice) -> String {
    match advice {
        LengthAdvice::Better(length) => better_length(length),
        LengthAdvice::AsPlanned { planned_ns } => format!(
            "{} is right: by throughput, no other length makes intervals 5 % narrower after the same time",
            show_duration(*planned_ns)
        ),
        LengthAdvice::LacksSamples { planned_ns } => format!(
            "a p99 takes a longer duration: more than 1 of 20 runs of {} have too few samples of it; by throughput, no \
             other length makes intervals 5 % narrower",
            show_duration(*planned_ns)
        ),
        LengthAdvice::Turns => {
            "no advice: variants take turns inside one run, and the numbers above are those of \
                                turns, so no run of one variant has a length of its own"
                .to_string()
        }
        LengthAdvice::OneWindow { duration_ns } => {
            let hint = match duration_ns / 10_000_000 {
                // No window is shorter than 10 ms.
                0 | 1 => "a longer duration".to_string(),
                tenth_ms => format!("window = \"{}ms\" under [measure]", tenth_ms.max(10)),
            };
            format!(
                "no advice: a run of {} has one window, and noise within a run shows from two on; hint: {hint}, and \
                 runs of that",
                show_duration(*duration_ns)
            )
        }
        LengthAdvice::FewRuns => {
            "no advice: too few stored runs have a throughput in all of their windows; of two \
                                  variants, 6 rounds are enough"
                .to_string()
        }
    }
}

fn better_length(length: &RunLength) -> String {
    let [between, within] = [length.between, length.within].map(floor_percent);
    let [planned, best] = [length.planned_ns, length.best_ns].map(show_duration);
    let limit = if length.needs_samples { "; shorter ones lack samples for a p99" } else { "" };
    format!(
        "by the throughput of {}, runs differ by {between}, seconds within a run by {within}: with \
         duration = \"{best}\" in [[workload]], not {planned}, intervals are {:.2} times as wide after the same time{limit}",
        clean(&length.set),
        length.interval
    )
}

fn not_known(why: &NotKnown) -> String {
    match why {
        NotKnown::OtherWork(difference) => format!(
            "the stored runs of this name were measured with other settings than this plan has: {}",
            phrases::differs(difference)
        ),
        NotKnown::TooFewRounds { needed } => {
            format!("fewer than {needed} measured rounds of it are stored")
        }
        NotKnown::NotStored => {
            "no stored plan measured it with two variants on this machine".to_string()
        }
    }
}

fn table(power: &Power, rows: &[MetricPower]) -> Table {
    let has_sets = rows.iter().any(|row| row.set != rows[0].set);
    let mut columns = vec![(Align::Right, 2); 6];
    columns[0] = (Align::Left, 0);
    let mut table = Table::new(columns);
    let found = format!("for {}", percent(power.difference));
    let head = ["metric", "sd", "finds", &found, "for SAME", "from"];
    table.row(Tone::Bold, head.map(str::to_string).to_vec());
    for row in rows {
        let set = if has_sets { format!("{} ", row.set) } else { String::new() };
        let cells = [
            clean(&format!("{set}{}", row.metric)),
            floor_percent(row.sd_ln.exp_m1()),
            row.smallest.map_or("-".to_string(), floor_percent),
            number(row.for_difference),
            number(row.for_same),
            format!("{} {}", row.ratios, if row.aa { "A/A" } else { "ratios" }),
        ];
        table.row(Tone::Plain, cells.to_vec());
    }
    table
}

fn number(rounds: Rounds) -> String {
    match rounds {
        Rounds::Number(rounds) => rounds.to_string(),
        Rounds::MoreThan(rounds) => format!(">{rounds}"),
    }
}

/// Notes to read before one plans by the numbers.
fn notes(power: &Power, again: &str) -> Vec<String> {
    let found = percent(power.difference);
    let mut notes = Vec::new();
    if let Some(budget_ns) = power.budget_ns.filter(|_| power.rounds < power.planned_rounds) {
        notes.push(format!(
            "the budget of {} has room for at most {} of the {} rounds; hint: {again}{}",
            show_duration(budget_ns),
            power.rounds,
            power.planned_rounds,
            budget_for(power, power.planned_rounds),
        ));
    }
    let few = power.rows().filter(|row| row.ratios < FEW_RATIOS as usize).count();
    if few > 0 {
        notes.push(format!(
            "{} from fewer than {FEW_RATIOS} ratios may be off by a third; hint: {}",
            counted(few, "standard deviation"),
            noise(power, again, FEW_RATIOS),
        ));
    }
    if power.comparisons > 0 && power.rounds < power.min_rounds {
        notes.push(format!(
            "{} may be too few for any verdict on so many metrics: it takes up to {}, fewer where \
             metrics move together",
            counted(power.rounds, "round"),
            power.min_rounds,
        ));
    }
    let floors = power.rows().map(|row| row.floor).filter(|floor| *floor >= power.difference);
    let floors: Vec<f64> = floors.collect();
    if let Some(largest) = floors.iter().copied().max_by(f64::total_cmp) {
        let rounds = power.for_difference().map_or(FEW_RATIOS, |rounds| match rounds {
            Rounds::Number(rounds) | Rounds::MoreThan(rounds) => rounds,
        });
        notes.push(format!(
            "of {} the newest A/A plan, which compares equal variants, resolves no less than \
             {found} (up to {}), and smaller differences are called neither BETTER nor WORSE; \
             more A/A rounds resolve more: {}",
            counted(floors.len(), "metric"),
            floor_percent(largest),
            noise(power, again, rounds),
        ));
    }
    let is_missing = |work: &&WorkPower| work.rows.as_ref().map_or(true, Vec::is_empty);
    let missing = power.works.iter().filter(is_missing).count();
    if missing > 0 {
        let (works, verb) =
            (counted(power.works.len(), "work"), if missing == 1 { "is" } else { "are" });
        notes.push(format!("{missing} of {works} {verb} not known, and in no number below"));
    }
    notes.extend(power.works.iter().filter_map(flaws));
    notes
}

/// Describes what is wrong with the stored runs of a work.
fn flaws(work: &WorkPower) -> Option<String> {
    let Flaws { runs, kept_spoilt, spoilt, failed } = work.flaws;
    let all = counted(runs + spoilt + failed, "stored run");
    let parts = [
        (kept_spoilt, "spoilt by load from outside or steal, and counted"),
        (spoilt, "spoilt by load from outside or steal, and left out"),
        (failed, "failed"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    let text = format!("{}: {all}: {}", clean(&work.label), parts.join("; "));
    (!parts.is_empty()).then_some(text)
}

/// The command that measures the noise of the plan.
pub fn noise(power: &Power, again: &str, rounds: u32) -> String {
    let equal = if power.is_exact { "" } else { " --aa" };
    format!("{again}{equal} --rounds {rounds}{}", budget_for(power, rounds))
}

/// The option without which the plan's budget would end these rounds early.
fn budget_for(power: &Power, rounds: u32) -> String {
    let needed_ns = power.time_ns(rounds);
    let is_short = power.budget_ns.is_some_and(|budget_ns| needed_ns > budget_ns);
    // A quarter more, since runs take time to start and end.
    if is_short {
        format!(" --budget {}min", needed_ns.saturating_add(needed_ns / 4).div_ceil(60_000_000_000))
    } else {
        String::new()
    }
}

fn answer(power: &Power, again: &str, page: &mut Page) {
    let (Some(difference), Some(all)) = (power.for_difference(), power.for_all()) else { return };
    let (found, metrics) = (percent(power.difference), counted(power.comparisons, "metric"));
    let [sure, alpha] = [power.power, power.alpha].map(percent);
    let variants = counted(power.variants, "variant");
    let method = format!(
        "each verdict has a probability of {sure}; {metrics} of {variants} share an error rate of \
         {alpha}"
    );
    let (planned, own) = (Rounds::Number(power.rounds), power.found_as_planned());
    let goes_on = power.is_exact && power.planned_rounds > power.rounds;
    let more = if goes_on { ", and more while the budget lasts" } else { "" };
    let planned =
        format!("{}{more}: find {found} in {own} of {metrics}", rounds_in(power, planned));
    let to_find = format!("{found} in every metric takes {}", rounds_in(power, difference));
    page.wrapped(Tone::Plain, "method    ", &method);
    page.wrapped(Tone::Plain, "planned   ", &planned);
    page.wrapped(Tone::Plain, "to find   ", &to_find);
    let what_decides = match all {
        Rounds::Number(rounds) => {
            format!("{again} --rounds {rounds}{}", budget_for(power, rounds))
        }
        Rounds::MoreThan(_) => {
            let is_shorter = |work: &WorkPower| match &work.run_length {
                Some(LengthAdvice::Better(length)) => length.best_ns < length.planned_ns,
                _ => false,
            };
            // Shorter runs, as advised above, take no fewer rounds.
            let longer = if power.works.iter().any(is_shorter) { "" } else { ", or longer runs" };
            format!("choose metrics (--metric), or a larger --difference or --margin{longer}")
        }
    };
    let text = format!("decided after {}: {what_decides}", rounds_in(power, all));
    page.wrapped(Tone::Bold, "all       ", &text);
}

/// `from what is stored here, 3 % is found after 9 rounds in 2 of 12 metrics, and in all of them after 40 rounds,
/// 4 min 0 s; larger ones take fewer`.
/// `None`: nothing of it is stored.
pub fn in_short(power: &Power) -> Option<String> {
    let (found, metrics) = (percent(power.difference), counted(power.comparisons, "metric"));
    let found = format!("from what is stored here, {found} is found after");
    Some(match power.for_difference()? {
        Rounds::Number(needed) if needed <= power.rounds => {
            format!("{found} {} in {metrics}", counted(needed, "round"))
        }
        needed => format!(
            "{found} {} in {} of {metrics}, and in all of them after {}; larger ones take fewer",
            counted(power.rounds, "round"),
            power.found_as_planned(),
            rounds_in(power, needed)
        ),
    })
}

/// `40 rounds, 4 min 0 s`.
fn rounds_in(power: &Power, rounds: Rounds) -> String {
    let (more, rounds) = match rounds {
        Rounds::Number(rounds) => ("", rounds),
        Rounds::MoreThan(rounds) => ("more than ", rounds),
    };
    let time = phrases::time(power.time_ns(rounds));
    let clock = if power.is_exact { " of virtual time" } else { "" };
    format!("{more}{}, {more}{time}{clock}", counted(rounds, "round"))
}
