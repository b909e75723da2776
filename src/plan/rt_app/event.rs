//! Events of rt-app as steps. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::show_duration;
use crate::plan::error::Faults;
use crate::plan::similar::suggestion;
use crate::plan::table::quoted_start;
use crate::workload;

use super::json::{Json, Member, Node};
use super::object::{self, Object};

/// All events; a key may go on behind the name, as in `run0` and `timer_a`.
pub const EVENTS: &[&str] = &[
    "run", "runtime", "sleep", "timer", "lock", "unlock", "wait", "signal", "broad", "sync",
    "barrier", "suspend", "resume", "sem_post", "sem_wait", "yield", "fork", "mem", "iorun",
    "memrun",
];

/// A timer without a name has this one.
const UNNAMED: &str = "unknown";
const US: i64 = 1_000;
const MAX_US: i64 = workload::MAX_STEP_TIME_NS as i64 / US;
const MAX_BYTES: i64 = 1 << 40;

/// The event that a key stands for. A lower-case letter behind a name would be another word.
pub fn event_of(key: &str) -> Option<&'static str> {
    let is_key = |event: &&&str| {
        let rest = key.strip_prefix(**event);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    EVENTS.iter().filter(is_key).max_by_key(|event| event.len()).copied()
}

/// The names that events of all tasks have in common.
#[derive(Default)]
pub struct Common {
    /// Words for names that steps cannot have.
    words: BTreeMap<String, String>,
    /// The names of all tasks.
    pub tasks: Vec<String>,
    /// The texts of all events that resume somebody, of those that suspend, and of those that fork.
    resumed: BTreeSet<String>,
    suspended: BTreeSet<String>,
    pub forked: BTreeSet<String>,
    /// Timers that an event makes absolute.
    absolute: BTreeSet<String>,
    /// For each barrier the number of workers that come to it.
    pub barriers: BTreeMap<String, u64>,
    /// For each task that is forked how often, if that is known.
    pub forks: BTreeMap<String, Option<u64>>,
}

/// Where an event stands.
pub struct Place<'a> {
    /// The word of its task.
    pub task: &'a str,
    pub instances: u64,
    pub is_forked: bool,
    /// The timers that events of its task make absolute.
    pub absolute: &'a BTreeSet<String>,
    /// How often it is done in all, if that is known.
    pub times: Option<u64>,
}

impl Common {
    pub fn of_tasks(tasks: &Node) -> Common {
        let [resumed, suspended, forked] =
            ["resume", "suspend", "fork"].map(|event| texts(tasks, event).into_iter().collect());
        let absolute = members(tasks).iter().flat_map(|task| absolute_timers(&task.node));
        let absolute = absolute.collect();
        Common { resumed, suspended, forked, absolute, ..Common::default() }
    }

