//! The options that name metrics and their margins: shared by `run`, `report` and `compare`.

use clap::Args;

use crate::model::{Judged, MARGIN_PARTS, clean};
use crate::session::Problem;

use super::help;

const MIN_MARGIN_PERCENT: f64 = 0.001;

#[derive(Args, Clone, Default)]
pub struct Judging {
    /// Call differences below this SAME: 2%, or for one metric throughput=1%; may be repeated [default: 2%, and
    /// 10% of tail latencies (p99 and beyond)]
    #[arg(help_heading = help::VERDICTS, long, value_name = "PERCENT", value_parser = parse_margin)]
    margin: Vec<(Option<String>, f64)>,
    /// Judge these in place of the headline metrics: NAME, SET/NAME, WORK/NAME or WORK/SET/NAME, with * for
    /// anything; may be repeated. `all`: every other metric too, as a second family; not in plan-power
    #[arg(help_heading = help::VERDICTS, long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Compare runs of different backends or guests too: a host with the lab
    #[arg(long, help_heading = help::SELDOM)]
    mixed: bool,
}

impl Judging {
    pub fn judged(&self) -> Judged {
        Judged::new(self.margin.clone(), self.metric.clone(), self.mixed)
    }
}

/// `2%` or `throughput=2%`: from 0.001 % to 100 %.
fn parse_margin(text: &str) -> Result<(Option<String>, f64), Problem> {
    let shown = clean(text);
    if text.contains("%,") {
        let repeated: Vec<String> =
            text.split(',').map(|part| format!("--margin {}", clean(part))).collect();
        let repeated = repeated.join(" ");
        let hint = format!("repeat the option: {repeated}");
        return Err(Problem::new(format!("`{shown}` is several margins"), hint));
    }
    let (metric, number) = match text.rsplit_once('=') {
        Some((metric, number)) => (Some(metric.to_string()), number),
        None => (None, text),
    };
    let wrong = || {
        let hint = format!("2% or throughput=1%, from {MIN_MARGIN_PERCENT}% to 100%");
        Problem::new(format!("`{shown}` is not a margin"), hint)
    };
    let percent: f64 =
        number.strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    if !(MIN_MARGIN_PERCENT..=100.0).contains(&percent) || metric.as_deref() == Some("") {
        return Err(wrong());
    }
    Ok((metric, (percent * MARGIN_PARTS).round() / MARGIN_PARTS / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_percents_of_all_or_of_one_metric() {
        assert_eq!(parse_margin("2%"), Ok((None, 0.02)));
        assert_eq!(parse_margin("a/b=0.5 %"), Ok((Some("a/b".to_string()), 0.005)));
        assert_eq!(parse_margin("0.001%"), Ok((None, 0.00001)));
        assert_eq!(parse_margin("1.23456789%"), Ok((None, 0.012346)));
        for wrong in ["2", "%", "0%", "-1%", "101%", "nan%", "=2%", "x=y", "", "1e-300%", "0.0009%"]
        {
            let said = parse_margin(wrong).unwrap_err().to_string();
            assert!(said.ends_with("from 0.001% to 100%"), "{wrong}: {said}");
        }
        let text = parse_margin("a/b=1%,fairness=2%").unwrap_err().to_string();
        assert!(
            text.ends_with("repeat the option: --margin a/b=1% --margin fairness=2%"),
            "{text}"
        );
    }

    #[test]
    fn margins_are_written_back_as_they_hold() {
        for text in ["2%", "0.001%", "throughput=0.0015%", "7%", "100%", "1.2346%"] {
            let margin = vec![parse_margin(text).unwrap()];
            let words = Judging { margin, metric: Vec::new(), mixed: false }.judged().words();
            assert_eq!(words, format!(" --margin {text}"));
        }
    }
}
