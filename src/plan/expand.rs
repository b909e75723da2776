//! `[[workload]]`: worker sets and axes, read into [`Draft`]s.
//!
//! A list where a field takes one value is an axis; the axes of a workload are crossed in the order written,
//! the first slowest. Axes of a plain workload are named `param`, those of `[[workload.set]]` and
//! `[[workload.background]]` `SET.param`. `count` and `workers` next to sets hold for all sets (not
//! background) that have none of their own. `load` gives `count` as a multiple of the pool's CPUs. Knobs of a
//! set are not axes: plans compare variants. `rate` next to sets holds for those of the workload `steps`.

use toml::Spanned;
use toml::de::DeValue;

use crate::model::{
    Advice, CgroupPath, Direction, Field, Importance, Kind, OUTPUT_UNITS, OutputMetric,
    OutputPlace, Params, Unit, Value, solo_name,
};
use crate::variant;
use crate::workload::{self, DISTRIBUTIONS, METRIC, PLACES, RATE, Spec, Workload, may_be_in_name};

use super::cgroups::Cgroups;
use super::changes::{Context, SetChanges};
use super::draft::{Axis, Draft, Load, Set, Written, own_cgroups};
use super::error::Faults;
use super::fields::{
    CHANGE, LAB_DURATION, LLCS, MAX_COUNT, MAX_SETS, OUTPUT, OWN_DURATION, PACKAGE, PARAMETERS,
    PROGRAM, Program, SET, SET_KEYS, WORKLOAD, WORKLOAD_KEYS, Words, names, package_of,
};
use super::knobs::Knobs;
use super::offline;
use super::phases::PhaseKey;
use super::rt_app::RT_APP;
use super::similar::suggestion;
use super::table::{
    self, Entry, Names, Points, Span, Table, fill_defaults, known_keys, quoted_start, section,
    sections,
};

/// The workload or program that `use` names.
pub struct Used<'w> {
    workload: &'static dyn Workload,
    /// The program whose table holds the defaults.
    program: Option<&'w Program>,
    name: &'w str,
}

impl Words {
    fn used(&self, name: &str) -> Option<Used<'_>> {
        let program = self.program(name);
        let workload = self.workload(if program.is_some() { PROGRAM } else { name })?;
        let name = program.map_or(workload.spec().name, Program::short_name);
        Some(Used { workload, program, name })
    }
}

/// The numbers of last-level caches that workloads run on, and where they are written.
#[derive(Clone)]
pub struct Llcs {
    points: Vec<Value>,
    span: Span,
}

impl Llcs {
    pub fn take(table: &mut Table, faults: &mut Faults) -> Option<Llcs> {
        let entry = table.take(LLCS.name)?;
        let points = match table::points(&LLCS.kind, entry.value, faults)? {
            Points::One(point) => vec![point],
            Points::Axis(points) => points,
        };
        Some(Llcs { points, span: entry.key_span })
    }
}

/// Two keys for the number of a set's workers; a set may have one of them.
const HOW_MANY: [&str; 2] = ["count", "load"];

/// `llcs` holds for workloads that have none themselves.
pub fn drafts(
    top: &mut Table,
    words: &Words,
    (cgroups, duration_ns): (&Cgroups, u64),
    llcs: Option<Llcs>,
    faults: &mut Faults,
) -> Vec<Draft> {
    let had_key = top.has("workload");
    let tables = sections(top, "workload", "workload", faults);
    if !had_key {
        let hint =
            "a plan needs one: [[workload]] with use = \"spin\"; see: schedlab list workloads";
        faults.add(&(0..0), "the plan has no workload", "in this plan", hint);
    }
    let mut taken = Names::default();
    let mut drafts = Vec::new();
    for table in tables {
        let before = faults.len();
        let read = (Reader { words, cgroups, duration_ns, faults }).workload(
            table,
            llcs.clone(),
            &mut taken,
        );
        if let Some(mut draft) = read {
            draft.sound = faults.len() == before;
            drafts.push(draft);
        }
    }
    let used: Vec<CgroupPath> = drafts.iter().flat_map(|draft| own_cgroups(&draft.sets)).collect();
    if drafts.iter().all(|draft| draft.sound) {
        cgroups.refuse_unused(&used, faults);
    }
    drafts
}

