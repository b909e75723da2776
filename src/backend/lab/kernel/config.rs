//! Configurations of kernels: the settings that were asked for and lost, and the differences between two
//! configurations. Pure.
//!
//! Input: the text of a `.config`. A symbol that is `n` and one that the tree does not have are
//! both [`Setting::Off`]: to a running kernel they are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::clean as plain;

const PREFIX: &str = "CONFIG_";

/// The value of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Setting {
    Off,
    Yes,
    Module,
    /// A number, or a text in quotation marks, as in the file.
    Value(String),
}

impl From<String> for Setting {
    fn from(text: String) -> Setting {
        match text.as_str() {
            "n" => Setting::Off,
            "y" => Setting::Yes,
            "m" => Setting::Module,
            _ => Setting::Value(text),
        }
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> String {
        match setting {
            Setting::Off => "n".to_string(),
            Setting::Yes => "y".to_string(),
            Setting::Module => "m".to_string(),
            Setting::Value(text) => text,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&String::from(self.clone())))
    }
}

/// A symbol and its wanted value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The symbol with its prefix: `CONFIG_HZ_250`.
    pub symbol: String,
    pub setting: Setting,
}

#[derive(Debug, PartialEq, Eq, Error)]
pub enum WantedFault {
    #[error("a symbol is `{PREFIX}` and capital letters, digits and underscores")]
    Symbol,
    #[error("after the symbol `=` and y, m, n, a number or a text in quotation marks must follow")]
    Value,
}

impl Wanted {
    /// Parses `CONFIG_X=y`.
    pub fn parse(text: &str) -> Result<Wanted, WantedFault> {
        let (symbol, value) = text.split_once('=').ok_or(WantedFault::Value)?;
        let wanted = Wanted { setting: Setting::from(value.to_string()), ..Wanted::off(symbol)? };
        match &wanted.setting {
            Setting::Value(text) if !is_value(text) => Err(WantedFault::Value),
            _ => Ok(wanted),
        }
    }

    /// Asks for `CONFIG_X` to be off.
    pub fn off(symbol: &str) -> Result<Wanted, WantedFault> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let rest = symbol.strip_prefix(PREFIX).unwrap_or("");
        if !rest.is_empty() && rest.len() < 100 && rest.bytes().all(is_letter) {
            Ok(Wanted { symbol: symbol.to_string(), setting: Setting::Off })
        } else {
            Err(WantedFault::Symbol)
        }
    }

    /// Formats the setting as a line of a `.config`.
    pub fn line(&self) -> String {
        match &self.setting {
            Setting::Off => format!("# {} is not set\n", self.symbol),
            other => format!("{}={}\n", self.symbol, String::from(other.clone())),
        }
    }

    /// Whether the two exclude each other: the same symbol, or two of one choice.
    fn rules_out(&self, other: &Wanted) -> bool {
        let choice = choice(&self.symbol);
        let is_chosen = self.setting == Setting::Yes && choice.is_some();
        self.symbol == other.symbol || is_chosen && choice == choice_of(other)
    }
}

/// A number, or a text without what would end it.
fn is_value(text: &str) -> bool {
    let inside = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    let hexadecimal = text.strip_prefix("0x");
    let is_number = |digits: &str| !digits.is_empty() && digits.len() < 20;
    inside.is_some_and(|inside| inside.chars().all(is_plain))
        || is_number(text) && text.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| {
            is_number(digits) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// The choices in which users often want another member than the lab's.
fn choice(symbol: &str) -> Option<&'static str> {
    const PREEMPTION: &[&str] = &["", "_NONE", "_VOLUNTARY", "_LAZY"];
    let rest = symbol.strip_prefix(PREFIX)?;
    let is_rate = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    if rest.strip_prefix("HZ_").is_some_and(is_rate) {
        return Some("HZ");
    }
    let preemption = rest.strip_prefix("PREEMPT")?;
    PREEMPTION.contains(&preemption).then_some("PREEMPT")
}

fn choice_of(wanted: &Wanted) -> Option<&'static str> {
    choice(&wanted.symbol).filter(|_| wanted.setting == Setting::Yes)
}

