//! The timed section of a run in which variants take turns.
//!
//! Each group of blocks has one block of every variant, in an order that the seed shuffles. At the begin of a block
//! the measuring thread gives all workers the settings of its variant; after the washout they count for it. CPU time
//! is read where counting begins and ends. Workers write into memory that is there before the start; the measuring
//! thread allocates only where a window closes, between two blocks.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::model::{
    Disturbance, DisturbanceFact, KnobReading, Reading, RunSpec, SetResult, Turns, Value,
    VariantResult, Window, WorkerSet, WorkerWindow,
};
use crate::stats::{Histogram, late_to_early, median};
use crate::sys::sched::{self, Attr};
use crate::sys::task::TaskStats;
use crate::sys::{clock, thread};
use crate::variant::{self, LiveSettings};
use crate::workload::{MAX_LANES, Opening, Turn};

use super::ExecError;
use super::changes::Changed;
use super::group::{Member, WorkerGroup};
use super::measure::{Measured, Sample, WorkerMeasured, cpu_ns, ops_per_s};
use super::result::variant_sets;

/// A run fails in which switches cut a larger share of a set's operations: the margin of a throughput, so that what is
/// missing makes no verdict by itself.
const MAX_CUT: f64 = 0.02;
/// A larger share is reported.
const NOTED_CUT: f64 = 0.01;

/// A run in turns that is about to start.
pub struct TurnSection<'g> {
    group: &'g WorkerGroup,
    turn: &'static Turn,
    turns: &'g Turns,
    warmup_ns: u64,
    duration_ns: u64,
    window_ns: u64,
    /// The order of variants in groups of blocks.
    draws: ChaCha8Rng,
    /// By variant and set.
    settings: Vec<Vec<LiveSettings>>,
    /// By variant and worker.
    tracks: Vec<Vec<Track>>,
    /// The time of each switch.
    switches_ns: Vec<u64>,
    /// By variant.
    late: Vec<LateBlocks>,
}

/// Blocks of one variant that lost time that counts.
#[derive(Debug, Clone, Copy, Default)]
struct LateBlocks {
    shorter: u64,
    left_out: u64,
    of: u64,
}

/// One worker under one variant.
#[derive(Debug, Clone, Copy, Default)]
struct Track {
    /// The time that counts; its operations and counters are in the worker's lane.
    wall_ns: u64,
    cpu_ns: u64,
    /// When counting began in this block.
    cpu_before_ns: u64,
    /// At the end of its last window.
    window: Sample,
    peak_ns: u64,
    /// The early and the late half of the time that counts.
    halves: [Half; 2],
    /// The attributes that it has once it is set.
    attr: Attr,
}

/// Half of what a worker counts under one variant: all early halves of its blocks, or all late ones.
#[derive(Debug, Clone, Copy, Default)]
struct Half {
    wall_ns: u64,
    ops: u64,
}

