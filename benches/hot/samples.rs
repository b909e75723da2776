//! Time and memory of a comparison that reads a store: 20 plans of 5,000 runs, two worker sets with eight
//! metrics each.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use schedlab::analysis::{self, Question};
use schedlab::model::{self, *};
#[cfg(feature = "parquet")]
use schedlab::store::ParquetTarget;
use schedlab::store::Store;

use crate::schedbench::peak_megabytes;
use crate::{Figure, Figures, Reach, Row, Shared, alone};

pub const TIME: Row =
    Row::once("100,000 stored runs read for a comparison: time", "s", Reach::Below(1.0), || {
        Ok(measured()?[0])
    });

pub const MEMORY: Row = Row::once(
    "100,000 stored runs read for a comparison: peak memory",
    "MB",
    Reach::Below(150.0),
    || Ok(measured()?[1]),
);

pub const VERDICTS: Row = Row::once(
    "100,000 stored runs read and judged, two variants: time",
    "s",
    Reach::Below(1.5),
    || Ok(measured()?[2]),
);

pub const VERDICTS_MEMORY: Row = Row::once(
    "100,000 stored runs read and judged: peak memory",
    "MB",
    Reach::Below(120.0),
    || Ok(measured()?[3]),
);

pub const EXPORT: Row =
    Row::once("100,000 stored runs exported as Parquet: time", "s", Reach::Below(6.0), || {
        Ok(measured()?[4])
    });

pub const EXPORT_MEMORY: Row = Row::once(
    "100,000 stored runs exported as Parquet: peak memory",
    "MB",
    Reach::Below(150.0),
    || Ok(measured()?[5]),
);

pub const HEADS: Row =
    Row::once("2,000 stored plans listed to choose from: time", "s", Reach::Below(0.1), many_plans);

const SETS: usize = 2;
const METRICS: usize = 8;

/// The size of a store.
#[derive(Clone, Copy)]
struct Size {
    plans: u32,
    rounds: u32,
    cells: u32,
}

pub const LARGE: &str = "a large store";

fn measured() -> Figures {
    static MEASURED: Shared<Result<Vec<f64>, String>> = Shared::empty();
    MEASURED.get(|| alone(LARGE))
}

/// Seconds and peak megabytes since the start, from the page cache: read, judged, exported.
pub fn large() -> Figures {
    measure().map(|figures| figures.to_vec()).map_err(|why| why.to_string())
}

fn measure() -> Result<[f64; 6], Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("schedlab.db");
    fill(&path, Size { plans: 20, rounds: 500, cells: 10 })?;
    let store = Store::open_read_only(&path)?;
    // Resets the peak, which was that of filling it.
    fs::write("/proc/self/clear_refs", "5")?;
    let began = Instant::now();
    let heads = store.plan_heads()?;
    let mut plans: Vec<SampledPlan> =
        heads.iter().map(|head| store.sampled(&head.id)).collect::<Result<_, _>>()?;
    let now = || Some((began.elapsed().as_secs_f64(), peak_megabytes()?));
    let read = now().ok_or("no VmHWM in /proc/self/status")?;
    let runs = plans.iter().flat_map(|plan| &plan.runs);
    let values: usize = runs.map(|run| run.values.len()).sum();
    if values != 100_000 * SETS * METRICS {
        return Err(format!("{values} values were read").into());
    }
    plans.reverse();
    let sides = ["default", "batch"].map(|name| format!("all,backend=null,variant={name}"));
    let sides = analysis::select(&sides, &heads, 0).map_err(|wrong| wrong.message)?;
    let found = analysis::analyse(&plans, &[], &Question::new(sides, String::new()));
    let judged = now().ok_or("no VmHWM in /proc/self/status")?;
    if found.method.headline_verdicts == 0 {
        return Err("nothing was judged".into());
    }
    drop((plans, found));
    let exported = export(&store, &scratch.path().join("parquet"))?;
    Ok([read.0, read.1, judged.0, judged.1, exported.0, exported.1])
}

#[cfg(not(feature = "parquet"))]
fn export(_: &Store, _: &Path) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    Err(Box::new(schedlab::model::MissingFeature("parquet")))
}

#[cfg(feature = "parquet")]
fn export(store: &Store, folder: &Path) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    fs::write("/proc/self/clear_refs", "5")?;
    let began = Instant::now();
    let folder = folder.to_path_buf();
    let target = ParquetTarget { folder, overwrite: false, with: Vec::new() };
    let written = store.export_parquet(None, &target)?;
    if written.rows != 100_000 * (SETS * METRICS + 1) as u64 {
        return Err(format!("{} rows were written", written.rows).into());
    }
    let peak = peak_megabytes().ok_or("no VmHWM in /proc/self/status")?;
    Ok((began.elapsed().as_secs_f64(), peak))
}

