//! Verdicts of whole plans as the engine measures them: works that stop when they are decided, rounds that
//! other load disturbs, rounds that are added after an end. Thousands of made-up plans with known truth.
//! Seeded: the same figures each time.

use schedlab::model::{Direction, LookRule};
use schedlab::stats::{Comparison, Family, Judged, Rounds, Schedule, Verdict, judge, replay};

use super::verdicts::exceeds;
use super::{Figure, Reach, Row, beyond, same};
use schedlab::stats::simulate::{Noise, Random};

/// Plans of a row.
const PLANS: u32 = 2_000;
pub const VARIANTS: usize = 2;

/// A metric of a work: how much a run of it scatters, and the true ratio of each variant.
pub struct Metric {
    work: usize,
    pub cv: f64,
    ratios: [f64; VARIANTS],
    pub is_latency: bool,
}

const fn rate(work: usize, cv: f64, ratios: [f64; VARIANTS]) -> Metric {
    Metric { work, cv, ratios, is_latency: false }
}

const fn p99(work: usize, cv: f64, ratios: [f64; VARIANTS]) -> Metric {
    Metric { work, cv, ratios, is_latency: true }
}

const WORKS: usize = 4;
/// The headline metrics of the built-in plan `quick`: web, mix (heavy and light), chat and
/// ping-pong, under batch and under a short slice. Ratios as seen on a virtual machine with two
/// CPUs, scatter as assumed for runs of 0.4 s.
pub const QUICK: [Metric; 11] = [
    rate(0, 0.020, [0.909, 0.982]),
    p99(0, 0.100, [1.71, 1.086]),
    p99(0, 0.050, [0.88, 1.10]),
    rate(1, 0.030, [1.069, 0.99]),
    p99(1, 0.080, [2.0, 0.75]),
    rate(1, 0.025, [0.652, 1.056]),
    p99(1, 0.060, [1.5, 0.66]),
    rate(2, 0.020, [1.046, 1.0]),
    p99(2, 0.060, [1.09, 1.0]),
    rate(3, 0.015, [1.08, 1.0]),
    p99(3, 0.050, [0.93, 1.0]),
];
/// Rounds of `quick` in 120 s if no work stops earlier.
const QUICK_ROUNDS: u32 = 21;

#[derive(Clone, Copy)]
struct Simulation {
    /// Whether the variants have the ratios of the metrics, or change nothing.
    is_changed: bool,
    noise: Noise,
    /// Factor on the scatter of the metrics.
    scatter: f64,
    latency_margin: f64,
    /// Probability that other load disturbs a run.
    spoilt: f64,
    machine: Machine,
    /// Whether the first metric of each work stands for all explaining ones: only the others decide when the
    /// work stops, and only the first is judged.
    is_second_family: bool,
    /// Whether a work gives up its time once each of its open metrics would take twice the rounds of the budget.
    gives_up: bool,
    rule: Rule,
}

/// How a machine changes from run to run in ways that nothing shows, so that no run is left out for it.
#[derive(Clone, Copy)]
struct Machine {
    /// Probability that a work changes between two speeds before a run: it stays there for some runs.
    state_change: f64,
    /// Probability that a burst of stolen time begins before a run; it lasts for up to eight.
    burst: f64,
    /// Correlation of the speed from one run to the next.
    memory: f64,
}

const STEADY: Machine = Machine { state_change: 0.0, burst: 0.0, memory: 0.0 };
const STATES: Machine = Machine { state_change: 0.1, ..STEADY };
const BURSTS: Machine = Machine { burst: 0.05, ..STEADY };
const MEMORY: Machine = Machine { memory: 0.8, ..STEADY };
const RESTLESS: Machine = Machine { state_change: 0.1, burst: 0.05, memory: 0.8 };

