//! `csv` of a comparison: one row per work, set, metric and side, for spreadsheets, R and
//! pandas. Columns are told in docs/report-formats.md. Pure.

use std::io::{self, Write};

use csv::Writer;

use super::words::Needed;
use super::{Format, words};
use crate::compare::{Cell, Comparison, Row, SetTable, Side, Switches, WorkTable};
use crate::report::Options;
use crate::report::json::word;
use crate::stats::Judged;

const COLUMNS: [&str; 29] = [
    "work",
    "set",
    "workload",
    "metric",
    "unit",
    "direction",
    "side",
    "baseline",
    "n",
    "mean",
    "hmean",
    "median",
    "cv",
    "ratio",
    "low",
    "high",
    "pairs",
    "verdict",
    "why",
    "rounds",
    "p_difference",
    "p_same",
    "decided_at",
    "shapes",
    "note",
    "normalised",
    "per_op",
    "normalised_per_op",
    "time",
];

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "one row per work, set, metric and side, in full precision"
    }

    fn render(&self, comparison: &Comparison, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer::from_writer(out);
        writer.write_record(COLUMNS).map_err(plain)?;
        for (work, set) in words::sets(comparison) {
            let mut rows: Vec<&Row> = set.rows.iter().collect();
            for own in &set.switches {
                if !rows.iter().any(|row| row.metric == own.row.metric) {
                    rows.push(&own.row);
                }
            }
            for row in rows {
                let switches = set.switches.iter().find(|own| own.row.metric == row.metric);
                for line in lines(comparison, (work, set, row), switches) {
                    writer.write_record(&line).map_err(plain)?;
                }
            }
        }
        writer.flush()
    }
}

/// One of each side.
fn lines(
    comparison: &Comparison,
    (work, set, row): (&WorkTable, &SetTable, &Row),
    switches: Option<&Switches>,
) -> Vec<Vec<String>> {
    let normalised = row.normalised();
    let over_per_op = switches.map(Switches::normalised_per_op);
    let line = |(at, (side, cell)): (usize, (&Side, &Cell))| {
        let mut fields = place(work, set, row);
        fields.extend([side.label.clone(), (at == 0).to_string()]);
        fields.extend(values(cell));
        fields.extend(judged(cell.judged.as_ref()));
        fields.push(words::shapes(comparison, row, cell).join("; "));
        let why = cell.judged.as_ref();
        let why = why.and_then(|found| words::why(&found.verdict, &comparison.method));
        fields.push(why.unwrap_or_default());
        let of = |values: Option<&Vec<Option<f64>>>| {
            number(values.and_then(|values| values.get(at).copied().flatten()))
        };
        fields.push(of(Some(&normalised)));
        fields.push(of(switches.map(|own| &own.per_op)));
        fields.push(of(over_per_op.as_ref()));
        fields.push(side.times.word().unwrap_or_default().to_string());
        fields
    };
    comparison.sides.iter().zip(&row.cells).enumerate().map(line).collect()
}

fn place(work: &WorkTable, set: &SetTable, row: &Row) -> Vec<String> {
    let (unit, direction) = (word(&row.unit), word(&row.direction));
    let names = [&work.label, &set.name, &set.workload, &row.metric, &unit, &direction];
    names.map(String::clone).to_vec()
}

/// What is not known is empty.
fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn values(cell: &Cell) -> [String; 5] {
    let Cell { values, mean, hmean, median, cv, judged: _, shapes: _ } = cell;
    let [mean, hmean, median, cv] = [mean, hmean, median, cv].map(|value| number(*value));
    [values.len().to_string(), mean, hmean, median, cv]
}

fn judged(judged: Option<&Judged>) -> [String; 10] {
    let Some(Judged { ratio, verdict, p_difference, p_same, decided_at }) = judged else {
        return Default::default();
    };
    let ratio = ratio.ok();
    let interval = ratio.and_then(|ratio| ratio.interval);
    let (word, why) = words::keys(verdict);
    let rounds = words::rounds(verdict).map(|rounds| match rounds {
        Needed::About(rounds) => rounds.to_string(),
        bound @ (Needed::MoreThan(_) | Needed::AtLeast(_)) => words::show_rounds(bound),
    });
    [
        number(ratio.map(|ratio| ratio.ratio)),
        number(interval.map(|interval| interval.low)),
        number(interval.map(|interval| interval.high)),
        ratio.map(|ratio| ratio.pairs.to_string()).unwrap_or_default(),
        word.to_string(),
        why.unwrap_or_default().to_string(),
        rounds.unwrap_or_default(),
        number(*p_difference),
        number(*p_same),
        decided_at.map(|round| round.to_string()).unwrap_or_default(),
    ]
}

