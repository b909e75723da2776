//! schbench's command line, and the run that it asks for.
//!
//! Input: arguments and the CPUs of the machine. Output: a [`RunConfig`] with the complete
//! parameters of the workload `schbench`, or what is wrong. Pure. Bare numbers have schbench's
//! units: KB, microseconds, seconds, percent, bytes. Ranges are the workload's.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, Args};

use crate::model::{CpuSet, Field, Kind, Params, Raw, ValueError};
use crate::plan::fill_defaults;
use crate::workload;

use super::super::CompatError;

/// schbench's options are C ints; more is a typing error.
const MAX_NUMBER: u64 = i32::MAX as u64;
/// As schbench does, a larger `-p` is clamped with a message.
const MAX_PIPE_BYTES: u64 = 1 << 20;
/// Requests per second that `-A` begins with.
const AUTO_RPS_START: u64 = 10;
/// Below this many seconds there is no warm-up.
const MIN_WITH_WARMUP_S: u64 = 30;
/// schbench's arrivals.
const BURST: &str = "burst";
const HINT: &str = "schedlab schbench --help";

/// Drop-in for schbench v1.0: latencies, requests per second
#[derive(Args, Debug, Clone)]
#[command(infer_long_args = true, args_override_self = true, mut_args(taking_negative))]
pub struct SchbenchArgs {
    /// Time the math alone: no lock, and the sleep is not in the request
    #[arg(short = 'C', long)]
    calibrate: bool,

    // An alias distinguishes `--n` from `--numa`, which schbench does not have.
    /// Hold no lock during the math
    #[arg(short = 'L', long, aliases = ["no_locking", "n"])]
    no_locking: bool,

    /// Message threads [default: 1]
    #[arg(short, long, alias = "message_threads", value_name = "N", value_parser = whole)]
    message_threads: Option<u64>,

    /// CPUs of the message threads, one each in turn: a list such as 0-3,8, or `auto`
    #[arg(short = 'M', long, alias = "message_cpus", value_name = "CPUS", value_parser = cpus)]
    message_cpus: Option<Cpus>,

    /// CPUs of the workers: a list such as 0-3,8, or `auto`: all that message threads leave
    #[arg(short = 'W', long, alias = "worker_cpus", value_name = "CPUS", value_parser = cpus)]
    worker_cpus: Option<Cpus>,

    /// Workers per message thread [default, and 0: CPUs divided by message threads, rounded up]
    #[arg(short, long, value_name = "N", value_parser = whole)]
    threads: Option<u64>,

    /// How long to run; 0: until interrupted
    #[arg(short, long, value_name = "SECONDS", value_parser = whole, default_value_t = 30)]
    runtime: u64,

    /// Size of a worker's three matrices [default: 256]
    #[arg(short = 'F', long, alias = "cache_footprint", value_name = "KB", value_parser = whole)]
    cache_footprint: Option<u64>,

    /// Matrix multiplications of a request [default: 5]
    #[arg(short = 'n', long, value_name = "N", value_parser = whole)]
    operations: Option<u64>,

    /// Sleep of a request, before the math [default: 100]
    #[arg(short, long, alias = "sleep_usec", value_name = "USEC", value_parser = whole)]
    sleep_usec: Option<u64>,

    // As above, from `--arrivals`.
    /// Seek the rate of requests that keeps CPUs busy this much [default, and 0: off]
    #[arg(
        short = 'A', long, aliases = ["auto_rps", "a"], value_name = "PERCENT",
        value_parser = whole
    )]
    auto_rps: Option<u64>,

    /// Pass this much back and forth in place of requests, at most 1048576 [default, and 0: off]
    #[arg(short, long, value_name = "BYTES", value_parser = whole)]
    pipe: Option<u64>,

    /// Requests that arrive per second [default, and 0: as many as can be done]
    #[arg(short = 'R', long, value_name = "N", value_parser = whole)]
    rps: Option<u64>,

    /// Leave out so much of the start; only in runs of 30 s or more without a rate
    #[arg(short, long, value_name = "SECONDS", value_parser = whole, default_value_t = 0)]
    warmuptime: u64,

    /// Print what is known so far this often
    #[arg(short, long, value_name = "SECONDS", value_parser = whole, default_value_t = 10)]
    intervaltime: u64,

    /// Forget what is known so far this often; 0: never
    #[arg(short, long, value_name = "SECONDS", value_parser = whole, default_value_t = 0)]
    zerotime: u64,

    /// Also write JSON to FILE; `-`: to stdout
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,

    /// A name to put into the JSON
    #[arg(short = 'J', long, value_name = "NAME", allow_hyphen_values = true)]
    jobname: Option<String>,

    /// Share of the footprint that is each worker's own; the rest all share [default: all own]
    #[arg(long, value_name = "PERCENT", value_parser = whole)]
    split: Option<u64>,

    /// With a rate: a second's requests at once, evenly spaced, or at random (not schbench's)
    #[arg(
        long, value_name = "HOW",
        value_parser = [BURST, "uniform", "poisson"], default_value = BURST
    )]
    arrivals: String,

    /// A message thread and its workers on each NUMA node, memory local (not schbench's)
    #[arg(long)]
    numa: bool,
}

