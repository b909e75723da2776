//! The JSON Schema of plans, made from the tables that the parser reads with.

use serde_json::{Map, Value as Json, json};

use crate::model::{Field, Kind, MAX_POOL_NAME_BYTES, PLAN_SCHEMA};
use crate::variant;
use crate::workload::{DISTRIBUTIONS, METRIC, RATE, Spec};

use super::fields::{
    AT, CGROUP, CHANGE, CHANGE_AT, CHANGE_COUNT, EXPECT, FINDING, Known, LAB, LAB_MODEL, LLCS,
    MAX_CHANGES, MAX_NAME_CHARS, MAX_SETS, MAX_TITLE_CHARS, MEASURE, OFFLINE, OFFLINE_CPUS,
    OFFLINE_FOR, OUTPUT, PACKAGE, PARAMETERS, PLACEMENT, PROGRAM, PROGRAMS, Program,
    REQUIRED_OF_FINDING, SCALE, SET, WORKLOAD, Words, cgroup_fields, package_of, report,
};
use super::program::programs;

/// JSON Schema (draft 2020-12) of the TOML that [`super::parse`] takes. The parser checks the rules that a
/// schema cannot express: unique names, sizes of cross products, CPUs that exist, the range of a value with a
/// unit.
pub fn json_schema(known: Known) -> Json {
    schema_of(&Words::registered(known, programs()))
}

fn schema_of(words: &Words) -> Json {
    let definitions = definitions(words);
    let specs = words.workloads.iter().map(|workload| workload.spec());
    let one_set = |spec: &Spec| {
        let mut keys = references(&definitions, &set_of(spec));
        keys.extend(references(&definitions, WORKLOADS));
        table(keys, &["use"])
    };
    let of_sets = ["set", "use"].map(|key| workload_of_sets(key, &definitions));
    let workloads: Vec<Json> = specs.map(one_set).chain(of_sets).collect();
    let mut variant = properties(&words.knobs, &schema_of_axis);
    variant.insert("name".to_string(), reference("name"));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "schedlab plan",
        "type": "object",
        "required": ["schema", "workload"],
        "additionalProperties": false,
        "properties": {
            "schema": { "const": PLAN_SCHEMA },
            "title": { "type": "string", "minLength": 1, "maxLength": MAX_TITLE_CHARS },
            "measure": table(properties(MEASURE, &schema_of_kind), &[]),
            "variant": { "type": "array", "minItems": 1, "items": table(variant, &["name"]) },
            "workload": { "type": "array", "minItems": 1, "items": { "anyOf": workloads } },
            "placement": table(with_llcs(PLACEMENT), &[]),
            "report": table(properties(&report(words.known.formats), &schema_of_kind), &[]),
            "lab": lab(),
            CGROUP: cgroups(&json!({ "$ref": "#/$defs/cgroup" })),
            "expect": { "type": "array", "minItems": 1, "items": expect() },
            "finding": table(properties(FINDING, &schema_of_kind), REQUIRED_OF_FINDING),
            PROGRAMS: own_programs(words),
            SCALE: {
                "type": "object",
                "description": "by name, what `schedlab run PLAN --scale NAME` puts in place",
            },
            "probes": {
                "type": "array",
                "uniqueItems": true,
                "items": { "enum": words.known.probes.iter().map(|p| p.name).collect::<Vec<_>>() },
                "description": "telemetry during the runs: what the scheduler did to each role",
            },
        },
        "$defs": definitions,
    })
}

/// The definitions of the properties that all worker sets have, and of those that all workloads have.
const SETS: &str = "set";
const WORKLOADS: &str = "workload";

/// The name of the definition of a worker set of this workload.
fn set_of(spec: &Spec) -> String {
    format!("set-of-{}", spec.name)
}

fn definitions(words: &Words) -> Map<String, Json> {
    let specs: Vec<&Spec> = words.workloads.iter().map(|workload| workload.spec()).collect();
    let sets: Vec<Json> = specs.iter().map(|spec| reference(&set_of(spec))).collect();
    let mut set = properties(SET, &schema_of_axis);
    let about = "one of [cgroup], as web/front";
    set.insert(CGROUP.to_string(), json!({ "type": "string", "description": about }));
    let mut workload = with_llcs(WORKLOAD);
    workload.insert("background".to_string(), reference("sets"));
    workload.insert(OFFLINE.to_string(), reference(OFFLINE));
    let name = json!({
        "type": "string",
        "pattern": r"^[^\-\s\x00-\x1f]([^\x00-\x1f]*[^\s\x00-\x1f])?$",
        "maxLength": MAX_NAME_CHARS,
    });
    let of_all = [
        ("name", name),
        ("knobs", table(properties(&words.task_knobs, &schema_of_kind), &[])),
        ("cgroup", cgroup()),
        ("changes", changes(words)),
        (OFFLINE, offline()),
        (SETS, json!({ "properties": set })),
        (WORKLOADS, json!({ "properties": workload })),
        (
            "sets",
            json!({ "type": "array", "minItems": 1, "maxItems": MAX_SETS, "items": { "anyOf": sets } }),
        ),
    ];
    let of_all = of_all.map(|(name, definition)| (name.to_string(), definition));
    let mut definitions: Map<String, Json> = of_all.into_iter().collect();
    for spec in specs {
        let table = set_table(spec, &words.programs, references(&definitions, SETS));
        definitions.insert(set_of(spec), table);
    }
    definitions
}