/// The error of the file below: its kind tells a closed pipe from a full disk.
fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("csv: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing;
    use crate::stats::{Rounds, Why};
    use std::collections::BTreeMap;

    /// Rows by column name, as a reader of the format gets them.
    fn parsed(comparison: &Comparison) -> Vec<BTreeMap<String, String>> {
        let text = testing::render(&Csv, comparison, Options::default());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().map(|row| row.expect("a row of the header's length")).collect()
    }

    fn told<'a>(
        rows: &'a [BTreeMap<String, String>],
        of: &[&str; 2],
        columns: &[&str],
    ) -> Vec<&'a str> {
        let row = rows.iter().find(|row| row["metric"] == of[0] && row["side"] == of[1]);
        columns.iter().map(|column| row.unwrap()[*column].as_str()).collect()
    }

    #[test]
    fn a_row_for_each_side_of_each_metric() {
        let rows = parsed(&testing::ordinary());
        assert_eq!(rows.len(), 16);
        let columns = ["work", "set", "workload", "unit", "direction", "baseline", "n", "cv"];
        let baseline = told(&rows, &["switches", "default"], &columns);
        assert_eq!(
            baseline[..7],
            ["web threads=4", "web", "schbench", "per_s", "neutral", "true", "10"]
        );
        assert!(baseline[7].len() > 10, "full precision: {}", baseline[7]);
        let columns =
            ["ratio", "low", "high", "pairs", "verdict", "why", "rounds", "p_difference", "p_same"];
        assert_eq!(told(&rows, &["wakeup_p99", "default"], &columns), [""; 9]);
        assert_eq!(
            told(&rows, &["wakeup_p99", "batch"], &columns),
            ["0.5964", "0.5721", "0.6216", "10", "better", "", "", "0.00123", "1"]
        );
        assert_eq!(
            told(&rows, &["request_p99", "batch"], &columns[4..7]),
            ["inconclusive", "noise", "31"]
        );
        assert_eq!(told(&rows, &["switches", "batch"], &columns[4..6]), ["unjudged", "neutral"]);
    }

    #[test]
    fn what_is_not_known_is_empty() {
        let rows = parsed(&testing::troubled());
        let of = ["misses", "6.18.5-lavd"];
        let columns =
            ["n", "mean", "hmean", "median", "cv", "ratio", "low", "pairs", "verdict", "why"];
        assert_eq!(
            told(&rows, &of, &columns),
            ["0", "", "", "", "", "", "", "", "unjudged", "no_ratio"]
        );
        assert_eq!(told(&rows, &of, &["note"]), ["no ratio: no round has a value of both"]);
        assert_eq!(told(&rows, &["misses", "6.6.87-cfs"], &["hmean", "mean"])[0], "", "one is 0");
        let of = ["throughput", "6.18.5-lavd"];
        assert_eq!(told(&rows, &of, &["rounds", "why"]), [">1000", "same_only_alone"]);
        let of = ["wakeup_p99", "6.6.87-cfs"];
        assert_eq!(
            told(&rows, &of, &["shapes"]),
            ["two modes, 12.0 ms and 31.0 ms (4 of 10 values)"]
        );
    }

    #[test]
    fn a_side_in_the_lab_tells_its_clock() {
        let rows = parsed(&testing::in_the_lab(2));
        assert_eq!(told(&rows, &["wakeup_p99", "default"], &["time"]), ["exact"]);
        assert_eq!(told(&rows, &["wakeup_p99", "batch"], &["time"]), ["not_exact"]);
        assert_eq!(told(&parsed(&testing::ordinary()), &["wakeup_p99", "batch"], &["time"]), [""]);
    }

    #[test]
    fn names_with_separators_and_line_ends_read_back() {
        let hostile = "a,\"b\"\n\x1b[2J=1+1";
        let rows = parsed(&testing::hostile(hostile));
        assert_eq!(rows.len(), 16);
        for column in ["work", "set", "workload", "metric", "side"] {
            assert_eq!(rows[2][column], hostile, "{column}");
        }
    }

    #[test]
    fn switches_have_rows_without_verdicts() {
        let rows = parsed(&testing::explained());
        assert_eq!(rows.len(), 16 + 8);
        let columns = ["unit", "direction", "n", "ratio", "verdict", "normalised_per_op"];
        let metric = "worker_voluntary_switches";
        assert_eq!(
            told(&rows, &[metric, "batch"], &columns),
            ["per_s", "neutral", "10", "", "", "0.02"]
        );
        assert_eq!(told(&rows, &[metric, "default"], &["per_op", "normalised"]), ["2", "1"]);
        let metric = "message_involuntary_switches";
        let columns = ["per_op", "normalised", "normalised_per_op"];
        assert_eq!(told(&rows, &[metric, "batch"], &columns), ["0.0027", "", ""]);
        let throughput = told(&rows, &["throughput", "default"], &columns);
        assert_eq!(throughput, ["", "1", ""]);
        // What was asked for by name has its row once.
        let mut asked = testing::explained();
        let set = &mut asked.works[0].sets[0];
        set.rows.push(set.switches[0].row.clone());
        assert_eq!(parsed(&asked).len(), 16 + 8);
    }

    /// A reason that is added does not compile until it is here, too.
    #[test]
    fn every_reason_is_documented() {
        let page = include_str!("../../../docs/report-formats.md");
        let (_, page) = page.split_once("### csv of a comparison").unwrap();
        let row = page.lines().find(|line| line.starts_with("| `why` |")).unwrap();
        let whys = [
            Why::TooFewRounds { least: 6 },
            Why::OnlyAlone,
            Why::SameOnlyAlone,
            Why::BelowFloor { floor: 0.1 },
            Why::Noise,
        ];
        for why in whys {
            match why {
                Why::TooFewRounds { .. } | Why::BelowFloor { .. } => {}
                Why::OnlyAlone | Why::SameOnlyAlone | Why::Noise => {}
            }
            let (_, key) = words::keys(&testing::open(why, Rounds::Number(9)));
            let key = key.expect("a reason");
            assert!(row.contains(&format!("`{key}`")), "docs/report-formats.md lacks `{key}`");
        }
    }

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../docs/report-formats.md");
        let (_, page) = page.split_once("### csv of a comparison").unwrap();
        for column in COLUMNS {
            assert!(
                page.contains(&format!("`{column}`")),
                "docs/report-formats.md lacks `{column}`"
            );
        }
    }
}