impl<'g> TurnSection<'g> {
    /// Gives all workers the settings of each variant once, since what the kernel refuses must be known before
    /// anything is measured, and raises the priority of the measuring thread.
    pub fn begin(
        group: &'g WorkerGroup,
        spec: &RunSpec,
        turns: &'g Turns,
    ) -> Result<TurnSection<'g>, ExecError> {
        let turn = group.turn().filter(|_| turns.variants.len() <= MAX_LANES);
        let turn = turn.ok_or(ExecError::NoTurns)?;
        let settings = settings(spec, turns).map_err(ExecError::Switch)?;
        let variants = turns.variants.len();
        let tracks = vec![vec![Track::default(); group.members().len()]; variants];
        let blocks = turns.blocks(spec.duration_ns) as usize * variants;
        let mut draws = ChaCha8Rng::seed_from_u64(spec.seed);
        draws.set_stream(stream_of(&spec.cell.work.sets));
        let mut section = TurnSection {
            group,
            turn,
            turns,
            warmup_ns: spec.warmup_ns,
            duration_ns: spec.duration_ns,
            window_ns: spec.window_ns,
            draws,
            settings,
            tracks,
            switches_ns: Vec::with_capacity(blocks),
            late: vec![LateBlocks::default(); variants],
        };
        // Back to the first one, too: some settings can be taken, and not left.
        for variant in (0..variants).chain([0]) {
            let took_ns = section.switch(variant)?;
            if took_ns > turns.washout_ns {
                return Err(ExecError::SlowSwitch { took_ns, washout_ns: turns.washout_ns });
            }
            for (member, track) in group.members().iter().zip(&mut section.tracks[variant]) {
                track.attr = attr_of(member)?;
            }
        }
        section.switches_ns.clear();
        thread::serve_promptly();
        Ok(section)
    }

    /// Opens the barrier and goes through all blocks. Each window has the workers of one variant after the other.
    pub fn measure(
        mut self,
        start_ns: u64,
        on_window: &mut dyn FnMut(Window) -> Result<(), ExecError>,
    ) -> Result<InTurns, ExecError> {
        let overhead_before_ns = clock::own_thread_cpu_ns();
        let from_ns = start_ns + self.warmup_ns;
        let until_ns = from_ns + self.duration_ns;
        let (started_ns, repeat_until_ns, burst) = (start_ns, until_ns, None);
        let opening = Opening { started_ns, from_ns, until_ns, repeat_until_ns, burst };
        self.group.sets().iter().for_each(|set| set.control.open(&opening));
        clock::sleep_until(from_ns);
        self.group.members().iter().for_each(|member| _ = member.slot.take_peak_ns());
        let mut windows: Vec<Vec<Vec<Option<f64>>>> = vec![Vec::new(); self.turns.variants.len()];
        let (mut index, mut window_end_ns) = (0, from_ns + self.window_ns);
        let mut order: Vec<usize> = (0..self.turns.variants.len()).collect();
        let groups = self.turns.blocks(self.duration_ns);
        for block in 0..groups * order.len() as u64 {
            let place = (block % order.len() as u64) as usize;
            if place == 0 {
                shuffle(&mut order, &mut self.draws);
            }
            let end_ns = from_ns + (block + 1) * self.turns.block_ns;
            self.measure_block(order[place], end_ns)?;
            self.group.check()?;
            let is_last = block + 1 == groups * order.len() as u64;
            if end_ns >= window_end_ns || is_last {
                let of_variants = self.close_window(start_ns);
                for (rates, workers) in windows.iter_mut().zip(&of_variants) {
                    rates.push(ops_per_s(self.group, workers));
                }
                on_window(Window { index, workers: of_variants.concat() })?;
                (index, window_end_ns) = (index + 1, window_end_ns + self.window_ns);
            }
        }
        self.group.stop();
        let overhead_cpu_ns = clock::own_thread_cpu_ns() - overhead_before_ns;
        let cut = self.cut_operations()?;
        Ok(self.into_results(windows, cut, overhead_cpu_ns))
    }

    /// One block of a variant, up to `end_ns`.
    fn measure_block(&mut self, variant: usize, end_ns: u64) -> Result<(), ExecError> {
        self.switch(variant)?;
        let count_from_ns = clock::monotonic_ns() + self.turns.washout_ns;
        clock::sleep_until(count_from_ns.min(end_ns));
        let counts_ns = self.turns.block_ns - self.turns.washout_ns;
        if !self.late[variant].add(counts_ns, end_ns.saturating_sub(clock::monotonic_ns())) {
            return Ok(());
        }
        self.turn.count(variant + 1);
        let began_ns = clock::monotonic_ns();
        for (member, track) in self.group.members().iter().zip(&mut self.tracks[variant]) {
            track.cpu_before_ns = cpu_ns(member)?;
            // Delays in the washout do not count.
            member.slot.take_peak_ns();
        }
        clock::sleep_until(began_ns.midpoint(end_ns));
        let middle_ns = self.add_half(variant, 0, began_ns);
        clock::sleep_until(end_ns);
        self.turn.cut();
        let ended_ns = self.add_half(variant, 1, middle_ns);
        let wall_ns = ended_ns - began_ns;
        for (member, track) in self.group.members().iter().zip(&mut self.tracks[variant]) {
            track.wall_ns += wall_ns;
            track.cpu_ns += cpu_ns(member)?.saturating_sub(track.cpu_before_ns);
            track.peak_ns = track.peak_ns.max(member.slot.take_peak_ns());
            let now = attr_of(member)?;
            if let Some(knob) = variant::changed_knob(&track.attr, &now) {
                let (from_ns, to_ns) = (track.attr.runtime_ns, now.runtime_ns);
                let is_own = knob != SLICE || self.settings[variant][member.set].names(SLICE);
                return Err(match !is_own && base_slice_ns() == Some(to_ns) {
                    true => ExecError::BaseSliceChanged { from_ns, to_ns },
                    false => ExecError::KnobChanged { knob, worker: self.group.describe(member) },
                });
            }
        }
        Ok(())
    }

    /// Adds what workers did since the begin of a half that ends now. Returns its end.
    fn add_half(&mut self, variant: usize, half: usize, began_ns: u64) -> u64 {
        let ended_ns = clock::monotonic_ns();
        for (member, track) in self.group.members().iter().zip(&mut self.tracks[variant]) {
            let ops = track.sample(member, variant).ops;
            let counted = track.halves[0].ops + track.halves[1].ops;
            track.halves[half].wall_ns += ended_ns - began_ns;
            track.halves[half].ops += ops.saturating_sub(counted);
        }
        ended_ns
    }

    /// Gives all workers the settings of a variant; returns the time that it took.
    fn switch(&mut self, variant: usize) -> Result<u64, ExecError> {
        self.turn.cut();
        let began_ns = clock::monotonic_ns();
        for member in self.group.members() {
            let settings = &self.settings[variant][member.set];
            settings.apply(member.slot.tid()).map_err(|missing| self.refused(member, missing))?;
        }
        let now_ns = clock::monotonic_ns();
        self.turn.switched(now_ns);
        self.switches_ns.push(now_ns - began_ns);
        Ok(now_ns - began_ns)
    }

    /// Why a worker did not take its settings: it may be that it ended.
    fn refused(&self, member: &Member, missing: variant::Missing) -> ExecError {
        let tid = member.slot.tid();
        match self.group.check() {
            Err(error) => error,
            Ok(()) if sched::attr(tid).is_err() => {
                ExecError::WorkerGone { index: member.index, tid }
            }
            Ok(()) => ExecError::Switch(missing),
        }
    }

    /// The window of each variant.
    fn close_window(&mut self, start_ns: u64) -> Vec<Vec<WorkerWindow>> {
        let end_at_ns = clock::monotonic_ns() - start_ns;
        let variants = self.tracks.iter_mut().enumerate();
        let of_variant = |(variant, tracks): (usize, &mut Vec<Track>)| {
            let workers = self.group.members().iter().zip(tracks);
            let close = |(member, track): (&Member, &mut Track)| {
                let now = track.sample(member, variant);
                let window = now.since(&std::mem::replace(&mut track.window, now));
                let peak_ns = std::mem::take(&mut track.peak_ns);
                let Sample { at_ns: wall_ns, ops, cpu_ns, .. } = window;
                WorkerWindow { end_at_ns, wall_ns, ops, cpu_ns, peak_ns }
            };
            workers.map(close).collect()
        };
        variants.map(of_variant).collect()
    }

    /// By variant: sets that lost enough operations to switches that their throughput is wrong.
    fn cut_operations(&self) -> Result<Vec<Vec<Disturbance>>, ExecError> {
        let of_set = |variant: usize, (position, set): (usize, &super::group::Set)| {
            let is_counted = |member: &&Member| member.set == position && set.counts(member);
            let members = self.group.members().iter().filter(is_counted);
            let lanes = members.filter_map(|member| Some(member.lanes?.of_variant(variant)));
            let (mut all, mut cut, mut wall_ns) = (0, 0, 0);
            for lane in lanes {
                all += lane.ends() + lane.cut_ends();
                cut += lane.cut_ends();
                wall_ns += self.tracks[variant][0].wall_ns;
            }
            let operation_ns = wall_ns / all.max(1);
            cut_operations(&set.name, cut, all, self.turns.longer_block_ns(operation_ns))
        };
        let of_variant = |variant| {
            let sets = self.group.sets().iter().enumerate().filter(|(_, set)| !set.is_background);
            let cut = sets.map(|set| of_set(variant, set));
            Ok(cut.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        (0..self.tracks.len()).map(of_variant).collect()
    }

    fn into_results(
        self,
        windows: Vec<Vec<Vec<Option<f64>>>>,
        mut disturbances: Vec<Vec<Disturbance>>,
        overhead_cpu_ns: u64,
    ) -> InTurns {
        let sets = self.group.sets().iter();
        let none: Vec<Vec<Histogram>> =
            sets.map(|set| vec![Histogram::default(); set.recorders.kinds()]).collect();
        let variants = self.tracks.iter().zip(windows).enumerate();
        let mut late_to_early = Vec::with_capacity(self.tracks.len());
        let measured = variants.map(|(variant, (tracks, windows))| {
            let workers = self.group.members().iter().zip(tracks);
            let workers = workers.map(|(member, track)| WorkerMeasured {
                total: track.sample(member, variant),
                tasks: (not_divided(), not_divided()),
                tasks_wall_ns: track.wall_ns,
            });
            let section_ns = tracks.iter().map(|track| track.wall_ns).max().unwrap_or(0);
            late_to_early.push(self.late_to_early(tracks));
            let (workers, under_way) = (workers.collect(), none.clone());
            let changes = Changed::default();
            let gaps = self.late[variant].counted().saturating_sub(1);
            Measured { workers, windows, under_way, changes, section_ns, gaps, overhead_cpu_ns }
        });
        let measured = measured.collect();
        let knobs = (0..self.tracks.len()).map(|variant| self.readings(variant)).collect();
        for (own, late) in disturbances.iter_mut().zip(&self.late) {
            own.extend(late.disturbance());
        }
        InTurns { measured, knobs, late_to_early, disturbances, overhead_cpu_ns }
    }

    /// The throughput of each set in the late halves of blocks to that in the early ones.
    fn late_to_early(&self, tracks: &[Track]) -> Vec<Reading<f64>> {
        let sets = self.group.sets().iter().enumerate();
        let ratio = |(position, set): (usize, &super::group::Set)| {
            let workers = self.group.members().iter().zip(tracks);
            let is_counted = |member: &Member| member.set == position && set.counts(member);
            let counting = || workers.clone().filter(|(member, _)| is_counted(member));
            let [early, late] = [0, 1].map(|half| {
                let rates = counting().map(|(_, track)| track.halves[half].rate());
                rates.sum::<f64>()
            });
            let ratio = (early > 0.0).then(|| late / early);
            Reading::from_option(ratio, "nothing was done in the early halves of its blocks")
        };
        sets.map(ratio).collect()
    }

    /// The knobs of a variant as the first worker had them whose set has no such knob of its own, and the median time
    /// of a switch.
    fn readings(&self, variant: usize) -> Vec<KnobReading> {
        let workers = self.group.members().iter().zip(&self.tracks[variant]);
        let firsts = (0..self.group.sets().len())
            .filter_map(|set| workers.clone().find(|(member, _)| member.set == set));
        let read: Vec<KnobReading> = firsts
            .flat_map(|(member, track)| {
                self.settings[variant][member.set].readings(member.slot.tid(), &track.attr)
            })
            .collect();
        let is_own = |(knob, asked): (&String, &Value)| {
            read.iter().find(|one| one.knob == *knob && one.asked == *asked).cloned()
        };
        let mut readings: Vec<KnobReading> =
            self.turns.variants[variant].knobs.iter().filter_map(is_own).collect();
        let switches: Vec<f64> = self.switches_ns.iter().map(|ns| *ns as f64).collect();
        if let Some(switch_ns) = median(&switches) {
            let took = Value::DurationNs(switch_ns as u64);
            let (knob, got) = (KnobReading::SWITCH.to_string(), Reading::Known(took.clone()));
            readings.push(KnobReading { knob, asked: took, got });
        }
        readings
    }
}

/// Judges the throughput of a set under a variant, of whose `all` operations switches cut `cut`. `block_ns`: blocks
/// that would be long enough.
fn cut_operations(
    set: &str,
    cut: u64,
    all: u64,
    block_ns: u64,
) -> Result<Option<Disturbance>, ExecError> {
    let (set, share) = (set.to_string(), cut as f64 / all.max(1) as f64);
    if share > MAX_CUT {
        return Err(ExecError::CutOperations { set, cut, of: all, block_ns });
    }
    let bounds = vec!["throughput".to_string()];
    let fact = DisturbanceFact::Cut { set, latency: None, cut, of: all, longest_ns: 0, bounds };
    Ok((share > NOTED_CUT).then_some(Disturbance { share: None, fact }))
}

impl LateBlocks {
    /// Notes a block of which `left_ns` of `counts_ns` count. Returns false where nothing of it counts.
    fn add(&mut self, counts_ns: u64, left_ns: u64) -> bool {
        self.of += 1;
        self.left_out += u64::from(left_ns == 0);
        self.shorter += u64::from(left_ns > 0 && left_ns < counts_ns - counts_ns / 10);
        left_ns > 0
    }

    /// The blocks of which something counts.
    fn counted(&self) -> u64 {
        self.of - self.left_out
    }

    fn disturbance(&self) -> Option<Disturbance> {
        let LateBlocks { shorter, left_out, of } = *self;
        let fact = DisturbanceFact::LateBlocks { shorter, left_out, of };
        (shorter + left_out > 0).then_some(Disturbance { share: None, fact })
    }
}

impl Half {
    /// Operations per nanosecond; 0 where no time counted.
    fn rate(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.ops as f64 / self.wall_ns as f64 }
    }
}

