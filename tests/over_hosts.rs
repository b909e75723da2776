//! One plan on many hosts, from the runs to verdicts over hosts.

use serde_json::Value;

use super::compare::{Home, LAST, again, scaled, verdicts};
use crate::support::joined;

/// The plan of the null backend, once for each host: the throughput of `other` is that of `plain` times the
/// host's factor. `change` gets the number of the host and the first event of its plan.
fn fleet(factors: &[f64], change: impl Fn(usize, &mut Value)) -> Home {
    let seeds: Vec<String> = (1..=factors.len()).map(|seed| seed.to_string()).collect();
    let home = Home::with_runs(&seeds.iter().map(String::as_str).collect::<Vec<_>>());
    let mut host = 0;
    let lines = home.events("").into_iter().map(|mut event| {
        if event["event"] == "plan_started" {
            host += 1;
            let environment = &mut event["environment"];
            environment["hostname"] = format!("n{host}").into();
            environment["kernel_release"] = "6.12.0".into();
            environment["cpu_model"] = serde_json::json!({ "known": "Example 9000" });
            change(host, &mut event);
        }
        scaled(&event.to_string(), factors[host - 1])
    });
    home.replace_store(&lines.collect::<Vec<_>>());
    home
}

const ALIKE: [f64; 8] = [1.2, 1.21, 1.19, 1.205, 1.195, 1.2, 1.215, 1.185];

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

#[test]
fn a_verdict_over_hosts_counts_each_host_once_and_can_be_given_again() {
    let home = fleet(&ALIKE, |_, _| {});
    let text = home.ok(&words("compare --over hosts COLUMNS=120"));
    assert!(text.contains("over 8 hosts, each one draw: 12 rounds"), "{text}");
    let row = text.lines().find(|line| line.starts_with("spin")).expect(&text);
    assert!(row.contains("+20 %") && row.ends_with("BETTER"), "{row}");
    for host in 1..=8 {
        let of = |line: &&str| line.split_whitespace().next() == Some(&format!("n{host}"));
        assert_eq!(text.lines().filter(of).count(), 1, "n{host}: {text}");
    }
    assert!(text.contains("a further host") && text.contains("Example 9000"), "{text}");
    assert!(!text.contains("differs") && !text.contains("not of one kind"), "{text}");
    let command = again(&text);
    assert!(command.ends_with(" --over hosts"), "{command}");
    let command = format!("{command} COLUMNS=120");
    assert_eq!(home.ok(&words(&command)), text);
    // A plan that begins later does not change the report.
    home.null("./two.toml", &["--quiet"]);
    assert_eq!(home.ok(&words(&command)), text);
    for sides in ["plain other", "all,backend=null", "title=two,backend=null"] {
        let document = home.json(format!("compare {sides} --over hosts --format json"));
        let analysis = &document["analyses"][0];
        assert_eq!(analysis["method"]["pairing"], "over_hosts", "{sides}");
        assert_eq!(analysis["hosts"].as_array().unwrap().len(), 9, "{sides}");
        let throughput = ("spin/throughput".to_string(), "better".to_string());
        assert!(verdicts(&document).contains(&throughput), "{sides}");
    }
    for format in ["markdown", "html", "csv", "lkml", "svg", "gobench", "junit"] {
        let page = home.ok(&words(&format!("compare --over hosts --format {format}")));
        assert!(!page.is_empty(), "{format}");
    }
}

#[test]
fn a_host_that_differs_is_named_and_kinds_of_hosts_are_noted() {
    let mut factors = ALIKE;
    factors[4] = 0.6;
    let home = fleet(&factors, |host, started| {
        if host > 6 {
            started["environment"]["kernel_release"] = "6.1.0".into();
        }
        if host == 5 {
            started["environment"]["hostname"] = "n5\u{1b}[2J|<b>".into();
        }
    });
    let text = home.ok(&words("compare --over hosts COLUMNS=120"));
    assert!(!text.contains('\u{1b}'), "{text}");
    let text = joined(&text);
    for said in [
        "n5\\u{1b}[2J|<b> differs from the other hosts: throughput of other (spin)",
        "hosts are not of one kind",
        "Linux 6.1.0 (n7 and n8)",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let csv = home.ok(&words("compare --over hosts --format csv"));
    let differs: Vec<&str> = csv.lines().filter(|line| line.ends_with(",true")).collect();
    assert!(differs.len() == 1 && differs[0].contains("throughput"), "{csv}");
}

#[test]
fn two_hosts_have_no_verdict_and_the_reason_is_there() {
    let home = fleet(&[1.2, 0.7], |_, _| {});
    let text = joined(&home.ok(&words("compare --over hosts COLUMNS=120")));
    for said in
        ["2 hosts, and no data of fewer than 6 decide over hosts", "too-few", "6 hosts or more"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    home.fails(3, &words("compare --over hosts --fail-on regression"));
}

#[test]
fn a_plan_that_is_another_is_refused_and_a_machine_twice_is_one_host() {
    let home = fleet(&ALIKE, |host, started| match host {
        2 => started["plan"]["measure"]["duration_ns"] = 1_000_000_000u64.into(),
        3 => started["environment"]["hostname"] = "n4".into(),
        5 => started["environment"]["boot_id"] = serde_json::json!({ "known": "a boot" }),
        6 => started["environment"]["boot_id"] = serde_json::json!({ "known": "a boot" }),
        _ => {}
    });
    let document = home.json(format!("compare {LAST} --over hosts --format json"));
    let hosts = document["analyses"][0]["hosts"].as_array().unwrap();
    let names: Vec<(&str, u64)> = hosts
        .iter()
        .map(|host| (host["name"].as_str().unwrap(), host["rounds"].as_u64().unwrap()))
        .collect();
    assert_eq!(names, [("n1", 12), ("n4", 24), ("n6", 24), ("n7", 12), ("n8", 12)]);
    let text = joined(&home.ok(&words("compare --over hosts COLUMNS=120")));
    assert!(text.contains("refused n2 (") && text.contains("the duration is 2s and 1s"), "{text}");
}

#[test]
fn what_has_no_hosts_is_refused() {
    let home = fleet(&ALIKE[..2], |_, started| started["backend"] = "lab".into());
    let said = home.fails(2, &words("compare backend=lab,last --over hosts"));
    assert!(said.contains("in the lab a run is the same on every host"), "{said}");
    let home = Home::with_runs(&["1", "2"]);
    let ids = home.ids();
    let said = home.fails(2, &["compare", &ids[0], &ids[1], "--over", "hosts"]);
    assert!(said.contains("variants that each host measured in the same rounds"), "{said}");
    for more in ["--over rounds", "--over hosts --mixed", "--over hosts --against last"] {
        home.fails(2, &words(&format!("compare plain other {more}")));
    }
    home.fails(2, &words("compare plain plain --over hosts"));
    home.fails(2, &words("compare plain --over hosts"));
}
