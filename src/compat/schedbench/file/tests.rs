//! Tests of the file: what is kept.

use super::super::testing::{THREE_RUNS, parse, usage};
use super::*;

#[test]
fn a_file_of_the_originals_is_written_back_to_the_byte() {
    let mut out = Vec::new();
    json::write(&mut out, &parse(THREE_RUNS).unwrap().plan).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), THREE_RUNS);
}

#[test]
fn unknown_fields_survive_anywhere() {
    let text = r#"{"Input":{"WorkerPresets":{"A":{"Args":[],"u":1.50}},"SimpleMatrix":{"Schedulers":null,"Workers":null,"Count":null,"NumaDisable":null,"u":2},"u":3},"Pool":"","SoftAffinity":"","WorkerConfig":{"Pool":"p","SoftAffinity":"","u":4},"RunConfig":{"Scheduler":"","Pool":"","Cpus":null,"u":5},"Runs":[{"Label":"","WorkerSets":[{"Params":{"Args":null,"u":6},"Config":{"Pool":"","SoftAffinity":"","u":7},"Count":1,"u":8}],"SoftAffinity":"","Scheduler":"","Pool":"own","Cpus":null,"RuntimeSeconds":0,"Completed":true,"Results":{"Raw":[{"Id":{"Set":0,"Id":0,"u":9},"Now":1,"u":10}],"Summary":[{"u":11}],"Schedlab":{"Disturbances":["d"],"Knobs":["k"],"Cpus":[0],"u":14},"u":12},"u":13}],"u":18446744073709551616}"#;
    let mut out = Vec::new();
    json::write(&mut out, &parse(text).unwrap().plan).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn a_file_that_cannot_be_read_says_where() {
    let cut = &THREE_RUNS[..2_000];
    let why = usage(parse(cut));
    assert!(why.starts_with("t.bench:1:2000: `Runs[2].Results.Raw`: the text is cut off"), "{why}");
    let why = usage(parse("{\"Runs\":[{\"WorkerSets\":[{\n\"Count\":\"\\u001b[1m\"}]}]}"));
    assert!(why.starts_with("t.bench:2:"), "{why}");
    assert!(why.contains("`Runs[0].WorkerSets[0].Count`: invalid type: string"), "{why}");
    assert!(!why.contains('\u{1b}') && why.contains("\nhint: "), "{why}");
}
