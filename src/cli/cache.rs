//! `schedlab cache`: what the lab keeps for later plans, and its removal. Kernels have commands of their own.

use std::io::{self, Write};
use std::time::SystemTime;

use clap::{Args, Subcommand};

use crate::backend::BackendError;
use crate::backend::lab::LabError;
use crate::backend::lab::kept::{Kept, LIMIT, MachineSummary, SavedMachine, Taker, mebibytes};
use crate::backend::lab::kernel::{Cache, Entry};
use crate::model::show_bytes;
use crate::report::numbers::counted;
use crate::report::{clean, rough_time};

use super::table::Columns;
use super::{Failure, table, terminal};

/// So much of a machine's digest is its name.
const ID_CHARS: usize = 8;
const SECONDS_OF_DAY: u64 = 86_400;
const MACHINES: &str = "machines";
const STALE: &str = "stale";
const DAMAGED: &str = "damaged";
const RESULTS: &str = "results";
/// Words behind machines that no plan of this schedlab takes.
const NOTES: [(&str, &str); 2] = [
    (STALE, "stale: of another build of schedlab or another QEMU, which this one cannot take"),
    (DAMAGED, "damaged: cut off, changed or not in this schedlab's format"),
];

#[derive(Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Remove booted machines or results
    Rm {
        /// `machines`: all of them; `stale`: those of other builds of schedlab or QEMU, and damaged ones;
        /// `results`: those of exact runs; or a machine by the beginning of its name
        #[arg(required = true, value_name = "machines|stale|results|NAME")]
        what: Vec<String>,
    },
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        BackendError::from(error).into()
    }
}

pub fn run(args: &CacheArgs) -> Result<(), Failure> {
    let kept = Kept::open()?;
    match &args.action {
        None => list(&kept),
        Some(Action::Rm { what }) => remove(&kept, what),
    }
}

/// The machines, each with the word for why this schedlab cannot take it, if it cannot. The word costs two starts of
/// QEMU, so there is none where nobody asks for it.
fn machines(
    kept: &Kept,
    with_faults: bool,
) -> Result<Vec<(SavedMachine, Option<&'static str>)>, LabError> {
    let machines = kept.machines()?;
    let is_needed = with_faults && !machines.is_empty();
    let own = is_needed.then(Taker::find).transpose()?;
    let with_fault = |machine: SavedMachine| {
        let fault = own.as_ref().and_then(|own| fault(&machine, own));
        (machine, fault)
    };
    Ok(machines.into_iter().map(with_fault).collect())
}

fn fault(machine: &SavedMachine, own: &Taker) -> Option<&'static str> {
    match machine.summary {
        None => Some(DAMAGED),
        Some(_) => (!machine.is_of(own)).then_some(STALE),
    }
}

/// `3 booted machines, 157.4 MiB of at most 4GiB`.
pub fn machines_text() -> Result<String, LabError> {
    let kept = Kept::open()?;
    Ok(text_of(&kept.machines()?) + &limit(&kept))
}

fn limit(kept: &Kept) -> String {
    match kept.max_machines_bytes() {
        0 => format!("; none is kept ({LIMIT})"),
        max => format!(" of at most {}", show_bytes(max)),
    }
}

fn text_of<'m>(machines: impl IntoIterator<Item = &'m SavedMachine>) -> String {
    let sizes: Vec<u64> = machines.into_iter().map(|machine| machine.bytes).collect();
    let number = counted(sizes.len(), "booted machine");
    format!("{number}, {}", mebibytes(sizes.iter().sum()))
}