/// All wanted settings: the lines of `fragment` that the user's wishes do not exclude, then the wishes.
pub fn merged(fragment: &str, wishes: &[Wanted]) -> Vec<Wanted> {
    let own = Configuration::parse(fragment).symbols.into_iter();
    let own = own.map(|(symbol, setting)| Wanted { symbol, setting });
    let mut all: Vec<Wanted> =
        own.filter(|one| !wishes.iter().any(|wish| wish.rules_out(one))).collect();
    for (at, wish) in wishes.iter().enumerate() {
        if !wishes[at + 1..].iter().any(|later| later.rules_out(wish)) {
            all.push(wish.clone());
        }
    }
    all
}

/// All symbols that a file sets, also to `n`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    symbols: BTreeMap<String, Setting>,
}

impl Configuration {
    pub fn parse(text: &str) -> Configuration {
        let one = |line: &str| {
            let line = line.trim();
            let off = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
            let (symbol, value) = match off {
                Some(symbol) => (symbol, "n"),
                None => line.split_once('=')?,
            };
            let setting = Setting::from(value.to_string());
            symbol.starts_with(PREFIX).then(|| (symbol.to_string(), setting))
        };
        Configuration { symbols: text.lines().filter_map(one).collect() }
    }

    /// The setting of a symbol; its name has the prefix.
    pub fn setting(&self, symbol: &str) -> &Setting {
        self.symbols.get(symbol).unwrap_or(&Setting::Off)
    }

    /// The wanted settings that the configuration does not have.
    pub fn lost(&self, wanted: &[Wanted]) -> Vec<Lost> {
        let is_lost = |one: &&Wanted| *self.setting(&one.symbol) != one.setting;
        let lost = |one: &Wanted| Lost {
            wanted: one.clone(),
            got: self.setting(&one.symbol).clone(),
            is_visible: self.symbols.contains_key(&one.symbol),
        };
        wanted.iter().filter(is_lost).map(lost).collect()
    }
}

/// A symbol that was asked for and has another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    pub wanted: Wanted,
    pub got: Setting,
    /// Whether the configuration names it at all, that is, its dependencies are met.
    pub is_visible: bool,
}

/// The property of a kernel that a symbol decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Tick,
    Preemption,
    Scheduler,
    Groups,
    Bandwidth,
    IdleTicks,
    Cpus,
    Extensible,
    Bpf,
    Debugging,
    Statistics,
    Cost,
}

/// Symbols without their prefix; `*` stands for any end.
const TOPICS: &[(Topic, &str, &[&str])] = &[
    (Topic::Tick, "tick", &["HZ"]),
    (
        Topic::Preemption,
        "preemption",
        &[
            "PREEMPT",
            "PREEMPT_NONE",
            "PREEMPT_VOLUNTARY",
            "PREEMPT_LAZY",
            "PREEMPT_RT",
            "PREEMPT_DYNAMIC",
        ],
    ),
    (
        Topic::Scheduler,
        "scheduler",
        &["SCHED_MUQSS", "SCHED_ALT", "SCHED_BMQ", "SCHED_PDS", "SCHED_BORE", "SCHED_CORE"],
    ),
    (
        Topic::Groups,
        "group scheduling",
        &[
            "CGROUP_SCHED",
            "FAIR_GROUP_SCHED",
            "RT_GROUP_SCHED",
            "SCHED_AUTOGROUP",
            "UCLAMP_TASK*",
            "CPUSETS",
        ],
    ),
    (Topic::Bandwidth, "bandwidth", &["CFS_BANDWIDTH"]),
    (Topic::IdleTicks, "idle ticks", &["NO_HZ*", "HZ_PERIODIC", "HIGH_RES_TIMERS"]),
    (
        Topic::Cpus,
        "CPUs",
        &["NR_CPUS", "SMP", "NUMA", "NUMA_BALANCING", "SCHED_MC", "SCHED_SMT", "SCHED_CLUSTER"],
    ),
    (Topic::Extensible, "sched_ext", &["SCHED_CLASS_EXT"]),
    (Topic::Bpf, "BPF", &["BPF_SYSCALL", "BPF_EVENTS", "BPF_JIT", "DEBUG_INFO_BTF"]),
    (Topic::Debugging, "debugging", &["SCHED_DEBUG", "DEBUG_FS"]),
    (Topic::Statistics, "statistics", &["SCHEDSTATS", "SCHED_INFO", "PSI"]),
    (
        Topic::Cost,
        "cost",
        &[
            "CC_OPTIMIZE_FOR_*",
            "LTO_*",
            "DEBUG_PREEMPT",
            "DEBUG_SPINLOCK",
            "PROVE_LOCKING",
            "LOCK_STAT",
            "KASAN",
            "KCSAN",
            "FUNCTION_TRACER",
        ],
    ),
];

