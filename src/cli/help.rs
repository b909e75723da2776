//! `--help`: all commands on one screen, and of each command the options that most people use.
//! `--help-all`, the man pages and the completions have all options.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::model::{MissingFeature, mistyped};
use crate::report::wrap;
use crate::session::Problem;

use super::terminal;

/// Headings of options that few people use.
pub const LAB: &str = "In the lab";
pub const COMMAND: &str = "With a command";
pub const CLUSTER: &str = "On a cluster";
pub const SELDOM: &str = "Seldom used";
const RARE: [&str; 4] = [LAB, COMMAND, CLUSTER, SELDOM];

/// Headings of a command with many options.
pub const EXTENT: &str = "How much";
pub const VERDICTS: &str = "Verdicts";
pub const OUTPUT: &str = "Output";
/// A command with fewer options has one list of them.
const MIN_FOR_HEADINGS: usize = 16;

const ALL: &str = "--help-all";

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &["run", "test", "score", "watch", "capture", "schbench", "schedbench", "plan-power"],
    ),
    ("Look", &["report", "compare", "show", "list", "serve"]),
    ("Lab", &["try", "hunt", "kernel", "cache", "twin"]),
    (
        "Store and help",
        &[
            "help",
            "export",
            "import",
            "tag",
            "note",
            "rm",
            "doctor",
            "restore",
            "completions",
            "man",
        ],
    ),
];

/// Commands that touch no results.
pub const WITHOUT_STORE: [&str; 13] = [
    "capture",
    "help",
    "hunt",
    "watch",
    "schbench",
    "schedbench",
    "kernel",
    "cache",
    "doctor",
    "twin",
    "restore",
    "completions",
    "man",
];

/// The part of a command that a new spelling needs.
enum Needs {
    Nothing,
    Selection,
    Long(&'static str),
    Short(char),
    /// It is one of these commands.
    Named(&'static [&'static str]),
}

impl Needs {
    fn is_in(&self, command: &Command) -> bool {
        /// The names of arguments that select what is stored.
        const SELECTIONS: [&str; 3] = ["SELECT", "SIDES", "NAME"];
        let mut arguments = command.get_arguments();
        match *self {
            Needs::Nothing => true,
            Needs::Selection => arguments.any(|arg| {
                let names = arg.get_value_names().unwrap_or_default();
                arg.is_positional() && names.iter().any(|name| SELECTIONS.contains(&name.as_str()))
            }),
            Needs::Long(option) => arguments.any(|arg| arg.get_long() == Some(option)),
            Needs::Short(option) => arguments.any(|arg| arg.get_short() == Some(option)),
            Needs::Named(commands) => commands.contains(&command.get_name()),
        }
    }
}

/// Spellings of before, and what does the same in commands that have it.
const RENAMED: [(&str, Needs, &str); 23] = [
    ("--width", Needs::Nothing, "COLUMNS=100 before the command"),
    ("--html", Needs::Short('o'), "-o page.html: the ending says the format"),
    ("--all-metrics", Needs::Long("metric"), "--metric all"),
    ("--bisect", Needs::Long("fail-on"), "--fail-on bisect"),
    ("--since", Needs::Selection, "among what is selected: since=7d"),
    ("--until", Needs::Selection, "among what is selected: until=7d"),
    ("--tag", Needs::Selection, "among what is selected: tag=NAME"),
    ("--title", Needs::Selection, "among what is selected: title=TEXT"),
    ("--newest", Needs::Selection, "among what is selected: last:3"),
    ("-n", Needs::Selection, "among what is selected: last:3"),
    ("--backend", Needs::Selection, "among what is selected: backend=lab"),
    ("--clear", Needs::Long("remove"), "--remove"),
    (
        "--output",
        Needs::Named(&["show", "watch"]),
        "show --program-output; watch --command-output FILE",
    ),
    ("-o", Needs::Named(&["watch"]), "watch --command-output FILE"),
    ("--for", Needs::Long("duration"), "--duration 10s"),
    ("--print", Needs::Named(&["try"]), "--dry-run; the plan's text: schedlab run try --print"),
    ("--cache-mode", Needs::Long("cache"), "--cache URL,read-only"),
    ("--trust", Needs::Long("cache"), "--cache URL,trust=100%"),
    ("--nodes", Needs::Long("fleet"), "--fleet slurm,nodes=8"),
    ("--partition", Needs::Long("fleet"), "--fleet slurm,partition=NAME"),
    ("--account", Needs::Long("fleet"), "--fleet slurm,account=NAME"),
    ("--fleet-folder", Needs::Long("fleet"), "--fleet slurm,folder=DIR"),
    ("--exclusive", Needs::Long("fleet"), "--fleet slurm,exclusive"),
];

