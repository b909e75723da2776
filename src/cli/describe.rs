//! `schedlab list WHAT NAME`: one workload, program, probe, knob or plan in detail.

use std::path::Path;

use crate::analysis;
use crate::model::{Advice, CPUS, Field, Finding, Plan, Problem, Scope, Unit, Value};
use crate::plan::{Builtin, Program};
use crate::report::numbers::counted;
use crate::report::{clean, guest};
use crate::session::{SessionError, read_text};
use crate::sys::remedy;
use crate::workload::METRIC;
use crate::{plan, probe, variant, workload};

use super::labelled::laid_out;
use super::{Failure, show, table};

/// The way out where a program cannot run here.
pub fn lack_of(program: &Program) -> Option<String> {
    let workload = workload::find(plan::PROGRAM)?;
    let missing = workload.programs(&program.params).err()?;
    let Problem { message, hint } = missing.problem();
    Some(hint.unwrap_or(message))
}

fn describe_program(program: &Program, columns: usize) -> String {
    let text = |name: &str| program.params.get(name).map(Value::to_string).unwrap_or_default();
    let metrics = program.params.get(METRIC).map_or(&[][..], Value::as_outputs).iter();
    let metrics = metrics.map(|metric| format!("{} ({})", metric.name, metric.place));
    let own = workload::find(plan::PROGRAM).map_or(&[][..], |of| of.spec().params);
    let is_parameter = |name: &str| name != METRIC && own.iter().all(|field| field.name != name);
    let parameters = program.params.iter().filter(|(name, _)| is_parameter(name));
    let parameters = parameters.map(|(name, value)| format!("{name} = {value}"));
    let ready = lack_of(program).unwrap_or("yes".to_string());
    let lines = [
        ("program", format!("{}: {}", program.name, program.about)),
        ("command", text("command").replace(',', " ")),
        ("parameters", parameters.collect::<Vec<_>>().join(", ")),
        ("metrics", metrics.collect::<Vec<_>>().join(", ")),
        ("package", text(plan::PACKAGE).replace(',', ", ")),
        ("ready here", ready),
        ("more", format!("it is a `{0}`: schedlab list workloads {0}", plan::PROGRAM)),
    ];
    let lines: Vec<_> = lines.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    laid_out(&lines, columns)
}

const IN_TURNS: &str = "it changes on a running thread [live], so variants that differ in it can take turns inside one run";

pub fn parsed(of: &Builtin) -> Result<Plan, Failure> {
    let file = format!("{}.toml", of.name);
    Ok(plan::parse(&file, of.text, None, crate::session::known())?)
}

pub fn workload(name: &str, columns: usize) -> Result<String, Failure> {
    if let Some(program) = plan::programs().iter().find(|program| program.name == name) {
        return Ok(describe_program(program, columns));
    }
    if name.ends_with(plan::OWN_PROGRAM) {
        let text = read_text(Path::new(name)).map_err(|error| {
            let text = format!("cannot read the program `{}`: {error}", clean(name));
            SessionError::unread(text, remedy::read(Path::new(name), &error), &error)
        })?;
        let program = plan::read_program(name, &text)?;
        return Ok(describe_program(&program, columns));
    }
    let Some(workload) = workload::find(name) else {
        let names = workload::registry().iter().map(|workload| workload.spec().name);
        let names = names.chain(plan::programs().iter().map(|program| program.name.as_str()));
        return Err(Failure::unknown("workload", name, names, "schedlab list workloads"));
    };
    let spec = workload.spec();
    let parameters = table::names(spec.params.iter().map(field_row).collect(), columns);
    let latencies = spec.histograms.iter().map(|latency| (latency.name, latency.about));
    let metrics = spec.metrics.iter().map(|metric| (metric.name, metric.about));
    let rows = latencies.chain(metrics);
    let rows = rows.map(|(name, about)| vec![name.to_string(), about.to_string()]).collect();
    let head = table::wrapped(&format!("{}: {}", spec.name, spec.about), columns);
    let (ops, _) = analysis::shown_ops(spec.ops);
    let measures = if spec.runs_programs {
        "measures:".to_string()
    } else {
        format!("measures: throughput ({ops} per second)")
    };
    let ops = table::wrapped(&measures, columns);
    Ok(format!("{head}\nparameters:\n{parameters}\n{ops}{}", table::names(rows, columns)))
}