impl Track {
    fn sample(&self, member: &Member, variant: usize) -> Sample {
        let lane = member.lanes.map(|lanes| lanes.of_variant(variant));
        Sample {
            at_ns: self.wall_ns,
            ops: lane.map_or(0, |lane| lane.ops()),
            cpu_ns: self.cpu_ns,
            rested_ns: 0,
            counters: lane.map_or_else(Default::default, |lane| lane.counters()),
        }
    }
}

/// The measurements of all variants.
pub struct InTurns {
    measured: Vec<Measured>,
    knobs: Vec<Vec<KnobReading>>,
    /// By variant and set.
    late_to_early: Vec<Vec<Reading<f64>>>,
    /// By variant.
    disturbances: Vec<Vec<Disturbance>>,
    pub overhead_cpu_ns: u64,
}

impl InTurns {
    pub fn results(self, spec: &RunSpec, group: &WorkerGroup) -> Vec<VariantResult> {
        let variants = self.measured.iter().zip(self.knobs).enumerate();
        let result = |(variant, (measured, knobs)): (usize, (&Measured, _))| {
            let (mut sets, mut disturbances): (Vec<SetResult>, Vec<Disturbance>) =
                variant_sets(&spec.cell.work.sets, group, measured, Some(variant));
            disturbances.extend(self.disturbances[variant].clone());
            for (set, ratio) in sets.iter_mut().zip(&self.late_to_early[variant]) {
                set.metrics.push(late_to_early().reading(ratio.clone()));
            }
            VariantResult { measured_ns: measured.section_ns, sets, knobs, disturbances }
        };
        variants.map(result).collect()
    }
}