/// A number below 0 is a wrong value of its option, not another option.
fn taking_negative(arg: Arg) -> Arg {
    let takes_number = arg.get_action().takes_values() && arg.get_id() != "arrivals";
    if takes_number { arg.allow_negative_numbers(true) } else { arg }
}

/// The value of `-M` and `-W`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cpus {
    Auto,
    Listed(CpuSet),
}

/// Facts of the machine that the configuration depends on.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The CPUs that this process may use.
    pub allowed: CpuSet,
    /// The number of CPUs: schbench makes as many workers, even if it may use fewer CPUs.
    pub online: usize,
    /// The number of NUMA nodes with CPUs that this process may use.
    pub nodes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Requests,
    Pipe { bytes: u64 },
}

/// The run that the options ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    /// The parameters of the workload `schbench`, complete.
    pub params: Params,
    /// `None`: until interrupted.
    pub runtime_s: Option<u64>,
    /// 0: none.
    pub warmup_s: u64,
    /// At least 1.
    pub interval_s: u64,
    /// `None`: never.
    pub zero_s: Option<u64>,
    /// `-`: stdout.
    pub json: Option<PathBuf>,
    pub jobname: Option<String>,
    pub mode: Mode,
    pub auto_rps: bool,
    /// The lines that schbench prints to stderr before it begins.
    pub notes: Vec<String>,
}

/// Faults in the text of an option.
#[derive(Debug, thiserror::Error)]
enum OptionError {
    #[error("it is empty; write a whole number")]
    Empty,
    #[error("it is not a whole number")]
    NotWhole,
    #[error("it is below 0")]
    Negative,
    #[error("it is above {MAX_NUMBER}")]
    TooLarge,
    #[error("{0}; or write `auto`")]
    Cpus(<CpuSet as FromStr>::Err),
}

fn whole(text: &str) -> Result<u64, OptionError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text.is_empty() {
        return Err(OptionError::Empty);
    }
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OptionError::NotWhole);
    }
    if digits.len() < text.len() {
        return Err(OptionError::Negative);
    }
    let number = digits.parse().ok().filter(|&number| number <= MAX_NUMBER);
    number.ok_or(OptionError::TooLarge)
}

fn cpus(text: &str) -> Result<Cpus, OptionError> {
    match text {
        "auto" => Ok(Cpus::Auto),
        list => list.parse().map(Cpus::Listed).map_err(OptionError::Cpus),
    }
}

impl SchbenchArgs {
    /// The run that the options ask for on this machine, or why it is impossible.
    pub fn config(self, machine: &Machine) -> Result<RunConfig, CompatError> {
        let mut notes = Vec::new();
        let mode = self.mode(&mut notes);
        let params = self.params(machine, mode, &mut notes)?;
        self.check(machine, mode)?;
        let has_rate = self.rate(machine) > 0;
        let is_short = (1..MIN_WITH_WARMUP_S).contains(&self.runtime);
        let warms_up = mode == Mode::Requests && !has_rate && !is_short;
        Ok(RunConfig {
            params,
            runtime_s: Some(self.runtime).filter(|&seconds| seconds > 0),
            warmup_s: if warms_up { self.warmuptime } else { 0 },
            interval_s: self.intervaltime.max(1),
            zero_s: Some(self.zerotime).filter(|&seconds| seconds > 0),
            json: self.json,
            jobname: self.jobname,
            mode,
            auto_rps: self.auto_rps.is_some_and(|percent| percent > 0),
            notes,
        })
    }

    fn mode(&self, notes: &mut Vec<String>) -> Mode {
        match self.pipe {
            None | Some(0) => Mode::Requests,
            Some(bytes) if bytes > MAX_PIPE_BYTES => {
                notes.push(format!("pipe size too big, using {MAX_PIPE_BYTES}"));
                Mode::Pipe { bytes: MAX_PIPE_BYTES }
            }
            Some(bytes) => Mode::Pipe { bytes },
        }
    }

    /// Message threads.
    fn groups(&self, machine: &Machine) -> u64 {
        let unless_given = if self.numa { machine.nodes.max(1) as u64 } else { 1 };
        self.message_threads.unwrap_or(unless_given)
    }

