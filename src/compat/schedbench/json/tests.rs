//! Tests of reading and writing: what is kept, what is refused and where.

use super::*;

record! {
    Outer {
        name: String = "Name",
        number: i64 = "Number" omitted if is_zero,
        inner: Option<Vec<Inner<'t>>> = "Inner",
    }
}

record! {
    Inner {
        flag: bool = "Flag",
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn written(text: &str) -> String {
    let mut out = Vec::new();
    write(&mut out, &read::<Outer>(text).unwrap()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn known_fields_come_in_order_and_unknown_ones_keep_every_digit() {
    let cases = [
        ("{}", r#"{"Name":"","Inner":null}"#),
        (r#"{"Inner":[],"Number":0,"Name":null}"#, r#"{"Name":"","Inner":[]}"#),
        (
            r#"{"x": 18446744073709551616, "Inner": [ { "y": [1.10, {"a b": -0.0}], "Flag": true } ],
                "Number": -9223372036854775808, "z": "a \" b\\", "Name": "n", "x": 1e999}"#,
            r#"{"Name":"n","Number":-9223372036854775808,"Inner":[{"Flag":true,"y":[1.10,{"a b":-0.0}]}],"x":18446744073709551616,"z":"a \" b\\","x":1e999}"#,
        ),
        // Go's reader takes names in any case, and its writer escapes what HTML would act on.
        (
            "{\"nAME\":\"<a&b>\\u2028\\u2029\\b\\f\\n\\r\\t\\u0001\\\"\\\\/\u{7f}ü\"}",
            "{\"Name\":\"\\u003ca\\u0026b\\u003e\\u2028\\u2029\\b\\f\\n\\r\\t\\u0001\\\"\\\\/\u{7f}ü\",\"Inner\":null}",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(written(text), expected);
        assert_eq!(written(&written(text)), expected, "twice is once");
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_place() {
    let cases = [
        ("", 1, 0, "", "the text is cut off in a value"),
        ("{\n \"Name\": 3}", 2, 10, "Name", "invalid type: integer `3`, expected a string"),
        ("{\"Inner\":[{},{\"Flag\":1}]}", 1, 22, "Inner[1].Flag", "expected a boolean"),
        ("{\"Inner\":[{},3]}", 1, 14, "Inner[1]", "integer `3`, expected an object"),
        ("{\"Inner\":{}}", 1, 9, "Inner", "invalid type: object, expected a list"),
        ("{\"Number\":1.0}", 1, 13, "Number", "`1.0`, expected a whole number of 64 bits"),
        ("{\"Number\":9223372036854775808}", 1, 29, "Number", "`9223372036854775808`"),
        ("{\"Number\":1,\n\"number\":2}", 2, 8, "", "a second field `Number`"),
        ("{\"Inner\":[{", 1, 11, "Inner[0]", "cut off in an object, where `,` or `}` was expected"),
        ("{\"Inner\":[{}", 1, 12, "Inner", "cut off in a list, where `,` or `]` was expected"),
        ("{\"Name\":\"a", 1, 10, "Name", "the text is cut off in a string"),
        ("{\"Name\" \"a\"}", 1, 9, "", "expected `:`"),
        ("{} x", 1, 4, "", "trailing characters"),
        ("[]", 1, 0, "", "invalid type: list, expected an object"),
        ("{\"unknown\": [1,]}", 1, 16, "unknown", "expected value"),
    ];
    for (text, line, column, path, what) in cases {
        let found = read::<Outer>(text).unwrap_err();
        assert!(found.what.contains(what), "{text}: {found:?}");
        assert_eq!((found.line, found.column, &*found.path), (line, column, path), "{found:?}");
    }
}

#[test]
fn a_part_is_reported_by_its_place_in_the_whole() {
    for (text, line, column) in [
        ("{\"x\":[ 1,\"a\"]}", 1, 12),
        ("{\n \"x\":\n [ 1,\"a\"]}", 3, 8),
        ("{\"x\":[1,\n\"a\"]}", 2, 3),
    ] {
        let outer: Outer = read(text).unwrap();
        let found = read_part::<Vec<i64>>(text, outer.rest[0].1, "At.x").unwrap_err();
        assert_eq!((found.line, found.column, &*found.path), (line, column, "At.x[1]"), "{text}");
    }
}

#[test]
fn a_bench_file_is_known_by_its_fields_however_it_goes_on() {
    let cases = [
        ("{\"Input\":{}}", true),
        ("{\"Pool\":\"\",\"runs\":null}", true),
        ("\n {\n \"RunConfig\": {}, \"Input\": { broken", true),
        ("{\"Runs\":[{\"Label\":", true),
        ("{\"event\":\"run\",\"data\":{\"Runs\":[]}}", false),
        ("{\"event\":\"x\"} {\"Runs\":[]}", false),
        ("{ broken, \"Runs\": []", false),
        ("[{\"Runs\":[]}]", false),
        ("\"Runs\"", false),
        ("", false),
    ];
    for (text, expected) in cases {
        assert_eq!(is_bench(text.as_bytes()), expected, "{text}");
    }
    assert!(!is_bench(b"\xff{\"Runs\":[]}"));
    assert!(
        is_whole_object(b" {\"a\":1}\n") && !is_whole_object(b"{\"a\":") && !is_whole_object(b"1")
    );
}
