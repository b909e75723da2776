//! Two speeds between which runs switch: their windows gather around two places, as those of two threads that wake
//! each other on one CPU or on two.
//!
//! Input: the throughput in each window of each run, by side. Output: both speeds, and the share of its time that
//! each side spent at the faster one. Changes no verdict. Pure. Method: docs/verdicts.md.

use super::estimate::mean;
use super::shape::split_in_two;

/// Fewer runs show no states.
const MIN_RUNS: usize = 8;
/// Added to the separation that values over rounds take: windows that something stole from gather, too.
const MORE_SEPARATION: f64 = 0.5;
/// At least this part of the runs switches: what differs between runs, sides and times alone is no state.
const MIN_PART_THAT_SWITCHES: f64 = 0.2;
const MIN_THAT_SWITCH: usize = 3;
/// At most this part of the rarer speed in runs that switch stands at one position: a slow start is no state.
const MAX_PART_AT_ONE_POSITION: f64 = 0.75;

#[derive(Debug, Clone, PartialEq)]
pub struct TwoSpeeds {
    /// Both are geometric means.
    pub low: f64,
    pub high: f64,
    /// The share of the windows of each side that are of the faster one; `None`: it has no windows.
    pub in_high: Vec<Option<f64>>,
}

/// `sides`: for each side, for each of its runs, the throughput in each window.
///
/// The windows of all runs have two modes by the criterion of [`super::shapes`], where the runs count: windows of
/// one run are alike, so they are no further evidence. And runs have windows of both.
pub fn two_speeds(sides: &[Vec<Vec<f64>>]) -> Option<TwoSpeeds> {
    let runs = || sides.iter().flatten().filter(|windows| windows.len() > 1);
    let count = runs().count();
    let mut sorted: Vec<f64> = runs().flatten().map(|rate| rate.ln()).collect();
    if count < MIN_RUNS || sorted.iter().any(|log| !log.is_finite()) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let split = split_in_two(&sorted, count, MORE_SEPARATION)?.0;
    let (low, high) = sorted.split_at(split);
    let limit = ((low[split - 1] + high[0]) / 2.0).exp();
    let is_rare_high = high.len() < low.len();
    let mut at_positions: Vec<usize> = Vec::new();
    let mut switching = 0;
    for windows in runs() {
        let is_rare = |rate: &f64| (*rate > limit) == is_rare_high;
        let rare: Vec<usize> =
            (0..).zip(windows).filter(|(_, of)| is_rare(of)).map(|(at, _)| at).collect();
        if rare.is_empty() || rare.len() == windows.len() {
            continue;
        }
        switching += 1;
        at_positions.resize(at_positions.len().max(windows.len()), 0);
        rare.into_iter().for_each(|at| at_positions[at] += 1);
    }
    let least = (MIN_PART_THAT_SWITCHES * count as f64).max(MIN_THAT_SWITCH as f64);
    let at_one = at_positions.iter().max().copied().unwrap_or(0) as f64;
    let rare: usize = at_positions.iter().sum();
    if (switching as f64) < least || at_one > MAX_PART_AT_ONE_POSITION * rare as f64 {
        return None;
    }
    let in_high = |side: &Vec<Vec<f64>>| {
        let all = side.iter().flatten().count();
        let high = side.iter().flatten().filter(|rate| **rate > limit).count();
        (all > 0).then(|| high as f64 / all as f64)
    };
    Some(TwoSpeeds {
        low: mean(low)?.exp(),
        high: mean(high)?.exp(),
        in_high: sides.iter().map(in_high).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::{Noise, Random};

    /// An interleaved plan of one work in windows; all shares are of the logarithm.
    #[derive(Clone, Copy)]
    struct Machine {
        rounds: u32,
        windows: usize,
        noise: Noise,
        within: f64,
        /// The part of a window's noise that the next one has, too.
        memory: f64,
        between: f64,
        /// The step of a random walk from round to round, and its trend.
        walk: f64,
        trend: f64,
        /// The logarithm of the second side's ratio; the third has it twice.
        effect: f64,
        /// The first window of each run.
        start: f64,
        /// The probability that something steals up to half of a window.
        stolen: f64,
        /// The faster speed, the probability to enter it, and that to leave it, from window to window.
        states: Option<(f64, f64, f64)>,
    }

    const CALM: Machine = Machine {
        rounds: 21,
        windows: 4,
        noise: Noise::Normal,
        within: 0.07,
        memory: 0.0,
        between: 0.02,
        walk: 0.0,
        trend: 0.0,
        effect: 0.0,
        start: 0.0,
        stolen: 0.0,
        states: None,
    };

    fn table(machine: &Machine, random: &mut Random) -> Vec<Vec<Vec<f64>>> {
        let mut sides = vec![Vec::new(); 3];
        let mut walk = 0.0;
        for round in 0..machine.rounds {
            walk += machine.walk * random.normal();
            for (side, runs) in sides.iter_mut().enumerate() {
                let place = 12.0
                    + walk
                    + machine.trend * f64::from(round) / f64::from(machine.rounds)
                    + machine.effect * side as f64
                    + machine.between * random.noise(machine.noise);
                let (mut noise, mut is_fast) = (random.noise(machine.noise), false);
                if let Some((_, enter, leave)) = machine.states {
                    is_fast = random.uniform() < enter / (enter + leave);
                }
                let windows = (0..machine.windows).map(|at| {
                    let fresh = random.noise(machine.noise);
                    noise = machine.memory * noise + (1.0 - machine.memory.powi(2)).sqrt() * fresh;
                    let start = if at == 0 { machine.start } else { 0.0 };
                    let is_stolen = random.uniform() < machine.stolen;
                    let stolen = if is_stolen { (1.0 - 0.5 * random.uniform()).ln() } else { 0.0 };
                    let fast = machine.states.map_or(0.0, |(fast, enter, leave)| {
                        let flips = random.uniform() < if is_fast { leave } else { enter };
                        is_fast ^= flips;
                        if is_fast { fast.ln() } else { 0.0 }
                    });
                    (place + machine.within * noise + start + stolen + fast).exp()
                });
                runs.push(windows.collect());
            }
        }
        sides
    }

    fn found(machine: &Machine, tables: u32, seed: u64) -> u32 {
        let mut random = Random::new(seed);
        (0..tables).map(|_| u32::from(two_speeds(&table(machine, &mut random)).is_some())).sum()
    }

    /// One speed, on machines that drift, steal, start slowly or have sides that differ.
    #[test]
    fn one_speed_is_seldom_called_two() {
        let machines = [
            CALM,
            Machine { noise: Noise::HeavyTailed, ..CALM },
            Machine { noise: Noise::LogNormal, ..CALM },
            Machine { memory: 0.9, between: 0.0, ..CALM },
            Machine { memory: 0.9, noise: Noise::HeavyTailed, ..CALM },
            Machine { within: 0.01, between: 0.1, ..CALM },
            Machine { within: 0.01, between: 0.1, noise: Noise::HeavyTailed, ..CALM },
            Machine { within: 0.01, walk: 0.1, ..CALM },
            Machine { walk: 0.1, memory: 0.5, noise: Noise::HeavyTailed, ..CALM },
            Machine { within: 0.01, trend: 0.5, ..CALM },
            Machine { effect: 0.1, ..CALM },
            Machine { effect: 0.3, ..CALM },
            Machine { effect: 0.3, noise: Noise::HeavyTailed, ..CALM },
            Machine { effect: 0.7, walk: 0.1, noise: Noise::LogNormal, ..CALM },
            Machine { start: -0.5, ..CALM },
            Machine { start: -0.5, windows: 5, effect: 0.3, ..CALM },
            Machine { stolen: 0.1, within: 0.01, ..CALM },
            Machine { stolen: 0.3, within: 0.02, ..CALM },
            Machine { rounds: 6, ..CALM },
            Machine { rounds: 6, windows: 10, memory: 0.8, noise: Noise::HeavyTailed, ..CALM },
            Machine { rounds: 3, windows: 60, memory: 0.9, noise: Noise::HeavyTailed, ..CALM },
        ];
        for (at, machine) in machines.iter().enumerate() {
            let false_ones = found(machine, 400, at as u64);
            assert!(false_ones <= 4, "machine {at}: {false_ones} of 400");
        }
    }

    #[test]
    fn two_speeds_are_found_with_the_time_at_each() {
        let switching = |states| Machine { states: Some(states), ..CALM };
        for (at, machine) in [
            switching((2.0, 0.3, 0.3)),
            switching((3.0, 0.1, 0.2)),
            Machine { walk: 0.02, effect: 0.05, ..switching((1.7, 0.4, 0.4)) },
            Machine { rounds: 6, windows: 10, ..switching((2.0, 0.3, 0.3)) },
        ]
        .iter()
        .enumerate()
        {
            let hits = found(machine, 100, at as u64);
            assert!(hits >= 90, "machine {at}: {hits} of 100");
        }
        let mut random = Random::new(5);
        let long = Machine { rounds: 300, ..switching((2.0, 0.1, 0.3)) };
        let TwoSpeeds { low, high, in_high } = two_speeds(&table(&long, &mut random)).unwrap();
        assert!((1.95..2.05).contains(&(high / low)), "{low} {high}");
        let near = |share: &Option<f64>| share.is_some_and(|share| (0.2..0.3).contains(&share));
        assert!(in_high.iter().all(near), "a quarter of the time: {in_high:?}");
    }

    #[test]
    fn sides_without_windows_and_windows_without_work_are_no_speeds() {
        let run = |slow: f64| vec![slow, 200.0 + slow, slow + 1.0, 201.0 + slow];
        let runs: Vec<Vec<f64>> = (0..8).map(|at| run(100.0 + f64::from(at % 3))).collect();
        let found = two_speeds(&[runs.clone(), Vec::new()]).expect("two speeds");
        assert_eq!(found.in_high, [Some(0.5), None]);
        assert_eq!(two_speeds(&[runs[..7].to_vec()]), None, "too few runs");
        let mut idle = runs;
        idle[3][1] = 0.0;
        assert_eq!(two_speeds(&[idle]), None);
    }
}