    /// Requests per second at the start; 0: saturate.
    fn rate(&self, machine: &Machine) -> u64 {
        let begins = self.auto_rps.map_or(0, |percent| match percent {
            0 => 0,
            // Each message thread needs one.
            _ => AUTO_RPS_START.max(self.groups(machine)),
        });
        self.rps.filter(|&rps| rps > 0).unwrap_or(begins)
    }

    /// Refuses options that do not go together. The message names options; the workload's own
    /// would name the parameters of a plan.
    fn check(&self, machine: &Machine, mode: Mode) -> Result<(), CompatError> {
        let (rate, groups) = (self.rate(machine), self.groups(machine));
        let pins = self.message_cpus.is_some() || self.worker_cpus.is_some();
        let wrong = if rate > 0 && mode != Mode::Requests {
            "-p passes bytes, not requests: -R and -A do not go with it".to_string()
        } else if rate > 0 && rate < groups {
            format!("-R {rate} leaves some of {groups} message threads without a request a second")
        } else if rate == 0 && self.arrivals != BURST {
            format!("--arrivals {} needs a rate: -R or -A", self.arrivals)
        } else if self.numa && pins {
            "--numa chooses CPUs by node: -M and -W do not go with it".to_string()
        } else if self.numa && groups < machine.nodes as u64 {
            format!("--numa: -m {groups} leaves some of {} NUMA nodes without one", machine.nodes)
        } else {
            return Ok(());
        };
        Err(CompatError::usage(wrong, HINT))
    }

    fn params(
        &self,
        machine: &Machine,
        mode: Mode,
        notes: &mut Vec<String>,
    ) -> Result<Params, CompatError> {
        let workload = workload::find("schbench");
        let workload = workload.ok_or_else(|| {
            CompatError::here("there is no workload `schbench`", "schedlab list workloads")
        })?;
        let mut given = Given { fields: workload.spec().params, params: Params::new() };
        given.put("message-threads", "", Some(self.groups(machine)))?;
        let [message, workers] = self.pinned(machine, notes)?;
        let threads = self.threads.filter(|&threads| threads > 0).unwrap_or_else(|| {
            let threads = (machine.online as u64).div_ceil(self.groups(machine)).max(1);
            notes.push(format!("setting worker threads to {threads}"));
            threads
        });
        given.put("threads", "", Some(threads))?;
        given.put("cache-footprint", "KiB", self.cache_footprint)?;
        given.put("operations", "", self.operations)?;
        given.put("sleep", "us", self.sleep_usec)?;
        given.put("rps", "", Some(self.rate(machine)))?;
        given.put("auto-rps", "%", self.auto_rps.filter(|&percent| percent > 0))?;
        match mode {
            Mode::Requests => {
                given.put("split", "%", self.split)?;
                given.put_raw("calibrate", Raw::Bool(self.calibrate))?;
            }
            // schbench accepts these with `-p`, and they mean nothing.
            Mode::Pipe { bytes } => given.put("pipe", "B", Some(bytes))?,
        }
        given.put_raw("no-locking", Raw::Bool(self.no_locking))?;
        given.put_raw("arrivals", Raw::Text(self.arrivals.clone()))?;
        given.put_raw("numa", Raw::Bool(self.numa))?;
        if let Some(own) = self.split {
            notes.extend(split_notes(given.kib("cache-footprint"), own));
        }
        for (name, cpus) in [("message-cpus", &message), ("worker-cpus", &workers)] {
            if let Some(cpus) = cpus {
                given.put_raw(name, Raw::Text(cpus.to_string()))?;
            }
        }
        if let Some(cpus) = &message {
            let cpus: Vec<u32> = cpus.iter().collect();
            notes.extend(
                (0..self.groups(machine)).zip(cpus.iter().cycle()).map(|(index, cpu)| {
                    format!("Pinning to message thread index {index} cpu {cpu}")
                }),
            );
        }
        fill_defaults(&mut given.params, given.fields);
        Ok(given.params)
    }

    /// The CPUs of message threads and of workers. `auto` in one place is `auto` in both, as in schbench.
    fn pinned(
        &self,
        machine: &Machine,
        notes: &mut Vec<String>,
    ) -> Result<[Option<CpuSet>; 2], CompatError> {
        let (message, workers) = (&self.message_cpus, &self.worker_cpus);
        if *message != Some(Cpus::Auto) && *workers != Some(Cpus::Auto) {
            let message = listed("-M", message.as_ref(), machine)?;
            return Ok([message, listed("-W", workers.as_ref(), machine)?]);
        }
        notes.push("auto pinning message and worker threads".to_string());
        let groups = self.groups(machine);
        let message: CpuSet = machine.allowed.iter().take(groups as usize).collect();
        let workers = machine.allowed.minus(&message);
        if workers.is_empty() {
            return Err(here(&format!(
                "-M auto: a CPU for each of {groups} message threads and one more for their \
                 workers are {} CPUs; there are {}, CPUs {}",
                groups + 1,
                machine.allowed.len(),
                machine.allowed
            )));
        }
        Ok([Some(message), Some(workers)])
    }
}

