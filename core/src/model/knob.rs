//! A knob's requested value and the value read back. Plain data; events of any version have this form.

use serde::{Deserialize, Serialize};

use super::{CpuSet, Reading, Value};

/// A knob, a pool or a memory policy: the requested value and the one that it read back as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenKnob")]
pub struct KnobReading {
    pub knob: String,
    pub asked: Value,
    /// A text if the value that was read back has no form of its own.
    pub got: Reading<Value>,
}

impl KnobReading {
    /// The knob whose reading says which kind of pool it became: it always differs from the request.
    pub const POOL: &str = "pool";
    /// The name, among the readings of a run in turns, of the median time of a switch: measured, not asked for.
    pub const SWITCH: &str = "switch";

    pub fn switch_ns(&self) -> Option<u64> {
        let got = self.got.as_ref().known().filter(|_| self.knob == Self::SWITCH)?;
        got.as_duration_ns()
    }

    /// Whether it read back as something else, or not at all.
    pub fn is_mismatch(&self) -> bool {
        self.knob != Self::POOL && self.got.as_ref().known() != Some(&self.asked)
    }
}

/// A reading as events of any version have it.
#[derive(Deserialize)]
struct WrittenKnob {
    knob: String,
    asked: WrittenValue,
    got: Reading<WrittenValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenValue {
    Typed(Value),
    Text(String),
}

impl From<WrittenValue> for Value {
    fn from(written: WrittenValue) -> Value {
        match written {
            WrittenValue::Typed(value) => value,
            WrittenValue::Text(text) => Value::Text(text),
        }
    }
}

impl From<WrittenKnob> for KnobReading {
    fn from(WrittenKnob { knob, asked, got }: WrittenKnob) -> KnobReading {
        KnobReading { knob, asked: asked.into(), got: got.map(Value::from) }
    }
}

/// The CPUs of a pool without given ones, as its reading named them before format 2.
pub fn legacy_pool_cpus(knobs: &[KnobReading]) -> Option<CpuSet> {
    let pool = knobs.iter().find(|reading| reading.knob == KnobReading::POOL)?;
    let text = pool.got.as_ref().known()?.as_text()?;
    let (_, cpus) = text.rsplit_once(", CPUs ")?;
    cpus.parse().ok()
}
