//! `schedlab twin`: this machine measured for the lab.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::model::{COSTS, Reading, Spread, Twin, clean_path};
use crate::report::numbers::Scale;
use crate::report::numbers::counted;
use crate::report::{clean, shortened};
use crate::session::{Database, SessionError, machine};

use super::{Failure, notices, terminal};

#[derive(Args)]
pub struct TwinArgs {
    /// The file to write; without it that of this machine, which plans name `twin`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &TwinArgs) -> Result<(), Failure> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => machine::own_file()?,
    };
    check_replaced(&path)?;
    let twin = machine::measure(&path)?;
    machine::report_load(&twin, &Database::new(None, notices::show));
    let text = table(&twin, terminal::width());
    let path = clean_path(&path);
    let end = "with the reasons of what is unknown";
    Ok(writeln!(io::stdout().lock(), "{text}written to {path}, {end}")?)
}

/// Refuses to write over a file that is not of a machine.
fn check_replaced(path: &Path) -> Result<(), Failure> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match is_file.then(|| machine::read(path)) {
        Some(Err(why)) => {
            let why = match why {
                SessionError::Usage(problem) | SessionError::Here(problem) => problem.message,
                other => other.to_string(),
            };
            let text = format!("not replaced, as `schedlab twin` did not write it: {why}");
            Err(Failure::usage(text, "another -o FILE, or remove it first"))
        }
        _ => Ok(()),
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
    let parts = parts.map(|(count, part)| counted(count, part)).join(", ");
    let threads = match &topology.threads_per_core {
        Reading::Known(threads) => threads.to_string(),
        Reading::Unknown(why) => format!("unknown: {why}"),
    };
    let tick = of(&twin.tick_hz.clone().map(|hz| format!("{hz} Hz")));
    let slack = of(&twin.timer_slack_ns.clone().map(|ns| Scale::time(ns as f64)));
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
            Scale::time(median_ns),
            Scale::time(p10_ns),
            Scale::time(p90_ns)
        ),
        Reading::Unknown(why) => format!("{name:<20}  unknown: {why}"),
    }));
    lines.iter().map(|line| shortened(clean(line).trim_end(), columns).to_string() + "\n").collect()
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
        let said = check_replaced(&path).unwrap_err().to_string();
        assert!(said.contains("did not write it") && said.contains("keep.toml"), "{said}");
        assert_eq!((said.matches("error: ").count(), said.matches("hint: ").count()), (1, 1));
    }
}
