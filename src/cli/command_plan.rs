//! `schedlab run ... -- COMMAND`: the plan of one command, as text that a user could have written:
//! `--print` shows it, and it is stored with the results. Pure.

use clap::Args;
use serde::Serialize;
use toml::{Table, Value};

use crate::model::{Kind, PLAN_SCHEMA, clean};
use crate::variant;

use super::{Failure, help};
use crate::model::quoted;

/// The variant that others are compared with.
const BASELINE: &str = "as-found";
/// The source that messages about the plan's text name.
pub const SOURCE: &str = "the plan of this command line, which --print shows";
const DURATION: &str = "500ms";
/// A build takes as long as it takes.
const GRACE: &str = "24h";
const MAX_TITLE_CHARS: usize = 200;

#[derive(Args, Clone, Default)]
pub struct CommandArgs {
    /// NAME:KNOB=VALUE,... next to the plan's variants (of quick without one) or `as-found`; may be repeated
    #[arg(long, value_name = "VARIANT", conflicts_with = "resume")]
    variant: Vec<String>,
    /// {NAME} in its words is each of these, separated by commas; may be repeated
    #[arg(help_heading = help::COMMAND, short = 'L', long = "parameter", num_args = 2, value_names = ["NAME", "VALUES"],
        requires = "command", allow_hyphen_values = true)]
    parameter: Vec<String>,
    /// A shell does this before each execution, not timed
    #[arg(help_heading = help::COMMAND, long, value_name = "SHELL COMMAND", requires = "command")]
    prepare: Option<String>,
    /// A shell does this after the last execution of each run
    #[arg(help_heading = help::COMMAND, long, value_name = "SHELL COMMAND", requires = "command")]
    cleanup: Option<String>,
    /// Executions of each run before those that count
    #[arg(help_heading = help::COMMAND, long, value_name = "N", requires = "command")]
    warmup: Option<u32>,
    /// A program to execute and time, with its arguments; with --fleet options of sbatch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Serialize)]
struct Plan {
    schema: i64,
    title: String,
    measure: Measure,
    variant: Vec<Variant>,
    workload: [Workload; 1],
}

#[derive(Serialize)]
struct Measure {
    duration: &'static str,
    warmup: &'static str,
    window: &'static str,
    grace: &'static str,
}

#[derive(Serialize)]
struct Variant {
    name: String,
    #[serde(flatten)]
    knobs: Table,
}