fn list(kept: &Kept) -> Result<(), Failure> {
    let machines = machines(kept, true)?;
    let (results, of_results) = kept.results()?;
    let kernels = Cache::open()?.entries()?;
    let of_kernel =
        |entry: &Entry| entry.stamp().map_or(0, |stamp| stamp.size_bytes) + entry.unpacked_bytes();
    let row = |part: &str, number: usize, size: String, by: &str| {
        [part.to_string(), number.to_string(), size, by.to_string()].to_vec()
    };
    let of_machines =
        mebibytes(machines.iter().map(|(machine, _)| machine.bytes).sum()) + &limit(kept);
    let of_kernels = mebibytes(kernels.iter().map(of_kernel).sum());
    let rows = vec![
        row("booted machines", machines.len(), of_machines, "schedlab cache rm machines"),
        row(
            "results of runs",
            results as usize,
            mebibytes(of_results),
            "schedlab cache rm results",
        ),
        row("kernels", kernels.len(), of_kernels, "schedlab kernel rm NAME"),
    ];
    let header = ["kept", "number", "size", "removed by"];
    let width = terminal::width();
    let mut out = io::stdout().lock();
    let layout = Columns { fixed: &header, spare: &["removed by"], ..Columns::default() };
    write!(out, "{}", table::rows(&header, rows, &layout, width))?;
    if machines.is_empty() {
        return Ok(());
    }
    let now = SystemTime::now();
    let emulators: Vec<&str> = machines.iter().filter_map(|(of, _)| emulator(of)).collect();
    let cells = |(machine, fault): &(SavedMachine, _)| cells(machine, *fault, &emulators, now);
    let rows = machines.iter().map(cells).collect();
    let header = ["machine", "kernel", "state", "CPUs", "memory", "QEMU", "size", "used"];
    let layout = Columns {
        fixed: &["machine", "state", "CPUs", "memory", "QEMU", "size", "used"],
        main: "kernel",
        spare: &["QEMU", "size", "memory", "CPUs"],
    };
    write!(out, "\n{}", table::rows(&header, rows, &layout, width))?;
    let is_there = |word: &str| machines.iter().any(|(_, fault)| *fault == Some(word));
    let notes: Vec<&str> =
        NOTES.iter().filter(|(word, _)| is_there(word)).map(|(_, note)| *note).collect();
    if !notes.is_empty() {
        let notes = table::wrapped(&format!("{}:", notes.join("; ")), width);
        writeln!(out, "{notes}schedlab cache rm stale")?;
    }
    Ok(())
}

fn emulator(machine: &SavedMachine) -> Option<&str> {
    machine.summary.as_ref().map(|own| own.emulator.as_str())
}

/// `emulators`: those of all machines that are shown.
fn cells(
    machine: &SavedMachine,
    fault: Option<&str>,
    emulators: &[&str],
    now: SystemTime,
) -> Vec<String> {
    let fault = fault.map_or(String::new(), |word| format!(", {word}"));
    let used = format!("{} ago{fault}", age(machine, now));
    let summary = machine.summary.as_ref();
    let of = |text: &dyn Fn(&MachineSummary) -> String| summary.map_or("-".to_string(), text);
    vec![
        clean(id(machine)),
        of(&|own| clean(format!("{} {}", own.kernel, own.arguments).trim())),
        of(&|own| clean(&state(own.probes.as_deref()))),
        of(&|own| own.cpus.to_string()),
        of(&|own| format!("{} MiB", own.memory_bytes >> 20)),
        of(&|own| clean(version(&own.emulator, emulators))),
        mebibytes(machine.bytes),
        used,
    ]
}

/// How far a machine is: booted, or also ready for runs with these probes.
fn state(probes: Option<&[String]>) -> String {
    match probes {
        None => "booted".to_string(),
        Some([]) => "ready".to_string(),
        Some(probes) => format!("ready, {}", probes.join(", ")),
    }
}

fn id(machine: &SavedMachine) -> &str {
    machine.digest.get(..ID_CHARS).unwrap_or(&machine.digest)
}

