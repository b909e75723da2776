//! Collects what charts are drawn from, of the runs whose values are in the tables.
//!
//! Input: an analysis, then what is stored of its runs, in any order. Output: [`Pictures`]. Pure.

use std::collections::HashMap;

use crate::model::{RunKey, WorkerWindows};

use super::picture::{
    LatencyPicture, Pictures, RoundCounts, SideLatency, SideTimeline, WorkPictures, octave_halves,
};
use super::{Analysis, CountedRun, Family, WorkTable};

/// Collects what is stored of the runs of an analysis.
pub struct PictureBuilder {
    pictures: Pictures,
    sides: usize,
    /// The work, side and round of each counted run.
    places: HashMap<(usize, RunKey), (usize, usize, u32)>,
    timelines: Vec<(CountedRun, usize, usize)>,
}

impl PictureBuilder {
    pub fn new(analysis: &Analysis) -> PictureBuilder {
        let mut places = HashMap::new();
        let mut timelines = Vec::new();
        for (at, work) in analysis.works.iter().enumerate() {
            for (side, runs) in work.runs.iter().enumerate() {
                let of = |run: &CountedRun| ((run.plan, run.key), (at, side, run.round));
                places.extend(runs.iter().map(of));
                timelines.extend(typical(work, side).map(|run| (run, at, side)));
            }
        }
        let works = vec![WorkPictures::default(); analysis.works.len()];
        let pictures = Pictures { works, sources: vec![String::new(); analysis.plans.len()] };
        PictureBuilder { pictures, sides: analysis.sides.len(), places, timelines }
    }

    /// The text of a plan.
    pub fn take_source(&mut self, plan: usize, source: String) {
        self.pictures.sources[plan] = source;
    }

    /// A histogram of a run: ascending values in ns, each with its count. Of a run that is not
    /// counted it is passed over.
    pub fn take_latency(
        &mut self,
        plan: usize,
        key: RunKey,
        (set, name): (&str, &str),
        counts: &[(u64, u64)],
    ) {
        let Some(&(work, side, round)) = self.places.get(&(plan, key)) else { return };
        let known = &mut self.pictures.works[work].latencies;
        let is_it = |own: &LatencyPicture| own.set == set && own.name == name;
        let at = known.iter().position(is_it).unwrap_or_else(|| {
            let sides = vec![SideLatency::default(); self.sides];
            known.push(LatencyPicture { set: set.to_string(), name: name.to_string(), sides });
            known.len() - 1
        });
        let side = &mut known[at].sides[side];
        let mut round_counts = RoundCounts::new();
        for &(value_ns, count) in counts.iter().filter(|(_, count)| *count > 0) {
            side.all.add(value_ns, count);
            let halves = octave_halves(value_ns);
            match round_counts.last_mut().filter(|(last, _)| *last == halves) {
                Some((_, sum)) => *sum += count,
                None => round_counts.push((halves, count)),
            }
        }
        side.rounds.push((round, round_counts));
    }

    /// The runs whose windows are drawn: indices of plans, and runs of these.
    pub fn wanted_timelines(&self) -> Vec<(usize, RunKey)> {
        self.timelines.iter().map(|(run, ..)| (run.plan, run.key)).collect()
    }

    /// The windows of the wanted run of this number.
    pub fn take_timeline(&mut self, wanted: usize, workers: Vec<WorkerWindows>) {
        let (run, work, side) = self.timelines[wanted];
        let timeline = SideTimeline { side, round: run.round, workers };
        self.pictures.works[work].timelines.push(timeline);
    }

    pub fn finish(mut self) -> Pictures {
        let works = self.pictures.works.iter_mut();
        for latency in works.flat_map(|work| &mut work.latencies) {
            latency.sides.iter_mut().for_each(|side| side.rounds.sort_by_key(|(round, _)| *round));
        }
        self.pictures
    }
}

/// The run of a side that is nearest to its median in the first headline metric; without one its last.
fn typical(work: &WorkTable, side: usize) -> Option<CountedRun> {
    let runs = &work.runs[side];
    let headline = work.rows().map(|(.., row)| row).find(|row| row.family == Family::Headline);
    let nearest = headline.and_then(|row| {
        let cell = &row.cells[side];
        let median = cell.median?;
        let distance = |(_, value): &&(u32, f64)| (value - median).abs();
        let values = cell.values.iter();
        values.min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|(round, _)| *round)
    });
    let of_round = nearest.and_then(|round| runs.iter().find(|run| run.round == round));
    of_round.or(runs.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{analysed, plan, run_of, tens};
    use super::*;

    #[test]
    fn the_run_that_is_nearest_to_the_median_is_drawn() {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for (round, factor) in (0..).zip([5.0, 1.0, 3.1, 2.0, 4.0]) {
            // The first of the metrics that are asked for counts, and no other one before it.
            for (cell, factor) in [(0, factor), (1, 1.0 / factor)] {
                let values = [("switches", 1.0), ("wakeup_max", 7.0), ("throughput", factor)];
                run_of(&mut plan, round, cell, &values);
            }
        }
        let builder = PictureBuilder::new(&analysed(&[plan], &["default", "batch"]));
        let key = |cell| (0, RunKey { round: 2, cell });
        assert_eq!(builder.wanted_timelines(), [key(0), key(1)]);
    }

    #[test]
    fn latencies_are_summed_up_by_side_and_kept_by_round() {
        let mut builder = PictureBuilder::new(&analysed(&[tens(1.0)], &["default", "batch"]));
        let mut take = |round, cell, counts: &[(u64, u64)]| {
            builder.take_latency(0, RunKey { round, cell }, ("web", "wakeup"), counts);
        };
        take(1, 0, &[(1_000, 3), (1_001, 2), (9_000, 0), (50_000, 1)]);
        take(0, 0, &[(1_000, 1)]);
        take(0, 1, &[(2_000, 4)]);
        take(99, 0, &[(1_000, 7)]);
        let pictures = builder.finish();
        let [picture] = &pictures.works[0].latencies[..] else { panic!("{pictures:?}") };
        let totals = picture.sides.iter().map(|side| side.all.total());
        assert_eq!(totals.collect::<Vec<_>>(), [7, 4]);
        let rounds = &picture.sides[0].rounds;
        assert_eq!(rounds.iter().map(|(round, _)| *round).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(rounds[1].1, [(octave_halves(1_000), 5), (octave_halves(50_000), 1)]);
    }
}
