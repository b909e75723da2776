//! The decisions of the looks at a table so far, and the verdicts that follow.
//!
//! Input: comparisons, looks in turn. Output: a [`Judged`] for each comparison. Pure.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::flips::{self, Flips};
use super::judged::{Comparison, Excluded, Family, Judged, Unjudged, Verdict, Why};
use super::labels::{self, Labels};
use super::power::{self, Level, MAX_ROUNDS, Rounds, Spread};
use super::schedule::{Look, Schedule};
use super::stepdown::{self, Limit, NULLS, Null, Part};
use crate::model::Direction;
use crate::stats::effect::{Distance, Effect, NoEffect};
use crate::stats::inversion::MAX_SIGNS;
use crate::stats::sample::{Samples, Scale, Seen, Values, folded};

/// Number of draws for each p-value that would just do: a small share of alpha takes more draws than
/// [`Family::draws`].
const DRAWS_PER_CLAIM: f64 = 40.0;
/// More than these are never drawn.
const MAX_DRAWS: f64 = 200_000.0;
/// A table so large that all of [`Family::draws`] would take more additions gets fewer: the
/// test stays exact, its p-values become coarser.
const MAX_ADDITIONS: f64 = 8e8;
/// The probability with which the rounds still needed decide, if the data go on in the same way.
const POWER_OF_NEED: f64 = 0.8;

/// Additions that the statistics of one comparison are worth, where labels are permuted.
const ADDITIONS_OF_WELCH: usize = 100;

/// An effect this near to the floor is on it: rounding may not break a tie.
const TIE: f64 = 1e-12;

/// Comparisons with their values on the scale of each, by round.
pub(super) struct Table<'a> {
    comparisons: &'a [Comparison<'a>],
    samples: Vec<Samples>,
    is_paired: bool,
    /// Whether draws end where nothing can be rejected any more; it changes no verdict.
    pub(super) ends_early: bool,
}