/// The parameters that a file of `programs/` gives to a set of [`PROGRAM`]. `None`: a fault
/// was noted.
pub fn known_program(mut table: Table, words: &Words, faults: &mut Faults) -> Option<Params> {
    let workload = words.workload(PROGRAM)?;
    let before = faults.len();
    let knobs = Knobs::take_of_set(&mut table, words, faults);
    let set = Set {
        name: String::new(),
        workload,
        fixed: Params::new(),
        background: false,
        knobs,
        cgroup: None,
        changes: SetChanges::default(),
        written: Vec::new(),
    };
    let mut sets = Sets { sets: vec![set], ..Sets::default() };
    let cgroups = &Cgroups::default();
    let mut reader = Reader { words, cgroups, duration_ns: 0, faults };
    reader.fields(&mut table, workload.spec().params, &[0], "", &mut sets);
    reader.parameters(&mut table, 0, "", &mut sets);
    reader.outputs(&mut table, 0, &mut sets);
    if let Some(axis) = sets.axes.first() {
        let message = format!("`{}` has several values", axis.name);
        faults.add_of_all(message, "a program has one default for each; plans have axes");
    }
    let known = known_keys(&["about", PARAMETERS, METRIC], &[workload.spec().params]);
    table.finish(&known, "a program", faults);
    (faults.len() == before).then(|| sets.sets.swap_remove(0).fixed)
}

struct Reader<'w, 'f> {
    words: &'w Words,
    cgroups: &'w Cgroups,
    duration_ns: u64,
    faults: &'f mut Faults,
}

