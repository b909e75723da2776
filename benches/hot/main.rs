//! `make bench`: the figures that the hot loops must reach, measured and printed.
//!
//! A row is one [`Row`] below. Words on the command line choose rows by part of their name:
//! `cargo bench -- ping-pong`. Nothing fails here: numbers of a busy machine are for people.
//! `cargo bench -- --page` repeats what differs from time to time and writes `docs/performance.md`, `--simulations`
//! writes `docs/simulations.md`.

mod adaptive;
mod burnwait;
mod drop_in;
mod hosts;
mod page;
mod peers;
mod ping_pong;
mod plan;
mod sample;
mod samples;
mod schbench;
mod schedbench;
mod score;
mod verdicts;
mod worker_group;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use schedlab::stats;

pub type Figure = Result<f64, String>;
pub type Figures = Result<Vec<f64>, String>;

/// One line of the table.
pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub reach: Reach,
    pub measure: Measure,
}

/// The way to measure a row: the number, or why there is none.
pub enum Measure {
    /// Another number each time.
    Once(fn() -> Figure),
    /// Ratios of runs side by side.
    Pairs(fn() -> Figures),
    /// A simulation, whose seed decides the number.
    Exact(fn() -> Figure),
}

pub enum Reach {
    Below(f64),
    AtLeast(f64),
    /// At most this far from 1, on either side.
    NearOne(f64),
    /// For comparison only.
    None,
}

/// A row of false verdicts, with the claimed rate.
pub const fn same(name: &'static str, measure: fn() -> Figure) -> Row {
    Row::exact(name, Reach::Below(5.0), measure)
}

/// Reported, not promised.
pub const fn beyond(name: &'static str, measure: fn() -> Figure) -> Row {
    Row::exact(name, Reach::None, measure)
}

/// Rows of one kind.
struct Section {
    title: &'static str,
    rows: &'static [&'static [Row]],
}

const SECTIONS: [Section; 5] = [
    Section {
        title: "Next to other tools",
        rows: &[
            &drop_in::RATIOS,
            &drop_in::SIZES,
            &[burnwait::CALIBRATION, burnwait::CALIBRATION_TO_THE_PROGRAM],
            &peers::ROWS,
        ],
    },
    Section {
        title: "The cost and the truth of measuring",
        rows: &[
            &[sample::TIME, sample::ALLOCATIONS],
            &[ping_pong::BARE_LATENCY, ping_pong::RATIO, ping_pong::RATIO_TIMED],
            &[schbench::OPERATION, burnwait::CPU_TIME, burnwait::CPU_TIME_OF_THE_FAMILY],
            &[burnwait::OVERCOMMITTED, burnwait::OVERCOMMITTED_SAMPLE],
            &[score::RATE, score::LOST],
            &[plan::OVERHEAD, plan::MANY],
        ],
    },
    Section {
        title: "Time and memory",
        rows: &[
            &[plan::START, plan::MEMORY, plan::CONSTANT_MEMORY],
            &[score::MEMORY, score::MEMORY_AND_FILES],
            &[schedbench::TIME, schedbench::MEMORY],
            &[samples::TIME, samples::MEMORY, samples::VERDICTS, samples::VERDICTS_MEMORY],
            &[samples::EXPORT, samples::EXPORT_MEMORY, samples::HEADS],
            &verdicts::TIMES,
        ],
    },
    Section {
        title: "How often verdicts are wrong, and how often they find what is there",
        rows: &[&verdicts::SAME, &verdicts::UNPAIRED, &verdicts::OTHERS],
    },
    Section {
        title: "The same until decided, and over hosts",
        rows: &[&adaptive::ROWS, &hosts::ROWS],
    },
];

impl Section {
    fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.rows.iter().copied().flatten()
    }
}

impl Row {
    pub const fn once(
        name: &'static str,
        unit: &'static str,
        reach: Reach,
        measure: fn() -> Figure,
    ) -> Row {
        Row { name, unit, reach, measure: Measure::Once(measure) }
    }

    pub const fn pairs(
        name: &'static str,
        unit: &'static str,
        reach: Reach,
        measure: fn() -> Figures,
    ) -> Row {
        Row { name, unit, reach, measure: Measure::Pairs(measure) }
    }

    /// A percentage that a seed decides.
    pub const fn exact(name: &'static str, reach: Reach, measure: fn() -> Figure) -> Row {
        Row { name, unit: "%", reach, measure: Measure::Exact(measure) }
    }

    fn is_simulation(&self) -> bool {
        matches!(self.measure, Measure::Exact(_))
    }
}

