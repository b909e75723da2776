//! The members of one object while they are read: each key once, all of them known. Pure.

use std::ops::Range;

use crate::plan::error::Faults;
use crate::plan::similar::suggestion;
use crate::plan::table::quoted_start;

use super::json::{Json, Member, Node};

/// A value and its place.
pub type Placed<T> = (T, Range<usize>);

pub struct Object<'a> {
    /// The name of such an object in messages: `a task`.
    what: &'static str,
    left: Vec<&'a Member>,
}

impl<'a> Object<'a> {
    pub fn read(node: &'a Node, what: &'static str, faults: &mut Faults) -> Option<Object<'a>> {
        match &node.value {
            Json::Object(members) => Some(Object { what, left: members.iter().collect() }),
            other => {
                let message = format!("{what} is {}, not an object", other.kind());
                faults.refuse(&node.span, message, "not an object", "schedlab help rt-app")
            }
        }
    }

    /// Takes the member of this key, which may be there once.
    pub fn take(&mut self, key: &str, faults: &mut Faults) -> Option<&'a Node> {
        let all = std::mem::take(&mut self.left).into_iter();
        let (found, left): (Vec<_>, Vec<_>) = all.partition(|member| member.key == key);
        self.left = left;
        if let Some(again) = found.get(1) {
            let message = format!("{} is there twice in {}", quoted_start(key), self.what);
            faults.add(&again.span, message, "again", "only events may repeat");
        }
        found.first().map(|member| &member.node)
    }

    pub fn int(
        &mut self,
        key: &str,
        min: i64,
        max: i64,
        faults: &mut Faults,
    ) -> Option<Placed<i64>> {
        let node = self.take(key, faults)?;
        int(node, key, min, max, faults).map(|value| (value, node.span.clone()))
    }

    pub fn text(&mut self, key: &str, faults: &mut Faults) -> Option<Placed<&'a str>> {
        let node = self.take(key, faults)?;
        text(node, key, faults).map(|value| (value, node.span.clone()))
    }

    pub fn flag(&mut self, key: &str, faults: &mut Faults) -> Option<bool> {
        let node = self.take(key, faults)?;
        match node.value {
            Json::Bool(value) => Some(value),
            _ => wrong(node, key, "true or false", faults),
        }
    }

    /// Whole numbers that are not below 0.
    pub fn numbers(
        &mut self,
        key: &str,
        max: u32,
        faults: &mut Faults,
    ) -> Option<Placed<Vec<u32>>> {
        let node = self.take(key, faults)?;
        let Json::Array(items) = &node.value else {
            return wrong(node, key, "a list of numbers: [0, 1]", faults);
        };
        let number = |item| int(item, key, 0, max.into(), faults).map(|number| number as u32);
        let numbers: Vec<u32> = items.iter().filter_map(number).collect();
        Some((numbers, node.span.clone()))
    }

    /// Ignores what has no meaning here.
    pub fn ignore(&mut self, keys: &[&str]) {
        self.left.retain(|member| !keys.contains(&member.key.as_str()));
    }

    /// All that was not taken, in the order of the text.
    pub fn rest(self) -> Vec<&'a Member> {
        self.left
    }

    /// Notes all that was not taken.
    pub fn finish(self, known: &[&str], faults: &mut Faults) {
        let what = self.what;
        self.left.iter().for_each(|member| unknown(member, what, known, faults));
    }
}

pub fn unknown(member: &Member, what: &str, known: &[&str], faults: &mut Faults) {
    let message = format!("unknown key {} in {what}", quoted_start(&member.key));
    faults.add(&member.span, message, "not known here", suggestion(&member.key, known));
}

pub fn int(node: &Node, key: &str, min: i64, max: i64, faults: &mut Faults) -> Option<i64> {
    match node.value {
        Json::Int(value) if (min..=max).contains(&value) => Some(value),
        Json::Int(value) => {
            let message = format!("{} is {value}, not {min} to {max}", quoted_start(key));
            faults.refuse(&node.span, message, "out of range", format!("{min} to {max}"))
        }
        // As in rt-app, which takes no such number for a whole one either.
        Json::Number(value)
            if value.fract() == 0.0 && value >= min as f64 && value <= max as f64 =>
        {
            let message = format!("{} takes a whole number in digits alone", quoted_start(key));
            faults.refuse(&node.span, message, "a point or an exponent", format!("{value}"))
        }
        Json::Number(value) if value > max as f64 || value < min as f64 => {
            let message = format!("{} is {value:e}, not {min} to {max}", quoted_start(key));
            faults.refuse(&node.span, message, "out of range", format!("{min} to {max}"))
        }
        Json::Number(value) => {
            let message = format!("{} takes a whole number, not {value}", quoted_start(key));
            faults.refuse(&node.span, message, "not whole", "a whole number, as 1500")
        }
        _ => wrong(node, key, "a whole number", faults),
    }
}

pub fn text<'a>(node: &'a Node, key: &str, faults: &mut Faults) -> Option<&'a str> {
    match &node.value {
        Json::Text(value) => Some(value),
        _ => wrong(node, key, "a text in quotes", faults),
    }
}

/// Notes a value of another kind.
pub fn wrong<T>(node: &Node, key: &str, wanted: &str, faults: &mut Faults) -> Option<T> {
    let message = format!("{} takes {wanted}, not {}", quoted_start(key), node.value.kind());
    faults.refuse(&node.span, message, "not such a value", wanted)
}
