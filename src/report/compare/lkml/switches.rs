//! Why a throughput differs, in a mail: a table for each worker set whose switches a probe has
//! counted, normalised as the throughput above it, without verdicts. Pure.

use super::{Column, RULE, ascii, blocks, case, clock, first_of, laid_out, test_of, two_decimals};
use crate::compare::{Comparison, SetTable, Switches, WorkTable};
use crate::report::compare::words;
use crate::report::page::{Page, Tone};

pub fn show(comparison: &Comparison, names: &[String], page: &mut Page) {
    let time = words::time(comparison);
    for work in &comparison.works {
        for set in work.sets.iter().filter(|set| !set.switches.is_empty()) {
            table(work, set, (names, time.as_deref()), page);
            page.gap();
        }
    }
}

fn table(
    work: &WorkTable,
    set: &SetTable,
    (names, time): (&[String], Option<&str>),
    page: &mut Page,
) {
    let rule = "=".repeat(RULE);
    let case = if work.axes.is_empty() { String::new() } else { format!(", {}", case(work)) };
    page.line(Tone::Plain, &rule);
    page.wrapped(Tone::Plain, "Test          : ", &format!("{}{case}", test_of(work, set)));
    let units = format!("Normalized switches per second; /op: {}", words::per_op(&set.ops));
    page.wrapped(Tone::Plain, "Units         : ", &ascii(&units));
    page.line(Tone::Plain, "Interpretation: Explains the throughput; has no verdicts");
    page.line(Tone::Plain, "Statistic     : AMean");
    clock(time, page);
    page.line(Tone::Plain, &rule);
    let rows = rows(set);
    let column = |(side, name): (usize, &String)| {
        let cells = rows.iter().map(|(_, values)| shown(values.get(side).copied().flatten()));
        Column::new(format!("{name}[%diff]"), cells)
    };
    let columns: Vec<Column> = names.iter().enumerate().map(column).collect();
    let first = first_of("Switches:", rows.iter().map(|(name, _)| ascii(name)), &columns);
    for (at, block) in blocks(first.width, &columns).into_iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        laid_out(&first, &block, page, |_| "");
    }
}

/// What each row is called, and its values over the baseline's.
fn rows(set: &SetTable) -> Vec<(String, Vec<Option<f64>>)> {
    let throughput = set.throughput().map(|row| (row.metric.clone(), row.normalised()));
    let of = |own: &Switches| {
        let kind = words::kind(own);
        let name = format!("{}_{kind}", own.role.replace(' ', "_"));
        [(name.clone(), own.row.normalised()), (format!("{name}/op"), own.normalised_per_op())]
    };
    throughput.into_iter().chain(set.switches.iter().flat_map(of)).collect()
}

/// `0.02 [-98%]`.
fn shown(normalised: Option<f64>) -> String {
    let Some(normalised) = normalised else { return "-".to_string() };
    let percent = format!("[{}%]", whole(100.0 * (normalised - 1.0)));
    format!("{} {percent:>7}", two_decimals(normalised))
}

/// Without a sign of zero.
fn whole(percent: f64) -> String {
    match percent.abs() < 1e6 {
        true => format!("{:.0}", percent.round() + 0.0),
        false => format!("{percent:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_as_in_the_mail_that_this_follows() {
        let cases = [
            (Some(1.0), "1.00    [0%]"),
            (Some(0.02), "0.02  [-98%]"),
            (Some(3.2), "3.20  [220%]"),
            (Some(0.999), "1.00    [0%]"),
            (Some(0.0), "0.00 [-100%]"),
            (None, "-"),
        ];
        for (ratio, expected) in cases {
            assert_eq!(shown(ratio), expected);
        }
    }
}