impl<'a> Table<'a> {
    pub(super) fn new(comparisons: &'a [Comparison<'a>]) -> Table<'a> {
        let is_paired = comparisons.iter().all(|one| one.paired);
        let samples = comparisons.iter().map(|one| {
            if is_paired {
                Samples::paired(one.baseline, one.variant)
            } else {
                Samples::sides(one.baseline, one.variant)
            }
        });
        Table { comparisons, samples: samples.collect(), is_paired, ends_early: true }
    }

    /// The values of rounds below `rounds`.
    fn seen(&self, at: usize, rounds: u32) -> Result<Seen<'_>, NoEffect> {
        self.samples[at].before(rounds)
    }

    /// Like [`Table::seen`]; `None` where there is nothing to judge.
    fn judged(&self, at: usize, rounds: u32) -> Option<Seen<'_>> {
        let is_judged = self.comparisons[at].direction != Direction::Neutral;
        self.seen(at, rounds).ok().filter(|_| is_judged)
    }

    fn margin_ln(&self, at: usize) -> f64 {
        self.comparisons[at].margin.ln_1p()
    }

    /// Whether the interval over all rounds agrees with a verdict: a look may have been at rounds that the later
    /// ones deny.
    fn is_shown(&self, at: usize, verdict: Verdict, effect: &Effect) -> bool {
        let better = match self.comparisons[at].direction {
            Direction::LowerIsBetter => Ordering::Less,
            _ => Ordering::Greater,
        };
        match verdict {
            Verdict::Better => effect.side() == better,
            Verdict::Worse => effect.side() == better.reverse(),
            Verdict::Same => effect.is_within(self.comparisons[at].margin),
            _ => true,
        }
    }

    /// Whether an effect is larger than the smallest one that this machine resolves on its scale.
    fn is_above_floor(&self, at: usize, seen: Seen) -> bool {
        let floor = match (self.comparisons[at].floor, seen.scale) {
            (Some(Distance::Ratio(floor)), Scale::Log) => floor.ln_1p(),
            (Some(Distance::Difference(floor)), Scale::Linear { unit }) => floor / unit,
            _ => return true,
        };
        floor <= 0.0 || seen.center().abs() > floor + TIE
    }

    /// The distance of the mean and the floor together, which equal runs of this machine may differ by; `None`
    /// without a floor of this scale.
    fn floored(&self, at: usize, seen: Seen) -> Option<Distance> {
        let center = seen.center().abs();
        match (self.comparisons[at].floor?, seen.scale) {
            (Distance::Ratio(floor), Scale::Log) => {
                Some(Distance::Ratio((center + floor.ln_1p()).exp_m1()))
            }
            (Distance::Difference(floor), Scale::Linear { unit }) => {
                Some(Distance::Difference(center * unit + floor))
            }
            _ => None,
        }
    }

    /// Adjusted p-values by side, for each comparison that is seen. For sides that share no rounds: the larger
    /// p-value of permuted labels and of flipped signs of folded pairs. Labels are exact where runs are
    /// exchangeable, flips where noise is symmetric, however much more one side scatters.
    fn adjusted(
        &self,
        seen: &[Option<Seen>],
        ends: &BTreeMap<usize, Ends>,
        parts: [&[Part]; 3],
        draws: &DrawsOfLook,
    ) -> [Vec<Option<f64>>; 3] {
        let DrawsOfLook { max, seed, limit } = draws;
        let values = || seen.iter().map(|seen| seen.map(|seen| seen.values));
        let differences = values().zip(self.comparisons).map(|(values, one)| match values {
            Some(Values::Paired(values)) => ends[&one.block].prolonged(values),
            Some(Values::Separate(sides)) => Cow::Owned(folded(sides)),
            None => Cow::Borrowed(&[][..]),
        });
        let differences: Vec<Cow<[(u32, f64)]>> = differences.collect();
        let pairs = differences.iter().enumerate().map(|(at, logs)| {
            let block = self.comparisons[at].block;
            flips::Series { block, logs, margin_ln: self.margin_ln(at) }
        });
        let pairs: Vec<flips::Series> = pairs.collect();
        let flipped = stepdown::adjusted(Flips::new(&pairs, *max, *seed), parts, limit);
        if self.is_paired {
            return flipped;
        }
        let sides = values().enumerate().map(|(at, values)| {
            let logs = if let Some(Values::Separate(logs)) = values { logs } else { [&[][..]; 2] };
            let block = self.comparisons[at].block;
            labels::Series { block, logs, margin_ln: self.margin_ln(at) }
        });
        let sides: Vec<labels::Series> = sides.collect();
        let permuted = stepdown::adjusted(Labels::new(&sides, *max, *seed), parts, limit);
        larger(flipped, permuted)
    }
}

/// The larger p-values, by side and comparison. Both have the same comparisons tested.
fn larger(one: [Vec<Option<f64>>; 3], other: [Vec<Option<f64>>; 3]) -> [Vec<Option<f64>>; 3] {
    let mut larger = one;
    for (one, other) in larger.iter_mut().flatten().zip(other.iter().flatten()) {
        *one = one.zip(*other).map(|(one, other)| one.max(other));
    }
    larger
}

/// How many patterns of labels a look draws, and what for.
struct DrawsOfLook {
    max: u32,
    seed: u64,
    limit: Limit,
}

impl DrawsOfLook {
    fn new(seen: &[Option<Seen>], family: &Family, alpha: f64, ends_early: bool) -> DrawsOfLook {
        let variants = family.variants.max(1) as f64;
        let additions: usize = seen.iter().flatten().map(additions).sum();
        let usual = f64::from(family.draws).min(MAX_ADDITIONS / additions.max(1) as f64);
        let max = usual.max(DRAWS_PER_CLAIM * variants / alpha).min(MAX_DRAWS) as u32;
        // Each side of SAME has half of alpha: its p-values are doubled and held against alpha.
        let times = [variants, 2.0 * variants, 2.0 * variants];
        let min_draws = if ends_early { usual as u64 } else { u64::MAX };
        DrawsOfLook { max, seed: family.seed, limit: Limit { alpha, times, min_draws } }
    }
}