impl Measure {
    fn values(&self) -> Figures {
        match self {
            Measure::Once(measure) | Measure::Exact(measure) => Ok(vec![measure()?]),
            Measure::Pairs(measure) => measure(),
        }
    }
}

/// The verdict of a row that does not reach its goal.
const MISSED: &str = "MISSED";

impl Reach {
    fn show(&self) -> String {
        match self {
            Reach::Below(most) => format!("< {most}"),
            Reach::AtLeast(least) => format!(">= {least}"),
            Reach::NearOne(far) => format!("1 +- {far}"),
            Reach::None => String::new(),
        }
    }

    fn verdict(&self, value: f64) -> &'static str {
        let reached = match self {
            Reach::Below(most) => value < *most,
            Reach::AtLeast(least) => value >= *least,
            Reach::NearOne(far) => (value - 1.0).abs() <= *far,
            Reach::None => return "",
        };
        if reached { "reached" } else { MISSED }
    }
}

/// The ratios of ours to theirs, of which each pair begins with another one.
pub fn alternating(
    pairs: usize,
    ours: impl Fn() -> Figure,
    theirs: impl Fn() -> Figure,
) -> Figures {
    let pair = |number| {
        if number % 2 == 0 {
            let theirs = theirs()?;
            Ok(ours()? / theirs)
        } else {
            Ok(ours()? / theirs()?)
        }
    };
    (0..pairs).map(pair).collect()
}

/// A number of a process's status in the kernel, by its key: `VmHWM:`.
pub fn of_status(process: impl std::fmt::Display, key: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Our program, with nothing but what is in `home`.
pub fn schedlab(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(home).env("HOME", home);
    for variable in ["XDG_DATA_HOME", "XDG_STATE_HOME"] {
        command.env_remove(variable);
    }
    command
}

/// Waits for a command that has to succeed.
pub fn end(mut child: Child) -> Result<(), String> {
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("a command ended with {status}")) }
}

/// The middle of the numbers; 0 for none.
pub fn median(values: &[f64]) -> f64 {
    stats::median(values).unwrap_or(0.0)
}

/// Counts the measurements of all rows.
static PASS: AtomicU32 = AtomicU32::new(0);

/// A result that the rows of one pass share.
pub struct Shared<T>(Mutex<Option<(u32, T)>>);

impl<T: Clone> Shared<T> {
    pub const fn empty() -> Shared<T> {
        Shared(Mutex::new(None))
    }

    /// Measures where this pass has not.
    pub fn get(&self, measure: impl FnOnce() -> T) -> T {
        let pass = PASS.load(Relaxed);
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fresh = kept.take().filter(|(of_pass, _)| *of_pass == pass);
        let value = fresh.map_or_else(measure, |(_, value)| value);
        kept.insert((pass, value)).1.clone()
    }
}

/// Measurements of memory, by name: each in a process of its own, since what earlier ones left free would count.
const ALONE: [(&str, Large); 2] =
    [(samples::LARGE, samples::large), (schedbench::LARGE, schedbench::large)];

type Large = fn() -> Figures;

/// The figures of a measurement of [`ALONE`].
pub fn alone(name: &str) -> Figures {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program).args(["--alone", name]).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{name}: {error} ({})", output.status))?
}

fn measure_alone(name: &str) {
    let measured = ALONE.iter().find(|(own, _)| *own == name).map(|(_, measure)| measure());
    let measured = measured.unwrap_or_else(|| Err(format!("nothing is called {name}")));
    match serde_json::to_string(&measured) {
        Ok(line) => println!("{line}"),
        Err(error) => eprintln!("error: {error}"),
    }
}

fn main() {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with('-'));
    let is_chosen =
        |row: &&Row| words.is_empty() || words.iter().any(|word| row.name.contains(word.as_str()));
    if let ([option], [name]) = (&options[..], &words[..])
        && option == "--alone"
    {
        return measure_alone(name);
    }
    for (option, page) in [("--page", &page::MEASURED), ("--simulations", &page::SIMULATED)] {
        if options.iter().any(|given| given == option) {
            return page.write(is_chosen);
        }
    }
    println!("{:<58} {:>10} {:>12} unit", "what", "reach", "measured");
    for row in SECTIONS.iter().flat_map(Section::rows).filter(is_chosen) {
        let (name, reach) = (row.name, row.reach.show());
        match row.measure.values().map(|values| median(&values)) {
            Ok(value) => {
                let verdict = row.reach.verdict(value);
                println!("{name:<58} {reach:>10} {value:>12.3} {:<6} {verdict}", row.unit);
            }
            Err(why) => println!("{name:<58} {reach:>10} {:>12} {why}", "left out:"),
        }
    }
}