    /// A word of steps for a name: the name itself where that is one.
    pub fn word(&mut self, name: &str) -> String {
        if let Some(word) = self.words.get(name) {
            return word.clone();
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let plain: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        let plain = plain.trim_start_matches('-');
        let plain = &plain[..plain.len().min(workload::MAX_STEP_NAME_BYTES - 8)];
        let base = if plain.is_empty() { "unnamed" } else { plain };
        let word = self.free(base);
        self.words.insert(name.to_string(), word.clone());
        word
    }

    /// This word, with a number where another name has it.
    pub fn free(&self, base: &str) -> String {
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut words = std::iter::once(base.to_string()).chain(numbered);
        words.find(|word| !self.words.values().any(|known| known == word)).unwrap_or_default()
    }

    /// The steps of one event; nothing where it is wrong, which is noted.
    pub fn steps(
        &mut self,
        member: &Member,
        event: &str,
        place: &Place,
        faults: &mut Faults,
    ) -> Option<Vec<String>> {
        let Member { key, node, .. } = member;
        let time = |faults: &mut Faults| {
            let us = object::int(node, key, 0, MAX_US, faults)?;
            Some(show_duration((us * US) as u64))
        };
        let bytes = |faults: &mut Faults| object::int(node, key, 0, MAX_BYTES, faults);
        let one = match event {
            "run" => format!("burn {}", time(faults)?),
            "runtime" => format!("spin {}", time(faults)?),
            "sleep" => format!("sleep {}", time(faults)?),
            "mem" => format!("memory {}B", bytes(faults)?),
            "iorun" => format!("output {}B", bytes(faults)?),
            "timer" => self.timer(member, place, faults)?,
            "yield" => "yield".to_string(),
            "suspend" => format!("suspend {}", self.suspension(node, place)),
            "wait" | "sync" => return self.wait(member, event, faults),
            "memrun" => {
                let message = "`memrun` cannot be done here";
                return faults.refuse(
                    &member.span,
                    message,
                    "this event",
                    "`mem` writes to memory",
                );
            }
            _ => {
                let name = object::text(node, key, faults)?;
                self.named(event, name, member, place, faults)?
            }
        };
        Some(vec![one])
    }

    /// A thread suspends itself, and its text means nothing; in older files others resume this text.
    fn suspension(&mut self, node: &Node, place: &Place) -> String {
        match &node.value {
            Json::Text(text) if self.resumed.contains(text) && !self.tasks.contains(text) => {
                self.word(text)
            }
            _ => place.task.to_string(),
        }
    }

    /// An event that names a thing or a task.
    fn named(
        &mut self,
        event: &str,
        name: &str,
        member: &Member,
        place: &Place,
        faults: &mut Faults,
    ) -> Option<String> {
        let is_suspended = event == "resume" && self.suspended.contains(name);
        let is_of_task = matches!(event, "resume" | "fork") && !is_suspended;
        if is_of_task && !self.tasks.iter().any(|task| task == name) {
            let known: Vec<&str> = self.tasks.iter().map(String::as_str).collect();
            let message = format!("there is no task {}", quoted_start(name));
            return faults.refuse(&member.node.span, message, "no task", suggestion(name, &known));
        }
        if event == "barrier" && place.is_forked {
            let message = "a task that is forked cannot wait at a barrier";
            let hint =
                "sem_post and sem_wait, or threads that are there from the begin: \"instance\" : 2";
            return faults.refuse(&member.span, message, "this barrier", hint);
        }
        let word = self.word(name);
        match event {
            "barrier" => *self.barriers.entry(word.clone()).or_default() += place.instances,
            "fork" => {
                let more = place.times;
                let forks = self.forks.entry(name.to_string()).or_insert(Some(0));
                *forks = forks.zip(more).map(|(forks, more)| forks.saturating_add(more));
            }
            _ => {}
        }
        let step = match event {
            "broad" => "broadcast",
            "sem_post" => "post",
            "sem_wait" => "take",
            same => same,
        };
        Some(format!("{step} {word}"))
    }

    fn wait(&mut self, member: &Member, event: &str, faults: &mut Faults) -> Option<Vec<String>> {
        let mut object = Object::read(&member.node, "a wait", faults)?;
        let [condition, lock] = ["ref", "mutex"].map(|key| object.text(key, faults));
        object.finish(&["ref", "mutex"], faults);
        let (Some((condition, _)), Some((lock, _))) = (condition, lock) else {
            if faults.are_within(&member.node.span) {
                return None;
            }
            let hint = "{ \"ref\" : \"queue\", \"mutex\" : \"mutex\" }";
            return faults.refuse(&member.span, "no condition with its mutex", "this event", hint);
        };
        let (condition, lock) = (self.word(condition), self.word(lock));
        let wait = format!("wait {condition} {lock}");
        Some(match event {
            "sync" => vec![
                format!("lock {lock}"),
                format!("signal {condition}"),
                wait,
                format!("unlock {lock}"),
            ],
            _ => vec![wait],
        })
    }

    fn timer(&mut self, member: &Member, place: &Place, faults: &mut Faults) -> Option<String> {
        let mut object = Object::read(&member.node, "a timer", faults)?;
        let name = object.text("ref", faults).map_or(UNNAMED, |(name, _)| name);
        let period = object.int("period", 0, MAX_US, faults);
        let mode = object.text("mode", faults);
        object.finish(&["ref", "period", "mode"], faults);
        match mode {
            None | Some(("relative" | "absolute", _)) => {}
            Some((other, span)) => {
                let message = format!("there is no mode {}", quoted_start(other));
                return faults.refuse(&span, message, "this mode", "relative or absolute");
            }
        }
        let Some((period_us, _)) = period else {
            if faults.are_within(&member.node.span) {
                return None;
            }
            let hint = "{ \"ref\" : \"unique\", \"period\" : 30000 }";
            return faults.refuse(&member.span, "a timer without a period", "this event", hint);
        };
        // Timers are of all threads, but for those whose names begin so.
        let is_own = name.starts_with("unique");
        let timer = if is_own { "timer" } else { "shared-timer" };
        // One event makes the timer absolute for all that use it.
        let absolute = if is_own { place.absolute } else { &self.absolute };
        let end = if absolute.contains(name) { " absolute" } else { "" };
        let (word, period) = (self.word(name), show_duration((period_us * US) as u64));
        Some(format!("{timer} {word} {period}{end}"))
    }
}

fn members(node: &Node) -> &[Member] {
    match &node.value {
        Json::Object(members) => members,
        _ => &[],
    }
}

/// The names of the timers that events of this task make absolute.
pub fn absolute_timers(task: &Node) -> Vec<String> {
    let text = |event: &Member, key: &str| {
        let member = members(&event.node).iter().find(|member| member.key == key)?;
        match &member.node.value {
            Json::Text(text) => Some(text.clone()),
            _ => None,
        }
    };
    let timers = members(task).iter().map(|member| match event_of(&member.key) {
        Some("timer") if text(member, "mode").as_deref() == Some("absolute") => {
            vec![text(member, "ref").unwrap_or(UNNAMED.to_string())]
        }
        _ => absolute_timers(&member.node),
    });
    timers.collect::<Vec<_>>().concat()
}

/// The texts of all events of this kind.
fn texts(node: &Node, event: &str) -> Vec<String> {
    let texts = members(node).iter().map(|member| match &member.node.value {
        Json::Text(text) if event_of(&member.key) == Some(event) => vec![text.clone()],
        _ => texts(&member.node, event),
    });
    texts.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_an_event_by_its_beginning_and_no_other_word() {
        let cases = [
            ("run", Some("run")),
            ("run0", Some("run")),
            ("runtime", Some("runtime")),
            ("runtime_1", Some("runtime")),
            ("memrun_a", Some("memrun")),
            ("sem_wait1", Some("sem_wait")),
            ("timerA", Some("timer")),
            ("runtme", None),
            ("slep", None),
            ("unlocked", None),
            ("", None),
        ];
        for (key, event) in cases {
            assert_eq!(event_of(key), event, "{key}");
        }
    }

    #[test]
    fn a_name_has_one_word_of_its_own() {
        let mut common = Common::default();
        assert_eq!(common.word("mp3.decoder"), "mp3.decoder");
        assert_eq!((common.word("a b"), common.word("a/b")), ("a_b".into(), "a_b-2".into()));
        assert_eq!((common.word("a b"), common.word("")), ("a_b".into(), "unnamed".into()));
        let long = common.word(&"ü".repeat(1_000));
        assert!(workload::is_step_name(&long), "{long}");
    }
}