impl Machine {
    /// The logarithm of the speed of each work's runs of a round, the runs in a random order.
    fn speeds(&self, seed: u64, rounds: u32) -> Vec<[[f64; VARIANTS + 1]; WORKS]> {
        const SLOW: f64 = -0.15;
        const MAX_STOLEN: f64 = 0.3;
        const SCATTER: f64 = 0.03;
        let mut random = Random::new(!seed);
        let (mut is_slow, mut level, mut burst) = ([false; WORKS], 0.0, (0, 0.0));
        let mut order: Vec<usize> = (0..WORKS * (VARIANTS + 1)).collect();
        let round = |_| {
            let mut speeds = [[0.0; VARIANTS + 1]; WORKS];
            random.shuffle(&mut order);
            for cell in &order {
                let (work, variant) = (cell / (VARIANTS + 1), cell % (VARIANTS + 1));
                is_slow[work] ^= random.uniform() < self.state_change;
                if burst.0 == 0 && random.uniform() < self.burst {
                    burst = ((8.0 * random.uniform()).ceil() as u32, MAX_STOLEN * random.uniform());
                }
                let stolen = if burst.0 > 0 { burst.1 } else { 0.0 };
                burst.0 = burst.0.saturating_sub(1);
                level = self.memory * level + (1.0 - self.memory.powi(2)).sqrt() * random.normal();
                let level = if self.memory > 0.0 { SCATTER * level } else { 0.0 };
                let state = if is_slow[work] { SLOW } else { 0.0 };
                speeds[work][variant] = state - stolen + level;
            }
            speeds
        };
        (0..rounds).map(round).collect()
    }
}

#[derive(Clone, Copy)]
enum Rule {
    /// This many clean rounds, and one look.
    Fixed(u32),
    /// Until it is decided, within the time of `budget` rounds of all works; if something is still open,
    /// `added` more rounds.
    UntilDecided { budget: u32, added: u32 },
}

/// The program's default margins: for throughputs, and for latencies.
pub const MARGINS: [f64; 2] = [0.02, TAIL_MARGIN];
const TAIL_MARGIN: f64 = schedlab::analysis::TAIL_MARGIN;

const A_A: Simulation = Simulation {
    is_changed: false,
    noise: Noise::Normal,
    scatter: 1.0,
    latency_margin: TAIL_MARGIN,
    spoilt: 0.0,
    machine: STEADY,
    is_second_family: false,
    gives_up: false,
    rule: Rule::UntilDecided { budget: QUICK_ROUNDS, added: 0 },
};
const FIXED: Simulation = Simulation { rule: Rule::Fixed(QUICK_ROUNDS), ..A_A };
/// The scatter is so small that works turn out to be the same and stop one by one.
const STILL: Simulation =
    Simulation { scatter: 0.45, rule: Rule::UntilDecided { budget: 40, added: 0 }, ..A_A };

