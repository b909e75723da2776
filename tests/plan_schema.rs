//! The committed JSON Schema of plans. Here and not in the library, whose tests register a workload
//! of their own.

use schedlab::plan::json_schema;

#[test]
fn the_schema_in_docs_is_the_one_that_the_tables_make() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plan.schema.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&json_schema()).unwrap());
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == made,
        "docs/plan.schema.json is not what the field tables make\n\
         hint: SCHEDLAB_BLESS=1 cargo test --test main plan_schema"
    );
}