impl<'w> Reader<'w, '_> {
    fn workload(
        &mut self,
        mut table: Table,
        llcs: Option<Llcs>,
        taken: &mut Names,
    ) -> Option<Draft> {
        let span = table.span.clone();
        let named = table.has("name");
        let name = table.take_name("name", self.faults);
        let set_tables = sections(&mut table, "set", "workload.set", self.faults);
        let background = sections(&mut table, "background", "workload.background", self.faults);
        if set_tables.len() + background.len() > MAX_SETS {
            let message = format!("{} worker sets", set_tables.len() + background.len());
            return self.faults.refuse(
                &span,
                message,
                "too many",
                format!("at most {MAX_SETS} in one cell"),
            );
        }
        let mut sets = Sets::default();
        let solo = self.solo(&mut table);
        let llcs = Llcs::take(&mut table, self.faults).or(llcs);
        let durations =
            [&OWN_DURATION, &LAB_DURATION].map(|field| self.duration(&mut table, field));
        if let [Some((own_ns, _)), _] = durations {
            self.duration_ns = own_ns;
        }
        let offline = offline::take(&mut table, self.duration_ns, self.faults);
        let default_name = if set_tables.is_empty() {
            self.single_set(table, &mut sets)
        } else {
            if !named {
                let hint = "a workload of several sets has one: name = \"mix\"";
                self.faults.add(&span, "the workload has no `name`", "this workload", hint);
            }
            self.several(table, set_tables, &mut sets);
            None
        };
        for table in background {
            self.set(table, true, &mut sets);
        }
        // Neither: a fault says why.
        let default_name = default_name.filter(|_| !named).map(|name| (name, span.clone()));
        let (name, span) = name.or(default_name).unwrap_or((String::new(), span));
        if !name.is_empty() {
            taken.claim(&name, &span, "workload", self.faults);
        }
        if let Some(span) = &solo {
            for set in sets.sets.iter().filter(|set| !set.background) {
                taken.claim(&solo_name(&name, &set.name), span, "workload", self.faults);
            }
        }
        let llcs_span = llcs.as_ref().map(|llcs| llcs.span.clone());
        sets.axes.extend(llcs.map(|Llcs { points, span }| Axis {
            label: LLCS.name.to_string(),
            name: LLCS.name.to_string(),
            sets: Vec::new(),
            points,
            written_at: span.start,
        }));
        sets.axes.sort_by_key(|axis| axis.written_at);
        let Sets { sets, axes, loads, phases, .. } = sets;
        let (llcs, solo) = (llcs_span, solo.is_some());
        let cgroups = self.cgroups.needed(&own_cgroups(&sets));
        Some(Draft {
            name,
            span,
            sets,
            axes,
            loads,
            phases,
            llcs,
            durations,
            offline,
            cgroups,
            solo,
            sound: true,
        })
    }

    /// With its place.
    fn duration(&mut self, table: &mut Table, field: &Field) -> Option<(u64, Span)> {
        let (value, span) = table.take_value(field, self.faults)?;
        Some((value.as_duration_ns()?, span))
    }

    /// The place where solo runs are asked for.
    fn solo(&mut self, table: &mut Table) -> Option<Span> {
        let field = WORKLOAD.iter().find(|field| field.kind == Kind::Bool)?;
        let value = table.take_value(field, self.faults);
        value.filter(|(value, _)| value.as_bool() == Some(true)).map(|(_, span)| span)
    }

    /// A workload with `use` and parameters in its own table. Returns its default name.
    fn single_set(&mut self, mut table: Table, sets: &mut Sets) -> Option<String> {
        let (used, _) = self.take_use(&mut table)?;
        let name = used.name.to_string();
        sets.names.claim(&name, &table.span, "set", self.faults);
        self.add_set(table, used, name.clone(), "workload", sets);
        Some(name)
    }

    /// A workload made of `[[workload.set]]`s.
    fn several(&mut self, mut table: Table, set_tables: Vec<Table>, sets: &mut Sets) {
        for (key, hint) in [
            ("use", "either `use` and parameters, or [[workload.set]] tables that each say `use`"),
            ("knobs", "say them in each set: [workload.set.knobs], or for all in [[variant]]"),
            (CHANGE, "each set has its own: [[workload.set.change]] below [[workload.set]]"),
        ] {
            if let Some(entry) = table.take(key) {
                let message = format!("`{key}` next to sets");
                self.faults.add(&entry.key_span, message, "not with sets", hint);
            }
        }
        let fields = || SET.iter().chain([&RATE]);
        let own: Vec<(usize, Vec<&'static str>)> = set_tables
            .into_iter()
            .filter_map(|table| {
                let names = fields().map(|field| field.name);
                let own = names.filter(|name| table.has(name)).collect();
                Some((self.set(table, false, sets)?, own))
            })
            .collect();
        let mut known = known_keys(&["name", "set", "background"], &[WORKLOAD, SET]);
        for field in fields() {
            let taking = |(index, _): &&(usize, _)| takes(&sets.sets[*index], field);
            let own: Vec<_> = own.iter().filter(taking).collect();
            if field.name == RATE.name {
                if own.is_empty() {
                    continue;
                }
                known.push(RATE.name);
            }
            let heirs: Vec<usize> = own
                .iter()
                .filter(|(_, own)| !own.iter().any(|own| has_the_meaning(own, field.name)))
                .map(|(index, _)| *index)
                .collect();
            let key_span = table.key_span(field.name);
            if let Some(span) = key_span.filter(|_| heirs.is_empty() && !own.is_empty()) {
                let message = format!("every set has its own `{}`", field.name);
                self.faults.add(&span, message, "without effect", "leave it out here");
            }
            // A value here replaces the default that a set was given.
            self.fields(&mut table, std::slice::from_ref(field), &heirs, "", sets);
        }
        table.finish(&known, "a workload with sets", self.faults);
    }

    /// One `[[workload.set]]` or `[[workload.background]]`. Returns its index.
    fn set(&mut self, mut table: Table, background: bool, sets: &mut Sets) -> Option<usize> {
        let named = table.has("name");
        let name = table.take_name("name", self.faults);
        let (used, use_span) = self.take_use(&mut table)?;
        let default_name = || (!named).then(|| (used.name.to_string(), use_span));
        let name = name.or_else(default_name).map_or(String::new(), |(name, span)| {
            sets.names.claim(&name, &span, "set", self.faults);
            name
        });
        let path = if background { "workload.background" } else { "workload.set" };
        Some(self.add_set(table, used, name, path, sets))
    }

    /// The set that the rest of a table of this path describes. Returns its index.
    fn add_set(
        &mut self,
        mut table: Table,
        Used { workload, program, name: of }: Used,
        name: String,
        path: &str,
        sets: &mut Sets,
    ) -> usize {
        let (spec, index) = (workload.spec(), sets.sets.len());
        let (prefix, mut known, place) = if path == "workload" {
            let known = known_keys(WORKLOAD_KEYS, &[WORKLOAD, SET, spec.params]);
            (String::new(), known, format!("workload `{of}`"))
        } else {
            let known = known_keys(SET_KEYS, &[SET, spec.params]);
            (format!("{name}."), known, format!("a set of workload `{of}`"))
        };
        let knobs = Knobs::take_of_set(&mut table, self.words, self.faults);
        let cgroup = self.cgroups.take_of_set(&mut table, self.faults);
        let changes = self.changes(&mut table, path, spec);
        let (fixed, written, background) =
            (Params::new(), Vec::new(), path == "workload.background");
        sets.sets.push(Set { name, workload, fixed, background, knobs, cgroup, changes, written });
        for fields in [SET, spec.params] {
            self.fields(&mut table, fields, &[index], &prefix, sets);
        }
        self.parameters(&mut table, index, &prefix, sets);
        self.outputs(&mut table, index, sets);
        program.into_iter().for_each(|program| sets.fill(index, &program.params));
        fill_all(&mut sets.sets[index], &sets.axes, index);
        self.check_step_cgroups(&sets.sets[index]);
        known.extend([PARAMETERS, METRIC].into_iter().filter(|_| spec.runs_programs));
        table.finish(&known, &place, self.faults);
        index
    }

    /// Notes cgroups of steps that the plan lacks, and those in which CPUs would change with the step.
    fn check_step_cgroups(&mut self, set: &Set) {
        let mut first = None;
        for (path, span) in set.step_cgroups() {
            first = first.or(Some(span));
            if path.parse::<CgroupPath>().is_ok() {
                self.cgroups.named(path, span, self.faults);
            }
        }
        let Some(span) = first else { return };
        let around = self.cgroups.needed(&own_cgroups(std::slice::from_ref(set)));
        if let Some(cgroup) = variant::with_cpus(&around) {
            let message = format!(
                "a step moves its worker, and the cgroup `{}` has CPUs of its own",
                cgroup.path
            );
            let hint =
                "[[workload.set.change]] with `cgroup`, which moves workers to their CPUs too";
            self.faults.add(span, message, "this step", hint);
        }
    }

    fn changes(&mut self, table: &mut Table, path: &str, spec: &Spec) -> SetChanges {
        let Reader { words, cgroups, duration_ns, .. } = *self;
        let context = Context { words, cgroups, duration_ns };
        SetChanges::take(table, path, spec, &context, self.faults)
    }

    /// Takes the written fields as fixed values or axes of the sets with these indices.
    fn fields(
        &mut self,
        table: &mut Table,
        fields: &'static [Field],
        indices: &[usize],
        prefix: &str,
        sets: &mut Sets,
    ) {
        self.one_of_both(table);
        for field in fields {
            let Some(entry) = table.take(field.name) else { continue };
            for &index in indices {
                sets.sets[index].written.push(Written::new(field.name, entry.value));
            }
            let points = match entry.value.get_ref() {
                DeValue::Table(packages) if field.name == PACKAGE => {
                    self.packages(Table::new(packages, entry.key_span.clone())).map(Points::One)
                }
                _ => table::points(&field.kind, entry.value, self.faults),
            };
            let loads = points.as_ref().filter(|_| HOW_MANY.contains(&field.name));
            sets.loads.extend(loads.map(|points| Load::new(points, entry.value.span())));
            sets.phases.extend(PhaseKey::new(field.name, indices, &entry.key_span));
            sets.take(field.name, indices, prefix, points, entry.key_span.start);
        }
    }

    /// `{ debian = "rt-tests" }`: a list of `debian=rt-tests`.
    fn packages(&mut self, mut table: Table) -> Option<Value> {
        let known: Vec<Field> = DISTRIBUTIONS.iter().map(|name| package_of(name)).collect();
        let given = table.take_written(&known, self.faults);
        table.finish(&DISTRIBUTIONS, &format!("`{PACKAGE}`"), self.faults);
        let given = given.iter().map(|(name, package)| Value::Text(format!("{name}={package}")));
        Some(Value::List(given.collect()))
    }

    /// Takes the metrics that are read from the output of programs.
    fn outputs(&mut self, table: &mut Table, index: usize, sets: &mut Sets) {
        let spec = sets.sets[index].workload.spec();
        if !spec.runs_programs {
            return;
        }
        let mut taken = Names::default();
        let mut metrics = Vec::new();
        for inner in sections(table, METRIC, &format!("workload.{METRIC}"), self.faults) {
            let Some((metric, span)) = self.output(inner) else { continue };
            let name = &metric.name;
            taken.claim(name, &span, "metric", self.faults);
            if spec.metrics.iter().any(|own| own.name == name) {
                let message =
                    format!("every command has a metric {} of its own", quoted_start(name));
                self.faults.add(&span, message, "taken", "give it another name");
            }
            if let Some(sign) = name.chars().find(|c| ['/', '*'].contains(c)) {
                let message = format!("{} has `{sign}` in it", quoted_start(name));
                let hint = "--metric, which takes WORK/NAME and NAME*, could not select it";
                self.faults.add(&span, message, "not for a metric", hint);
            }
            metrics.push(metric);
        }
        if !metrics.is_empty() {
            sets.sets[index].fixed.insert(METRIC.to_string(), Value::Outputs(metrics));
        }
    }

    /// One `[[workload.metric]]`, and where its name stands. `None`: a fault was noted.
    fn output(&mut self, mut table: Table) -> Option<(OutputMetric, Span)> {
        let span = table.span.clone();
        let mut missing: Vec<&str> =
            ["name", "unit", "better"].into_iter().filter(|key| !table.has(key)).collect();
        if table.has("pattern") == table.has("json") {
            missing.push("pattern` or `json");
        }
        let name = table.take_name("name", self.faults);
        let before = self.faults.len();
        let place_span = table.value_span("pattern").or(table.value_span("json"));
        let mut given = table.take_written(OUTPUT, self.faults);
        let is_sound = self.faults.len() == before && missing.is_empty();
        table.finish(&known_keys(&["name"], &[OUTPUT]), "a metric of the output", self.faults);
        if !missing.is_empty() {
            let message = format!("a metric of the output needs `{}`", missing.join("`, `"));
            self.faults.add(&span, message, "this metric", metric_hint());
        }
        let (name, name_span) = name.filter(|_| is_sound)?;
        fill_defaults(&mut given, OUTPUT);
        let text = |key: &str| given.get(key).and_then(Value::as_text).map(str::to_string);
        let place = text("pattern").map(OutputPlace::Pattern);
        let place = place.or(text("json").map(OutputPlace::Json))?;
        if let Err(error) = workload::check_output(&place) {
            let hint = error.hint().unwrap_or_default();
            return self.faults.refuse(&place_span?, error.to_string(), "this value", hint);
        }
        Some((output_metric(name, place, &given), name_span))
    }

    /// Takes the parameters of a program's words, which may have any names.
    fn parameters(&mut self, table: &mut Table, index: usize, prefix: &str, sets: &mut Sets) {
        let spec = sets.sets[index].workload.spec();
        if !spec.runs_programs {
            return;
        }
        let Some(inner) = section(table, PARAMETERS, self.faults) else { return };
        for Entry { key, key_span, value } in inner.into_entries() {
            if key.is_empty() || !key.chars().all(may_be_in_name) || is_taken(spec, key) {
                let message = format!("{} is not a name for a parameter", quoted_start(key));
                let hint = "A-Z a-z 0-9 - _ ., and none of the workload's own keys";
                self.faults.add(&key_span, message, "this name", hint);
                continue;
            }
            let all = value.get_ref().as_array().map(|items| items.iter().collect());
            let all: Vec<&Spanned<DeValue>> = all.unwrap_or_else(|| vec![value]);
            let kind = match () {
                () if all.iter().all(|value| value.get_ref().is_integer()) => {
                    Kind::Int { min: i64::MIN, max: i64::MAX }
                }
                () if all.iter().all(|value| is_times(value)) => {
                    Kind::Times { max: MAX_COUNT as f64 }
                }
                () => Kind::Text,
            };
            let points = table::points(&kind, value, self.faults);
            sets.sets[index].written.push(Written::new(key, value));
            sets.take(key, &[index], prefix, points, key_span.start);
        }
    }

    /// Reports where both `count` and `load` are written, and drops the second.
    fn one_of_both(&mut self, table: &mut Table) {
        let place = |key| table.key_span(key).map(|span| (span.start, key));
        let Some(both) = HOW_MANY.map(place).into_iter().collect::<Option<Vec<_>>>() else {
            return;
        };
        let second = both.into_iter().max().and_then(|(_, key)| table.take(key));
        if let Some(entry) = second {
            let hint = "`load` says `count` by the CPUs of the pool: leave one of them out";
            self.faults.add(&entry.key_span, "both `count` and `load`", "one too many", hint);
        }
    }

    fn take_use(&mut self, table: &mut Table) -> Option<(Used<'w>, Span)> {
        let Some(entry) = table.take("use") else {
            let hint = match table.key_span("command") {
                Some(_) => "a program of yours: use = \"command\"; see: schedlab help commands",
                None => "name a load generator: use = \"spin\"; see: schedlab list workloads",
            };
            return self.faults.refuse(&table.span, "the workload has no `use`", "this one", hint);
        };
        let name = table::text(&entry, super::fields::MAX_NAME_CHARS, self.faults)?;
        let words: &'w Words = self.words;
        let found = words.used(name);
        if found.is_none() && !words.refused.iter().any(|refused| refused == name) {
            let known = self.words.workloads.iter().map(|workload| workload.spec().name);
            let programs = self.words.programs.iter().map(|program| program.name.as_str());
            let known: Vec<&str> = known.chain(programs).collect();
            let message = format!("there is no workload {}", quoted_start(name));
            let hint = if name.ends_with(RT_APP) {
                "a [[workload]] of a file has a name and no other sets: use = \"app.json\""
                    .to_string()
            } else {
                suggestion(name, &known)
            };
            self.faults.add(&entry.value.span(), message, "not known here", hint);
        }
        found.map(|used| (used, entry.value.span()))
    }
}

