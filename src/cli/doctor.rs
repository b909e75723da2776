//! `schedlab doctor`: what this machine can measure, what disturbs it, and what to do.

use std::io::{self, Write};

use clap::Args;

use crate::backend::lab::checkup as lab;

use crate::model::GuestTime;
use crate::probe::checkup::{self, Finding, Level};
use crate::sys::{self, Host};

use super::{Failure, terminal};

#[derive(Args)]
pub struct DoctorArgs {
    /// Boot a guest with each kernel of the cache: some ten seconds each
    #[arg(long)]
    lab: bool,

    /// CPUs of these guests; with more than one an emulator can fail at more
    #[arg(long, value_name = "N", default_value_t = 4, requires = "lab",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
}

pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut findings = match args.lab {
        true => Vec::new(),
        false => checkup::checkup(&Host::default()),
    };
    findings.extend(qemu());
    let kernels = lab::kernels().unwrap_or_default();
    findings.push(cached(&kernels));
    if args.lab {
        let state = sys::state_dir().map_err(Failure::Here)?;
        for kernel in &kernels {
            findings
                .push(tried(&lab::try_kernel(kernel, args.cpus, &state).map_err(Failure::Here)?));
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
    mend: Option<&str>,
) -> Finding {
    Finding { name, level, what, why: why.to_string(), mend: mend.map(str::to_string) }
}

fn qemu() -> Vec<Finding> {
    let mend = "apt-get install qemu-system-x86   # Debian 12: -t bookworm-backports";
    let why = "the lab boots kernels in it: schedlab run PLAN --backend lab";
    match lab::qemu() {
        (Err(missing), _) => {
            let what = missing.lines().next().unwrap_or_default().to_string();
            vec![finding(Level::Note, "qemu", what, why, Some(mend))]
        }
        (Ok(_), Some(complaint)) => {
            vec![finding(Level::Note, "qemu", complaint, why, Some(mend))]
        }
        (Ok(words), None) => vec![finding(Level::Good, "qemu", words, why, None)],
    }
}

fn cached(kernels: &[String]) -> Finding {
    let why = "kernels that the lab can boot";
    match kernels {
        [] => {
            let mend = "schedlab kernel get debian:6.1 debian:6.12 debian:6.18";
            finding(Level::Note, "kernels", "none is in the cache".to_string(), why, Some(mend))
        }
        some => finding(Level::Good, "kernels", some.join(", "), why, None),
    }
}

fn tried(tried: &lab::Tried) -> Finding {
    let seconds = tried.took.as_secs_f64();
    let of = format!("{} with {} CPUs", tried.kernel, tried.cpus);
    let exact = "what guests do is the same in every run only where QEMU's threads are in step";
    match &tried.outcome {
        Ok(lab::Quiet { facts, time: GuestTime::Exact, started_after }) => {
            let what = format!(
                "{of}: {} at its first process after {:.1} s; quiet and saved after {seconds:.1} s \
                 ({:.1} s of its own time); exact",
                facts.kernel_release,
                started_after.as_secs_f64(),
                facts.quiet_at_ns as f64 / 1e9
            );
            finding(Level::Good, "lab", what, exact, None)
        }
        Ok(lab::Quiet { time, .. }) => {
            let why = match time {
                GuestTime::NotExact(why) => why.as_str(),
                GuestTime::Exact | GuestTime::Real => "real time",
            };
            finding(Level::Disturbs, "lab", format!("{of}: not exact: {why}"), exact, None)
        }
        Err(why) => finding(Level::Blocks, "lab", format!("{of}: {why}"), exact, None),
    }
}
