//! The JSON that schbench writes with `--json`, with its keys in its order, and one more key, `schedlab`, for
//! figures that whole microseconds cannot hold (docs/schbench.md lists its fields).
//!
//! Input: figures and what the caller knows of the machine. Output: one line of JSON without
//! a newline at its end, as schbench writes it. Pure. Between tokens stand schbench's spaces
//! (`"runtime": 2`), for readers that use grep.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::Formatter;

use crate::model::Reading;
use crate::stats::{Histogram, mean, nearest_rank};

use super::figures::{Block, PERMILLES, sorted, whole};
use super::{Closing, Figures, Mode};

/// The version of the key `schedlab`. Raised when one of its keys changes its name, type or meaning.
const SCHEMA: u32 = 1;

/// The facts that schbench writes in addition to its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The kernel's, `uname -r`.
    pub release: String,
    pub jobname: Option<String>,
    pub hostname: String,
    /// The name of the sched_ext scheduler that is loaded, or `disabled`.
    pub sched_ext: String,
    /// The command line, joined by spaces.
    pub cmdline: String,
    /// When it was written.
    pub unix_s: u64,
}

/// Writes the whole object. `disturbances`: sentences about what affected the figures from outside.
pub fn write(
    out: &mut dyn Write,
    header: &Header,
    figures: &Figures,
    closing: &Closing,
    disturbances: &[String],
) -> io::Result<()> {
    let is_pipe = matches!(closing.mode, Mode::Pipe { .. });
    let document = Document {
        normal: Normal {
            version: &header.release,
            jobname: header.jobname.as_deref(),
            hostname: &header.hostname,
            sched_ext: &header.sched_ext,
            cmdline: &header.cmdline,
        },
        int: Int { time: header.unix_s, figures, is_pipe, runtime: closing.seconds },
        schedlab: Schedlab::new(figures, closing, disturbances),
    };
    let mut serializer = serde_json::Serializer::with_formatter(out, Spaced);
    document.serialize(&mut serializer).map_err(io::Error::from)
}

#[derive(Serialize)]
struct Document<'a> {
    normal: Normal<'a>,
    int: Int<'a>,
    schedlab: Schedlab<'a>,
}

#[derive(Serialize)]
struct Normal<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobname: Option<&'a str>,
    hostname: &'a str,
    sched_ext: &'a str,
    cmdline: &'a str,
}

/// Whole numbers only.
struct Int<'a> {
    time: u64,
    figures: &'a Figures,
    is_pipe: bool,
    runtime: u64,
}

impl Serialize for Int<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &self.time)?;
        entries(&mut map, "wakeup_latency", &Block::of_latencies(&self.figures.wakeup))?;
        if !self.is_pipe {
            entries(&mut map, "request_latency", &Block::of_latencies(&self.figures.request))?;
            entries(&mut map, "rps", &Block::of_rates(&self.figures.rps))?;
        }
        map.serialize_entry("runtime", &self.runtime)?;
        map.end()
    }
}

fn entries<M: SerializeMap>(map: &mut M, label: &str, block: &Block) -> Result<(), M::Error> {
    for (permille, row) in PERMILLES.iter().zip(&block.rows) {
        let percent = f64::from(*permille) / 10.0;
        map.serialize_entry(&format!("{label}_pct{percent:.1}"), &row.value)?;
    }
    map.serialize_entry(&format!("{label}_min"), &block.min)?;
    map.serialize_entry(&format!("{label}_max"), &block.max)
}

#[derive(Serialize)]
struct Schedlab<'a> {
    schema: u32,
    version: &'static str,
    wakeup: Option<Nanoseconds>,
    request: Option<Nanoseconds>,
    response: Option<Nanoseconds>,
    rps: Option<Rates>,
    sched_delay: Option<Delay>,
    /// Why `sched_delay` is null.
    sched_delay_unknown: Option<&'a str>,
    dropped: Option<u64>,
    under_way: u64,
    disturbances: &'a [String],
}

#[derive(Serialize)]
struct Delay {
    message_ns: u64,
    worker_ns: u64,
}

#[derive(Serialize)]
struct Nanoseconds {
    samples: u64,
    p20_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    #[serde(rename = "p99.9_ns")]
    p999_ns: u64,
    min_ns: u64,
    max_ns: u64,
    mean_ns: f64,
}

#[derive(Serialize)]
struct Rates {
    samples: u64,
    p20: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    min: f64,
    max: f64,
    mean: f64,
}

impl<'a> Schedlab<'a> {
    fn new(figures: &Figures, closing: &'a Closing, disturbances: &'a [String]) -> Schedlab<'a> {
        let (sched_delay, sched_delay_unknown) = match &closing.delays {
            Reading::Known(known) => {
                (Some(Delay { message_ns: known.message_ns, worker_ns: known.worker_ns }), None)
            }
            Reading::Unknown(reason) => (None, Some(reason.as_str())),
        };
        Schedlab {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            wakeup: Nanoseconds::from_histogram(&figures.wakeup),
            request: Nanoseconds::from_histogram(&figures.request),
            response: figures.response.as_ref().and_then(Nanoseconds::from_histogram),
            rps: Rates::from_rates(&figures.rps),
            sched_delay,
            sched_delay_unknown,
            dropped: closing.dropped,
            under_way: closing.under_way,
            disturbances,
        }
    }
}

impl Nanoseconds {
    fn from_histogram(histogram: &Histogram) -> Option<Nanoseconds> {
        let at = |permille: u32| Some(whole(histogram.quantile_ns(f64::from(permille) / 1000.0)?));
        let [p20_ns, p50_ns, p90_ns, p99_ns, p999_ns] = PERMILLES.map(at);
        Some(Nanoseconds {
            samples: histogram.total(),
            p20_ns: p20_ns?,
            p50_ns: p50_ns?,
            p90_ns: p90_ns?,
            p99_ns: p99_ns?,
            p999_ns: p999_ns?,
            min_ns: histogram.min_ns()?,
            max_ns: histogram.max_ns()?,
            mean_ns: histogram.mean_ns()?,
        })
    }
}

impl Rates {
    fn from_rates(rates: &[f64]) -> Option<Rates> {
        let sorted = sorted(rates);
        let [p20, p50, p90, p99, p999] = PERMILLES.map(|permille| nearest_rank(&sorted, permille));
        Some(Rates {
            samples: sorted.len() as u64,
            p20: p20?,
            p50: p50?,
            p90: p90?,
            p99: p99?,
            p999: p999?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            mean: mean(&sorted)?,
        })
    }
}

/// A space after each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests;
