//! `docs/performance.md`: the rows with their intervals; `docs/simulations.md`: those that their seeds decide.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use schedlab::model::Reading;
use schedlab::stats;
use schedlab::sys::Host;
use schedlab::sys::environment::environment;

use super::{MISSED, Measure, PASS, Row, SECTIONS, Section, median};

/// The range of six values holds their median with a probability of 97 %.
const PASSES: u32 = 6;

/// A page of the documents.
pub struct Page {
    file: &'static str,
    head: &'static str,
    has_simulations: bool,
}

pub const MEASURED: Page = Page {
    file: "docs/performance.md",
    head: "\
# Speed and size of schedlab itself

To measure a row again, by a part of its name, and to write this page anew:

```sh
cargo bench --locked --features full --bench hot -- 'ping-pong'
cargo bench --locked --features full --bench hot -- --page
```

- **Interval**: of the median, with 95 %, from the order of the values. Ratios are made of runs side by side. Each
  other row was measured six times, in turns with all rows; one without an interval once.
- **Goal**: `1 +- 0.02` is at most 2 % from 1. A row without one is there to compare.
- **Verdict**: the median reaches the goal, or misses it, wherever the interval ends. [Why rows miss](#why-rows-miss)
  is at the end.

How often verdicts are right: [simulations](simulations.md).
",
    has_simulations: false,
};

pub const SIMULATED: Page = Page {
    file: "docs/simulations.md",
    head: "\
# How often verdicts are right

[Verdicts](verdicts.md) on tables whose truth is known, since a generator makes them. Seeds decide each number, so they
are the same on every machine. To simulate a row again, by a part of its name, and to write this page anew (a row takes
some 20 s of a CPU):

```sh
cargo bench --locked --features full --bench hot -- 'intervals that hold'
cargo bench --locked --features full --bench hot -- --simulations
```

A row without a **goal** is there to compare.
",
    has_simulations: true,
};

const RECORDS: &str = "records of tasks in maps of the kernel, and their copies here";

/// Why rows miss their goals, by their names.
const REASONS: [(&str, &str); 7] = [
    (
        "schbench: saturated RPS / the program's, 10 pairs",
        "the noise of a shared machine; where the interval holds the goal, the row is open rather than missed",
    ),
    (
        "schbench -m 4 -t 256 -F 16 -n 1: peak memory",
        "histograms of each CPU and each worker; the program itself takes more",
    ),
    ("score: memory at 10,000 tasks, of the kernel and its own", RECORDS),
    ("score: memory at 10,000 tasks, its program and shared maps too", RECORDS),
    (
        "schedbench: a file of 1,000,000 windows, reported",
        "one thread reads all of the file, some 100 MB of JSON",
    ),
    (
        "100,000 stored runs read and judged: peak memory",
        "all values stay in memory while they are judged, next to what the analysis makes of them",
    ),
    (
        "unpaired verdicts of 40 comparisons, 5,000 runs a side",
        "each draw shuffles the labels of 10,000 runs, and flips signs as that of a paired one does",
    ),
];

type Measured = Result<Vec<f64>, String>;

impl Page {
    /// Measures the chosen rows of this page. All of them become the page, a part goes to standard output.
    pub fn write(&self, is_chosen: impl Fn(&&'static Row) -> bool) {
        let own = || {
            let rows = SECTIONS.iter().flat_map(Section::rows);
            rows.filter(|row| row.is_simulation() == self.has_simulations)
        };
        let mut rows: Vec<(&Row, Measured)> =
            own().filter(&is_chosen).map(|row| (row, Ok(Vec::new()))).collect();
        if self.has_simulations {
            simulate(&mut rows);
        } else {
            measure(&mut rows);
        }
        let text = self.text(&rows);
        if rows.len() < own().count() {
            return print!("{text}");
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file);
        match std::fs::write(&path, text) {
            Ok(()) => println!("{} is written", path.display()),
            Err(error) => eprintln!("error: {} cannot be written: {error}", path.display()),
        }
    }

    fn text(&self, rows: &[(&Row, Measured)]) -> String {
        let mut text = self.head.to_string();
        if !self.has_simulations {
            text += &format!("\n{}\n", machine());
        }
        let (heads, line) = if self.has_simulations {
            ("| row | simulated | goal | |\n|---|--:|---|---|\n", simulated as Line)
        } else {
            ("| row | measured | interval | goal | |\n|---|--:|---|---|---|\n", measured as Line)
        };
        for section in &SECTIONS {
            let own = section.rows();
            let own: Vec<_> = own
                .filter_map(|row| rows.iter().find(|(measured, _)| std::ptr::eq(*measured, row)))
                .collect();
            if own.is_empty() {
                continue;
            }
            text += &format!("\n## {}\n\n{heads}", section.title);
            own.into_iter().for_each(|(row, values)| text += &line(row, values));
        }
        if !self.has_simulations {
            text += &reasons(rows);
        }
        text
    }
}

/// A table of the rows that miss their goals.
fn reasons(rows: &[(&Row, Measured)]) -> String {
    let is_missed = |(row, values): &&(&Row, Measured)| {
        values.as_ref().is_ok_and(|values| row.reach.verdict(median(values)) == MISSED)
    };
    let reason = |name: &str| REASONS.iter().find(|(own, _)| *own == name).map(|(_, why)| *why);
    let lines = rows.iter().filter(is_missed).map(|(row, _)| {
        format!("| {} | {} |\n", row.name, reason(row.name).unwrap_or("the reason is not known"))
    });
    format!("\n## Why rows miss\n\n| row | why |\n|---|---|\n{}", lines.collect::<String>())
}

/// Measures rows in passes.
fn measure(rows: &mut [(&Row, Measured)]) {
    for pass in 0..PASSES {
        PASS.store(pass, Relaxed);
        for (row, values) in rows.iter_mut() {
            if pass == 0 || matches!(row.measure, Measure::Once(_)) {
                add(values, row);
                // A page that is never finished leaves its rows here.
                eprint!("{} of {PASSES}: {}", pass + 1, measured(row, values));
            }
        }
    }
}

/// Simulates rows on all CPUs.
fn simulate(rows: &mut [(&Row, Measured)]) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (next, count) = (AtomicUsize::new(0), rows.len());
    let rows: Vec<_> = rows.iter_mut().map(Mutex::new).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Relaxed)) {
                    let mut row = row.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    let (row, values) = &mut **row;
                    add(values, row);
                    eprint!("of {count}: {}", simulated(row, values));
                }
            });
        }
    });
}

