//! Renders what a plan's rounds find and how many it takes: `schedlab plan-power`. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Options;
use super::layout::{Page, Tone, clean, truncate};
use super::numbers::significant;
use super::phrases;
use crate::analysis::{MetricPower, Power, WorkPower};
use crate::stats::Rounds;

const GAP: usize = 2;
/// Columns next to the metric's name.
const COLUMNS: usize = 6;
/// What the numbers take next to it.
const NUMBERS: usize = 60;
/// A spread from fewer ratios is known to a third, more or less.
const FEW_RATIOS: usize = 10;

/// Writes the tables. `again` is the command that runs the plan, without its rounds. Fails only
/// where `out` does.
pub fn render(
    power: &Power,
    again: &str,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    let few = power.rows().filter(|row| row.ratios < FEW_RATIOS).count();
    for work in &power.works {
        work_table(power, work, again, options, &mut page);
        page.gap();
    }
    if power.comparisons > 0 {
        method(power, &mut page);
    }
    if few > 0 {
        let text = format!(
            "{few} of these spreads come from fewer than {FEW_RATIOS} ratios, and are known to a \
             third, more or less: {again} --aa --rounds {FEW_RATIOS}"
        );
        page.wrapped(Tone::Warning, "note      ", &text);
    }
    floors(power, again, &mut page);
    last_lines(power, again, &mut page);
    out.write_all(page.text().as_bytes())
}

fn work_table(power: &Power, work: &WorkPower, again: &str, options: &Options, page: &mut Page) {
    page.wrapped(Tone::Bold, "== ", &clean(&work.label));
    if let Some(why) = &work.missing {
        let text = format!("{}; hint: {again} --aa --rounds {FEW_RATIOS}", phrases::not_known(why));
        page.wrapped(Tone::Warning, "not known: ", &text);
        return;
    }
    let room = options.columns().saturating_sub(NUMBERS).max(12);
    let several = work.rows.iter().any(|row| row.set != work.rows[0].set);
    let name = |row: &MetricPower| match several {
        true => clean(&format!("{} {}", row.set, row.metric)),
        false => clean(&row.metric),
    };
    let heads = [
        [
            "".into(),
            "".into(),
            "smallest at".into(),
            "rounds for".into(),
            "rounds".into(),
            "".into(),
        ],
        [
            "metric".to_string(),
            "sd".to_string(),
            format!("{} rounds", power.rounds),
            percent(power.difference),
            "for SAME".to_string(),
            "from".to_string(),
        ],
    ];
    let rows = work.rows.iter().map(|row| {
        let smallest = row.smallest.map_or("-".to_string(), share);
        let (rounds, same) = (number(row.for_difference), number(row.for_same));
        let name = truncate(&name(row), room);
        [name, share(row.sd_ln.exp_m1()), smallest, rounds, same, from(row)]
    });
    let lines: Vec<[String; COLUMNS]> = heads.into_iter().chain(rows).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    for (at, line) in lines.iter().enumerate() {
        if at == 2 {
            let all = widths.iter().sum::<usize>() + GAP * (COLUMNS - 1);
            page.line(Tone::Plain, &"-".repeat(all));
        }
        page.line(Tone::Plain, &laid_out(line, &widths));
    }
}

/// The first column begins where it begins, the others end where they end.
fn laid_out(cells: &[String; COLUMNS], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width.saturating_sub(cell.width()));
        match at {
            0 => line.push_str(&format!("{cell}{pad}")),
            _ => line.push_str(&format!("{:GAP$}{pad}{cell}", "")),
        }
    }
    line.trim_end().to_string()
}

fn from(row: &MetricPower) -> String {
    format!("{} {}", row.ratios, if row.aa { "A/A" } else { "ratios" })
}

fn share(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.005 => "<0.01 %".to_string(),
        percent if percent >= 999.5 => ">999 %".to_string(),
        percent => format!("{} %", significant(percent, 2)),
    }
}

