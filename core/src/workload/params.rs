//! Reading checked parameters. Pure.

use crate::model::{Params, Value};

use super::WorkloadError;
use super::burn::Work;

pub fn value<'a, T>(
    params: &'a Params,
    name: &'static str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<T, WorkloadError> {
    params.get(name).and_then(read).ok_or(WorkloadError::Unset(name))
}

/// A whole number that is not below 0.
pub fn int(params: &Params, name: &'static str) -> Result<u64, WorkloadError> {
    value(params, name, |value| value.as_int().and_then(|int| u64::try_from(int).ok()))
}

pub fn count(params: &Params, name: &'static str) -> Result<usize, WorkloadError> {
    int(params, name).map(|count| count as usize)
}

pub fn flag(params: &Params, name: &'static str) -> Result<bool, WorkloadError> {
    value(params, name, Value::as_bool)
}

pub fn text<'a>(params: &'a Params, name: &'static str) -> Result<&'a str, WorkloadError> {
    value(params, name, Value::as_text)
}

pub fn bytes(params: &Params, name: &'static str) -> Result<u64, WorkloadError> {
    value(params, name, Value::as_bytes)
}

/// Work that is given as a time by the field `time`, else in kilo-operations by the field `kops`.
pub fn work(
    params: &Params,
    time: &'static str,
    kops: &'static str,
) -> Result<Work, WorkloadError> {
    optional_work(params, time).map_or_else(|| int(params, kops).map(Work::Kops), Ok)
}

/// Work that is given as a time by the field, if it is given.
pub fn optional_work(params: &Params, time: &str) -> Option<Work> {
    params.get(time).and_then(Value::as_duration_ns).map(Work::Ns)
}

pub fn duration_ns(params: &Params, name: &'static str) -> Result<u64, WorkloadError> {
    value(params, name, Value::as_duration_ns)
}
