//! `schedlab twin`: this machine measured for the lab; and the machine that a plan names.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::exec;
use crate::model::{COSTS, Environment, Lab, Reading, Spread, Twin, Unit};
use crate::plan;
use crate::report::numbers::Scale;
use crate::report::{clean, shortened};
use crate::sys::replace::replace;
use crate::sys::{self, Host, remedy};

use super::text::quoted;
use super::{Failure, judging, plural, terminal};
use crate::sys::input;

/// The word by which plans name this machine.
const HERE: &str = "twin";
/// The file of this machine, in the state folder.
const FILE: &str = "machine.toml";
/// A machine's file is some kilobytes; a plan may name a file that has no end.
const MAX_BYTES: u64 = 1 << 20;
/// The most that others may keep busy, in CPUs, without a warning.
const MAX_OTHER_LOAD: f64 = 0.1;

#[derive(Args)]
pub struct TwinArgs {
    /// The file to write; without it that of this machine, which plans name `twin`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &TwinArgs) -> Result<(), Failure> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => own_file()?,
    };
    check_replaced(&path)?;
    let twin = measure(&path)?;
    warn_of_load(&twin);
    let text = table(&twin, terminal::width());
    let path = clean(&path.display().to_string());
    let end = "with the reasons of what is unknown";
    Ok(writeln!(io::stdout().lock(), "{text}written to {path}, {end}")?)
}

/// The guests of a plan for the lab, with the machine that it names, or `machine` in its place: a file, or
/// the word of this one.
pub fn lab_of_plan(name: &str, text: &str, machine: Option<&str>) -> Result<Lab, Failure> {
    let lab = plan::lab(name, text, None).map_err(Failure::Plan)?;
    let twin = match (machine, &lab.model.twin) {
        (None, None) => return Ok(lab),
        (Some(HERE), _) => here()?,
        (Some(file), _) => read(Path::new(file))?,
        (None, Some(named)) if named == HERE => here()?,
        (None, Some(named)) => read(&next_to(name, named))?,
    };
    warn_of_load(&twin);
    plan::lab(name, text, Some(&twin)).map_err(Failure::Plan)
}

/// This machine's file, if it is of the machine as it is.
pub fn known(environment: &Environment) -> Result<Twin, Failure> {
    let path = own_file()?;
    let twin = read(&path)?;
    match twin.is_of(environment) {
        true => Ok(twin),
        false => {
            let text = format!("{} is of {}", path.display(), clean(&twin.name()));
            Err(Failure::here(text, "schedlab twin"))
        }
    }
}

/// This machine: from its file, else measured.
fn here() -> Result<Twin, Failure> {
    let twin = known(&sys::environment(&Host::default()));
    twin.or_else(|_| {
        terminal::message("measuring this machine for machine = \"twin\": half a minute");
        measure(&own_file()?)
    })
}

fn own_file() -> Result<PathBuf, Failure> {
    let state = sys::state_dir()?;
    Ok(state.join(FILE))
}

/// A path in a plan begins at the plan's folder.
/// A file that a plan names.
pub fn next_to(plan: &str, named: &str) -> PathBuf {
    Path::new(plan).parent().unwrap_or(Path::new("")).join(named)
}

fn read(path: &Path) -> Result<Twin, Failure> {
    let shown = clean(&path.display().to_string());
    let text = input::read_text_file(path, MAX_BYTES).map_err(|error| {
        let text = format!("the machine {shown} cannot be read: {error}");
        let hint = match error.kind() {
            io::ErrorKind::NotFound => format!("schedlab twin -o {}", quoted(&shown)),
            _ => remedy::read(path, &error),
        };
        Failure::unread(text, hint, &error)
    })?;
    Twin::parse(&text)
        .map_err(|error| Failure::usage(format!("the machine {shown}: {error}"), error.hint()))
}

/// Refuses to write over a file that is not of a machine.
fn check_replaced(path: &Path) -> Result<(), Failure> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match is_file.then(|| read(path)) {
        Some(Err(why)) => {
            let shown = clean(&path.display().to_string());
            let text = format!("{shown} exists, and this command did not write it: {why}");
            Err(Failure::usage(text, "another -o FILE, or remove it first"))
        }
        _ => Ok(()),
    }
}

