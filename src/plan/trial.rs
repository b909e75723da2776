//! A plan with kernels as its variants. Pure.

use toml::{Table, Value};

use crate::model::cgroup_of_step;
use crate::workload::STEPS;

use super::scale::{ChangeError, name_of, table};

/// A kernel of the lab, as a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelVariant {
    pub name: &'static str,
    pub kernel: String,
    /// Arguments in addition to those that the plan's own variant asks for.
    pub kernel_args: Option<&'static str>,
}

/// The text of a plan, without comments, with these kernels as its variants; the first is the baseline. The
/// knobs of the plan's only variant hold for each kernel; a plan with several variants is an error. `seeds`
/// replaces the plan's own.
pub fn with_kernels(
    text: &str,
    kernels: &[KernelVariant],
    seeds: Option<u32>,
) -> Result<String, ChangeError> {
    let mut plan = table(text)?;
    let knobs = match plan.remove("variant") {
        None => Table::new(),
        Some(Value::Array(variants)) if variants.len() < 2 => {
            variants.into_iter().next().and_then(|one| one.try_into().ok()).unwrap_or_default()
        }
        Some(_) => {
            let problem = "the plan has variants of its own, and here kernels are the variants";
            let hint = "leave one [[variant]] at most, with the knobs that hold for every kernel";
            return Err(ChangeError::new(problem.to_string(), hint));
        }
    };
    if let Some(kernel) = knobs.get("kernel") {
        let problem = format!("the plan's variant has a kernel of its own: {kernel}");
        return Err(ChangeError::new(problem, "leave `kernel` out of its [[variant]]"));
    }
    let variants = kernels.iter().map(|one| Value::Table(variant(one, knobs.clone())));
    plan.insert("variant".to_string(), Value::Array(variants.collect()));
    if let Some(seeds) = seeds {
        let lab = plan.entry("lab").or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(lab) = lab {
            lab.insert("seeds".to_string(), Value::Integer(i64::from(seeds)));
        }
    }
    toml::to_string(&plan).map_err(|error| ChangeError::new(error.to_string(), "another --plan"))
}

/// The text of a plan with one of its workloads alone.
pub fn with_workload(text: &str, name: &str) -> Result<String, ChangeError> {
    let mut plan = table(text)?;
    if let Some(Value::Array(works)) = plan.get_mut("workload") {
        works.retain(|work| name_of(work) == Some(name));
    }
    // Cgroups that no set is in any more are refused.
    let works = plan.get("workload").and_then(Value::as_array).into_iter().flatten();
    let below = |of: &Value, key: &str| of.get(key).and_then(Value::as_array).cloned();
    let all = |of: &Value, key| below(of, key).into_iter().flatten();
    let sets = works
        .flat_map(|work| all(work, "set").chain(all(work, "background")).chain([work.clone()]));
    let sets = sets.flat_map(|set| all(&set, "change").chain([set]).collect::<Vec<_>>());
    let of_set = |set: Value| {
        let own = set.get("cgroup").and_then(Value::as_str).map(str::to_string);
        let steps = all(&set, STEPS).flat_map(|step| {
            let of_steps = step.as_str().into_iter().flat_map(|text| text.split(','));
            of_steps.filter_map(cgroup_of_step).map(str::to_string).collect::<Vec<_>>()
        });
        own.into_iter().chain(steps).collect::<Vec<_>>()
    };
    let used: Vec<String> = sets.flat_map(of_set).collect();
    if let Some(Value::Table(cgroups)) = plan.get_mut("cgroup") {
        let top = |path: &String| path.split('/').next().map(str::to_string);
        cgroups.retain(|cgroup, _| used.iter().filter_map(top).any(|used| used == *cgroup));
    }
    toml::to_string(&plan).map_err(|error| ChangeError::new(error.to_string(), "another --plan"))
}