/// The properties of a definition, each as a reference to it.
fn references(definitions: &Map<String, Json>, name: &str) -> Map<String, Json> {
    let keys = definitions[name]["properties"].as_object().into_iter().flat_map(Map::keys);
    keys.map(|key| (key.clone(), reference(&format!("{name}/properties/{key}")))).collect()
}

/// Any number of them by name.
fn cgroups(one: &Json) -> Json {
    json!({ "type": "object", "patternProperties": { CGROUP_NAME: one }, "additionalProperties": false })
}

const CGROUP_NAME: &str = "^[A-Za-z0-9_-]{1,64}$";

/// Changes of a worker set in mid-run.
fn changes(words: &Words) -> Json {
    let is_changing = |knob: &&Field| variant::changing_knobs().contains(&knob.name);
    let knobs: Vec<Field> = words.task_knobs.iter().filter(is_changing).copied().collect();
    let mut keys = properties(&[CHANGE_AT, CHANGE_COUNT], &schema_of_kind);
    keys.insert("knobs".to_string(), table(properties(&knobs, &schema_of_kind), &[]));
    keys.insert(
        CGROUP.to_string(),
        json!({ "type": "string", "description": "to which they move" }),
    );
    changes_of(keys)
}

/// CPUs that are taken off in mid-run.
fn offline() -> Json {
    let keys = properties(&[CHANGE_AT, OFFLINE_FOR, OFFLINE_CPUS], &schema_of_kind);
    moments(table(keys, &[AT, OFFLINE_CPUS.name]))
}

fn changes_of(keys: Map<String, Json>) -> Json {
    moments(table(keys, &[AT]))
}

fn moments(items: Json) -> Json {
    json!({ "type": "array", "minItems": 1, "maxItems": MAX_CHANGES, "items": items })
}

/// The settings of a cgroup, its changes, and the cgroups in it.
fn cgroup() -> Json {
    let mut keys = properties(&cgroup_fields(), &schema_of_kind);
    let mut change = keys.clone();
    change.extend(properties(&[CHANGE_AT], &schema_of_kind));
    keys.insert(CHANGE.to_string(), changes_of(change));
    json!({
        "type": "object",
        "properties": keys,
        "additionalProperties": { "$ref": "#/$defs/cgroup" },
        "propertyNames": { "pattern": CGROUP_NAME },
    })
}

fn expect() -> Json {
    let mut keys = properties(EXPECT, &schema_of_kind);
    let text = |max: usize, about: &str| json!({ "type": "string", "minLength": 1, "maxLength": max, "description": about });
    keys.insert("variant".to_string(), reference("name"));
    let about = "as --metric takes it: NAME, SET/NAME, WORK/NAME or WORK/SET/NAME, * for anything";
    keys.insert("metric".to_string(), text(MAX_NAME_CHARS * 3, about));
    keys.insert("why".to_string(), text(MAX_TITLE_CHARS, "for who reads that it fails"));
    table(keys, &["metric"])
}

fn lab() -> Json {
    let mut keys = properties(LAB, &schema_of_kind);
    keys.insert("model".to_string(), table(properties(LAB_MODEL, &schema_of_kind), &[]));
    table(keys, &[])
}

/// A worker set of one workload; `keys` are those that all sets have.
fn set_table(spec: &Spec, programs: &[Program], mut keys: Map<String, Json>) -> Json {
    keys.extend(properties(spec.params, &schema_of_axis));
    keys.insert("name".to_string(), reference("name"));
    keys.insert("knobs".to_string(), reference("knobs"));
    keys.insert(CHANGE.to_string(), reference("changes"));
    if spec.runs_programs {
        keys.extend(of_programs());
    }
    let names = std::iter::once(spec.name);
    let programs = programs.iter().map(|program| program.name.as_str());
    let names: Vec<&str> = names.chain(programs.filter(|_| spec.name == PROGRAM)).collect();
    let named = match names.as_slice() {
        [name] => json!({ "const": name, "description": spec.about }),
        names => json!({
            "anyOf": [{ "enum": names }, { "type": "string", "pattern": r"\.toml$" }],
            "description": spec.about,
        }),
    };
    keys.insert("use".to_string(), named);
    table(keys, &["use"])
}

