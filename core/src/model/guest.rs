//! The guest that a run was made in: which kernel really booted, and how its time passed. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{KnobReading, Reading};

/// A guest with a kernel of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guest {
    pub kernel: GuestKernel,
    pub time: GuestTime,
    /// The share of its speed that the slowest CPU had before the runs: 1 is exact.
    pub capacity: Reading<f64>,
    /// Set where timers go off at ticks alone: the time between two.
    pub coarse_timers_ns: Option<u64>,
}

/// The kernel that was really booted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GuestKernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// The version of the distribution's package that it came in; `None`: not from a package.
    pub version: Option<String>,
    /// The first hexadecimal digits of the digest of image, configuration and modules.
    pub digest: Option<String>,
    /// The scheduler of ordinary tasks, as the booted kernel showed it; `None`: nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Reading<String>>,
}

/// The clock by which a guest ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestTime {
    /// Instruction time, all CPUs in step: a repeated run does the same again.
    Exact,
    /// Virtual as well, but out of step, because of this.
    NotExact(String),
    /// The host's.
    #[default]
    Real,
}

impl Default for Guest {
    /// A guest of which nothing is known.
    fn default() -> Guest {
        Guest {
            kernel: GuestKernel::default(),
            time: GuestTime::default(),
            capacity: Reading::Unknown("it was not stored".to_string()),
            coarse_timers_ns: None,
        }
    }
}

impl Guest {
    /// Before format 2, facts of a guest were stored as readings of knobs with these names: takes
    /// them out. `None` where there are none.
    pub fn take_legacy(knobs: &mut Vec<KnobReading>) -> Option<Guest> {
        // Every guest had this one, and no knob has that name.
        if !knobs.iter().any(|reading| reading.knob == "kernel-digest") {
            return None;
        }
        let mut guest = Guest::default();
        knobs.retain(|KnobReading { knob, got, .. }| {
            let text = got.clone().map(|value| value.to_string());
            match knob.as_str() {
                "kernel" => guest.kernel.release = text.known(),
                "kernel-version" => guest.kernel.version = text.known(),
                "kernel-digest" => guest.kernel.digest = text.known(),
                "time" => {
                    guest.time = match text {
                        Reading::Known(exact) if exact == "exact" => GuestTime::Exact,
                        Reading::Known(why) | Reading::Unknown(why) => GuestTime::NotExact(why),
                    }
                }
                "capacity" => guest.capacity = legacy_percent(text),
                "timers" => guest.coarse_timers_ns = text.known().and_then(legacy_ms),
                _ => return true,
            }
            false
        });
        Some(guest)
    }
}

fn legacy_percent(text: Reading<String>) -> Reading<f64> {
    text.and_then(|text| match text.trim_end_matches('%').parse::<f64>() {
        // The stored percentage had one decimal.
        Ok(percent) => Reading::Known((percent * 10.0).round() / 1000.0),
        Err(_) => Reading::Unknown(format!("it was stored as `{text}`")),
    })
}

fn legacy_ms(text: String) -> Option<u64> {
    let ms: f64 = text.strip_suffix("ms")?.parse().ok()?;
    Some((ms * 1e6).round() as u64)
}

impl GuestKernel {
    /// Whether both may be the same: a fact that is known of one alone does not make them differ.
    pub fn may_be(&self, other: &GuestKernel) -> bool {
        let agree = |own: &Option<String>, other: &Option<String>| {
            own.is_none() || other.is_none() || own == other
        };
        agree(&self.release, &other.release) && agree(&self.digest, &other.digest)
    }

    /// Each kernel once, in order; of two that may be the same the one with a digest.
    pub fn each_once<'a>(all: impl IntoIterator<Item = &'a GuestKernel>) -> Vec<&'a GuestKernel> {
        let mut kernels: Vec<&GuestKernel> = Vec::new();
        for kernel in all {
            match kernels.iter_mut().find(|known| known.may_be(kernel)) {
                Some(known) if known.digest.is_none() => *known = kernel,
                Some(_) => {}
                None => kernels.push(kernel),
            }
        }
        kernels
    }
}

/// `6.12.0, EEVDF (digest 0123456789ab)`; within other brackets (`{:#}`) `6.12.0, digest 0123456789ab`.
impl fmt::Display for GuestKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuestKernel { release, version, digest, scheduler } = self;
        f.write_str(release.as_deref().unwrap_or("unknown"))?;
        if let Some(version) = version {
            write!(f, " {version}")?;
        }
        match scheduler {
            Some(Reading::Known(name)) => write!(f, ", {name}")?,
            Some(Reading::Unknown(_)) => f.write_str(", scheduler unknown")?,
            None => {}
        }
        match digest {
            Some(digest) if f.alternate() => write!(f, ", digest {digest}"),
            Some(digest) => write!(f, " (digest {digest})"),
            None => Ok(()),
        }
    }
}

/// How time went by in some runs of the lab: a number of runs each.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct GuestTimes {
    pub exact: usize,
    pub not_exact: usize,
    pub real: usize,
    /// Why the first that was not exact was not.
    pub why: Option<String>,
}

impl GuestTimes {
    pub fn add(&mut self, time: &GuestTime, runs: usize) {
        match time {
            GuestTime::Exact => self.exact += runs,
            GuestTime::Real => self.real += runs,
            GuestTime::NotExact(why) => {
                self.not_exact += runs;
                self.why.get_or_insert_with(|| why.clone());
            }
        }
    }