/// The cost of a draw.
fn additions(seen: &Seen) -> usize {
    match seen.values {
        Values::Paired(values) => values.len().min(MAX_SIGNS),
        Values::Separate(sides) => {
            let (units, _) = labels::units_of(sides.map(<[_]>::len));
            let pairs = sides[0].len().min(sides[1].len()).min(MAX_SIGNS);
            2 * (units[0] + units[1]) + ADDITIONS_OF_WELCH + pairs
        }
    }
}

/// The last round of a block, and the last that a look sees.
struct Ends {
    end: u32,
    /// [`Ends::end`], or further for a block that was not measured up to this look.
    prolonged: u32,
}

impl Ends {
    /// Repeats the rounds of a block that stopped, up to the look: the values of the other blocks are then compared
    /// with as many other chances as if all blocks had gone on.
    fn prolonged<'a>(&self, logs: &'a [(u32, f64)]) -> Cow<'a, [(u32, f64)]> {
        if self.prolonged <= self.end {
            return Cow::Borrowed(logs);
        }
        let again = (0..).step_by(self.end as usize);
        let again =
            again.flat_map(|first| logs.iter().map(move |(round, log)| (first + round, *log)));
        Cow::Owned(again.take_while(|(round, _)| *round < self.prolonged).collect())
    }
}

/// Rejections by side and comparison, and the decision on each comparison.
pub(super) struct State {
    rejected: [Vec<bool>; 3],
    /// With the number of the look that tested last.
    p_values: [Vec<Option<(u32, f64)>>; 3],
    decided: Vec<Option<(Verdict, u32)>>,
    /// The share of alpha that the last look had.
    share: f64,
    looks: u32,
    /// The number of rounds at the last look.
    last_look: u32,
}

impl State {
    pub(super) fn new(count: usize) -> State {
        let rejected = [(); 3].map(|()| vec![false; count]);
        let p_values = [(); 3].map(|()| vec![None; count]);
        State { rejected, p_values, decided: vec![None; count], share: 0.0, looks: 0, last_look: 0 }
    }

    /// Tests all that no earlier look has rejected.
    ///
    /// A rejected hypothesis leaves its side's family: as long as nothing was rejected falsely, all true hypotheses
    /// are still in it, so the first false rejection costs this look's share. A comparison that was decided on
    /// another side stays: to leave it out would choose by the data. `may_stop`: a block without rounds since the
    /// last look has stopped. It is not tested again, as the moment when it stopped was chosen by the data, but it
    /// keeps its place in the family.
    pub(super) fn look(&mut self, table: &Table, family: &Family, look: Look, may_stop: bool) {
        self.share = look.share;
        self.looks += 1;
        let alpha = family.alpha * look.share;
        let seen: Vec<Option<Seen>> =
            (0..table.comparisons.len()).map(|at| table.judged(at, look.rounds)).collect();
        let ends = self.ends(table, &seen, look, may_stop);
        let has_stopped = |at: usize| {
            let ends = &ends[&table.comparisons[at].block];
            ends.end < ends.prolonged
        };
        let parts = NULLS.map(|side| {
            let part = |at: usize| match &seen[at] {
                Some(_) if self.rejected[side as usize][at] => Part::Out,
                // A margin is one of ratios.
                Some(seen) if side != Null::NoDifference && !seen.is_log() => Part::Out,
                Some(_) if has_stopped(at) => Part::Counted,
                Some(_) => Part::Tested,
                None => Part::Out,
            };
            (0..seen.len()).map(part).collect::<Vec<Part>>()
        });
        let draws = DrawsOfLook::new(&seen, family, alpha, table.ends_early);
        let p_values = table.adjusted(&seen, &ends, parts.each_ref().map(Vec::as_slice), &draws);
        for (side, p_values) in p_values.into_iter().enumerate() {
            for (at, p_value) in p_values.into_iter().enumerate() {
                let Some(p_value) = p_value else { continue };
                self.p_values[side][at] = Some((self.looks, draws.limit.scaled(side, p_value)));
                self.rejected[side][at] = draws.limit.rejects(side, p_value);
            }
        }
        self.last_look = look.rounds;
        for (at, seen) in seen.into_iter().enumerate() {
            if let (Some(seen), None) = (seen, self.decided[at]) {
                let verdict = self.decide(at, seen, table, family);
                let rounds = if look.rounds == u32::MAX { seen.end() } else { look.rounds };
                self.decided[at] = verdict.map(|verdict| (verdict, rounds));
            }
        }
    }

