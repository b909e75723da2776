//! `[[workload.set.change]]`: what happens to the workers of a set in mid-run. Pure.
//!
//! ```toml
//! [[workload.set.change]]
//! at = "1s"
//! knobs = { nice = 5 }      # as of a set
//! cgroup = "web"
//! count = 3                 # the first three of its workers
//! ```

use std::collections::BTreeMap;
use std::iter::once;

use crate::model::{CgroupPath, CpuSet, Params, SetChange, Value, Variant, WorkerKind, WorkerSet};
use crate::variant;
use crate::workload::{self, Spec, Workload};

use super::cgroups::Cgroups;
use super::error::Faults;
use super::fields::{AT, CGROUP, CHANGE, CHANGE_COUNT, Words};
use super::knobs::Knobs;
use super::moments::changes;
use super::table::{Span, Table, quoted_start};

/// The changes of one worker set, in the order in which they happen.
#[derive(Default)]
pub struct SetChanges(Vec<Written>);

struct Written {
    at_ns: u64,
    knobs: Knobs,
    cgroup: Option<CgroupPath>,
    /// With its place.
    count: Option<(u32, Span)>,
    /// The place of the whole change.
    span: Span,
}

/// Words that changes of sets are made of.
pub struct Context<'w> {
    pub words: &'w Words,
    pub cgroups: &'w Cgroups,
    pub duration_ns: u64,
}

impl SetChanges {
    /// Takes those of a set of this workload; `path` is the name of its table.
    pub fn take(
        set: &mut Table,
        path: &str,
        spec: &Spec,
        context: &Context,
        faults: &mut Faults,
    ) -> SetChanges {
        let tables = changes(set, path, context.duration_ns, faults);
        if let Some((_, first)) = tables.first().filter(|_| spec.runs_programs) {
            let message = format!("workers of `{}`, which are programs, do not change", spec.name);
            let hint = format!("a cgroup that they are in does: [[{CGROUP}.NAME.{CHANGE}]]");
            faults.add(&first.span, message, "not of programs", hint);
        }
        let written = tables.into_iter();
        SetChanges(
            written.map(|(at_ns, table)| Written::take(at_ns, table, context, faults)).collect(),
        )
    }

    pub fn knobs(&self) -> impl Iterator<Item = &BTreeMap<String, Value>> {
        self.0.iter().map(|change| &change.knobs.values)
    }

    pub fn cgroups(&self) -> impl Iterator<Item = &CgroupPath> {
        self.0.iter().filter_map(|change| change.cgroup.as_ref())
    }

    /// Notes knobs that conflict with what the set has by then, with a variant or the placement.
    pub fn check_knobs(
        &self,
        of_set: &BTreeMap<String, Value>,
        variants: &[Variant],
        placement: Option<&CpuSet>,
        faults: &mut Faults,
    ) {
        let changes = self.all();
        let states = variants.iter().map(|variant| {
            let begin = variant::merged(&variant.knobs, of_set);
            let after = SetChange::knobs_after(&changes, begin.clone());
            once(begin).chain(after).collect::<Vec<_>>()
        });
        let states: Vec<_> = states.collect();
        for (at, Written { knobs, .. }) in self.0.iter().enumerate() {
            let steps = variants.iter().zip(&states);
            knobs.check_steps(steps.map(|(variant, of)| (variant, &of[at], &of[at + 1])), faults);
            knobs.check_affinity(placement, faults);
        }
    }

    /// Notes changes that workers of this kind cannot go through. Whether there are none.
    pub fn check_kind(&self, set: &WorkerSet, faults: &mut Faults) -> bool {
        self.check_guests(set, faults) && self.check_count(set, faults)
    }

    fn check_count(&self, set: &WorkerSet, faults: &mut Faults) -> bool {
        let count = self.0.iter().find_map(|change| change.count.as_ref());
        let Some((_, span)) = count else { return true };
        let can_rest = |own: &dyn Workload| own.can_rest(&set.params);
        let is_burst = set.phase.is_some_and(|phase| phase.ops.is_some());
        let (why, hint) = if is_burst {
            let why = "each worker of a burst has operations to do".to_string();
            (why, "leave out `ops`, or `count` in the change".to_string())
        } else if workload::find(&set.workload).is_some_and(can_rest) {
            return true;
        } else {
            let all = workload::registry().iter();
            let names = all.filter(|own| own.can_rest(&Params::new())).map(|own| own.spec().name);
            let names: Vec<&str> = names.collect();
            let why = format!("they need each other under `{}` with these keys", set.workload);
            let hint = format!(
                "that of {} can, and of steps without `forked`, absolute timers, waits for other workers and \
                 locks that are kept from phase to phase",
                names.join(", ")
            );
            (why, hint)
        };
        let name = quoted_start(&set.name);
        let message = format!("the number of workers of {name} cannot change: {why}");
        faults.add(span, message, "not of this set", hint);
        false
    }