pub const ROWS: [Row; 34] = [
    same("A/A headline: 21 rounds, normal", || FIXED.alarms(Noise::Normal)),
    same("A/A headline: 21 rounds, log-normal", || FIXED.alarms(Noise::LogNormal)),
    same("A/A headline: 21 rounds, heavy tails", || FIXED.alarms(Noise::HeavyTailed)),
    same("A/A headline: 21 rounds, two modes", || FIXED.alarms(Noise::Bimodal)),
    same("A/A until decided: quick, normal", || A_A.alarms(Noise::Normal)),
    same("A/A until decided: quick, log-normal", || A_A.alarms(Noise::LogNormal)),
    same("A/A until decided: quick, heavy tails", || A_A.alarms(Noise::HeavyTailed)),
    same("A/A until decided: quick, two modes", || A_A.alarms(Noise::Bimodal)),
    same("A/A until decided: works stop one by one, normal", || STILL.alarms(Noise::Normal)),
    same("A/A until decided: works stop one by one, log-normal", || STILL.alarms(Noise::LogNormal)),
    same("A/A until decided: works stop one by one, heavy tails", || {
        STILL.alarms(Noise::HeavyTailed)
    }),
    same("A/A until decided: second family, works stop one by one", || {
        Simulation { is_second_family: true, ..STILL }.alarms(Noise::Normal)
    }),
    same("A/A until decided: works without hope give up", || {
        Simulation { gives_up: true, ..A_A }.alarms(Noise::Normal)
    }),
    same("A/A until decided: 20 rounds added where open", || {
        let rule = Rule::UntilDecided { budget: QUICK_ROUNDS, added: 20 };
        Simulation { rule, ..A_A }.alarms(Noise::HeavyTailed)
    }),
    same("A/A spoilt rounds dropped: 21 clean rounds", || {
        Simulation { spoilt: 0.15, ..FIXED }.alarms(Noise::Normal)
    }),
    same("A/A spoilt rounds dropped: quick, normal", || {
        Simulation { spoilt: 0.15, ..A_A }.alarms(Noise::Normal)
    }),
    same("A/A spoilt rounds dropped: quick, log-normal", || {
        Simulation { spoilt: 0.15, ..A_A }.alarms(Noise::LogNormal)
    }),
    same("A/A restless: two speeds that last for runs", || A_A.on(STATES)),
    same("A/A restless: bursts of steal", || A_A.on(BURSTS)),
    same("A/A restless: correlated from run to run", || A_A.on(MEMORY)),
    same("A/A restless: all three", || A_A.on(RESTLESS)),
    same("A/A restless: all three, 21 rounds", || FIXED.on(RESTLESS)),
    same("tables with a false bound: quick until decided", || {
        A_A.false_bounds(Noise::Normal, STEADY)
    }),
    same("tables with a false bound: quick until decided, log-normal", || {
        A_A.false_bounds(Noise::LogNormal, STEADY)
    }),
    same("tables with a false bound: quick until decided, restless", || {
        A_A.false_bounds(Noise::Normal, RESTLESS)
    }),
    Row::exact("quick decided: by default", Reach::AtLeast(80.0), || quick(TAIL_MARGIN, 1.0, 0.0)),
    beyond("quick decided: margins 2 %", || quick(0.02, 1.0, 0.0)),
    beyond("quick decided: of latencies 5 %", || quick(0.05, 1.0, 0.0)),
    Row::exact("quick decided: scatter 0.7 times", Reach::AtLeast(80.0), || {
        quick(TAIL_MARGIN, 0.7, 0.0)
    }),
    beyond("quick decided: scatter 1.4 times", || quick(TAIL_MARGIN, 1.4, 0.0)),
    beyond("quick decided: works without hope give up", || {
        Ok(Simulation { is_changed: true, gives_up: true, ..A_A }.decided())
    }),
    beyond("quick decided: the same, scatter 1.4 times", || {
        Ok(Simulation { is_changed: true, gives_up: true, scatter: 1.4, ..A_A }.decided())
    }),
    beyond("quick decided: 15 % of runs spoilt", || quick(TAIL_MARGIN, 1.0, 0.15)),
    beyond("quick decided: 21 rounds fixed", || {
        Ok(Simulation { is_changed: true, ..FIXED }.decided())
    }),
];

fn quick(latency_margin: f64, scatter: f64, spoilt: f64) -> Figure {
    Ok(Simulation { is_changed: true, latency_margin, scatter, spoilt, ..A_A }.decided())
}

type Values = Vec<(u32, f64)>;

/// One plan: the clean values of each metric and variant, the baseline first, and which rounds of
/// each work are clean.
struct Measured {
    values: Vec<[Values; VARIANTS + 1]>,
    clean: Vec<Vec<bool>>,
    /// The number of rounds after which each work stopped.
    stops: Vec<Option<u32>>,
    seed: u64,
}