    pub fn add_all(&mut self, other: &GuestTimes) {
        self.exact += other.exact;
        self.not_exact += other.not_exact;
        self.real += other.real;
        if self.why.is_none() {
            self.why.clone_from(&other.why);
        }
    }

    /// Runs in the lab.
    pub fn runs(&self) -> usize {
        self.exact + self.not_exact + self.real
    }

    /// For programs: the word that holds for all guests; `None` where there are none.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            GuestTimes { real: 1.., .. } => Some("real"),
            GuestTimes { not_exact: 1.., .. } => Some("not_exact"),
            GuestTimes { exact: 1.., .. } => Some("exact"),
            _ => None,
        }
    }
}

/// `virtual time, exact in all 8 runs`: the same words wherever figures of the lab stand.
impl fmt::Display for GuestTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuestTimes { exact, not_exact, real, why } = self;
        let of_virtual = exact + not_exact;
        match (of_virtual, *not_exact) {
            (0, _) => return f.write_str("real time, the host's: nothing is exact"),
            (1, 0) => f.write_str("virtual time, exact in its one run")?,
            (runs, 0) => write!(f, "virtual time, exact in all {runs} runs")?,
            (runs, wrong) => {
                write!(f, "virtual time, NOT exact in {wrong} of {runs} runs")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))?;
            }
        }
        match real {
            0 => Ok(()),
            _ => write!(f, "; real time in {real} runs: NOT exact"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;

    #[test]
    fn a_guest_of_format_1_is_what_its_readings_say() {
        let reading = |knob: &str, got: Result<&str, &str>| KnobReading {
            knob: knob.to_string(),
            asked: Value::Text(String::new()),
            got: match got {
                Ok(text) => Reading::Known(Value::Text(text.to_string())),
                Err(why) => Reading::Unknown(why.to_string()),
            },
        };
        let mut knobs = vec![
            reading("kernel", Ok("6.12.0")),
            reading("nice", Ok("5")),
            reading("kernel-digest", Ok("0123456789ab")),
            reading("time", Ok("exact")),
            reading("capacity", Ok("99.9%")),
            reading("timers", Ok("4ms")),
        ];
        let guest = Guest::take_legacy(&mut knobs).unwrap();
        assert_eq!(guest.time, GuestTime::Exact);
        assert_eq!(guest.kernel.to_string(), "6.12.0 (digest 0123456789ab)");
        assert_eq!(guest.capacity, Reading::Known(0.999));
        assert_eq!(guest.coarse_timers_ns, Some(4_000_000));
        assert_eq!(knobs, [reading("nice", Ok("5"))]);
        assert_eq!(Guest::take_legacy(&mut knobs), None);

        let mut knobs =
            vec![reading("time", Err("out of step")), reading("kernel-digest", Ok("a"))];
        let not = Guest::take_legacy(&mut knobs).unwrap();
        assert_eq!(not.time, GuestTime::NotExact("out of step".to_string()));
        let mut knobs = vec![reading("kernel-digest", Ok("a"))];
        let real = Guest::take_legacy(&mut knobs).unwrap();
        assert_eq!(real.time, GuestTime::Real, "nothing was stored of real time");
    }

    #[test]
    fn what_is_not_known_of_a_kernel_makes_it_no_other() {
        let kernel = |digest: Option<&str>| GuestKernel {
            release: Some("6.12.0".to_string()),
            version: None,
            digest: digest.map(str::to_string),
            scheduler: None,
        };
        assert!(kernel(Some("a")).may_be(&kernel(None)) && kernel(None).may_be(&kernel(Some("a"))));
        assert!(kernel(Some("a")).may_be(&kernel(Some("a"))));
        assert!(!kernel(Some("a")).may_be(&kernel(Some("b"))));
        let other = GuestKernel { release: Some("6.1".to_string()), ..kernel(None) };
        assert!(!kernel(None).may_be(&other));
        let all = [kernel(None), kernel(Some("a")), kernel(None), kernel(Some("b"))];
        assert_eq!(GuestKernel::each_once(&all), [&kernel(Some("a")), &kernel(Some("b"))]);
    }

    #[test]
    fn the_worst_time_counts() {
        let times = |exact, not_exact, real| GuestTimes {
            exact,
            not_exact,
            real,
            why: (not_exact > 0).then(|| "out of step".to_string()),
        };
        let cases = [
            (times(0, 0, 0), None, "real time, the host's: nothing is exact"),
            (times(1, 0, 0), Some("exact"), "virtual time, exact in its one run"),
            (times(8, 0, 0), Some("exact"), "virtual time, exact in all 8 runs"),
            (
                times(7, 1, 0),
                Some("not_exact"),
                "virtual time, NOT exact in 1 of 8 runs: out of step",
            ),
            (times(0, 0, 8), Some("real"), "real time, the host's: nothing is exact"),
            (
                times(2, 0, 3),
                Some("real"),
                "virtual time, exact in all 2 runs; real time in 3 runs: NOT exact",
            ),
        ];
        for (times, word, text) in cases {
            assert_eq!((times.word(), times.to_string().as_str()), (word, text));
        }
    }
}