    fn check_guests(&self, set: &WorkerSet, faults: &mut Faults) -> bool {
        let is_guest = matches!(set.kind, WorkerKind::Guests | WorkerKind::GuestsOrProcesses);
        let Some(first) = self.0.first().filter(|_| is_guest) else { return true };
        let message =
            format!("{} has guests as workers, which do not change", quoted_start(&set.name));
        faults.add(&first.span, message, "not of guests", "workers = \"processes\"");
        false
    }

    pub fn all(&self) -> Vec<SetChange> {
        let change = |Written { at_ns, knobs, cgroup, count, .. }: &Written| SetChange {
            at_ns: *at_ns,
            knobs: knobs.values.clone(),
            cgroup: cgroup.clone(),
            count: count.as_ref().map(|(count, _)| *count),
        };
        self.0.iter().map(change).collect()
    }
}

impl Written {
    fn take(at_ns: u64, mut table: Table, context: &Context, faults: &mut Faults) -> Written {
        let span = table.span.clone();
        let is_empty = !["knobs", CGROUP, CHANGE_COUNT.name].iter().any(|key| table.has(key));
        let knobs = Knobs::take_of_set(&mut table, context.words, faults);
        let cgroup = context.cgroups.take_of_set(&mut table, faults);
        let count = table.take_value(&CHANGE_COUNT, faults);
        let count = count.and_then(|(value, span)| Some((value.as_int()? as u32, span)));
        let before = faults.len();
        table.finish(&[AT, "knobs", CGROUP, CHANGE_COUNT.name], "a change of a worker set", faults);
        if is_empty && faults.len() == before {
            let hint = "say what changes: knobs = { nice = 5 }, cgroup = \"web\" or count = 3";
            faults.add(&span, "a change of nothing", "this one", hint);
        }
        let change = Written { at_ns, knobs, cgroup, count, span };
        change.check_live(faults);
        change
    }