impl Simulation {
    fn measure(&self, seed: u64, rounds: u32) -> Measured {
        let mut random = Random::new(seed);
        let mut values = vec![[const { Vec::new() }; VARIANTS + 1]; QUICK.len()];
        let mut clean = vec![Vec::new(); WORKS];
        let speeds = self.machine.speeds(seed, rounds);
        let mut drift = 0.0;
        for (round, speeds) in (0..).zip(speeds) {
            drift += 0.01 * random.normal();
            for (work, clean) in clean.iter_mut().enumerate() {
                let lost = [(); VARIANTS + 1].map(|()| {
                    if random.uniform() < self.spoilt { 0.3 * random.uniform() } else { 0.0 }
                });
                clean.push(lost == [0.0; VARIANTS + 1]);
                for (variant, lost) in lost.into_iter().enumerate() {
                    let shared = 0.3f64.sqrt() * random.noise(self.noise);
                    let of_work = QUICK.iter().zip(&mut values);
                    for (metric, values) in of_work.filter(|(metric, _)| metric.work == work) {
                        let noise = shared + 0.7f64.sqrt() * random.noise(self.noise);
                        let is_moved = self.is_changed && variant > 0;
                        let ratio = if is_moved { metric.ratios[variant - 1] } else { 1.0 };
                        let machine = drift + speeds[work][variant] - lost;
                        let log = ratio.ln() + machine + self.scatter * metric.cv * noise;
                        if clean[round as usize] {
                            values[variant].push((round, 1000.0 * log.exp()));
                        }
                    }
                }
            }
        }
        Measured { values, clean, stops: vec![None; WORKS], seed }
    }

    /// The verdicts on both variants at the end.
    fn run(&self, seed: u64) -> Vec<Judged> {
        match self.rule {
            Rule::Fixed(rounds) => {
                let mut measured = self.measure(seed, 3 * rounds);
                for (stop, clean) in measured.stops.iter_mut().zip(&measured.clean) {
                    let mut places = (1..).zip(clean).filter(|(_, clean)| **clean);
                    *stop = places.nth(rounds as usize - 1).map(|(round, _)| round);
                }
                self.judged(&measured, u32::MAX, None)
            }
            Rule::UntilDecided { budget, added } => {
                let mut measured = self.measure(seed, 3 * (budget + added));
                let mut schedule = Schedule { rule: LookRule::Even, ends: Vec::new() };
                let mut done = self.advance(&mut measured, (0, budget as usize * WORKS), &schedule);
                let is_open = measured.stops.contains(&None);
                if is_open && added > 0 {
                    schedule.ends.push(done);
                    let time = added as usize * WORKS;
                    done = self.advance(&mut measured, (done, time), &schedule);
                }
                let has_ended = measured.stops.contains(&None);
                self.judged(&measured, done, Some((&schedule, has_ended)))
            }
        }
    }

    /// Measures until all is decided or the time, in rounds of one work, is over. Returns the completed rounds.
    fn advance(
        &self,
        measured: &mut Measured,
        (mut done, mut time): (u32, usize),
        schedule: &Schedule,
    ) -> u32 {
        // The end after which rounds were added was a look, too.
        if schedule.ends.contains(&done) {
            self.stop_decided(measured, done, schedule);
        }
        loop {
            let open = measured.stops.iter().filter(|stop| stop.is_none()).count();
            if open == 0 || open > time || done as usize == measured.clean[0].len() {
                return done;
            }
            time -= open;
            done += 1;
            if schedule.is_look(done) {
                self.stop_decided(measured, done, schedule);
            }
        }
    }

    fn stop_decided(&self, measured: &mut Measured, done: u32, schedule: &Schedule) {
        let headline = Simulation { is_second_family: false, ..*self };
        let judged = headline.judged(measured, done, Some((schedule, false)));
        for work in 0..WORKS {
            let mut own = QUICK.iter().cycle().zip(&judged).zip(0..).filter(|((metric, _), at)| {
                metric.work == work && !(self.is_second_family && is_explaining(at % QUICK.len()))
            });
            let may_give_up = self.gives_up && done >= QUICK_ROUNDS / 2;
            let rounds = if may_give_up { 2 * QUICK_ROUNDS } else { u32::MAX };
            if own.all(|((_, judged), _)| has_ended(judged, rounds)) {
                measured.stops[work].get_or_insert(done);
            }
        }
    }