    /// The ends of each block.
    fn ends(
        &self,
        table: &Table,
        seen: &[Option<Seen>],
        look: Look,
        may_stop: bool,
    ) -> BTreeMap<usize, Ends> {
        let mut ends = BTreeMap::new();
        for (one, seen) in table.comparisons.iter().zip(seen) {
            let end = seen.as_ref().map_or(0, Seen::end);
            let ends = ends.entry(one.block).or_insert(Ends { end, prolonged: 0 });
            ends.end = ends.end.max(end);
        }
        for ends in ends.values_mut() {
            let has_stopped = may_stop && table.is_paired && ends.end <= self.last_look;
            ends.prolonged = if has_stopped { look.rounds } else { ends.end };
        }
        ends
    }

    fn decide(&self, at: usize, seen: Seen, table: &Table, family: &Family) -> Option<Verdict> {
        let [differs, not_high, not_low] = self.rejected.each_ref().map(|side| side[at]);
        // A margin of differences that all these rounds are within, however small it is.
        let least = power::min_rounds(family.alpha * self.share, family.variants);
        let is_equal = seen.is_equal() && !seen.is_log() && seen.rounds() >= least;
        let is_up = seen.center() > 0.0;
        match table.comparisons[at].direction {
            // A difference that is shown to be immaterial is not what anybody asked for.
            _ if is_equal || (not_high && not_low) => Some(Verdict::Same),
            // Later looks may find it above the floor.
            _ if !differs || !table.is_above_floor(at, seen) => None,
            Direction::HigherIsBetter if is_up => Some(Verdict::Better),
            Direction::LowerIsBetter if !is_up => Some(Verdict::Better),
            _ => Some(Verdict::Worse),
        }
    }

    /// The judgement on each comparison after the looks. `progress`: `None` if only one look was planned.
    pub(super) fn judged(
        &self,
        table: &Table,
        family: &Family,
        progress: Option<Progress>,
    ) -> Vec<Judged> {
        let rounds_done = progress.map_or(u32::MAX, |progress| progress.rounds_done);
        let count = table.comparisons.len();
        let is_open =
            |at: &usize| self.decided[*at].is_none() && table.judged(*at, rounds_done).is_some();
        let open = (0..count).filter(is_open).count();
        let judged = (0..count).filter(|at| table.judged(*at, rounds_done).is_some()).count();
        let tests = judged.max(1) * family.variants.max(1);
        // Bounds share the error rate by Bonferroni, and a look's are given its share. The truth can
        // lie beyond one end alone, so each end has all of it.
        let confidence = 1.0 - 2.0 * family.alpha * self.share / tests as f64;
        let levels = levels(family, progress, open);
        let context = Context { table, family, progress, levels, confidence };
        let one = |at: usize| {
            let seen = table.seen(at, rounds_done);
            let effect = seen.map(|seen| seen.effect());
            let decided = self.decided[at].filter(|(verdict, _)| {
                effect.as_ref().map_or(true, |effect| table.is_shown(at, *verdict, effect))
            });
            let verdict = match (decided, seen, effect) {
                (Some((verdict, _)), _, _) => verdict,
                (None, Ok(seen), Ok(effect)) => self.open(at, seen, &effect, &context),
                (None, Err(why), _) | (None, _, Err(why)) => {
                    Verdict::Unjudged(Unjudged::NoEffect(why))
                }
            };
            let [differs, high, low] = self.p_values.each_ref().map(|side| side[at]);
            Judged {
                effect,
                verdict,
                p_difference: differs.map(|(_, p_value)| p_value),
                p_same: high.zip(low).map(|(high, low)| p_of_same(high, low)),
                bound: self.bound(at, &verdict, effect.ok(), &context),
                excluded: Excluded { above: self.rejected[1][at], below: self.rejected[2][at] },
                decided_at: decided.map(|(_, rounds)| rounds),
            }
        };
        (0..count).map(one).collect()
    }

