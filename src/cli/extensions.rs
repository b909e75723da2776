//! An extension takes one file and one line in a registry: lists, schema, plans and the null backend
//! have to follow from that.

use std::sync::atomic::AtomicBool;

use crate::backend::{Backend, Null};
use crate::model::{Outcome, RunEnd, RunSpec};
use crate::{plan, probe, variant, workload};

use crate::session::known;

use super::list;

fn assert_listed(rows: &[Vec<String>], name: &str, about: &str) {
    let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}: no row"));
    let words = row.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(about.lines().next().unwrap_or_default()),
        "{name}: {row:?} lacks {about}"
    );
}

#[test]
fn what_is_registered_is_listed_and_stands_in_the_schema() {
    let schema = plan::json_schema(known());
    let words = schema.to_string();
    for workload in workload::registry() {
        let spec = workload.spec();
        assert_listed(&list::workloads(), spec.name, spec.about);
        let names = spec.params.iter().map(|param| param.name).chain([spec.name]);
        for name in names {
            assert!(words.contains(&format!("\"{name}\"")), "{name} of {}", spec.name);
        }
    }
    let probes = schema.pointer("/properties/probes/items/enum").unwrap().as_array().unwrap();
    for spec in probe::specs() {
        assert_listed(&list::probes(), spec.name, spec.about);
        assert!(probes.contains(&spec.name.into()), "{}", spec.name);
    }
    let variants = schema.pointer("/properties/variant/items/properties").unwrap();
    for field in variant::fields() {
        assert_listed(&list::knobs(), field.name, "");
        assert!(variants.get(field.name).is_some(), "{}", field.name);
    }
}

#[test]
fn the_null_backend_runs_each_workload_that_needs_no_program() {
    for workload in workload::registry().iter().filter(|workload| !workload.spec().runs_programs) {
        let name = workload.spec().name;
        let text = format!("schema = 1\n[[workload]]\nuse = \"{name}\"\n");
        let plan = plan::parse("p.toml", &text, None, known()).unwrap_or_else(|errors| {
            panic!("{name}: {}", errors.render());
        });
        let spec = RunSpec {
            duration_ns: 1_000_000_000,
            window_ns: 500_000_000,
            limit_ns: 2_000_000_000,
            seed: 1,
            ..RunSpec::new(plan::cells(&plan).remove(0))
        };
        let end = Null::default().run(&spec, &AtomicBool::new(false), &mut |_| {});
        let RunEnd::Finished(Outcome::Done { result }) = end else { panic!("{name}: {end:?}") };
        let set = &result.sets[0];
        assert_eq!((set.workload.as_str(), set.ops.as_str()), (name, workload.spec().ops));
        assert!(set.metrics.iter().any(|metric| metric.kind.name == "throughput"), "{name}");
    }
}