fn many_plans() -> Figure {
    let list = || -> Result<f64, Box<dyn std::error::Error>> {
        let scratch = tempfile::tempdir()?;
        let path = scratch.path().join("schedlab.db");
        fill(&path, Size { plans: 2_000, rounds: 5, cells: 10 })?;
        let store = Store::open_read_only(&path)?;
        let began = Instant::now();
        let listed = store.plan_heads()?.len();
        let seconds = began.elapsed().as_secs_f64();
        if listed == 2_000 {
            Ok(seconds)
        } else {
            Err(format!("{listed} plans were listed").into())
        }
    };
    list().map_err(|why| why.to_string())
}

/// Imported in one transaction: run by run, each would wait for the disk.
fn fill(path: &Path, size: Size) -> Result<(), Box<dyn std::error::Error>> {
    let plans = (0..size.plans).flat_map(move |number| plan(number, size));
    let lines = Lines { events: plans, line: Vec::new(), read: 0 };
    Store::open(path)?.import(BufReader::with_capacity(1 << 16, lines))?;
    Ok(())
}

/// Events as JSON lines, made as they are read.
struct Lines<I> {
    events: I,
    line: Vec<u8>,
    /// Bytes of `line` that are read already.
    read: usize,
}

impl<I: Iterator<Item = Event>> Read for Lines<I> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            (self.line, self.read) = (Vec::new(), 0);
            if let Some(event) = self.events.next() {
                serde_json::to_writer(&mut self.line, &event)?;
                self.line.push(b'\n');
            }
        }
        let count = (&self.line[self.read..]).read(into)?;
        self.read += count;
        Ok(count)
    }
}

fn plan(number: u32, size: Size) -> impl Iterator<Item = Event> {
    let rounds = (0..size.rounds).flat_map(move |round| {
        let run = move |cell| Event::RunEnded {
            key: RunKey { round, cell },
            outcome: outcome(round, cell),
        };
        (0..size.cells).map(run)
    });
    let end = Event::PlanEnded { reason: PlanEnd::Complete, calibration: None };
    std::iter::once(start(number, size)).chain(rounds).chain([end])
}

/// A work for every second cell, and two variants.
fn start(number: u32, size: Size) -> Event {
    let variants =
        ["default", "batch"].map(|name| Variant { name: name.to_string(), knobs: BTreeMap::new() });
    let works: Vec<Work> = (0..size.cells / 2).map(work).collect();
    let cells = works.iter().flat_map(|work| variants.iter().map(move |variant| (work, variant)));
    let cell = |((work, variant), index): ((&Work, &Variant), u32)| Cell {
        index,
        variant: variant.clone(),
        work: work.clone(),
        placement: Placement::default(),
    };
    let cells = cells.zip(0..).map(cell).collect();
    let measure = model::Measure {
        rounds: size.rounds,
        duration_ns: 5_000_000_000,
        warmup_ns: 1_000_000_000,
        window_ns: 1_000_000_000,
        seed: 1,
        grace_ns: 10_000_000_000,
        ..model::Measure::default()
    };
    Event::PlanStarted(Box::new(PlanStarted {
        schema: EVENT_SCHEMA,
        id: format!("plan-{number}"),
        backend: "null".to_string(),
        started_unix_ns: u64::from(number),
        source: "schema = 1\n".to_string(),
        cells,
        judged: Default::default(),
        sharding: None,
        plan: Plan {
            title: "Many runs".to_string(),
            measure,
            variants: variants.to_vec(),
            works,
            ..Plan::default()
        },
        environment: environment(),
    }))
}

fn work(threads: u32) -> Work {
    let set = |number: usize| WorkerSet {
        name: format!("set-{number}"),
        workload: "spin".to_string(),
        count: threads,
        ..Default::default()
    };
    let axes = vec![("threads".to_string(), threads.to_string())];
    Work { name: "web".to_string(), axes, sets: (0..SETS).map(set).collect(), ..Default::default() }
}

fn outcome(round: u32, cell: u32) -> Outcome {
    let kind = |number: usize| MetricKind {
        name: format!("latency_p{number}"),
        unit: Unit::OpsPerS,
        direction: Direction::HigherIsBetter,
        subject: None,
        statistic: Statistic::Rate,
        importance: Importance::Headline,
    };
    let value = |set: usize, number: usize| {
        f64::from(round * 31 + cell) / 3.0 + (set * METRICS + number) as f64
    };
    let metric =
        |set: usize, number: usize| kind(number).reading(Reading::Known(value(set, number)));
    let set = |number: usize| SetResult {
        name: format!("set-{number}"),
        workload: "spin".to_string(),
        ops: "batches".to_string(),
        metrics: (0..METRICS).map(|at| metric(number, at)).collect(),
        ..SetResult::default()
    };
    let sets = (0..SETS).map(set).collect();
    let result = RunResult::new(5_000_000_000, sets, Reading::Known(1));
    let result = RunResult { started_unix_ns: u64::from(round), ..result };
    Outcome::Done { result: Box::new(result) }
}

fn environment() -> Environment {
    Environment {
        hostname: "made-up".to_string(),
        kernel_release: "6.18.0".to_string(),
        kernel_version: "#1 SMP".to_string(),
        cgroup_mode: "v2".to_string(),
        ..Environment::unknown("made up")
    }
}
