//! `docs/performance.md`: the rows with their intervals.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use schedlab::model::Reading;
use schedlab::stats;
use schedlab::sys::Host;
use schedlab::sys::environment::environment;

use super::{Measure, PASS, Row, SECTIONS, Section, median};

/// The range of six values holds their median with a probability of 97 %.
const PASSES: u32 = 6;

const HEAD: &str = "\
# Speed, size and truth of schedlab itself

To measure a row again, by a part of its name, and to write this page anew:

```sh
cargo bench --locked --features full --bench hot -- 'ping-pong'
cargo bench --locked --features full --bench hot -- --page
```

- **Interval**: of the median, with 95 %, from the order of the values. Ratios are made of runs side by side. Each
  other row was measured six times, in turns with all rows.
- Simulations have no interval: their seeds decide them, on every machine.
- **Goal**: `1 +- 0.02` is at most 2 % from 1. A row without one is there to compare.
";

type Measured = Result<Vec<f64>, String>;

/// Measures the chosen rows in passes. All of them become the page, a part goes to standard output.
pub fn write(is_chosen: impl Fn(&&'static Row) -> bool) {
    let mut rows: Vec<(&Row, Measured)> = SECTIONS
        .iter()
        .flat_map(Section::rows)
        .filter(&is_chosen)
        .map(|row| (row, Ok(Vec::new())))
        .collect();
    for pass in 0..PASSES {
        PASS.store(pass, Relaxed);
        for (row, measured) in &mut rows {
            if pass == 0 || matches!(row.measure, Measure::Once(_)) {
                add(measured, row);
                // A page that is never finished leaves its rows here.
                eprint!("{} of {PASSES}: {}", pass + 1, line(row, measured));
            }
        }
    }
    let all = SECTIONS.iter().flat_map(Section::rows).count();
    let text = page(&rows);
    if rows.len() < all {
        return print!("{text}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
    match std::fs::write(&path, text) {
        Ok(()) => println!("{} is written", path.display()),
        Err(error) => eprintln!("error: {} cannot be written: {error}", path.display()),
    }
}

fn add(measured: &mut Measured, row: &Row) {
    let Ok(values) = measured else { return };
    match row.measure.values() {
        Ok(more) => values.extend(more),
        Err(why) => *measured = Err(why),
    }
}

fn page(rows: &[(&Row, Measured)]) -> String {
    let mut text = format!("{HEAD}\n{}\n", machine());
    for section in &SECTIONS {
        let own = section.rows();
        let own: Vec<_> = own
            .filter_map(|row| rows.iter().find(|(measured, _)| std::ptr::eq(*measured, row)))
            .collect();
        if own.is_empty() {
            continue;
        }
        text += &format!(
            "\n## {}\n\n| row | measured | interval | goal | |\n|---|--:|---|---|---|\n",
            section.title
        );
        for (row, measured) in own {
            text += &line(row, measured);
        }
    }
    text
}

fn line(row: &Row, measured: &Measured) -> String {
    let (name, goal) = (row.name, row.reach.show());
    match measured {
        Ok(values) => {
            let value = median(values);
            let interval = stats::median_interval(values);
            let interval = interval.map(|of| format!("{}..{}", figure(of.low), figure(of.high)));
            let shown = format!("{} {}", figure(value), row.unit);
            let (interval, verdict) = (interval.unwrap_or_default(), row.reach.verdict(value));
            format!("| {name} | {} | {interval} | {goal} | {verdict} |\n", shown.trim_end())
        }
        Err(why) => format!("| {name} | | | {goal} | left out: {why} |\n"),
    }
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