    /// Notes knobs that another thread cannot change.
    fn check_live(&self, faults: &mut Faults) {
        let known = variant::changing_knobs();
        let values = &self.knobs.values;
        for knob in values.keys().filter(|knob| !known.contains(&knob.as_str())) {
            let message = format!("`{knob}` does not change on running workers");
            let hint = format!("these do: {}", known.join(", "));
            faults.add(self.knobs.span(knob), message, "not in mid-run", hint);
        }
        if values.get("policy").and_then(Value::as_text) == Some("deadline") {
            let hint = "workers that begin later under it: a set of its own with at = \"1s\"";
            let message = "policy `deadline` is not taken in mid-run";
            faults.add(self.knobs.span("policy"), message, "not in mid-run", hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::testing::rows;
    use crate::model::{CgroupChange, Plan, Raw, SetChange, Value};
    use crate::plan::{Known, parse, scaled, set_measure, with_workload};

    fn text(rest: &str) -> String {
        format!(
            "schema = 1\n[measure]\nduration = \"3s\"\n[cgroup.web]\nweight = 200\n{rest}\n\
             [[workload]]\nname = \"mix\"\n[[workload.set]]\nuse = \"spin\"\ncgroup = \"web\"\n"
        )
    }

    fn read(text: &str) -> Result<Plan, String> {
        parse("p.toml", text, None, Known::default()).map_err(|errors| errors.to_string())
    }

    /// They are the set's, at the end of the text.
    const CHANGES: &str = "[[workload.set.change]]\nat = \"2s\"\nknobs = { nice = 5 }\n\
        [[workload.set.change]]\nat = \"1s\"\nknobs = { affinity = \"0-1\" }\ncgroup = \"other\"\n\
        [[workload.set.change]]\nat = \"2s\"\nknobs = { nice = 6, policy = \"batch\" }\ncount = 3\n";
    const OF_CGROUPS: &str = "[[cgroup.web.change]]\nat = \"1s\"\nidle = true\ncpus = \"1\"\n\
        [[cgroup.web.change]]\nat = \"1s\"\nidle = false\nweight = 50\nmax = \"150%\"\n[cgroup.other]\n";

    #[test]
    fn changes_stand_in_the_order_of_their_moments() {
        let plan = read(&format!("{}{CHANGES}", text(OF_CGROUPS))).unwrap();
        let [work] = &plan.works[..] else { panic!("{:?}", plan.works) };
        let set = |at_s: u64, knobs: &[(&str, Value)], cgroup: Option<&str>| SetChange {
            at_ns: at_s * 1_000_000_000,
            knobs: knobs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            cgroup: cgroup.map(|path| path.parse().unwrap()),
            count: None,
        };
        let cpus = |text: &str| Value::Cpus(text.parse().unwrap());
        let batch = ("policy", Value::Text("batch".to_string()));
        let expected = [
            set(1, &[("affinity", cpus("0-1"))], Some("other")),
            set(2, &[("nice", Value::Int(5))], None),
            SetChange { count: Some(3), ..set(2, &[("nice", Value::Int(6)), batch], None) },
        ];
        assert_eq!(work.sets[0].changes, expected);
        assert_eq!((work.sets[0].count, work.sets[0].max_count()), (1, 3));
        let cgroup = |knobs: &[(&str, Value)], cpus: Option<&str>| CgroupChange {
            at_ns: 1_000_000_000,
            knobs: set(1, knobs, None).knobs,
            cpus: cpus.map(|cpus| cpus.parse().unwrap()),
        };
        let values = [
            ("cgroup-idle", Value::Bool(false)),
            ("cgroup-weight", Value::Int(50)),
            ("cgroup-max", Value::Percent(150.0)),
        ];
        let expected =
            [cgroup(&[("cgroup-idle", Value::Bool(true))], Some("1")), cgroup(&values, None)];
        // The other one is there, too, since the set moves to it.
        let [other, web] = &work.cgroups[..] else { panic!("{:?}", work.cgroups) };
        assert_eq!((web.path.as_str(), other.path.as_str()), ("web", "other"));
        assert_eq!((&web.changes[..], other.changes.len()), (&expected[..], 0));
    }

    #[test]
    fn a_plan_with_changes_is_the_same_after_a_store_and_as_toml() {
        let text = format!("{}{CHANGES}", text(OF_CGROUPS));
        let plan = read(&text).unwrap();
        let stored = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
        let small = format!("{text}[scale.small.measure]\nduration = \"3s\"\n");
        assert_eq!(read(&scaled(&small, "small").unwrap()).unwrap(), plan);
        // Cgroups that a set moves to are still there when its workload is alone.
        let alone = with_workload(&text, "mix").unwrap();
        assert_eq!(read(&alone).unwrap().works, plan.works);
        let without = read("schema = 1\n[[workload]]\nuse = \"spin\"\n").unwrap();
        assert!(!serde_json::to_string(&without).unwrap().contains("change"));
    }

    #[test]
    fn a_solo_run_has_no_changes_and_is_made_of_sets_that_have_some() {
        let solo = text(OF_CGROUPS).replace("[[workload.set]]", "solo = true\n[[workload.set]]");
        let plan = read(&format!("{solo}{CHANGES}")).unwrap();
        let [alone, work] = &plan.works[..] else { panic!("{:?}", plan.works) };
        assert!(alone.solo().is_some() && work.solo().is_none());
        assert!(alone.sets[0].changes.is_empty() && alone.cgroups[0].changes.is_empty());
        let [alone, set] = [&alone.sets[0], &work.sets[0]].map(|set| set.solo_key());
        assert_eq!(alone, set);
    }

    #[test]
    fn what_cannot_change_is_refused_where_it_is_written() {
        let in_set = |change: &str| format!("{}[[workload.set.change]]\n{change}\n", text(""));
        let in_cgroup = |change: &str| text(&format!("[[cgroup.web.change]]\n{change}"));
        let many = "[[workload.set.change]]\nat = \"1s\"\nknobs = { nice = 1 }\n".repeat(100);
        let nice = || in_set("at = \"1s\"\nknobs = { nice = 5 }");
        // The text, the last place in it of what is wrong, and the message.
        let hold = |text: &str, wrong: &str, message: &str| {
            let at = text.rfind(wrong).expect(wrong);
            let (line, column) = (text[..at].matches('\n').count() + 1, text[..at].lines().last());
            let column = if text[..at].ends_with('\n') { 0 } else { column.unwrap_or("").len() };
            let expected = format!("p.toml:{line}:{}: {message}", column + 1);
            let errors = read(text).expect_err(message);
            assert!(
                errors.lines().any(|error| error.starts_with(&expected)),
                "{expected}\n{errors}"
            );
        };
        let table = r#"
            knobs = { nice = 5 } => [[workload.set.c => a change without `at`
            at = "3s" | knobs = { nice = 5 } => at = => a change at 3s, and a run has 3s
            at = ["1s"] | knobs = { nice = 5 } => ["1s"] => a list does not fit here
            at = "1s" => [[workload.set.c => a change of nothing
            at = "1s" | nice = 5 => nice => unknown key `nice` in a change of a w
            at = "1s" | count = 100001 => 100001 => 100001 is above
            at = "1s" | workers = 2 => workers => unknown key `workers` in a change
            at = "1s" | knobs = { nice = 20 } => 20 } => 20 is above
            at = "1s" | knobs = { timer-slack = "1ms" } => timer => `timer-slack` does
            at = "1s" | knobs = { cgroup-max = "1%" } => cgroup- => `cgroup-max` acts
            at = "1s" | knobs = { priority = 5 } => priority => `priority` means nothing
            at = "1s" | cgroup = "db" => "db" => there is no cgroup `db`
            at = "2s" | knobs = { uclamp-max = "4%", uclamp-min = "1%" } | [[workload.set.change]] | at = "2s" | knobs = { uclamp-min = "5%" }
              => uclamp-min => `uclamp-min` (5%) is above `uclamp-max` (4%)
        "#;
        rows(table)
            .iter()
            .for_each(|(text, expected)| hold(&in_set(text), expected[0], expected[1]));
        let cases = [
            (in_set("at = 1\nknobs = { nice = 5 }"), "1\n", "`1` has no unit"),
            (in_set("at = \"1s\"\ncount = 0"), "0\n", "0 is below"),
            (
                in_set("at = \"1s\"\ncount = 2").replace("\"spin\"", "\"schbench\""),
                "2\n",
                "the number of workers of `schbench` cannot change: they need each other",
            ),
            (
                in_set("at = \"1s\"\ncount = 2")
                    .replace("\"spin\"", "\"steps\"\nsteps = [\"burn 1ms\", \"barrier b 2\"]"),
                "2\n",
                "the number of workers of `steps` cannot change: they need each other",
            ),
            (
                in_set("at = \"1s\"\ncount = 2").replace("\"spin\"", "\"spin\"\nops = 5"),
                "2\n",
                "the number of workers of `spin` cannot change: each worker of a burst",
            ),
            (
                in_set("at = \"1s\"\ncount = 100000").replace(
                    "[[workload]]",
                    "[[workload]]\nbackground = [{ use = \"spin\", name = \"more\" }]",
                ),
                "\"mix\"",
                "`mix` cannot be run: it has 100001 workers",
            ),
            (
                in_set("at = \"1s\"\nknobs = { policy = \"deadline\" }"),
                "policy",
                "policy `deadline` ",
            ),
            (format!("{}{many}", nice()), "[[workload.set.c", "101 changes"),
            (in_cgroup("at = \"5s\"\nweight = 5"), "at =", "a change at 5s"),
            (in_cgroup("at = \"1s\""), "[[cgroup", "a change of nothing"),
            (in_cgroup("at = \"1s\"\nweight = 0"), "0\n", "0 is below"),
            (
                in_cgroup("at = \"1s\"\nidle = true\nweight = 5"),
                "weight",
                "an idle cgroup has no w",
            ),
            (in_cgroup("at = \"1s\"\nnice = 5"), "nice", "unknown key `nice` in a change of a c"),
            (text("[cgroup.web.change]\nat = \"1s\""), "change", "`change` is a table, not a list"),
            (
                text(
                    "cpus = \"0\"\n[[cgroup.web.change]]\nat = \"1s\"\ncpus = \"1\"\n[cgroup.web.in]\n\
                     [[cgroup.web.in.change]]\nat = \"500ms\"\ncpus = \"1\"",
                ),
                "cpus",
                "CPUs 1 are not among those above it",
            ),
            (
                text("").replace("\"mix\"\n", "\"mix\"\n[[workload.change]]\nat = \"1s\"\n"),
                "change",
                "`change` next to sets",
            ),
            (
                nice().replace("\"spin\"", "\"command\"\ncommand = [\"true\"]"),
                "[[workload.set.c",
                "workers of `command`, which are programs, do not change",
            ),
            (
                nice().replace("\"spin\"", "\"spin\"\nworkers = \"guests-or-processes\""),
                "[[workload.set.c",
                "`spin` has guests as workers",
            ),
            (
                in_set("at = \"1s\"\nknobs = { affinity = \"1\" }")
                    .replace("[cgroup.web]", "[placement]\ncpus = \"0\"\n[cgroup.web]"),
                "affinity",
                "`affinity` has CPU 1, which the placement leaves out",
            ),
        ];
        cases.iter().for_each(|(text, wrong, message)| hold(text, wrong, message));
    }

    #[test]
    fn a_change_stays_inside_the_run_and_out_of_turns() {
        let text = format!("{}{CHANGES}", text(OF_CGROUPS));
        let mut plan = read(&text).unwrap();
        let set = |plan: &mut Plan, duration: &str| {
            set_measure(plan, "duration", &Raw::Text(duration.to_string()))
        };
        set(&mut plan, "2001ms").unwrap();
        let refused = set(&mut plan, "2s").unwrap_err();
        assert!(refused.message.contains("a change at 2s, and a run has 2s"), "{refused:?}");
        let turns = text.replace("\"3s\"\n", "\"3s\"\nturns = \"100ms\"\n");
        let refused = read(&turns).unwrap_err();
        assert!(refused.contains("`mix` has a change in mid-run"), "{refused}");
    }
}