fn add(measured: &mut Measured, row: &Row) {
    let Ok(values) = measured else { return };
    match row.measure.values() {
        Ok(more) => values.extend(more),
        Err(why) => *measured = Err(why),
    }
}

/// A way to write a line of a table.
type Line = fn(&Row, &Measured) -> String;

fn measured(row: &Row, values: &Measured) -> String {
    let interval = values.as_ref().ok().and_then(|values| stats::median_interval(values));
    let interval = interval.map(|of| format!("{}..{}", figure(of.low), figure(of.high)));
    line(row, values, &[interval.unwrap_or_default()])
}

fn simulated(row: &Row, values: &Measured) -> String {
    line(row, values, &[])
}

fn line(row: &Row, values: &Measured, more: &[String]) -> String {
    let (shown, verdict) = match values {
        Ok(values) => {
            let value = median(values);
            let shown = format!("{} {}", figure(value), row.unit);
            (shown.trim_end().to_string(), row.reach.verdict(value).to_string())
        }
        Err(why) => (String::new(), format!("left out: {why}")),
    };
    let mut cells = vec![row.name.to_string(), shown];
    cells.extend(more.iter().cloned());
    cells.extend([row.reach.show(), verdict]);
    format!("| {} |\n", cells.join(" | "))
}

/// Three digits of a number.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        0.0 => 0,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The machine, and the versions of the other tools.
fn machine() -> String {
    let here = environment(&Host::default());
    let known = |reading: &Reading<String>| match reading {
        Reading::Known(text) => text.clone(),
        Reading::Unknown(_) => "unknown".to_string(),
    };
    let cpus = here.topology.online.len();
    let (model, machine) = (known(&here.cpu_model), known(&here.virtualisation));
    let versions = ["hyperfine", "bpftrace", "perf"].map(version).concat();
    format!("{cpus} CPUs ({model}; {machine}), Linux {}{versions}.", here.kernel_release)
}

fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.ok().and_then(|text| text.lines().next().map(str::to_string));
    line.map(|line| format!(", {line}")).unwrap_or_default()
}
