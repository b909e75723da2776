//! Reading checked parameters. Pure.

use crate::model::{Params, Value};

use super::WorkloadError;

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

pub fn duration_ns(params: &Params, name: &'static str) -> Result<u64, WorkloadError> {
    value(params, name, Value::as_duration_ns)
}
