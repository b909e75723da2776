//! The workers, their mode, and the place of each. Pure.

use crate::model::{Params, Value};
use crate::workload::params::{flag, int, value};
use crate::workload::{Request, WorkloadError};

use super::arrivals::{MAX_PER_S, Pattern};

/// More would be a typing error; the kernel's own limit on threads is of this order.
const MAX_WORKERS: u64 = 1 << 17;

/// The things that message threads hand out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Turns: as many requests as can be done.
    Saturate,
    /// Requests at a rate.
    Rate {
        /// 0: a governor begins with its own.
        rps: u64,
        /// A governor adapts the rate until the CPUs are that busy.
        target_percent: Option<f64>,
    },
    /// Bytes.
    Pipe { bytes: usize },
}

impl Mode {
    /// The error names parameters that cannot be combined.
    pub fn from_params(params: &Params) -> Result<Mode, WorkloadError> {
        let (rps, pattern) = (int(params, "rps")?, pattern(params)?);
        let target_percent = params.get("auto-rps").and_then(Value::as_percent);
        let mode = match params.get("pipe").and_then(Value::as_bytes) {
            Some(bytes) => Mode::Pipe { bytes: bytes as usize },
            None if rps > 0 || target_percent.is_some() => Mode::Rate { rps, target_percent },
            None => Mode::Saturate,
        };
        let of_requests = [
            ("rps", rps > 0),
            ("auto-rps", target_percent.is_some()),
            ("calibrate", flag(params, "calibrate")?),
            ("split", params.contains_key("split")),
        ];
        let of_requests = of_requests.iter().find(|(_, given)| *given);
        if let (Mode::Pipe { .. }, Some((name, _))) = (mode, of_requests) {
            return Err(WorkloadError::conflict(
                format!("with pipe there are no requests: {name} does not go with it"),
                format!("leave out {name} or pipe"),
            )
            .at(name));
        }
        if !matches!(mode, Mode::Rate { .. }) && pattern != Pattern::Burst {
            return Err(WorkloadError::conflict(
                format!("arrivals = {:?} needs a rate", Pattern::WORDS[pattern as usize]),
                "set rps, the requests per second, or auto-rps".to_string(),
            )
            .at("arrivals"));
        }
        Ok(mode)
    }
}

/// The numbers of copies, message threads and workers.
#[derive(Debug)]
pub struct Shape {
    pub copies: usize,
    /// Message threads of one copy.
    pub groups: usize,
    /// Workers of one message thread.
    pub threads: usize,
    pub mode: Mode,
}

/// The place of one worker of the set. `group`: a message thread and its workers, within the
/// copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Message { copy: usize, group: usize },
    Worker { copy: usize, group: usize, seat: usize },
    Governor { copy: usize },
}

impl Shape {
    pub fn from_request(request: &Request) -> Result<Shape, WorkloadError> {
        let params = request.params;
        let mode = Mode::from_params(params)?;
        let groups = match params.get("message-threads") {
            Some(_) => int(params, "message-threads")?,
            None if flag(params, "numa")? => request.pool.nodes.len().max(1) as u64,
            None => 1,
        };
        let threads = match params.get("threads") {
            Some(_) => int(params, "threads")?,
            None => u64::from(request.pool.count()).div_ceil(groups),
        };
        let workers = u64::from(request.count) * groups * (1 + threads);
        if workers > MAX_WORKERS {
            let count = request.count;
            let what =
                format!("count = {count}, message-threads = {groups} and threads = {threads}");
            return Err(WorkloadError::TooMany { what, workers, max: MAX_WORKERS });
        }
        if let Mode::Rate { rps, .. } = mode
            && (1..groups).contains(&rps)
        {
            return Err(WorkloadError::conflict(
                format!(
                    "rps = {rps} leaves some of message-threads = {groups} without a request a \
                     second"
                ),
                format!("rps = {groups} or more, or message-threads = {rps}"),
            )
            .at("rps"));
        }
        Ok(Shape {
            copies: request.count as usize,
            groups: groups as usize,
            threads: threads as usize,
            mode,
        })
    }

    /// The places of all workers, in start order.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        (0..self.copies * self.per_copy()).map(|index| self.place(index))
    }

    /// The place of worker `index` of the set. A copy is its groups, each with its message
    /// thread first, and the governor.
    pub fn place(&self, index: usize) -> Place {
        let (copy, index) = (index / self.per_copy(), index % self.per_copy());
        let (group, index) = (index / (self.threads + 1), index % (self.threads + 1));
        match index.checked_sub(1) {
            _ if group == self.groups => Place::Governor { copy },
            None => Place::Message { copy, group },
            Some(seat) => Place::Worker { copy, group, seat },
        }
    }

    fn per_copy(&self) -> usize {
        let governed = matches!(self.mode, Mode::Rate { target_percent: Some(_), .. });
        self.groups * (self.threads + 1) + usize::from(governed)
    }

    /// Requests per second with which a copy begins; 0 without a rate. A governor without an initial rate takes
    /// schbench's 10, or one for each message thread.
    pub fn first_rps(&self) -> u64 {
        match self.mode {
            Mode::Rate { rps: 0, .. } => (self.groups as u64).clamp(10, MAX_PER_S),
            Mode::Rate { rps, .. } => rps,
            _ => 0,
        }
    }
}

pub fn pattern(params: &Params) -> Result<Pattern, WorkloadError> {
    value(params, "arrivals", |value| value.as_text().and_then(Pattern::from_word))
}