    /// Computes the largest effect that the last look does not exclude, for a comparison that is not decided. The
    /// interval next to it is never wider, and the mean with the floor is never farther. `None` also where a value
    /// after that look changed the scale of the interval.
    fn bound(
        &self,
        at: usize,
        verdict: &Verdict,
        shown: Option<Effect>,
        context: &Context,
    ) -> Option<Distance> {
        match verdict {
            Verdict::Inconclusive { why: Why::TooFewRounds { .. }, .. } => None,
            Verdict::Inconclusive { .. } => {
                let seen = context.table.seen(at, self.last_look).ok()?;
                let bound = seen.effect_with(context.confidence).reach()?;
                let others =
                    [context.table.floored(at, seen), shown.and_then(|shown| shown.reach())];
                others.into_iter().flatten().try_fold(bound, Distance::max)
            }
            _ => None,
        }
    }

    /// The verdict on a comparison that is not decided.
    fn open(&self, at: usize, seen: Seen, effect: &Effect, context: &Context) -> Verdict {
        if context.table.comparisons[at].direction == Direction::Neutral {
            return Verdict::Unjudged(Unjudged::Neutral);
        }
        let why = self.why(at, seen, effect, context);
        let done = context.progress.map_or(seen.rounds(), |progress| progress.rounds_done);
        Verdict::Inconclusive { why, rounds: context.rounds(at, seen, done) }
    }

    fn why(&self, at: usize, seen: Seen, effect: &Effect, context: &Context) -> Why {
        // Before the first look no share is spent yet.
        let first = match context.progress {
            Some(Progress { schedule, rounds_done, .. }) if self.share == 0.0 => {
                schedule.next_look(0).unwrap_or(0).max(rounds_done)
            }
            _ => 0,
        };
        let share = if self.share == 0.0 { 1.0 } else { self.share };
        let least = power::min_rounds(context.family.alpha * share, context.family.variants);
        let least = least.max(first);
        if seen.rounds() < least {
            return Why::TooFewRounds { least };
        }
        let Comparison { floor, margin, .. } = context.table.comparisons[at];
        match floor {
            _ if self.decided[at].is_some() => Why::Denied,
            Some(floor) if self.rejected[0][at] => Why::BelowFloor { floor },
            _ if effect.side() != Ordering::Equal => Why::OnlyAlone,
            _ if effect.is_within(margin) => Why::SameOnlyAlone,
            _ => Why::Noise,
        }
    }
}

/// The schedule of looks that the rounds so far belong to.
#[derive(Clone, Copy)]
pub(super) struct Progress<'a> {
    pub schedule: &'a Schedule,
    pub rounds_done: u32,
    pub has_ended: bool,
}

/// The facts that explain an undecided comparison.
struct Context<'a> {
    table: &'a Table<'a>,
    family: &'a Family,
    progress: Option<Progress<'a>>,
    levels: Vec<Level>,
    /// The confidence of an interval that makes a bound.
    confidence: f64,
}