    /// The verdicts on all metrics of the first variant, then of the second.
    fn judged(
        &self,
        measured: &Measured,
        done: u32,
        looks: Option<(&Schedule, bool)>,
    ) -> Vec<Judged> {
        let family = Family { draws: 999, ..Family::new(VARIANTS, measured.seed) };
        let up_to =
            |values: &'_ Values, end: u32| values.partition_point(|(round, _)| *round < end);
        let of = |variant: usize| {
            let all = QUICK.iter().zip(&measured.values).zip(0..);
            let is_judged = |at: usize| !self.is_second_family || is_explaining(at);
            let comparisons = all.filter(|(_, at)| is_judged(*at)).map(|((metric, values), _)| {
                let end = measured.stops[metric.work].unwrap_or(u32::MAX).min(done);
                Comparison {
                    block: metric.work,
                    paired: true,
                    baseline: &values[0][..up_to(&values[0], end)],
                    variant: &values[variant][..up_to(&values[variant], end)],
                    direction: Direction::HigherIsBetter,
                    margin: if metric.is_latency { self.latency_margin } else { 0.02 },
                    floor: None,
                }
            });
            let comparisons: Vec<Comparison> = comparisons.collect();
            match looks {
                None => judge(&comparisons, &family),
                Some((schedule, ended)) => replay(&comparisons, &family, schedule, done, ended),
            }
        };
        (1..=VARIANTS).flat_map(of).collect()
    }

    fn on(&self, machine: Machine) -> Figure {
        Simulation { machine, ..*self }.alarms(Noise::Normal)
    }

    /// Percentage of plans with a false difference.
    fn alarms(&self, noise: Noise) -> Figure {
        let simulation = Simulation { noise, ..*self };
        let hits = (0..PLANS).filter(|plan| {
            let is_false = |one: &Judged| matches!(one.verdict, Verdict::Better | Verdict::Worse);
            simulation.run(u64::from(*plan)).iter().any(is_false)
        });
        Ok(hits.count() as f64 / f64::from(PLANS) * 100.0)
    }

    /// Percentage of plans in which the true ratio of a metric lies beyond its bound.
    fn false_bounds(&self, noise: Noise, machine: Machine) -> Figure {
        let simulation = Simulation { is_changed: true, noise, machine, ..*self };
        let truth = |variant: usize| QUICK.iter().map(move |metric| metric.ratios[variant].ln());
        let truth: Vec<f64> = (0..VARIANTS).flat_map(truth).collect();
        let hits = (0..PLANS).filter(|plan| {
            let judged = simulation.run(u64::from(*plan));
            judged.iter().zip(&truth).any(|(one, effect_ln)| exceeds(one.bound, *effect_ln))
        });
        Ok(hits.count() as f64 / f64::from(PLANS) * 100.0)
    }

    /// Percentage of comparisons that are decided.
    fn decided(&self) -> f64 {
        let judged = (0..PLANS).flat_map(|plan| self.run(u64::from(plan)));
        let decided = judged.filter(|one| one.decided_at.is_some()).count();
        decided as f64 / (f64::from(PLANS) * (VARIANTS * QUICK.len()) as f64) * 100.0
    }
}

/// Whether no more rounds are for it: it is decided, or would take more than this many in all.
fn has_ended(judged: &Judged, max_rounds: u32) -> bool {
    let would_take_more = match judged.verdict {
        Verdict::Inconclusive { rounds: Rounds::Number(rounds), .. } => rounds > max_rounds,
        Verdict::Inconclusive { rounds: Rounds::MoreThan(_), .. } => max_rounds < u32::MAX,
        _ => false,
    };
    judged.decided_at.is_some() || would_take_more
}

/// The metrics that stand for those that explain.
fn is_explaining(metric: usize) -> bool {
    metric == 0 || QUICK[metric].work != QUICK[metric - 1].work
}
