//! A set of CPUs, written as the kernel writes it: `0-3,8,10-11`. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The largest CPU number that is accepted: far above what Linux supports (8192),
/// so that a typing error cannot ask for gigabytes of mask.
pub const MAX_CPU: u32 = 65_535;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// Why a text is not a set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CpuSetError {
    #[error("`{part}` is not a CPU number")]
    NotANumber { part: String },
    #[error("CPU {cpu} is above the largest that is accepted, {MAX_CPU}")]
    TooLarge { cpu: u32 },
    #[error("the range {first}-{last} runs backwards")]
    Backwards { first: u32, last: u32 },
}

impl CpuSet {
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs of `self` that `other` does not hold.
    pub fn minus(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        CpuSet(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let number = |part: &str| {
            let part = part.trim();
            match part.parse::<u32>() {
                Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
                Ok(cpu) => Err(CpuSetError::TooLarge { cpu }),
                Err(_) => Err(CpuSetError::NotANumber { part: part.to_string() }),
            }
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            match part.split_once('-') {
                None => {
                    cpus.insert(number(part)?);
                }
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(CpuSetError::Backwards { first, last });
                    }
                    cpus.extend(first..=last);
                }
            }
        }
        Ok(CpuSet(cpus))
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;

    fn try_from(text: String) -> Result<Self, CpuSetError> {
        if text.is_empty() { Ok(CpuSet::default()) } else { text.parse() }
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> String {
        cpus.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek() == Some(&(last + 1)) {
                last += 1;
                cpus.next();
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse_and_print_as_the_kernel_does() {
        let cases: &[(&str, Result<&str, &str>)] = &[
            ("0", Ok("0")),
            ("0-3", Ok("0-3")),
            ("0,1,2,8", Ok("0-2,8")),
            ("3-3", Ok("3")),
            (" 1 , 0 ", Ok("0-1")),
            ("", Err("`` is not a CPU number")),
            ("1-", Err("`` is not a CPU number")),
            ("-1", Err("`` is not a CPU number")),
            ("3-1", Err("the range 3-1 runs backwards")),
            ("0-70000", Err("CPU 70000 is above the largest that is accepted, 65535")),
        ];
        for (text, expected) in cases {
            let got = text.parse::<CpuSet>().map(|set| set.to_string());
            let got = got.map_err(|why| why.to_string());
            assert_eq!(got, expected.map(str::to_string).map_err(str::to_string), "{text}");
        }
    }
}