pub fn probe(name: &str, columns: usize) -> Result<String, Failure> {
    let Some(probe) = probe::specs().iter().find(|probe| probe.name == name) else {
        let names = probe::specs().iter().map(|probe| probe.name);
        return Err(Failure::unknown("probe", name, names, "schedlab list probes"));
    };
    let rows = probe.metrics.iter().map(|metric| {
        let name = match metric.scope {
            Scope::Role => format!("ROLE_{}", metric.name),
            Scope::Partner => format!("ROLE_{}_OTHER", metric.name),
            Scope::Cpus => format!("{CPUS}_{}", metric.name),
            Scope::Machine => metric.name.to_string(),
        };
        let unit = match metric.unit {
            Unit::PerS => " (per second)",
            Unit::Ns => " (ns)",
            Unit::Joules => " (joules, of the whole machine)",
            _ => "",
        };
        vec![name, format!("{}{unit}", metric.about)]
    });
    let [head, needs, of] = [
        &format!("{}: {}", probe.name, probe.about),
        &format!("needs {}", probe.needs),
        "of each run, ROLE being each role of each worker set; explaining and not judged:",
    ]
    .map(|text| table::wrapped(text, columns));
    Ok(format!("{head}{needs}\n{of}{}", table::names(rows.collect(), columns)))
}

pub fn knob(name: &str, columns: usize) -> Result<String, Failure> {
    let fields = variant::fields();
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        let names = fields.iter().map(|field| field.name);
        return Err(Failure::unknown("knob", name, names, "schedlab list knobs"));
    };
    let lines = [
        ("knob", field.name.to_string()),
        ("sets", field.about.to_string()),
        ("takes", field.kind.example()),
        ("turns", if variant::is_live(name) { IN_TURNS } else { "" }.to_string()),
    ];
    let lines: Vec<_> = lines.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    Ok(laid_out(&lines, columns))
}

/// One plan of any of the lists; `list` is the one that was asked.
pub fn plan(list: &str, name: &str, columns: usize) -> Result<String, Failure> {
    let Some(builtin) = plan::builtin(name) else {
        let names = plan::embedded().map(|builtin| builtin.name);
        return Err(Failure::unknown(
            "built-in plan",
            name,
            names,
            &format!("schedlab list {list}"),
        ));
    };
    let mut plan = parsed(builtin)?;
    let is_case = plan::cases().contains(builtin);
    let is_virtual = plan::is_of_kernels(builtin.name);
    if is_virtual {
        // It runs in the lab, where rounds are seeds.
        plan.measure.rounds = plan.lab.seeds;
        plan.has_lab_durations = true;
    }
    let mut lines = vec![("plan", builtin.name.to_string()), ("title", plan.title.clone())];
    lines.extend(plan.finding.iter().flat_map(of_finding));
    if is_virtual {
        lines.push(("guest", format!("{}, {}", plan.lab.kernel, guest(&plan.lab))));
    }
    lines.extend(show::of_plan(&plan));
    lines.push(("runs", runs(&plan)));
    lines.push(("text", format!("schedlab run --print {name}")));
    if is_case {
        let kernel = &plan.lab.kernel;
        lines.push(("confirm", format!("schedlab hunt --confirm {name} --kernel {kernel}")));
    }
    Ok(laid_out(&lines, columns))
}

/// How many there are, and how long they take: a budget ends them.
fn runs(plan: &Plan) -> String {
    let runs = u64::from(plan.measure.rounds) * plan::cells(plan).len() as u64;
    let seconds = runs * plan.mean_run_ns() / 1_000_000_000;
    let runs = counted(runs, "run");
    match plan.measure.budget_ns.map(|ns| ns / 1_000_000_000).filter(|budget| *budget < seconds) {
        Some(budget) => format!("{runs} at most, in {}", show::span(budget)),
        None => format!("{runs}, at least {}", show::span(seconds)),
    }
}

fn of_finding(finding: &Finding) -> Vec<(&'static str, String)> {
    let text = |text: &String| Some(text.clone());
    let lines = [
        ("source", text(&finding.source)),
        ("published", text(&finding.published)),
        ("kernels", finding.kernels.clone()),
        ("load", text(&finding.load)),
        ("learned", finding.learned.clone()),
        ("not modelled", finding.not_modelled.clone()),
    ];
    lines.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

pub fn field_row(field: &Field) -> Vec<String> {
    let default = field.default.map_or(String::new(), |default| format!(" [default: {default}]"));
    vec![field.name.to_string(), format!("{} ({}){default}", field.about, field.kind.example())]
}