impl Topic {
    pub fn word(self) -> &'static str {
        TOPICS.iter().find(|(topic, ..)| *topic == self).map_or("", |(_, word, _)| word)
    }

    /// The topic of a symbol, if it matters to scheduling.
    fn find(symbol: &str) -> Option<Topic> {
        let bare = symbol.strip_prefix(PREFIX)?;
        let is_one = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(begin) => bare.starts_with(begin),
            None => bare == *pattern,
        };
        let mut topics = TOPICS.iter();
        topics.find(|(_, _, symbols)| symbols.iter().any(&is_one)).map(|(topic, ..)| *topic)
    }

    /// Whether kernels that differ here are not compared unless the user wants it.
    fn is_unlike(self) -> bool {
        matches!(self, Topic::Tick | Topic::Preemption)
    }
}

/// A symbol that two configurations set differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub symbol: String,
    /// `None` if it does not matter to scheduling.
    pub topic: Option<Topic>,
    pub first: Setting,
    pub second: Setting,
}

impl Difference {
    pub fn is_unlike(&self) -> bool {
        self.topic.is_some_and(Topic::is_unlike)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} against {}", plain(&self.symbol), self.first, self.second)
    }
}

/// All differences; those that matter to scheduling first, by topic.
pub fn differences(first: &Configuration, second: &Configuration) -> Vec<Difference> {
    let symbols: BTreeSet<&String> = first.symbols.keys().chain(second.symbols.keys()).collect();
    let all = symbols.into_iter().map(|symbol| Difference {
        symbol: symbol.clone(),
        topic: Topic::find(symbol),
        first: first.setting(symbol).clone(),
        second: second.setting(symbol).clone(),
    });
    let mut all: Vec<Difference> = all.filter(|one| one.first != one.second).collect();
    all.sort_by_key(|one| (one.topic.is_none(), one.topic));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Wanted {
        Wanted::parse(text).unwrap()
    }

    fn lines(wanted: &[Wanted]) -> String {
        wanted.iter().map(Wanted::line).collect()
    }

    #[test]
    fn wishes_are_a_symbol_and_a_value() {
        use WantedFault::{Symbol, Value};
        let cases: &[(&str, Result<&str, WantedFault>)] = &[
            ("CONFIG_HZ_1000=y", Ok("CONFIG_HZ_1000=y\n")),
            ("CONFIG_X=n", Ok("# CONFIG_X is not set\n")),
            ("CONFIG_NR_CPUS=64", Ok("CONFIG_NR_CPUS=64\n")),
            ("CONFIG_START=0x1000", Ok("CONFIG_START=0x1000\n")),
            ("CONFIG_CMDLINE=\"a b\"", Ok("CONFIG_CMDLINE=\"a b\"\n")),
            ("CONFIG_X", Err(Value)),
            ("CONFIG_X=", Err(Value)),
            ("CONFIG_X=yes", Err(Value)),
            ("CONFIG_X=\"a\nCONFIG_Y=y\"", Err(Value)),
            ("CONFIG_X=\"a\\\"", Err(Value)),
            ("HZ_1000=y", Err(Symbol)),
            ("CONFIG_=y", Err(Symbol)),
            ("CONFIG_A B=y", Err(Symbol)),
            ("CONFIG_../X=y", Err(Symbol)),
        ];
        for (text, expected) in cases {
            let found = Wanted::parse(text).map(|wanted| wanted.line());
            assert_eq!(found.as_deref(), expected.as_ref().copied(), "{text}");
        }
    }

    #[test]
    fn a_wish_replaces_what_it_rules_out() {
        let fragment = "# Comment.\nCONFIG_HZ_250=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\n";
        let cases: &[(&[&str], &str)] = &[
            (&[], "CONFIG_HZ_250=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\n"),
            (&["CONFIG_HZ_1000=y"], "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\nCONFIG_HZ_1000=y\n"),
            (
                &["CONFIG_HZ_1000=n"],
                "CONFIG_HZ_250=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\n# CONFIG_HZ_1000 is not set\n",
            ),
            (
                &["CONFIG_PREEMPT=y", "CONFIG_SMP=n"],
                "CONFIG_HZ_250=y\nCONFIG_PREEMPT=y\n# CONFIG_SMP is not set\n",
            ),
            (
                &["CONFIG_PREEMPT_DYNAMIC=y", "CONFIG_PREEMPT_DYNAMIC=n"],
                "CONFIG_HZ_250=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\n# CONFIG_PREEMPT_DYNAMIC is not set\n",
            ),
        ];
        for (wishes, expected) in cases {
            let wishes: Vec<Wanted> = wishes.iter().map(|text| wanted(text)).collect();
            assert_eq!(lines(&merged(fragment, &wishes)), *expected, "{wishes:?}");
        }
    }

    #[test]
    fn lost_wishes_are_found_with_what_is_there_instead() {
        let wishes = ["CONFIG_A=y", "CONFIG_B=y", "CONFIG_C=64", "CONFIG_D=n", "CONFIG_E=m"];
        let wishes: Vec<Wanted> = wishes.iter().map(|text| wanted(text)).collect();
        let text = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=8\nCONFIG_E=y\n";
        let lost = Configuration::parse(text).lost(&wishes);
        let found: Vec<String> = lost
            .iter()
            .map(|one| format!("{} {} {}", one.wanted.symbol, one.got, one.is_visible))
            .collect();
        assert_eq!(found, ["CONFIG_B n true", "CONFIG_C 8 true", "CONFIG_E y true"]);
        let gone = Configuration::parse("").lost(&wishes[..1]);
        assert!(!gone[0].is_visible && gone[0].got == Setting::Off);
    }

    #[test]
    fn differences_that_matter_come_first_by_topic() {
        let first = "CONFIG_HZ=250\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\nCONFIG_A=y\n\
                     CONFIG_FAIR_GROUP_SCHED=y\n# CONFIG_PSI is not set\n";
        let second = "CONFIG_HZ=100\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_SMP=y\nCONFIG_SCHED_MUQSS=y\n\
                      CONFIG_NO_HZ_FULL=y\n";
        let parse = Configuration::parse;
        let all = differences(&parse(first), &parse(second));
        let found: Vec<(Option<&str>, String)> =
            all.iter().map(|one| (one.topic.map(Topic::word), one.to_string())).collect();
        let expected = [
            (Some("tick"), "CONFIG_HZ 250 against 100"),
            (Some("scheduler"), "CONFIG_SCHED_MUQSS n against y"),
            (Some("group scheduling"), "CONFIG_FAIR_GROUP_SCHED y against n"),
            (Some("idle ticks"), "CONFIG_NO_HZ_FULL n against y"),
            (None, "CONFIG_A y against n"),
        ];
        assert_eq!(found, expected.map(|(topic, text)| (topic, text.to_string())));
        assert_eq!(all.iter().filter(|one| one.is_unlike()).count(), 1);
        assert_eq!(differences(&parse(first), &parse(first)), []);
    }

    #[test]
    fn every_topic_has_a_word_and_a_symbol() {
        for (topic, word, symbols) in TOPICS {
            assert_eq!(topic.word(), *word);
            for symbol in *symbols {
                let symbol = format!("CONFIG_{}", symbol.replace('*', "X"));
                assert_eq!(Topic::find(&symbol), Some(*topic), "{symbol}");
            }
        }
        assert_eq!(Topic::find("CONFIG_HZ_250"), None, "HZ itself has the number");
    }
}