fn variant(one: &KernelVariant, mut knobs: Table) -> Table {
    knobs.insert("name".to_string(), Value::String(one.name.to_string()));
    knobs.insert("kernel".to_string(), Value::String(one.kernel.clone()));
    if let Some(more) = one.kernel_args {
        let own = knobs.get("kernel-args").and_then(Value::as_str).unwrap_or_default();
        let words = format!("{own} {more}").trim().to_string();
        knobs.insert("kernel-args".to_string(), Value::String(words));
    }
    knobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use crate::plan;

    fn kernel(name: &'static str, kernel_args: Option<&'static str>) -> KernelVariant {
        KernelVariant { name, kernel: format!("my-{name}"), kernel_args }
    }

    fn parse(text: &str, seeds: Option<u32>) -> Result<model::Plan, ChangeError> {
        let kernels = [kernel("base", None), kernel("control", Some("word"))];
        let text = with_kernels(text, &kernels, seeds)?;
        Ok(plan::parse("p", &text, None, Default::default()).unwrap())
    }

    const PLAN: &str = "schema = 1\n[measure]\nrounds = 3\n[[workload]]\nuse = \"spin\"\n";

    #[test]
    fn each_kernel_is_a_variant_with_the_knobs_of_the_plans_own() {
        let own = "[[variant]]\nname = \"x\"\nslice = \"1ms\"\nkernel-args = \"quiet\"\n";
        let plan = parse(&format!("{PLAN}{own}"), None).unwrap();
        let names: Vec<&str> = plan.variants.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["base", "control"]);
        let text = |variant: usize, knob: &str| {
            plan.variants[variant].knobs.get(knob).map(ToString::to_string)
        };
        assert_eq!(text(0, "slice"), text(1, "slice"));
        assert!(text(0, "slice").is_some());
        assert_eq!(text(0, "kernel-args").as_deref(), Some("quiet"));
        assert_eq!(text(1, "kernel-args").as_deref(), Some("quiet word"));
        assert_eq!(text(1, "kernel").as_deref(), Some("my-control"));
    }

    #[test]
    fn seeds_replace_the_plans_and_stay_without() {
        let with = format!("{PLAN}[lab]\ncpus = 2\nseeds = 4\n");
        for (text, asked, seeds) in [(PLAN, Some(5), 5), (&with, Some(5), 5), (&with, None, 4)] {
            assert_eq!(parse(text, asked).unwrap().lab.seeds, seeds);
        }
        assert_eq!(parse(&with, Some(5)).unwrap().lab.cpus, 2);
    }

    #[test]
    fn one_workload_alone_takes_its_cgroups_with_it() {
        let text = "schema = 1\n[cgroup.a]\nweight = 1\n[cgroup.b]\nweight = 2\n\
            [[workload]]\nuse = \"spin\"\n[[workload]]\nname = \"two\"\n\
            [[workload.set]]\nname = \"x\"\nuse = \"spin\"\ncgroup = \"a\"\n\
            [[workload.set]]\nname = \"y\"\nuse = \"steps\"\nsteps = [\"cgroup b, burn 1ms\"]\n";
        for (name, cgroups) in [("spin", 0), ("two", 2)] {
            let text = with_workload(text, name).unwrap();
            let plan = plan::parse("p", &text, None, Default::default()).unwrap();
            let names: Vec<&str> = plan.works.iter().map(|work| work.name.as_str()).collect();
            assert_eq!(names, [name]);
            let table: Table = text.parse().unwrap();
            let kept = table.get("cgroup").and_then(Value::as_table).map_or(0, Table::len);
            assert_eq!(kept, cgroups);
        }
    }

    #[test]
    fn variants_and_kernels_of_the_plans_own_are_refused() {
        let variant = |name: &str, more: &str| format!("[[variant]]\nname = \"{name}\"\n{more}");
        let two = format!("{PLAN}{}{}", variant("a", ""), variant("b", ""));
        let with_kernel = format!("{PLAN}{}", variant("a", "kernel = \"debian:6.1\"\n"));
        for (text, said) in [(two, "variants of its own"), (with_kernel, "debian:6.1")] {
            let wrong = parse(&text, None).unwrap_err();
            assert!(wrong.problem.contains(said), "{wrong:?}");
        }
    }
}