fn number(rounds: Rounds) -> String {
    match rounds {
        Rounds::Number(rounds) => rounds.to_string(),
        Rounds::MoreThan(rounds) => format!(">{rounds}"),
    }
}

fn method(power: &Power, page: &mut Page) {
    let text = format!(
        "sd of the ratios within rounds; each verdict with probability {}, at an error rate of \
         {} shared by {} of {}",
        percent(power.power),
        percent(power.alpha),
        counted(power.comparisons, "metric"),
        counted(power.variants, "variant"),
    );
    page.wrapped(Tone::Plain, "method    ", &text);
    if power.rounds < power.min_rounds {
        let text = format!(
            "{} are fewer than the {} that this cautious estimate takes for so many metrics; \
             metrics that move together may show large differences earlier",
            counted(power.rounds as usize, "round"),
            power.min_rounds,
        );
        page.wrapped(Tone::Plain, "note      ", &text);
    }
}

/// Where a difference is found and yet not called.
fn floors(power: &Power, again: &str, page: &mut Page) {
    let floors = power.rows().map(|row| row.floor).filter(|floor| *floor >= power.difference);
    let floors: Vec<f64> = floors.collect();
    let Some(floor) = floors.iter().copied().max_by(f64::total_cmp) else { return };
    let rounds = power.for_difference().map_or(String::new(), number);
    let text = format!(
        "floors of {} are not below {} (up to {}) after the newest A/A plan, and less than its \
         floor is never called BETTER or WORSE; one of as many rounds has lower ones: {again} \
         --aa --rounds {}",
        counted(floors.len(), "metric"),
        percent(power.difference),
        share(floor),
        rounds.trim_start_matches('>'),
    );
    page.wrapped(Tone::Warning, "note      ", &text);
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

fn counted(count: usize, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

fn last_lines(power: &Power, again: &str, page: &mut Page) {
    let missing = power.works.iter().filter(|work| work.missing.is_some()).count();
    if missing > 0 {
        let text = format!(
            "{} of {} not known: they take more rounds of their own, and of the others",
            counted(missing, "work"),
            power.works.len(),
        );
        page.wrapped(Tone::Warning, "note      ", &text);
    }
    let (Some(difference), Some(all)) = (power.for_difference(), power.for_all()) else { return };
    let found = percent(power.difference);
    let (own, of) = (power.found_as_planned(), counted(power.comparisons, "metric"));
    let planned = rounds_in(power, Rounds::Number(power.rounds));
    let text = format!("{planned}: find {found} in {own} of {of}");
    page.wrapped(Tone::Plain, "planned   ", &text);
    let text = format!("{found} in every metric takes {}", rounds_in(power, difference));
    page.wrapped(Tone::Plain, "to find   ", &text);
    let text = match all {
        Rounds::Number(rounds) => {
            format!("{}: {again} --rounds {rounds}", rounds_in(power, all))
        }
        Rounds::MoreThan(_) => format!(
            "{}: choose metrics (--metric), a larger --difference or --margin, or longer runs",
            rounds_in(power, all)
        ),
    };
    page.wrapped(Tone::Bold, "all       ", &format!("decided after {text}"));
}

fn rounds_in(power: &Power, rounds: Rounds) -> String {
    match rounds {
        Rounds::Number(rounds) => {
            format!("{}, {}", counted(rounds as usize, "round"), time(power, rounds))
        }
        Rounds::MoreThan(rounds) => {
            format!("more than {rounds} rounds, more than {}", time(power, rounds))
        }
    }
}

/// Two units, rounded up: `1 h 20 min`.
fn time(power: &Power, rounds: u32) -> String {
    let s = power.time_ns(rounds).div_ceil(1_000_000_000);
    let min = s.div_ceil(60);
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{min} min"),
        _ => format!("{} h {} min", min / 60, min % 60),
    }
}