fn listed(
    option: &str,
    cpus: Option<&Cpus>,
    machine: &Machine,
) -> Result<Option<CpuSet>, CompatError> {
    let Some(Cpus::Listed(asked)) = cpus else { return Ok(None) };
    let missing = asked.minus(&machine.allowed);
    if missing.is_empty() {
        return Ok(Some(asked.clone()));
    }
    let allowed = &machine.allowed;
    Err(here(&format!(
        "{option} asks for CPUs {asked}: {missing} cannot be used; there are CPUs {allowed}"
    )))
}

fn here(what: &str) -> CompatError {
    CompatError::here(what, "lscpu -e")
}

/// Sizes as schbench computes them: whole KB, and whole widths of matrices.
fn split_notes(footprint_kib: u64, own_percent: u64) -> [String; 2] {
    let shared_percent = 100u64.saturating_sub(own_percent);
    let kib = |percent: u64| footprint_kib * percent / 100;
    let width = |kib: u64| (kib * 1024 / 3 / size_of::<u64>() as u64).isqrt();
    let (own, shared) = (kib(own_percent), kib(shared_percent));
    [
        format!(
            "split mode: {own_percent}% private ({own} KB per thread), {shared_percent}% shared \
             ({shared} KB total)"
        ),
        format!("matrix sizes: private={}, shared={}", width(own), width(shared)),
    ]
}

/// The workload's parameters, which are given one by one.
struct Given {
    fields: &'static [Field],
    params: Params,
}

impl Given {
    fn field(&self, name: &str) -> Result<&'static Field, CompatError> {
        let field = self.fields.iter().find(|field| field.name == name);
        field.ok_or_else(|| wrong_value(name, &ValueError::unknown(name)))
    }

    /// A number in the unit that schbench gives it.
    fn put(&mut self, name: &str, unit: &str, number: Option<u64>) -> Result<(), CompatError> {
        let Some(number) = number else { return Ok(()) };
        let raw = match unit {
            "" => Raw::Int(number as i64),
            unit => Raw::Text(format!("{number}{unit}")),
        };
        let kind = self.field(name)?.kind;
        let value = kind.parse(&raw).map_err(|found| {
            let hint = range(&kind, unit).unwrap_or(found.hint);
            wrong_value(&format!("{name} {number}"), &ValueError { message: found.message, hint })
        })?;
        self.params.insert(name.to_string(), value);
        Ok(())
    }

    fn put_raw(&mut self, name: &str, raw: Raw) -> Result<(), CompatError> {
        let value =
            self.field(name)?.kind.parse(&raw).map_err(|found| wrong_value(name, &found))?;
        self.params.insert(name.to_string(), value);
        Ok(())
    }

    fn kib(&self, name: &str) -> u64 {
        let field = self.fields.iter().find(|field| field.name == name);
        let default = || field.and_then(Field::default_value);
        let value = self.params.get(name).cloned().or_else(default);
        value.and_then(|value| value.as_bytes()).unwrap_or(0) >> 10
    }
}

/// `what`: a parameter of the workload, with its value where that helps.
fn wrong_value(what: &str, found: &ValueError) -> CompatError {
    let option = match what.strip_prefix("sleep") {
        Some(value) => format!("sleep-usec{value}"),
        None => what.to_string(),
    };
    CompatError::usage(format!("--{option}: {}", found.message), found.hint.as_str())
}

/// The range of a field, in schbench's unit.
fn range(kind: &Kind, unit: &str) -> Option<String> {
    let (min, max, named) = match (kind, unit) {
        (Kind::Int { min, max }, _) => (*min as f64, (*max).min(MAX_NUMBER as i64) as f64, ""),
        (Kind::Size { min_bytes, max_bytes }, "KiB") => {
            ((min_bytes >> 10) as f64, (max_bytes >> 10) as f64, " (KB)")
        }
        (Kind::Size { min_bytes, max_bytes }, _) => {
            (*min_bytes as f64, *max_bytes as f64, " (bytes)")
        }
        (Kind::Duration { min_ns, max_ns }, _) => {
            ((min_ns / 1000) as f64, (max_ns / 1000) as f64, " (usec)")
        }
        (Kind::Percent { min, max }, _) => (*min, *max, " (percent)"),
        _ => return None,
    };
    Some(format!("from {min} to {max}{named}"))
}

#[cfg(test)]
mod tests;