/// The name of the knob whose value a thread takes from the system where it has none of its own.
const SLICE: &str = "slice";

/// The slice that a thread without one of its own has by now: a new thread shows it.
fn base_slice_ns() -> Option<u64> {
    let ordinary = || {
        sched::set_attr(sched::own_tid(), &Attr::default()).ok()?;
        sched::attr(sched::own_tid()).ok()
    };
    let shown = std::thread::Builder::new().spawn(ordinary).ok()?.join();
    shown.ok().flatten().map(|attr| attr.runtime_ns)
}

fn attr_of(member: &Member) -> Result<Attr, ExecError> {
    let tid = member.slot.tid();
    sched::attr(tid).map_err(|_| ExecError::WorkerGone { index: member.index, tid })
}

/// The settings of each variant on the workers of each set.
fn settings(spec: &RunSpec, turns: &Turns) -> Result<Vec<Vec<LiveSettings>>, variant::Missing> {
    let sets = &spec.cell.work.sets;
    let of_variant = |own: &crate::model::Variant| {
        let of_set = |set: &crate::model::WorkerSet| {
            let others = turns.variants.iter().map(|other| &other.knobs);
            LiveSettings::new(&variant::merged(&own.knobs, &set.knobs), others)
        };
        sets.iter().map(of_set).collect::<Result<Vec<LiveSettings>, _>>()
    };
    turns.variants.iter().map(of_variant).collect()
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], draws: &mut ChaCha8Rng) {
    for last in (1..order.len()).rev() {
        order.swap(last, (draws.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Works of a round share the seed. Their orders of variants differ, so that their errors do, too. A guest knows no
/// place of a work in its plan.
fn stream_of(sets: &[WorkerSet]) -> u64 {
    let text = serde_json::to_vec(sets).unwrap_or_default();
    // FNV-1a.
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Files of procfs are too slow to be read in each block.
fn not_divided() -> TaskStats {
    let unknown = || Reading::Unknown("not counted by variant in a run in turns".to_string());
    TaskStats {
        voluntary_switches: unknown(),
        involuntary_switches: unknown(),
        migrations: unknown(),
        run_queue_wait_ns: unknown(),
        timeslices: unknown(),
        run_ns: unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_thread_shows_the_base_slice_whatever_its_maker_has() {
        std::thread::spawn(|| {
            let usual_ns = base_slice_ns();
            let own = Attr { runtime_ns: 7_000_000, ..Attr::default() };
            sched::set_attr(sched::own_tid(), &own).unwrap();
            assert_eq!(base_slice_ns(), usual_ns);
            assert_ne!(usual_ns, Some(own.runtime_ns));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cut_operations_are_reported_above_one_percent_and_fail_a_run_above_two() {
        let found = |cut, all| cut_operations("web", cut, all, 1);
        assert_eq!(found(0, 0).unwrap(), None);
        assert_eq!(found(3, 300).unwrap(), None);
        let Some(Disturbance { fact: DisturbanceFact::Cut { cut, of, .. }, .. }) =
            found(6, 300).unwrap()
        else {
            panic!("{:?}", found(6, 300))
        };
        assert_eq!((cut, of), (6, 300));
        let error = found(7, 300).unwrap_err();
        assert!(error.to_string().contains("7 of 300 operations of `web`"));
    }

    #[test]
    fn blocks_that_lose_time_are_counted() {
        let mut late = LateBlocks::default();
        assert!(late.add(100, 100) && late.add(100, 90));
        assert_eq!(late.disturbance(), None);
        assert!(late.add(100, 89) && !late.add(100, 0) && !late.add(100, 0));
        let fact = DisturbanceFact::LateBlocks { shorter: 1, left_out: 2, of: 5 };
        assert_eq!(late.disturbance(), Some(Disturbance { share: None, fact }));
    }
}
