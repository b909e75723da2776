//! docs/plan.schema.json is what the registries make.

use schedlab::{plan, session};

#[test]
fn the_schema_in_docs_is_the_one_that_the_tables_make() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plan.schema.json");
    let schema = plan::json_schema(session::known());
    let made = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
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