/// The properties that only tables of programs have.
fn of_programs() -> [(String, Json); 3] {
    let mut metric = properties(OUTPUT, &schema_of_kind);
    metric.insert("name".to_string(), reference("name"));
    let mut items = table(metric, &["name", "unit", "better"]);
    items["oneOf"] = json!([{ "required": ["pattern"] }, { "required": ["json"] }]);
    let metrics = json!({ "type": "array", "minItems": 1, "items": items });
    let packages: Vec<Field> = DISTRIBUTIONS.iter().map(|name| package_of(name)).collect();
    let packages = table(properties(&packages, &schema_of_kind), &[]);
    [
        (PARAMETERS.to_string(), parameters()),
        (METRIC.to_string(), metrics),
        (PACKAGE.to_string(), json!({ "anyOf": [{ "type": "string" }, packages] })),
    ]
}

fn own_programs(words: &Words) -> Json {
    let spec = words.workload(PROGRAM).map(|workload| workload.spec());
    let mut keys = spec.map_or(Map::new(), |spec| properties(spec.params, &schema_of_kind));
    keys.extend(of_programs());
    keys.insert("about".to_string(), json!({ "type": "string" }));
    json!({
        "type": "object",
        "patternProperties": { r"\.toml$": table(keys, &["command"]) },
        "additionalProperties": false,
        "description": "programs of the plan's own, by the name that `use` has",
    })
}

/// Parameters of any name; a list is an axis.
fn parameters() -> Json {
    let value = json!({ "type": ["string", "integer"] });
    json!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [value.clone(), { "type": "array", "minItems": 1, "items": value }],
        },
        "description": "what {NAME} in a program's words stands for; a list is an axis",
    })
}

/// `key`: `set`, or `use` for those of a file of rt-app.
fn workload_of_sets(key: &str, definitions: &Map<String, Json>) -> Json {
    let mut keys = properties(&[RATE], &schema_of_axis);
    keys.extend(references(definitions, SETS));
    keys.extend(references(definitions, WORKLOADS));
    keys.remove(CGROUP);
    keys.insert("name".to_string(), reference("name"));
    let about = "a file of rt-app next to the plan";
    let sets = match key {
        "use" => json!({ "type": "string", "pattern": r"\.json$", "description": about }),
        _ => reference("sets"),
    };
    keys.insert(key.to_string(), sets);
    table(keys, &["name", key])
}

fn table(properties: Map<String, Json>, required: &[&str]) -> Json {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn reference(definition: &str) -> Json {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// The properties of these fields, and `llcs`, which may be an axis.
fn with_llcs(fields: &[Field]) -> Map<String, Json> {
    let mut keys = properties(fields, &schema_of_kind);
    keys.extend(properties(&[LLCS], &schema_of_axis));
    keys
}

fn properties(fields: &[Field], schema: &dyn Fn(&Kind) -> Json) -> Map<String, Json> {
    let one = |field: &Field| {
        let mut property = schema(&field.kind);
        property["description"] = json!(field.about);
        property["default"] = match (field.default, field.kind) {
            (None, _) => return (field.name.to_string(), property),
            (Some(text), Kind::Int { .. } | Kind::Bool) => {
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            }
            (Some(text), _) => json!(text),
        };
        (field.name.to_string(), property)
    };
    fields.iter().map(one).collect()
}

/// One value, or a list of them as an axis.
fn schema_of_axis(kind: &Kind) -> Json {
    let one = schema_of_kind(kind);
    json!({ "anyOf": [one, list_of(&one)] })
}

fn list_of(item: &Json) -> Json {
    json!({ "type": "array", "minItems": 1, "items": item })
}

fn schema_of_kind(kind: &Kind) -> Json {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Picoseconds { .. } => text(r"^[0-9]+(\.[0-9]+)?\s*(ps|ns)$"),
        Kind::Duration { .. } => text(r"^[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|min|h)$"),
        Kind::DurationOrOff { .. } => text(r"^(off|[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|min|h))$"),
        Kind::Size { .. } => text(r"^[0-9]+(\.[0-9]+)?\s*(B|KiB|MiB|GiB)$"),
        Kind::Percent { .. } => text(r"^-?[0-9]+(\.[0-9]+)?%$"),
        Kind::Times { .. } => text(r"^[0-9]+(\.[0-9]+)?x$"),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Text | Kind::Word => json!({ "type": "string" }),
        Kind::PoolName => json!({
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$",
            "maxLength": MAX_POOL_NAME_BYTES,
        }),
        Kind::Cpus => text(r"^\s*[0-9]+(\s*[-,]\s*[0-9]+)*\s*$"),
        Kind::CpusOrAuto => text(r"^(auto|\s*[0-9]+(\s*[-,]\s*[0-9]+)*\s*)$"),
        Kind::List(inner) => {
            let one = schema_of_kind(inner);
            json!({ "anyOf": [one, list_of(&one)] })
        }
    }
}