/// The replacement of an option that the command does not know, if it knows that one.
fn renamed(error: &clap::Error, command: &Command) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let (_, needs, now) = RENAMED.iter().find(|(before, ..)| before == unknown)?;
    needs.is_in(command).then_some(now)
}

/// The words of the command line, and the commands with the help that they ask for.
pub fn asked(
    schedlab: Command,
    words: impl Iterator<Item = OsString>,
    is_topic: impl Fn(&str) -> bool,
) -> (Command, Vec<OsString>) {
    let mut words = of_help(&schedlab, words.collect(), is_topic);
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let schedlab = match words[..own].iter().position(|word| word == ALL) {
        Some(at) => {
            words[at] = "--help".into();
            schedlab
        }
        None => {
            let overview = overview(&schedlab, terminal::width());
            shorten(schedlab, "schedlab").override_help(overview)
        }
    };
    (lay_out_called(schedlab, words.get(1..).unwrap_or_default()), words)
}

/// Lays the help out of the one command that the words call: those above it list others by their first line.
fn lay_out_called(command: Command, words: &[OsString]) -> Command {
    let called = words.iter().enumerate().find_map(|(at, word)| {
        let sub = command.find_subcommand(word)?;
        Some((sub.get_name().to_string(), &words[at + 1..]))
    });
    match called {
        Some((name, rest)) => command.mut_subcommand(name, |sub| lay_out_called(sub, rest)),
        None => lay_out(command),
    }
}

/// One layout for all commands, without clap's long form: each option begins in its own line, with its text next
/// to it.
pub fn lay_out(command: Command) -> Command {
    let shown =
        command.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set());
    let has_headings = shown.count() >= MIN_FOR_HEADINGS;
    let about = command.get_long_about().or(command.get_about()).cloned().unwrap_or_default();
    let command = command.about(about).long_about(None::<&str>);
    command.mut_args(|arg| {
        let is_common = arg.get_help_heading().is_some_and(|heading| !RARE.contains(&heading));
        let arg = if is_common && !has_headings { arg.help_heading(None::<&str>) } else { arg };
        let Some(help) = arg.get_long_help().or(arg.get_help()).map(ToString::to_string) else {
            return arg;
        };
        let values = arg.get_possible_values();
        if arg.is_hide_possible_values_set()
            || values.iter().all(|value| value.get_help().is_none())
        {
            return arg.help(help).long_help(None::<&str>);
        }
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let default = defaults.map(|value| format!(" [default: {value}]")).collect::<String>();
        let lines = values.iter().filter(|value| !value.is_hide_set()).map(explained);
        let help = help + &default + &lines.collect::<String>();
        arg.help(help).long_help(None::<&str>).hide_possible_values(true).hide_default_value(true)
    })
}

/// A line for a value of an option.
fn explained(value: &PossibleValue) -> String {
    let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
    format!("\n{}{help}", value.get_name())
}

/// `help COMMAND`, where that is no topic as well, is `COMMAND --help`; `help` alone lists both.
fn of_help(
    schedlab: &Command,
    words: Vec<OsString>,
    is_topic: impl Fn(&str) -> bool,
) -> Vec<OsString> {
    if words.get(1).is_none_or(|word| word != "help") {
        return words;
    }
    let (all, mut named): (Vec<_>, Vec<_>) =
        words[2..].iter().cloned().partition(|word| word == "--all");
    let name = named.first().and_then(|word| word.to_str()).unwrap_or_default();
    if !named.is_empty() && (schedlab.find_subcommand(name).is_none() || is_topic(name)) {
        return words;
    }
    named.insert(0, words[0].clone());
    named.push(if all.is_empty() { "--help" } else { ALL }.into());
    named
}

