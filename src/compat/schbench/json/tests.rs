//! The object, key by key, and that nothing from outside breaks it.

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::Value;

use super::super::testing::{any_closing, any_figures, closing, figures, histogram};
use super::super::{Closing, Mode};
use super::*;

fn header() -> Header {
    Header {
        release: "6.18.0".to_string(),
        jobname: None,
        hostname: "lab".to_string(),
        sched_ext: "disabled".to_string(),
        cmdline: "schbench -r 2 -j -".to_string(),
        unix_s: 1_795_233_924,
    }
}

fn written(
    header: &Header,
    figures: &Figures,
    closing: &Closing,
    disturbances: &[String],
) -> String {
    let mut out = Vec::new();
    write(&mut out, header, figures, closing, disturbances).expect("a Vec takes everything");
    String::from_utf8(out).expect("UTF-8")
}

fn keys(text: &str, of: &str) -> Vec<String> {
    let after = text.split_once(&format!("\"{of}\": {{")).expect("the key").1;
    let object = after.split_once('}').expect("its end").0;
    let keys = object.split(", ").filter_map(|entry| entry.split_once("\": "));
    keys.map(|(key, _)| key.trim_start_matches('"').to_string()).collect()
}

#[test]
fn a_run_of_requests() {
    let mut figures = figures();
    figures.response = Some(histogram(&[(180_000, 9), (11_000_000, 1)]));
    let disturbances = ["steal: 3 % of CPU 1".to_string()];
    let closing = Closing { dropped: Some(7), ..closing() };
    let header = Header { jobname: Some("night".to_string()), ..header() };
    let text = written(&header, &figures, &closing, &disturbances);
    assert!(text.ends_with("}}"), "no newline at the end");
    // Line by line for the reader; the document has one line.
    assert_snapshot!(text.replace(", ", ",\n").replace('{', "{\n"));
}

/// The keys were recorded from schbench itself.
#[test]
fn keys_and_their_order_are_schbenchs() {
    let label = |label: &str| -> Vec<String> {
        let ends = ["pct20.0", "pct50.0", "pct90.0", "pct99.0", "pct99.9", "min", "max"];
        ends.iter().map(|end| format!("{label}_{end}")).collect()
    };
    let (wakeup, request, rps) = (label("wakeup_latency"), label("request_latency"), label("rps"));
    let (time, runtime) = (vec!["time".to_string()], vec!["runtime".to_string()]);
    let text = written(&header(), &figures(), &closing(), &[]);
    assert_eq!(keys(&text, "normal"), ["version", "hostname", "sched_ext", "cmdline"]);
    let all = [&time[..], &wakeup, &request, &rps, &runtime].concat();
    assert_eq!(keys(&text, "int"), all);
    let pipe = Closing { mode: Mode::Pipe { bytes: 64 }, ..closing() };
    let text = written(&header(), &figures(), &pipe, &[]);
    assert_eq!(keys(&text, "int"), [&time[..], &wakeup, &runtime].concat());
}

#[test]
fn what_is_not_known_is_null_and_schbenchs_own_keys_are_0() {
    let delays = Reading::Unknown("no schedstat".to_string());
    let closing = Closing { delays, ..closing() };
    let text = written(&header(), &Figures::default(), &closing, &[]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["int"]["request_latency_pct99.0"], 0);
    assert_eq!(document["int"]["rps_max"], 0);
    let own = &document["schedlab"];
    for key in ["wakeup", "request", "response", "rps", "sched_delay", "dropped"] {
        assert_eq!(own.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(own["sched_delay_unknown"], "no schedstat");
    assert_eq!(own["disturbances"], Value::Array(Vec::new()));
}

proptest! {
    #[test]
    fn whatever_comes_from_outside_reads_back(
        figures in any_figures(),
        closing in any_closing(),
        words in any::<[String; 6]>(),
    ) {
        let [release, jobname, hostname, sched_ext, cmdline, disturbance] = words;
        let jobname = Some(jobname);
        let header = Header { release, jobname, hostname, sched_ext, cmdline, unix_s: u64::MAX };
        let disturbances = [disturbance];
        let text = written(&header, &figures, &closing, &disturbances);
        let document: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(document["normal"]["version"].as_str(), Some(header.release.as_str()));
        prop_assert_eq!(document["normal"]["jobname"].as_str(), header.jobname.as_deref());
        prop_assert_eq!(document["normal"]["hostname"].as_str(), Some(header.hostname.as_str()));
        prop_assert_eq!(document["normal"]["sched_ext"].as_str(), Some(header.sched_ext.as_str()));
        prop_assert_eq!(document["normal"]["cmdline"].as_str(), Some(header.cmdline.as_str()));
        prop_assert_eq!(
            document["schedlab"]["disturbances"][0].as_str(),
            Some(disturbances[0].as_str())
        );
        let whole = document["int"].as_object().unwrap().values().all(Value::is_u64);
        prop_assert!(whole, "{}", document["int"]);
    }
}
