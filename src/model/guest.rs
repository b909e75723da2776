//! What is told of the lab guest that a run was made in. It travels as readings beside those of the
//! variant's knobs, under the names below: from the backend through the store to reports. Pure.

use std::fmt;

use serde::Serialize;

use super::{KnobReading, Reading};

/// The names of readings. Each is told once of a run, and only by the lab.
pub mod told {
    /// `uname -r`.
    pub const KERNEL: &str = "kernel";
    /// Of the distribution's package that it came in, where it came in one.
    pub const KERNEL_VERSION: &str = "kernel-version";
    /// The first 12 hexadecimal digits of the digest of image, configuration and modules.
    pub const KERNEL_DIGEST: &str = "kernel-digest";
    /// [`EXACT`], or why not; of real time nothing is told.
    pub const TIME: &str = "time";
    pub const EXACT: &str = "exact";
    /// The share of its speed that the slowest CPU had before the runs.
    pub const CAPACITY: &str = "capacity";
    /// How often timers go off; told only where they go off at ticks alone.
    pub const TIMERS: &str = "timers";
    /// What a [`super::Guest`] is made from.
    pub const OF_GUEST: [&str; 4] = [KERNEL, KERNEL_VERSION, KERNEL_DIGEST, TIME];
}

/// A guest, as far as it was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guest {
    pub kernel: GuestKernel,
    pub time: GuestTime,
}

/// The kernel that was really booted. What is not known is not told.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GuestKernel {
    pub release: Option<String>,
    pub version: Option<String>,
    pub digest: Option<String>,
}

/// By what clock a guest lived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GuestTime {
    /// That of instructions, all in step: it does the same again.
    Exact,
    /// Virtual as well, but out of step, because of this.
    NotExact(String),
    /// The host's.
    #[default]
    Real,
}

impl Guest {
    pub fn of(readings: &[KnobReading]) -> Guest {
        let mut guest = Guest::default();
        for KnobReading { knob, got, .. } in readings {
            match got {
                Reading::Known(text) => guest.tell(knob, Ok(text)),
                Reading::Unknown(why) => guest.tell(knob, Err(why)),
            }
        }
        guest
    }

    /// Takes a reading: what was got, or why nothing.
    pub fn tell(&mut self, knob: &str, got: Result<&str, &str>) {
        let text = || got.ok().map(str::to_string);
        match knob {
            told::KERNEL => self.kernel.release = text(),
            told::KERNEL_VERSION => self.kernel.version = text(),
            told::KERNEL_DIGEST => self.kernel.digest = text(),
            told::TIME => {
                self.time = match got {
                    Ok(told::EXACT) => GuestTime::Exact,
                    Ok(other) | Err(other) => GuestTime::NotExact(other.to_string()),
                }
            }
            _ => {}
        }
    }
}

impl GuestKernel {
    /// Whether both may be one and the same: what only one of them tells sets them not apart.
    pub fn may_be(&self, other: &GuestKernel) -> bool {
        let agree = |own: &Option<String>, other: &Option<String>| {
            own.is_none() || other.is_none() || own == other
        };
        agree(&self.release, &other.release) && agree(&self.digest, &other.digest)
    }

    /// Each kernel once, in order; of two that may be the same the one that tells its digest.
    pub fn each_once<'a>(told: impl IntoIterator<Item = &'a GuestKernel>) -> Vec<&'a GuestKernel> {
        let mut kernels: Vec<&GuestKernel> = Vec::new();
        for kernel in told {
            match kernels.iter_mut().find(|known| known.may_be(kernel)) {
                Some(known) if known.digest.is_none() => *known = kernel,
                Some(_) => {}
                None => kernels.push(kernel),
            }
        }
        kernels
    }
}

/// `6.12.0 (digest 0123456789ab)`; within other brackets (`{:#}`) `6.12.0, digest 0123456789ab`.
impl fmt::Display for GuestKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuestKernel { release, version, digest } = self;
        f.write_str(release.as_deref().unwrap_or("unknown"))?;
        if let Some(version) = version {
            write!(f, " {version}")?;
        }
        match digest {
            Some(digest) if f.alternate() => write!(f, ", digest {digest}"),
            Some(digest) => write!(f, " (digest {digest})"),
            None => Ok(()),
        }
    }
}

/// How time went by in some runs of the lab: a number of runs each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

    /// For programs, what holds of all of them; `None` where there are none.
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

    fn reading(knob: &str, got: Reading<String>) -> KnobReading {
        KnobReading { knob: knob.to_string(), asked: String::new(), got }
    }

    #[test]
    fn a_guest_is_what_its_readings_tell() {
        let known = |text: &str| Reading::Known(text.to_string());
        let exact = [
            reading(told::KERNEL, known("6.12.0")),
            reading("nice", known("5")),
            reading(told::KERNEL_DIGEST, known("0123456789ab")),
            reading(told::TIME, known(told::EXACT)),
        ];
        let guest = Guest::of(&exact);
        assert_eq!(guest.time, GuestTime::Exact);
        assert_eq!(guest.kernel.to_string(), "6.12.0 (digest 0123456789ab)");
        let not = Guest::of(&[reading(told::TIME, Reading::Unknown("out of step".to_string()))]);
        assert_eq!(not.time, GuestTime::NotExact("out of step".to_string()));
        assert_eq!(not.kernel.to_string(), "unknown");
        assert_eq!(Guest::of(&[]).time, GuestTime::Real, "nobody said that it was virtual");
    }

    #[test]
    fn what_is_not_known_of_a_kernel_makes_it_no_other() {
        let kernel = |digest: Option<&str>| GuestKernel {
            release: Some("6.12.0".to_string()),
            version: None,
            digest: digest.map(str::to_string),
        };
        assert!(kernel(Some("a")).may_be(&kernel(None)) && kernel(None).may_be(&kernel(Some("a"))));
        assert!(kernel(Some("a")).may_be(&kernel(Some("a"))));
        assert!(!kernel(Some("a")).may_be(&kernel(Some("b"))));
        let other = GuestKernel { release: Some("6.1".to_string()), ..kernel(None) };
        assert!(!kernel(None).may_be(&other));
        let told = [kernel(None), kernel(Some("a")), kernel(None), kernel(Some("b"))];
        assert_eq!(GuestKernel::each_once(&told), [&kernel(Some("a")), &kernel(Some("b"))]);
    }

    #[test]
    fn times_are_told_by_the_worst() {
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
        for (times, word, told) in cases {
            assert_eq!((times.word(), times.to_string().as_str()), (word, told));
        }
    }
}