/// A wrong command line, its `words`, in the form of all errors.
pub fn as_problem(error: &clap::Error, schedlab: &Command, words: &[OsString]) -> Problem {
    let (called, command) = called(schedlab, words);
    let cause = std::error::Error::source(error).map(cause);
    let mut message = message(error, called);
    let foreign = words.iter().find(|word| word.to_str().is_none());
    if let (ErrorKind::InvalidUtf8, Some(word)) = (error.kind(), foreign) {
        message = format!("{word:?} is not UTF-8, and `{command}` takes no other names");
    }
    let negative = negative(error, called, words);
    message = negative.clone().unwrap_or(message);
    if let Some(cause) = &cause {
        message.push_str(&format!(": {}", cause.message));
    }
    let program = || {
        let is_word = negative.is_none() && error.kind() == ErrorKind::UnknownArgument;
        (command == "schedlab run" && is_word)
            .then(|| "a program of yours stands behind --: schedlab run -- sleep 1".to_string())
    };
    let renamed = renamed(error, called).map(str::to_string);
    let meant = renamed.or_else(|| similar(error, called)).or_else(program);
    let hint = cause.and_then(|cause| cause.hint).or(meant);
    Problem::new(message, hint.unwrap_or_else(|| format!("{command} --help")))
}

/// The error of `--duration -1s`, which clap takes for an option `-1`.
fn negative(error: &clap::Error, called: &Command, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_negative = |value: &str| {
        value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let pairs = words.windows(2).filter_map(|pair| Some((pair[0].to_str()?, pair[1].to_str()?)));
    let mut pairs = pairs.filter(|(_, value)| value.starts_with(unknown) && is_negative(value));
    let (option, name, value) = pairs.find_map(|(option, value)| {
        let long = option.strip_prefix("--")?;
        let arg = called.get_arguments().find(|arg| arg.get_long() == Some(long))?;
        let name = arg.get_value_names()?.first()?.as_str();
        // The values of other options are texts, which may begin so.
        ["N", "PERCENT", "TIME"].contains(&name).then_some((option, name, value))
    })?;
    Some(format!("invalid value '{value}' for '{option} <{name}>': it is negative"))
}

/// Why a value does not fit its option.
fn cause(source: &(dyn std::error::Error + 'static)) -> Problem {
    let missing = source.downcast_ref::<MissingFeature>();
    let missing = missing.map(|of| Problem::new(of.to_string(), MissingFeature::HINT));
    let own = source.downcast_ref::<Problem>().cloned();
    let wrong = source.downcast_ref::<ParseIntError>().map(|error| match error.kind() {
        IntErrorKind::PosOverflow => Problem::new("too large", "a smaller number"),
        _ => Problem::new("not a whole number", "a number without a sign or a unit, as 3"),
    });
    own.or(missing).or(wrong).unwrap_or_else(|| source.to_string().into())
}

/// The wrong part in words. `called`: the command that the words were given to.
fn message(error: &clap::Error, called: &Command) -> String {
    let all = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        Some(ContextValue::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let (arg, value) = (all(ContextKind::InvalidArg), all(ContextKind::InvalidValue));
    let prior = all(ContextKind::PriorArg);
    match error.kind() {
        ErrorKind::UnknownArgument => format!("unexpected argument '{arg}' found"),
        ErrorKind::InvalidSubcommand => {
            format!("unrecognized subcommand '{}'", all(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingSubcommand => {
            format!("'{}' takes a subcommand: {}", called.get_name(), commands(called).join(", "))
        }
        ErrorKind::MissingRequiredArgument => {
            format!("the following required arguments were not provided: {arg}")
        }
        ErrorKind::ArgumentConflict if arg == prior => {
            format!("the argument '{arg}' cannot be used multiple times")
        }
        ErrorKind::ArgumentConflict if !arg.is_empty() => {
            format!("the argument '{arg}' cannot be used with {prior}")
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("a value is required for '{arg}' but none was supplied")
        }
        ErrorKind::InvalidValue => match all(ContextKind::ValidValue) {
            none if none.is_empty() => format!("invalid value '{value}' for '{arg}'"),
            known => format!("invalid value '{value}' for '{arg}': none of {known}"),
        },
        ErrorKind::ValueValidation => format!("invalid value '{value}' for '{arg}'"),
        ErrorKind::TooManyValues => format!("'{value}' is one value too many for '{arg}'"),
        ErrorKind::TooFewValues => {
            format!("'{arg}' takes {} values or more", all(ContextKind::MinValues))
        }
        ErrorKind::WrongNumberOfValues => {
            format!("'{arg}' takes {} values", all(ContextKind::ExpectedNumValues))
        }
        other => other.to_string(),
    }
}

/// The name that a slip may stand for: of commands a near one, of the rest what clap suggests.
fn similar(error: &clap::Error, called: &Command) -> Option<String> {
    let commands = commands(called);
    let name = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => mistyped(word, commands.iter().map(String::as_str)),
        _ => [ContextKind::SuggestedArg, ContextKind::SuggestedValue].iter().find_map(|kind| {
            match error.get(*kind)? {
                ContextValue::String(name) => Some(name.as_str()),
                // The likeliest is the last.
                ContextValue::Strings(names) => Some(names.last()?.as_str()),
                _ => None,
            }
        }),
    }?;
    Some(format!("did you mean `{name}`?"))
}

/// The command that the words of a command line were given to, and its words.
fn called<'a>(schedlab: &'a Command, words: &[OsString]) -> (&'a Command, String) {
    let (mut at, mut path) = (schedlab, vec!["schedlab"]);
    for sub in words.iter().skip(1) {
        if let Some(sub) = at.find_subcommand(sub) {
            path.push(sub.get_name());
            at = sub;
        }
    }
    (at, path.join(" "))
}

/// The names of all commands that help shows.
pub fn commands(schedlab: &Command) -> Vec<String> {
    let shown = schedlab.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_string()).collect()
}

/// A line for each command.
fn overview(schedlab: &Command, columns: usize) -> String {
    let mut text = "\
schedlab: is one CPU scheduler better than another for this load, by how much?
Begin with  schedlab run                      this machine, two minutes
            schedlab run -- CMD               a program of yours
            schedlab run PLAN.toml --dry-run  a plan of yours, checked\n"
        .to_string();
    for (position, (group, names)) in GROUPS.iter().enumerate() {
        // A screen of 40 lines has no more room.
        let gap = if position <= 1 { "" } else { "\n" };
        text.push_str(&format!("{gap}{group}\n"));
        for name in *names {
            let about = schedlab.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let name = format!("  {name:<12} ");
            let lines = wrap(&about, columns.saturating_sub(name.len()));
            text.push_str(&name);
            text.push_str(&lines.join(&format!("\n{:1$}", "", name.len())));
            text.push('\n');
        }
    }
    text.push_str(
        "\
Options: schedlab COMMAND --help; all: --help-all; another store: --db FILE
Topics: schedlab help topics; exit codes: schedlab man; wider: COLUMNS=100\n",
    );
    text
}

/// Hides what few people use, in all commands, and says so.
fn shorten(command: Command, path: &str) -> Command {
    let is_rare = |arg: &Arg| arg.get_help_heading().is_some_and(|heading| RARE.contains(&heading));
    let has_rare = command.get_arguments().any(is_rare);
    let command = command.mut_args(|arg| if is_rare(&arg) { arg.hide(true) } else { arg });
    let has_store = path.matches(' ').count() == 1 && !WITHOUT_STORE.contains(&command.get_name());
    let more = [
        has_rare.then(|| format!("All options: {path} {ALL}")),
        has_store.then(|| "Another store: --db FILE".to_string()),
    ];
    let more = more.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let command = if more.is_empty() {
        command
    } else {
        let own = command.get_after_help().map(|text| format!("{text}\n")).unwrap_or_default();
        command.after_help(own + &more)
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        shorten(sub, &path)
    })
}

#[cfg(test)]
mod tests;