#[derive(Serialize)]
struct Workload {
    name: String,
    #[serde(rename = "use")]
    workload: &'static str,
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prepare: Option<[String; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup: Option<[String; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmups: Option<u32>,
    #[serde(skip_serializing_if = "Table::is_empty")]
    parameters: Table,
}

impl CommandArgs {
    pub fn is_empty(&self) -> bool {
        self.command.is_empty()
    }

    pub fn words(&self) -> &[String] {
        &self.command
    }

    pub fn has_variants(&self) -> bool {
        !self.variant.is_empty()
    }

    /// The variants of the arguments, after the baseline unless a plan has one.
    fn variants(&self, has_baseline: bool) -> Result<Vec<Variant>, Failure> {
        let baseline = || Ok(Variant { name: BASELINE.to_string(), knobs: Table::new() });
        let baseline = (!has_baseline).then(baseline);
        baseline.into_iter().chain(self.variant.iter().map(|written| variant_of(written))).collect()
    }

    /// The text of a plan with these variants, too.
    pub fn added_to(&self, plan: &str) -> Result<String, Failure> {
        #[derive(Serialize)]
        struct Variants {
            variant: Vec<Variant>,
        }
        let has_baseline = plan.parse::<Table>().is_ok_and(|plan| plan.contains_key("variant"));
        let variant = self.variants(has_baseline)?;
        let text = toml::to_string(&Variants { variant });
        let text =
            text.map_err(|error| Failure::usage(error.to_string(), "schedlab run --help"))?;
        Ok(format!("{}\n\n# --variant\n{text}", plan.trim_end()))
    }

    /// `None`: no command was given.
    pub fn plan(&self) -> Result<Option<String>, Failure> {
        if self.command.is_empty() {
            return Ok(None);
        }
        let variants = self.variants(false)?;
        let mut parameters = Table::new();
        for pair in self.parameter.chunks(2) {
            let [name, values] = pair else { continue };
            if values.is_empty() {
                let text = format!("-L: `{}` has no values", clean(name));
                return Err(Failure::usage(text, "-L NAME VALUE,VALUE; one of them may be empty"));
            }
            let values = parameter_values(values);
            if parameters.insert(name.clone(), Value::Array(values)).is_some() {
                let text = format!("-L: `{}` is given twice", clean(name));
                return Err(Failure::usage(text, "-L NAME VALUE,VALUE for each name once"));
            }
        }
        let shell = |code: &Option<String>| {
            code.as_ref().map(|code| ["sh", "-c", code].map(str::to_string))
        };
        let plan = Plan {
            schema: PLAN_SCHEMA,
            title: title(&self.command),
            measure: Measure { duration: DURATION, warmup: "0s", window: DURATION, grace: GRACE },
            variant: variants,
            workload: [Workload {
                name: name(&self.command[0]),
                workload: "command",
                command: self.command.clone(),
                prepare: shell(&self.prepare),
                cleanup: shell(&self.cleanup),
                warmups: self.warmup,
                parameters,
            }],
        };
        let text = toml::to_string(&plan);
        text.map(Some).map_err(|error| Failure::usage(error.to_string(), "schedlab run --help"))
    }
}

/// `batch:policy=batch,nice=5`. A comma belongs to a value where no knob follows it: `affinity=0,2`;
/// of a knob whose values have none it makes an axis: `slice=1ms,10ms`.
fn variant_of(written: &str) -> Result<Variant, Failure> {
    let wrong = || {
        let text = format!("--variant `{}` is not NAME:KNOB=VALUE", clean(written));
        Failure::usage(text, "--variant batch:policy=batch,nice=5; see: schedlab list knobs")
    };
    let (name, knobs) = written.split_once(':').ok_or_else(wrong)?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in knobs.split(',') {
        let is_known = |knob: &str| pairs.iter().any(|(before, _)| before == knob);
        match part.split_once('=') {
            Some((knob, _)) if is_known(knob) => {
                let text = format!("--variant: `{}` is given twice", clean(knob));
                return Err(Failure::usage(text, "--variant batch:policy=batch,nice=5"));
            }
            Some((knob, value)) => pairs.push((knob.to_string(), value.to_string())),
            None => match pairs.last_mut() {
                Some((_, value)) => *value = format!("{value},{part}"),
                None => return Err(wrong()),
            },
        }
    }
    let knobs = pairs.into_iter().map(|(knob, text)| {
        let value = knob_value(&knob, &text);
        (knob, value)
    });
    Ok(Variant { name: name.to_string(), knobs: knobs.collect() })
}

/// As it would be written in a plan.
fn knob_value(knob: &str, text: &str) -> Value {
    let kind = variant::fields().into_iter().find(|field| field.name == knob).map(|of| of.kind);
    let has_commas = |kind: &Kind| {
        matches!(kind, Kind::Text | Kind::Word | Kind::Cpus | Kind::CpusOrAuto | Kind::List(_))
    };
    let one = |text: &str| {
        let written = || Value::String(text.to_string());
        match kind {
            Some(Kind::Int { .. }) => text.parse().map_or_else(|_| written(), Value::Integer),
            Some(Kind::Bool) => text.parse().map_or_else(|_| written(), Value::Boolean),
            _ => written(),
        }
    };
    if text.contains(',') && kind.as_ref().is_some_and(|kind| !has_commas(kind)) {
        Value::Array(text.split(',').map(one).collect())
    } else {
        one(text)
    }
}

/// Numbers where all are; a text keeps its zeros and signs.
fn parameter_values(list: &str) -> Vec<Value> {
    let texts: Vec<&str> = list.split(',').collect();
    let number =
        |text: &&str| text.parse::<i64>().ok().filter(|number| number.to_string() == **text);
    match texts.iter().map(number).collect::<Option<Vec<i64>>>() {
        Some(numbers) => numbers.into_iter().map(Value::Integer).collect(),
        None => texts.into_iter().map(|text| Value::String(text.to_string())).collect(),
    }
}

/// The program's name without its folder; a workload's name does not begin with `-`.
fn name(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_fit = |name: &&str| {
        !name.is_empty() && !name.starts_with('-') && name.chars().all(|c| c.is_ascii_graphic())
    };
    Some(name).filter(is_fit).map_or("command", |name| &name[..name.len().min(64)]).to_string()
}

fn title(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let title = words.join(" ").replace(char::is_control, " ");
    match title.char_indices().nth(MAX_TITLE_CHARS - 3) {
        Some((end, _)) => format!("{}...", &title[..end]),
        None => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    fn plan(args: &CommandArgs) -> crate::model::Plan {
        let text = args.plan().unwrap().unwrap();
        crate::plan::parse(SOURCE, &text, None, Default::default()).expect(&text)
    }

    #[test]
    fn a_command_is_a_plan() {
        let plan = plan(&CommandArgs {
            command: words("/usr/bin/make -j{jobs} {what}"),
            variant: words("batch:policy=batch,nice=5 pair:affinity=0,2"),
            parameter: words("jobs 1,2 what all"),
            prepare: Some("make clean; sync".to_string()),
            warmup: Some(2),
            ..CommandArgs::default()
        });
        assert_eq!(plan.title, "/usr/bin/make '-j{jobs}' '{what}'");
        let lines = vec!["sh".to_string(), "-c".to_string(), "echo a\n\techo b".to_string()];
        let of_lines = self::plan(&CommandArgs { command: lines.clone(), ..Default::default() });
        assert_eq!(of_lines.title, "sh -c 'echo a  echo b'");
        let words = of_lines.works[0].sets[0].params["command"].as_list().unwrap().to_vec();
        assert_eq!(words.iter().map(|word| word.as_text().unwrap()).collect::<Vec<_>>(), lines);
        let variants: Vec<String> =
            plan.variants.iter().map(|of| format!("{} {:?}", of.name, of.knobs)).collect();
        assert_eq!(variants.len(), 3);
        assert!(variants[1].contains("Int(5)") && variants[2].contains("affinity"), "{variants:?}");
        let labels: Vec<String> = plan.works.iter().map(|work| work.label()).collect();
        assert_eq!(labels, ["make jobs=1 what=all", "make jobs=2 what=all"]);
        let params = &plan.works[1].sets[0].params;
        assert_eq!(params["prepare"].to_string(), "sh,-c,make clean; sync");
        assert_eq!(params["warmups"].as_int(), Some(2));
    }

    #[test]
    fn names_and_titles_fit_into_a_plan() {
        for program in ["./x", "-x", "a b", "é", "/", "..."] {
            let plan = plan(&CommandArgs { command: vec![program.into()], ..Default::default() });
            assert!(!plan.works[0].name.starts_with('-'), "{program}");
        }
        let long = vec!["x".repeat(300), "y".repeat(300)];
        assert_eq!(plan(&CommandArgs { command: long, ..Default::default() }).works.len(), 1);
    }

    #[test]
    fn values_are_those_that_were_written() {
        let plan = plan(&CommandArgs {
            command: words("echo {n} {f} {x}"),
            variant: words("one:affinity=1 low:nice=-5"),
            parameter: words("n -1,2 f 001,+5 x 1,auto"),
            ..CommandArgs::default()
        });
        let labels: Vec<String> = plan.works.iter().map(|work| work.label()).collect();
        assert_eq!(labels.len(), 8);
        assert!(labels.contains(&"echo f=001 n=-1 x=auto".to_string()), "{labels:?}");
        assert_eq!(plan.variants[1].knobs["affinity"].to_string(), "1");
        assert_eq!(plan.variants[2].knobs["nice"].as_int(), Some(-5));
    }

    #[test]
    fn a_parameter_has_values() {
        let args = |values: &str| CommandArgs {
            command: words("echo {n}"),
            parameter: vec!["n".to_string(), values.to_string()],
            ..CommandArgs::default()
        };
        let refused = args("").plan().unwrap_err().to_string();
        assert!(refused.contains("-L: `n` has no values"), "{refused}");
        assert_eq!(plan(&args(",-O2")).works.len(), 2);
    }

    #[test]
    fn several_values_of_a_knob_are_several_variants() {
        let plan = plan(&CommandArgs {
            command: words("true"),
            variant: words("e:slice=1ms,10ms,nice=1,2 f:affinity=0,2"),
            ..CommandArgs::default()
        });
        let names: Vec<&str> = plan.variants.iter().map(|of| of.name.as_str()).collect();
        let points = [
            "e nice=1 slice=1ms",
            "e nice=1 slice=10ms",
            "e nice=2 slice=1ms",
            "e nice=2 slice=10ms",
        ];
        assert_eq!(names, [&["as-found"][..], &points, &["f"]].concat());
    }

    #[test]
    fn variants_are_added_to_those_of_a_plan() {
        let args = CommandArgs { variant: words("b:nice=1"), ..CommandArgs::default() };
        let names = |own: &str| -> Vec<String> {
            let text =
                format!("schema = 1\n{own}[[workload]]\nuse = \"spin\"\n[measure]\nrounds = 3\n");
            let text = args.added_to(&text).unwrap();
            let plan = crate::plan::parse("p", &text, None, Default::default()).expect(&text);
            plan.variants.iter().map(|of| of.name.clone()).collect()
        };
        assert_eq!(names(""), ["as-found", "b"]);
        assert_eq!(names("[[variant]]\nname = \"a\"\n"), ["a", "b"]);
    }

    #[test]
    fn what_is_no_variant_is_refused() {
        for wrong in ["batch", "batch:", "batch:policy", ":", "a:nice=1,nice=2"] {
            assert!(variant_of(wrong).is_err(), "{wrong}");
        }
    }
}