impl Context<'_> {
    /// The first of the levels, beyond `rounds_done`, at which data like these would decide:
    /// BETTER or WORSE, or SAME.
    fn rounds(&self, at: usize, seen: Seen, rounds_done: u32) -> Rounds {
        let spread = match seen.deviations().as_deref() {
            Some([sd]) => Spread::Paired { sd_ln: *sd },
            Some([baseline_sd_ln, variant_sd_ln]) => {
                Spread::Sides { baseline_sd_ln: *baseline_sd_ln, variant_sd_ln: *variant_sd_ln }
            }
            _ => return Rounds::MoreThan(MAX_ROUNDS),
        };
        let center = seen.center();
        let margin = seen.is_log().then(|| self.table.margin_ln(at));
        let may_differ = self.table.is_above_floor(at, seen);
        let levels = &self.levels;
        let later = &levels[levels.partition_point(|level| level.rounds <= rounds_done)..];
        // More rounds are never worse.
        let enough = later.partition_point(|level| {
            level.decides(center, margin, spread, may_differ) < POWER_OF_NEED
        });
        later.get(enough).map_or(Rounds::MoreThan(MAX_ROUNDS), |one| Rounds::Number(one.rounds))
    }
}

/// The p-value of SAME from both of its sides, each with its look: a side that was excluded at an earlier look is
/// done, and the other decides; at the same look the larger.
fn p_of_same(high: (u32, f64), low: (u32, f64)) -> f64 {
    match high.0.cmp(&low.0) {
        Ordering::Less => low.1,
        Ordering::Equal => high.1.max(low.1),
        Ordering::Greater => high.1,
    }
}

/// When a table could be decided, at the level that is left to one of its `open` comparisons:
/// after any number of rounds, or at the looks of a schedule.
fn levels(family: &Family, progress: Option<Progress>, open: usize) -> Vec<Level> {
    let tests = open.max(1) * family.variants.max(1);
    let level = |rounds, share: f64| Level::new(rounds, family.alpha * share, tests);
    match progress {
        None => (1..=MAX_ROUNDS).map(|rounds| level(rounds, 1.0)).collect(),
        Some(Progress { schedule, rounds_done, has_ended }) => schedule
            .later_looks(rounds_done, has_ended, MAX_ROUNDS)
            .into_iter()
            .map(|look| level(look.rounds, look.share))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_block_that_stopped_come_again_up_to_the_look() {
        let logs = [(0, 0.5), (2, 0.7)];
        let prolonged = |prolonged| Ends { end: 3, prolonged }.prolonged(&logs).into_owned();
        assert_eq!(prolonged(3), logs);
        assert_eq!(prolonged(8), [(0, 0.5), (2, 0.7), (3, 0.5), (5, 0.7), (6, 0.5)]);
    }

    #[test]
    fn a_large_table_gets_fewer_draws() {
        let values: Vec<(u32, f64)> = (0..300).map(|round| (round, 0.0)).collect();
        let seen = |values| Seen { values, scale: Scale::Log };
        let paired = seen(Values::Paired(&values));
        assert_eq!(additions(&paired), MAX_SIGNS);
        let separate = seen(Values::Separate([&values[..20], &values[..10]]));
        assert_eq!(additions(&separate), 2 * (20 + 10) + ADDITIONS_OF_WELCH + 10);
        let family = Family { draws: 20_000, ..Family::new(1, 1) };
        let draws = |count: usize| {
            let table = vec![Some(paired); count];
            let draws = DrawsOfLook::new(&table, &family, family.alpha, true);
            assert_eq!(u64::from(draws.max), draws.limit.min_draws, "{count}");
            draws.max
        };
        assert_eq!(draws(100), 20_000);
        assert_eq!(draws(1_000), 3_125, "8e8 additions of 1,000 times 256");
        // With more variants each claim has less of the level, and takes as many more draws.
        let family = Family { variants: 5, draws: 100, ..family };
        let several = DrawsOfLook::new(&[], &family, family.alpha, false);
        assert_eq!(several.max, (40.0 * 5.0 / family.alpha) as u32);
        assert_eq!(several.limit.times, [5.0, 10.0, 10.0]);
    }
}
