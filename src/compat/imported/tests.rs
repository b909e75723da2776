//! Texts and figures of other programs.

use super::*;

#[test]
fn scales_have_our_units_or_are_names() {
    let cases: &[(&str, Option<&str>, &str)] = &[
        ("Seconds", Some("s"), "duration"),
        ("Milliseconds", Some("ms"), "duration"),
        ("MB/s", Some("MB/s"), "rate"),
        ("MiB/s", Some("MiB/s"), "rate"),
        ("Requests Per Second", Some("1/s"), "rate"),
        ("Bogo Ops/s", Some("1/s"), "rate"),
        ("Frames/sec", Some("1/s"), "rate"),
        ("Time (seconds)", Some("s"), "duration"),
        ("Percentage", Some("%"), "Percentage"),
        // A million of them, and nanoseconds of something simulated.
        ("Total Mop/s", None, "Total-Mop-per-s"),
        ("ns/day", None, "ns-per-day"),
        ("Score", None, "Score"),
        ("user", None, "user-result"),
        ("", None, "result"),
    ];
    for (scale, unit, metric) in cases {
        assert_eq!(unit_word(scale), *unit, "{scale}");
        let work = WorkResults {
            name: String::new(),
            scale: scale.to_string(),
            direction: Direction::HigherIsBetter,
            command: Vec::new(),
            pattern: None,
            values: Vec::new(),
        };
        assert_eq!(work.metric().0.name, *metric, "{scale}");
    }
    for (unit, _) in SCALES {
        assert!(OUTPUT_UNITS.iter().any(|(known, ..)| known == unit), "{unit}");
    }
}

#[test]
fn names_fit_and_differ() {
    let long = "x".repeat(100);
    let found = names([long.as_str(), long.as_str(), "-a", "a", "", "é"].into_iter());
    assert_eq!(found[2..], ["a", "a (2)", UNKNOWN, "é"]);
    assert_eq!((found[0].len(), found[1].len()), (64, 59));
    assert!(found[0].ends_with("...") && found[1].ends_with("... (2)"), "{found:?}");
    let many: Vec<String> = (0..20_000).map(|at| format!("{long}{}", at / 2)).collect();
    let found = names(many.iter().map(String::as_str));
    assert!(found.iter().all(|name| name.len() <= MAX_NAME_CHARS));
    assert!(found[19_999].ends_with("... (20000)"), "{}", found[19_999]);
}

#[test]
fn values_are_converted_between_our_units_alone() {
    let cases = [
        ("Time (milliseconds)", "Time (seconds)", Some(0.001)),
        ("GB/s", "MB/sec", Some(1000.0)),
        ("sec", "Seconds", Some(1.0)),
        ("Score", "Score", Some(1.0)),
        ("Score", "Points", None),
        ("Seconds", "", None),
        ("MB/s", "IOPS", None),
    ];
    for (from, to, expected) in cases {
        assert_eq!(conversion(from, to), expected, "{from} {to}");
    }
}

#[test]
fn texts_that_are_long_or_steer_a_terminal_are_refused() {
    let refused = |text: &str| name("f: title", text).unwrap_err().text(super::super::Whose::User);
    assert!(refused(&"x".repeat(1_001)).starts_with("f: title: it has 1001 characters\nhint: "));
    let shown = refused("a\u{1b}[2J\u{202e}");
    assert!(shown.starts_with("f: title: `a\\u{1b}[2J\\u{202e}` holds"), "{shown}");
    assert_eq!(name("f", " a\n\tb ").unwrap(), "a b");
}

#[test]
fn what_is_too_large_or_empty_is_refused() {
    let results_of = |name: &str, values: Vec<f64>| Results {
        tool: "x",
        title: "t".to_string(),
        started_unix_ns: 1,
        systems: vec![System {
            name: "a".to_string(),
            environment: environment(UNKNOWN.into(), UNKNOWN.into(), CpuSet::default()),
        }],
        works: vec![WorkResults {
            name: name.to_string(),
            scale: "s".to_string(),
            direction: Direction::LowerIsBetter,
            command: vec!["true".to_string(), "{x} {{y}".to_string()],
            pattern: None,
            values: vec![Some(Ok(values))],
        }],
        left_out: BTreeMap::from([("why".to_string(), 2)]),
    };
    let results = |values| results_of("w", vec![1.0; values]);
    let refusal = |results: Results| match results.into_plan("f", b"") {
        Ok(plan) => panic!("{} was taken", plan.id),
        Err(error) => error.text(super::super::Whose::User),
    };
    let refused = |values| refusal(results(values));
    for value in [1e300, 1e92, -1e308, f64::INFINITY] {
        let shown = refusal(results_of("w", vec![1.0, value]));
        let expected = format!("f: `w`, `a`: {value:e} s is too large\nhint: ");
        assert!(shown.starts_with(&expected), "{shown}");
    }
    let shown = refusal(results_of("w", vec![1.0, -5.0]));
    assert!(shown.starts_with("f: `w`, `a`: -5e0 s is below 0, which it cannot be\nhint: "));
    // mmtests names the scale of a time without its unit.
    let mut bare = results_of("w", vec![1.0, -5.0]);
    bare.works[0].scale = "Latency".to_string();
    assert!(refusal(bare).contains("-5e0 Latency is below 0"));
    let long = "x".repeat(MAX_NAME_CHARS + 1);
    let (_, plan) = results_of(&long, vec![1.0]).plan("f").unwrap();
    let command = &plan.works[0].sets[0].params["command"];
    assert!(command.to_string().contains(&format!("RESULT={long}")), "{command}");
    assert!(check_size("f", 20, 100).is_ok() && check_size("f", 21, 100).is_err());
    assert!(refused(0).starts_with("f: nothing in it can be compared: 2 results (why)\nhint"));
    assert!(refused(MAX_VALUES + 1).starts_with("f: it has 100001 values\nhint: at most"));
    let id = |bytes| results(1).into_plan("f", bytes).map(|plan| plan.id).unwrap();
    assert_eq!(id(b"abc"), "x-ba7816bf8f01", "the beginning of the SHA-256 of abc");
    assert_ne!(id(b"abd"), id(b"abc"));
    let broken = text(b"<a>\xff", "f").unwrap_err().to_string();
    assert_eq!(broken, "f: not UTF-8 from byte 3 on");
}