/// `10.0.2` of `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`; where another one differs behind it, all of it.
fn version<'e>(emulator: &'e str, all: &[&'e str]) -> &'e str {
    let whole = |emulator: &'e str| emulator.split_once("version ").map_or(emulator, |(_, of)| of);
    let short = |emulator| whole(emulator).split(' ').next().unwrap_or_default();
    let is_shared = all.iter().any(|other| *other != emulator && short(other) == short(emulator));
    if is_shared { whole(emulator) } else { short(emulator) }
}

fn age(machine: &SavedMachine, now: SystemTime) -> String {
    let age = now.duration_since(machine.used_at).unwrap_or_default();
    match age.as_secs() / SECONDS_OF_DAY {
        0 | 1 => rough_time(age.as_nanos() as u64),
        days => format!("{days} days"),
    }
}

/// All words are understood before anything is removed.
fn remove(kept: &Kept, what: &[String]) -> Result<(), Failure> {
    let machines = machines(kept, what.iter().any(|word| word == STALE))?;
    let mut chosen: Vec<&SavedMachine> = Vec::new();
    for word in what.iter().filter(|word| *word != RESULTS) {
        let found = machines.iter().filter(|(machine, fault)| match word.as_str() {
            MACHINES => true,
            STALE => fault.is_some(),
            beginning => !word.is_empty() && machine.digest.starts_with(beginning),
        });
        let found: Vec<&SavedMachine> = found.map(|(machine, _)| machine).collect();
        let is_name = ![MACHINES, STALE].contains(&word.as_str());
        if is_name && found.len() != 1 {
            let word = clean(word);
            let text = match found.len() {
                0 => format!("no booted machine is called `{word}`"),
                several => format!("`{word}` is {several} booted machines"),
            };
            return Err(Failure::usage(text, "schedlab cache lists their names"));
        }
        chosen.extend(found);
    }
    chosen.sort_by_key(|machine| &machine.digest);
    chosen.dedup();
    let mut out = io::stdout().lock();
    if what.iter().any(|word| word != RESULTS) {
        chosen.iter().try_for_each(|machine| kept.remove_machine(machine))?;
        kept.remove_abandoned()?;
        writeln!(out, "removed {}", text_of(chosen))?;
    }
    if what.iter().any(|word| word == RESULTS) {
        let (results, bytes) = kept.results()?;
        kept.remove_results()?;
        writeln!(out, "removed {}, {}", counted(results, "result"), mebibytes(bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_machine_is_listed_with_what_it_is_of() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10 * SECONDS_OF_DAY);
        let summary = MachineSummary {
            kernel: "debian:6.18\u{1b}".to_string(),
            cpus: 4,
            memory_bytes: 512 << 20,
            arguments: "nohz=off".to_string(),
            probes: Some(vec!["sched".to_string()]),
            emulator: "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)".to_string(),
            emulator_digest: "emulator".to_string(),
            program_digest: "own".to_string(),
        };
        let mut machine = SavedMachine {
            digest: "0123456789abcdef".to_string(),
            bytes: 55_000_000,
            used_at: now - Duration::from_secs(600),
            summary: Some(summary),
        };
        let taker = |program: &str, emulator: Option<&str>| Taker {
            program_digest: program.to_string(),
            emulator_digest: emulator.map(str::to_string),
        };
        let own = taker("own", Some("emulator"));
        assert!(machine.is_of(&own) && machine.is_of(&taker("own", None)));
        let shown = cells(&machine, None, &["QEMU emulator version 10.0.1"], now);
        let expected = [
            "01234567",
            "debian:6.18\\u{1b} nohz=off",
            "ready, sched",
            "4",
            "512 MiB",
            "10.0.2",
            "52.5 MiB",
            "10 min ago",
        ];
        assert_eq!(shown, expected);
        let others = ["QEMU emulator version 10.0.2 (built here)"];
        assert_eq!(cells(&machine, None, &others, now)[5], "10.0.2 (Debian 1:10.0.2+ds-2)");
        assert_eq!(fault(&machine, &own), None);
        for other in [taker("other", Some("emulator")), taker("own", Some("other"))] {
            assert_eq!(fault(&machine, &other), Some(STALE));
        }
        machine.summary = None;
        assert_eq!(fault(&machine, &own), Some(DAMAGED));
        machine.used_at = now - Duration::from_secs(3 * SECONDS_OF_DAY);
        assert!(!machine.is_of(&own));
        let shown = cells(&machine, Some(DAMAGED), &[], now).join(" ");
        assert_eq!(shown, "01234567 - - - - - 52.5 MiB 3 days ago, damaged");
    }
}
