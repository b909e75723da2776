//! Members of a JSON object, in their order, and their text. Pure.
//!
//! Keys do not repeat, since rt-app itself reads plain JSON alone: a later event of a kind has a number, `run2`.

use std::collections::BTreeMap;

const INDENT: &str = "  ";

pub enum Out {
    /// A value in JSON's own words.
    Plain(String),
    Object(Members),
    /// On one line.
    Inline(Members),
}

#[derive(Default)]
pub struct Members {
    all: Vec<(String, Out)>,
    /// The number of events of each kind.
    events: BTreeMap<&'static str, u32>,
}

pub fn text(text: &str) -> Out {
    Out::Plain(serde_json::Value::from(text).to_string())
}

pub fn number(number: impl std::fmt::Display) -> Out {
    Out::Plain(number.to_string())
}

impl Members {
    pub fn inline(members: &[(&str, &str)], more: Option<(&str, u64)>) -> Out {
        let mut all = Members::default();
        members.iter().for_each(|(key, value)| all.add(key, text(value)));
        more.into_iter().for_each(|(key, value)| all.add(key, number(value)));
        Out::Inline(all)
    }

    pub fn add(&mut self, key: &str, value: Out) {
        self.all.push((key.to_string(), value));
    }

    pub fn add_event(&mut self, event: &'static str, value: Out) {
        let count = self.events.entry(event).or_default();
        *count += 1;
        let key = if *count == 1 { event.to_string() } else { format!("{event}{count}") };
        self.add(&key, value);
    }

    pub fn append(&mut self, other: Members) {
        self.all.extend(other.all);
        self.events.extend(other.events);
    }

    /// The object in JSON, with a line for each member.
    pub fn write(&self, depth: usize) -> String {
        let (own, inner) = (INDENT.repeat(depth), INDENT.repeat(depth + 1));
        let lines: Vec<String> = self
            .all
            .iter()
            .map(|(key, value)| format!("{inner}{} : {}", quoted(key), value.write(depth + 1)))
            .collect();
        format!("{{\n{}\n{own}}}", lines.join(",\n"))
    }
}

impl Out {
    fn write(&self, depth: usize) -> String {
        match self {
            Out::Plain(value) => value.clone(),
            Out::Object(members) => members.write(depth),
            Out::Inline(members) => {
                let parts = members.all.iter();
                let parts =
                    parts.map(|(key, value)| format!("{} : {}", quoted(key), value.write(0)));
                format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn quoted(key: &str) -> String {
    serde_json::Value::from(key).to_string()
}
