//! `schedlab doctor`: what this machine can measure, what disturbs it, and what to do.

use std::io::{self, Write};

use clap::Args;

use crate::backend::BackendError;
use crate::backend::lab::checkup as lab;
use crate::model::GuestTime;
use crate::probe::checkup::{self, Finding, Level};
use crate::session::machine;
use crate::sys::{self, Host};

use super::{Failure, cache, terminal};

/// The checks of this file; the others are those of [`checkup`].
const QEMU: &str = "qemu";
const KERNELS: &str = "kernels";
const MACHINES: &str = "machines";
const LAB: &str = "lab";
const TWIN: &str = "twin";

#[derive(Args)]
pub struct DoctorArgs {
    /// Boot a guest with each cached kernel: about ten seconds each
    #[arg(long)]
    lab: bool,

    /// This kernel instead, by its name or the path of a bzImage; may be repeated
    #[arg(long, value_name = "NAME", requires = "lab")]
    kernel: Vec<String>,

    /// CPUs of these guests; some emulators fail only with more than one
    #[arg(long, value_name = "N", default_value_t = 4, requires = "lab",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
}

pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut findings = if args.lab { Vec::new() } else { checkup::checkup(&Host::default()) };
    let host = lab::check_host();
    let kernels = lab::kernels().unwrap_or_default();
    match &host {
        Ok(()) => findings.extend([qemu(), cached(&kernels), machines(), measured()]),
        Err(error) => {
            let why = "all but the lab works as elsewhere: plans measure this machine";
            findings.push(finding(Level::Note, LAB, error.to_string(), why, None));
        }
    }
    if args.lab {
        host?;
        // Consoles of guests that fail are kept there, where that can be.
        let state = sys::state_dir().ok().filter(|state| std::fs::create_dir_all(state).is_ok());
        let asked = if args.kernel.is_empty() { &kernels } else { &args.kernel };
        // All names are checked before the first of them is booted.
        asked
            .iter()
            .try_for_each(|kernel| lab::check_kernel(kernel))
            .map_err(BackendError::from)?;
        for kernel in asked {
            let tried =
                lab::try_kernel(kernel, args.cpus, state.as_deref()).map_err(BackendError::from)?;
            findings.push(booted(&tried));
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let text = checkup::render(&findings, terminal::width(), terminal::color(&io::stdout()));
    Ok(write!(io::stdout().lock(), "{text}")?)
}

fn finding(
    level: Level,
    name: &'static str,
    what: String,
    why: &str,
    fix: Option<&str>,
) -> Finding {
    Finding { name, level, what, why: why.to_string(), fix: fix.map(str::to_string) }
}

fn qemu() -> Finding {
    let why = "the lab boots kernels in it: schedlab run PLAN --backend lab";
    match lab::qemu() {
        Ok(version) => finding(Level::Good, QEMU, version, why, None),
        Err(error) => {
            let fix = "apt-get install qemu-system-x86   # Debian 12: -t bookworm-backports";
            finding(Level::Note, QEMU, error.to_string(), why, Some(fix))
        }
    }
}

fn cached(kernels: &[String]) -> Finding {
    let why = "kernels that the lab can boot";
    match kernels {
        [] => {
            let fix = "schedlab kernel get debian:6.1 debian:6.12 debian:6.18";
            finding(Level::Note, KERNELS, "none is in the cache".to_string(), why, Some(fix))
        }
        some => finding(Level::Good, KERNELS, some.join(", "), why, None),
    }
}

fn machines() -> Finding {
    let why = "a plan takes one in place of a boot: schedlab cache lists and removes them";
    match cache::machines_text() {
        Ok(text) => finding(Level::Good, MACHINES, text, why, None),
        Err(error) => finding(Level::Note, MACHINES, error.to_string(), why, None),
    }
}

fn measured() -> Finding {
    let why = "with it the lab has the delays of this machine: machine = \"twin\" in [lab]";
    match machine::known(&sys::environment(&Host::default())) {
        Ok(twin) => {
            let is_busy = twin.other_cpus().is_some();
            let level = if is_busy { Level::Note } else { Level::Good };
            let remedy = is_busy.then_some("schedlab twin");
            finding(level, TWIN, format!("measured: {}", twin.name()), why, remedy)
        }
        Err(_) => {
            let what = "this machine was not measured as it is".to_string();
            finding(Level::Note, TWIN, what, why, Some("schedlab twin"))
        }
    }
}

fn booted(tried: &lab::Tried) -> Finding {
    let seconds = tried.took.as_secs_f64();
    let guest = format!("{} with {} CPUs", tried.kernel, tried.cpus);
    let why = "a guest does the same in every run only if QEMU's threads are in step";
    let clocks = match &tried.no_clocks {
        None => {
            "each CPU has its own clock and full speed: fidelity clocks, burn or twin".to_string()
        }
        Some(why) => format!("all CPUs share one clock and its speed: {why}"),
    };
    match &tried.outcome {
        Ok(lab::Quiet { facts, time: GuestTime::Exact, started_after }) => {
            let what = format!(
                "{guest}: {}, {} at its first process after {:.1} s; quiet and saved after \
                 {seconds:.1} s ({:.1} s of its own time); exact; {clocks}",
                facts.kernel_release,
                facts.scheduler.as_ref().known().map_or("scheduler unknown", String::as_str),
                started_after.as_secs_f64(),
                facts.quiet_at_ns as f64 / 1e9
            );
            finding(Level::Good, LAB, what, why, None)
        }
        Ok(lab::Quiet { time, .. }) => {
            let fault = match time {
                GuestTime::NotExact(fault) => fault.as_str(),
                GuestTime::Exact | GuestTime::Real => "real time",
            };
            finding(Level::Disturbs, LAB, format!("{guest}: not exact: {fault}"), why, None)
        }
        Err(error) => finding(Level::Blocks, LAB, format!("{guest}: {error}"), why, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_page_has_every_check_and_no_other() {
        let page = include_str!("../../docs/doctor.md");
        let table = page.split("\n## ").find(|part| part.starts_with("The checks\n"));
        let rows = table.expect("a table of checks").lines().filter_map(|line| {
            let name = line.strip_prefix("| ")?.split_once(" |")?.0;
            (name != "check").then_some(name)
        });
        let checks = checkup::names().chain([QEMU, KERNELS, MACHINES, TWIN, LAB]);
        assert_eq!(rows.collect::<BTreeSet<_>>(), checks.collect::<BTreeSet<_>>());
    }
}
