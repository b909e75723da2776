//! The JSON that schbench writes with `--json`, with its keys in its order, and one more key, `schedlab`, for
//! figures that whole microseconds cannot hold (docs/schbench.md lists its fields).
//!
//! Input: figures and what the caller knows of the machine. Output: one line of JSON without
//! a newline at its end, as schbench writes it. Pure. Between tokens stand schbench's spaces
//! (`"runtime": 2`), for readers that use grep.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

use crate::model::Reading;
use crate::stats::{Histogram, mean, nearest_rank};

use super::figures::{Block, PERMILLES, sorted, whole};
use super::{Closing, Delays, Figures, Mode};

/// The version of the key `schedlab`. Raised when one of its keys changes its name, type or meaning.
const SCHEMA: u32 = 1;

/// The facts that schbench writes in addition to its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Header {
    /// The kernel's, `uname -r`.
    #[serde(rename = "version")]
    pub release: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobname: Option<String>,
    pub hostname: String,
    /// The name of the sched_ext scheduler that is loaded, or `disabled`.
    pub sched_ext: String,
    /// The command line, joined by spaces.
    pub cmdline: String,
    /// When it was written.
    #[serde(skip)]
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
        normal: header,
        int: Int { time: header.unix_s, figures, is_pipe, runtime: closing.seconds },
        schedlab: Schedlab::new(figures, closing, disturbances),
    };
    let mut serializer = serde_json::Serializer::with_formatter(out, Spaced);
    document.serialize(&mut serializer).map_err(io::Error::from)
}

#[derive(Serialize)]
struct Document<'a> {
    normal: &'a Header,
    int: Int<'a>,
    schedlab: Schedlab<'a>,
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
    wakeup: Option<Summary>,
    request: Option<Summary>,
    response: Option<Summary>,
    rps: Option<Summary>,
    sched_delay: Option<Delays>,
    /// Why `sched_delay` is null.
    sched_delay_unknown: Option<&'a str>,
    dropped: Option<u64>,
    under_way: u64,
    disturbances: &'a [String],
}

/// A set of samples: each figure by its key, in the order in which they are written.
struct Summary(Vec<(String, Value)>);

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'a> Schedlab<'a> {
    fn new(figures: &Figures, closing: &'a Closing, disturbances: &'a [String]) -> Schedlab<'a> {
        let (sched_delay, sched_delay_unknown) = match &closing.delays {
            Reading::Known(known) => (Some(*known), None),
            Reading::Unknown(reason) => (None, Some(reason.as_str())),
        };
        Schedlab {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            wakeup: Summary::from_histogram(&figures.wakeup),
            request: Summary::from_histogram(&figures.request),
            response: figures.response.as_ref().and_then(Summary::from_histogram),
            rps: Summary::from_rates(&figures.rps),
            sched_delay,
            sched_delay_unknown,
            dropped: closing.dropped,
            under_way: closing.under_way,
            disturbances,
        }
    }
}

impl Summary {
    fn from_histogram(histogram: &Histogram) -> Option<Summary> {
        let at = |permille: u32| Some(whole(histogram.quantile_ns(f64::from(permille) / 1000.0)?));
        let ends = [histogram.min_ns(), histogram.max_ns()];
        Summary::new(histogram.total(), PERMILLES.map(at), ends, histogram.mean_ns(), "_ns")
    }

    fn from_rates(rates: &[f64]) -> Option<Summary> {
        let sorted = sorted(rates);
        let at = |permille: u32| nearest_rank(&sorted, permille);
        let ends = [sorted.first().copied(), sorted.last().copied()];
        Summary::new(sorted.len() as u64, PERMILLES.map(at), ends, mean(&sorted), "")
    }

    /// `None` where a figure is missing: there are no samples.
    fn new<T: Into<Value>>(
        samples: u64,
        percentiles: [Option<T>; PERMILLES.len()],
        ends: [Option<T>; 2],
        mean: Option<f64>,
        unit: &str,
    ) -> Option<Summary> {
        let names = PERMILLES.map(|permille| format!("p{}", f64::from(permille) / 10.0));
        let names = names.into_iter().chain(["min", "max"].map(str::to_string));
        let mut figures = vec![("samples".to_string(), samples.into())];
        for (name, value) in names.zip(percentiles.into_iter().chain(ends)) {
            figures.push((name + unit, value?.into()));
        }
        figures.push((format!("mean{unit}"), mean?.into()));
        Some(Summary(figures))
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