/// The worker sets of one workload while they are read.
#[derive(Default)]
struct Sets {
    sets: Vec<Set>,
    axes: Vec<Axis>,
    loads: Vec<Load>,
    phases: Vec<PhaseKey>,
    names: Names,
}

impl Sets {
    /// Adds the parameters that have neither a value nor an axis. If the plan replaces a program's words,
    /// some parameters may have no place any more.
    fn fill(&mut self, index: usize, params: &Params) {
        let own = self.axes.iter().filter(|axis| axis.sets.contains(&index));
        let is_axis = |name: &String| own.clone().any(|axis| axis.name == *name);
        let open: Vec<(&String, &Value)> =
            params.iter().filter(|(name, _)| !is_axis(name)).collect();
        let set = &self.sets[index];
        let mut all: Vec<&Value> = own.clone().flat_map(|axis| &axis.points).collect();
        all.extend(set.fixed.values());
        all.extend(open.iter().filter(|(name, _)| !set.fixed.contains_key(*name)).map(|of| of.1));
        let texts: Vec<String> = all.into_iter().map(Value::to_string).collect();
        let fields = names(set.workload.spec().params);
        let is_used = |name: &str| {
            let place = format!("{{{name}}}");
            let is_field = name == METRIC || fields.contains(&name);
            is_field || texts.iter().any(|text| text.contains(&place))
        };
        let open: Vec<(&String, &Value)> =
            open.into_iter().filter(|(name, _)| is_used(name)).collect();
        for (name, value) in open {
            self.sets[index].fixed.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// A fixed value, or an axis of the sets with these indices.
    fn take(
        &mut self,
        name: &str,
        indices: &[usize],
        prefix: &str,
        points: Option<Points>,
        written_at: usize,
    ) {
        match points {
            None => {}
            Some(Points::One(value)) => {
                for &index in indices {
                    self.sets[index].fixed.insert(name.to_string(), value.clone());
                }
            }
            Some(Points::Axis(points)) => self.axes.push(Axis {
                label: format!("{prefix}{name}"),
                name: name.to_string(),
                sets: indices.to_vec(),
                points,
                written_at,
            }),
        }
    }
}

/// A hint with all units and directions.
fn metric_hint() -> String {
    let words = |name: &str| match OUTPUT.iter().find(|field| field.name == name) {
        Some(Field { kind: Kind::Choice(words), .. }) => words.join(", "),
        _ => String::new(),
    };
    format!(
        "name = \"rate\", pattern = '^Rate: ([0-9.]+)', unit = \"1/s\", better = \"higher\"; a unit is \
         one of {}, and better {}",
        words("unit"),
        words("better")
    )
}

/// `given` has all fields of [`OUTPUT`].
fn output_metric(name: String, place: OutputPlace, given: &Params) -> OutputMetric {
    let text = |key: &str| given.get(key).and_then(Value::as_text).unwrap_or_default();
    let unit = OUTPUT_UNITS.iter().find(|(word, ..)| *word == text("unit"));
    let (_, unit, scale) = unit.copied().unwrap_or(("count", Unit::Count, 1.0));
    let direction = match text("better") {
        "higher" => Direction::HigherIsBetter,
        "lower" => Direction::LowerIsBetter,
        _ => Direction::Neutral,
    };
    let importance = match given.get("headline").and_then(Value::as_bool) {
        Some(false) => Importance::Explaining,
        _ => Importance::Headline,
    };
    OutputMetric { name, place, unit, scale, direction, importance }
}

/// Whether a value is a multiple of the CPUs, such as `2x`.
fn is_times(value: &Spanned<DeValue>) -> bool {
    let ratio = value.get_ref().as_str().and_then(|text| text.strip_suffix('x'));
    ratio.is_some_and(|ratio| ratio.parse::<f64>().is_ok())
}

/// Whether a parameter of this name would be taken for a key of the workload or another place.
fn is_taken(spec: &Spec, name: &str) -> bool {
    name == METRIC
        || names(WORKLOAD).contains(&name)
        || PLACES.contains(&name)
        || names(SET).contains(&name)
        || names(spec.params).contains(&name)
}

fn takes(set: &Set, field: &Field) -> bool {
    SET.iter().chain(set.workload.spec().params).any(|own| own.name == field.name)
}

fn has_the_meaning(own: &str, field: &str) -> bool {
    own == field || HOW_MANY.contains(&own) && HOW_MANY.contains(&field)
}

/// Defaults where neither a value nor an axis is written.
fn fill_all(set: &mut Set, axes: &[Axis], index: usize) {
    let is_axis = |field: &Field| {
        axes.iter().any(|axis| axis.name == field.name && axis.sets.contains(&index))
    };
    for fields in [SET, set.workload.spec().params] {
        let open: Vec<Field> = fields.iter().filter(|field| !is_axis(field)).copied().collect();
        fill_defaults(&mut set.fixed, &open);
    }
}