/// Measures this machine into a file.
fn measure(path: &Path) -> Result<Twin, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let unwritable = |error: io::Error| judging::unwritten(path, &error);
    folder.map_or(Ok(()), fs::create_dir_all).map_err(unwritable)?;
    let twin = exec::measure_twin(&Host::default()).map_err(|error| {
        Failure::here(error.to_string(), error.hint().unwrap_or("schedlab doctor"))
    })?;
    replace(path, |out| out.write_all(twin.text().as_bytes())).map_err(unwritable)?;
    Ok(twin)
}

fn warn_of_load(twin: &Twin) {
    if let Reading::Known(cpus) = twin.other_load
        && cpus > MAX_OTHER_LOAD
    {
        let text = format!(
            "warning: others kept {cpus:.2} CPUs busy while the machine was measured, which \
             lengthens what was measured; when it is quiet: schedlab twin"
        );
        terminal::message(&text);
    }
}

/// Lists the measured properties, a line each.
fn table(twin: &Twin, columns: usize) -> String {
    let of = |reading: &Reading<String>| match reading {
        Reading::Known(text) => text.clone(),
        Reading::Unknown(_) => "unknown".to_string(),
    };
    let topology = &twin.topology;
    let parts = [
        (topology.sockets, "socket"),
        (topology.llcs, "last-level cache"),
        (topology.nodes, "NUMA node"),
    ];
    let parts = parts.map(|(count, part)| plural(count.into(), part)).join(", ");
    let threads = match &topology.threads_per_core {
        Reading::Known(threads) => threads.to_string(),
        Reading::Unknown(why) => format!("unknown: {why}"),
    };
    let tick = of(&twin.tick_hz.clone().map(|hz| format!("{hz} Hz")));
    let slack = of(&twin.timer_slack_ns.clone().map(|ns| time(ns as f64)));
    let mut lines = vec![
        twin.name(),
        format!("{}; {parts}", of(&twin.virtualisation)),
        format!("threads a core {threads}"),
        format!("tick {tick}, timer slack {slack}, preemption {}", of(&twin.preemption)),
        format!("{:<20}{:>9}{:>10}{:>10}{:>9}", "", "median", "p10", "p90", "samples"),
    ];
    lines.extend(COSTS.iter().map(|(cost, name, _)| match twin.cost(*cost) {
        Reading::Known(Spread { median_ns, p10_ns, p90_ns, samples }) => format!(
            "{name:<20}{:>9}{:>10}{:>10}{samples:>9}",
            time(median_ns),
            time(p10_ns),
            time(p90_ns)
        ),
        Reading::Unknown(why) => format!("{name:<20}  unknown: {why}"),
    }));
    lines.iter().map(|line| shortened(clean(line).trim_end(), columns).to_string() + "\n").collect()
}

fn time(ns: f64) -> String {
    Scale::for_values(Unit::Ns, Some(ns)).with_suffix(Some(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::twin_testing;

    #[test]
    fn the_table_fits_a_terminal_and_has_each_cost() {
        let mut twin = twin_testing::twin();
        twin.cpu_model = Reading::Known("a \u{1b}[31m processor of a long name ".repeat(4));
        let text = table(&twin, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() < 25 && lines.iter().all(|line| line.chars().count() <= 80));
        assert!(!text.contains('\u{1b}'), "{text}");
        for (_, name, _) in COSTS {
            assert!(text.contains(&format!("\n{name} ")), "{name}: {text}");
        }
        assert!(text.contains("unknown: the kernel does not count"), "{text}");
    }

    #[test]
    fn a_file_of_the_user_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keep.toml");
        assert!(check_replaced(&path).is_ok());
        fs::write(&path, twin_testing::twin().text()).unwrap();
        assert!(check_replaced(&path).is_ok());
        fs::write(&path, "schema = 1\ntitle = \"mine\"\n").unwrap();
        assert!(check_replaced(&path).unwrap_err().to_string().contains("did not write it"));
    }

    #[test]
    fn a_machine_lies_next_to_its_plan() {
        let cases = [
            ("plans/web.toml", "m.toml", "plans/m.toml"),
            ("web.toml", "m.toml", "m.toml"),
            ("/p/web.toml", "/m/m.toml", "/m/m.toml"),
        ];
        for (plan, named, path) in cases {
            assert_eq!(next_to(plan, named), Path::new(path));
        }
    }
}
