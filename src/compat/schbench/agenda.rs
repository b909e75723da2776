//! The duties at each second of a run. Pure: seconds in, duties out.
//!
//! The order at one second is schbench's: the end of the warm-up, or a sample of requests per
//! second and perhaps a report; then perhaps zeroing. A late poll does the duties of all the
//! seconds that it missed, each once.

use super::{Mode, RunConfig};

const NS_PER_S: u64 = 1_000_000_000;
/// A rate over less time than this is not a sample of a second.
pub const MIN_SAMPLE_NS: u64 = NS_PER_S / 2;

#[derive(Debug)]
pub struct Agenda {
    is_pipe: bool,
    runtime_s: Option<u64>,
    /// Until the warm-up has ended.
    warmup_s: Option<u64>,
    interval_s: u64,
    reported_s: u64,
    zero_s: Option<u64>,
    zeroed_s: u64,
    /// With `--auto-rps`, until the target was hit.
    seeks: bool,
}

/// The duties of one second, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// Say so, and zero all figures.
    pub ends_warmup: bool,
    /// The rate since the last poll is a sample.
    pub samples: bool,
    /// Print the figures so far.
    pub reports: bool,
    /// Zero all figures.
    pub zeroes: bool,
    pub ends: bool,
}

impl Agenda {
    pub fn new(config: &RunConfig) -> Agenda {
        Agenda {
            is_pipe: matches!(config.mode, Mode::Pipe { .. }),
            runtime_s: config.runtime_s,
            warmup_s: Some(config.warmup_s).filter(|&seconds| seconds > 0),
            interval_s: config.interval_s,
            reported_s: 0,
            zero_s: config.zero_s,
            zeroed_s: 0,
            seeks: config.auto_rps,
        }
    }

    /// The second of the next poll, after one at `at_ns` since the start: the next whole one
    /// that is far enough away for a sample, but not beyond the end.
    pub fn next(&self, at_ns: u64) -> u64 {
        let second = (at_ns + MIN_SAMPLE_NS) / NS_PER_S + 1;
        self.runtime_s.map_or(second, |runtime_s| second.min(runtime_s))
    }

    /// The duties of a poll `second` seconds after the start; each call is later than the one
    /// before. `settled`: whether `--auto-rps` has hit its target.
    pub fn at(&mut self, second: u64, settled: bool) -> Duties {
        let ends = self.runtime_s.is_some_and(|runtime_s| second >= runtime_s);
        let mut duties = Duties { ends, ..Duties::default() };
        if self.warmup_s.is_some_and(|warmup_s| second >= warmup_s) && !ends {
            self.warmup_s = None;
            self.zeroed_s = second;
            duties.ends_warmup = true;
        } else if !self.is_pipe {
            // The second in which the target is hit still belongs to the seeking.
            duties.samples = !self.seeks;
            duties.reports = second - self.reported_s >= self.interval_s;
        }
        self.seeks &= !settled;
        if duties.reports {
            self.reported_s = second;
        }
        // The last figures are printed after the end, so zeroing would lose them.
        if !ends && self.zero_s.is_some_and(|zero_s| second - self.zeroed_s >= zero_s) {
            self.zeroed_s = second;
            duties.zeroes = true;
        }
        duties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agenda() -> Agenda {
        Agenda {
            is_pipe: false,
            runtime_s: Some(30),
            warmup_s: None,
            interval_s: 10,
            reported_s: 0,
            zero_s: None,
            zeroed_s: 0,
            seeks: false,
        }
    }

    /// The seconds at which each duty fell due, at the given polls.
    fn duties_of(mut agenda: Agenda, polls: impl Iterator<Item = u64>, settled_at: u64) -> String {
        let mut lines = Vec::new();
        for second in polls {
            let duties = agenda.at(second, second >= settled_at);
            let words = [
                (duties.ends_warmup, "warm"),
                (!duties.samples, "no-sample"),
                (duties.reports, "report"),
                (duties.zeroes, "zero"),
                (duties.ends, "end"),
            ];
            let due: Vec<&str> =
                words.iter().filter(|(due, _)| *due).map(|(_, word)| *word).collect();
            if !due.is_empty() {
                lines.push(format!("{second} {}", due.join(" ")));
            }
        }
        lines.join(", ")
    }

    #[test]
    fn each_duty_falls_due_at_its_seconds() {
        let short = |seconds| Agenda { runtime_s: Some(seconds), interval_s: 2, ..agenda() };
        let cases: Vec<(Agenda, &str)> = vec![
            (agenda(), "10 report, 20 report, 30 report end"),
            (short(5), "2 report, 4 report, 5 end"),
            (Agenda { runtime_s: None, ..short(0) }, "2 report, 4 report, 6 report"),
            (Agenda { is_pipe: true, ..short(2) }, "1 no-sample, 2 no-sample end"),
            (Agenda { zero_s: Some(3), ..short(6) }, "2 report, 3 zero, 4 report, 6 report end"),
            // The end of the warm-up replaces a report, which then comes a second later.
            (
                Agenda { warmup_s: Some(4), zero_s: Some(3), ..short(8) },
                "2 report, 3 zero, 4 warm no-sample, 5 report, 7 report zero, 8 end",
            ),
            (Agenda { warmup_s: Some(9), ..short(3) }, "2 report, 3 end"),
            (Agenda { warmup_s: Some(3), ..short(3) }, "2 report, 3 end"),
        ];
        for (agenda, expected) in cases {
            let seconds = agenda.runtime_s.unwrap_or(6);
            let shown = format!("{agenda:?}");
            assert_eq!(duties_of(agenda, 1..=seconds, 0), expected, "{shown}");
        }
    }

    #[test]
    fn after_a_late_poll_the_next_is_at_a_whole_second_half_a_second_away_or_the_end() {
        let agenda = Agenda { runtime_s: Some(5), ..agenda() };
        let cases = [
            (0, 1),
            (1_000_050_000, 2),
            (1_499_999_999, 2),
            (1_500_000_000, 3),
            (4_900_000_000, 5),
        ];
        for (at_ns, second) in cases {
            assert_eq!(agenda.next(at_ns), second, "{at_ns}");
        }
        assert_eq!(Agenda { runtime_s: None, ..agenda }.next(4_900_000_000), 6);
    }

    #[test]
    fn rates_count_from_the_second_after_the_target_was_hit() {
        let seeking = Agenda { seeks: true, interval_s: 100, ..agenda() };
        assert_eq!(duties_of(seeking, 1..=6, 3), "1 no-sample, 2 no-sample, 3 no-sample");
    }

    #[test]
    fn a_late_poll_does_what_it_missed_once() {
        let late = Agenda { zero_s: Some(2), interval_s: 2, runtime_s: Some(20), ..agenda() };
        assert_eq!(
            duties_of(late, [1, 9, 10, 11, 25].into_iter(), 0),
            "9 report zero, 11 report zero, 25 report end"
        );
        let warm = Agenda { warmup_s: Some(3), runtime_s: None, ..agenda() };
        assert_eq!(duties_of(warm, [2, 7, 8].into_iter(), 0), "7 warm no-sample");
    }
}
