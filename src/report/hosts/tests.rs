//! Tables of hosts: a snapshot, names from outside, and what programs get.

use insta::assert_snapshot;

use crate::report::testing::{HOSTILE, of_hosts, render};
use crate::report::{Options, find, formats};

fn rendered(format: &str, verbose: u8, name: &str) -> String {
    let options = Options { width: 100, verbose, ..Options::default() };
    render(find(format).unwrap(), &of_hosts(name), options)
}

#[test]
fn text_has_a_row_for_each_host_and_its_kind() {
    assert_snapshot!(rendered("text", 0, "Example 9000"));
}

#[test]
fn no_name_of_a_host_acts() {
    for format in formats().iter().filter(|format| !format.is_binary()) {
        for name in HOSTILE {
            let text = rendered(format.name, 1, name);
            let acts = |c: char| c != '\n' && c != '\r' && crate::report::layout::is_active(c);
            assert!(!text.chars().any(acts), "{}: {text}", format.name);
        }
    }
    let html = rendered("html", 0, "<script>alert(1)</script>");
    assert!(html.contains("&lt;script&gt;alert") && !html.contains("<script>alert"));
    let markdown = rendered("markdown", 0, "n2|<b>");
    assert!(markdown.contains("| host | kind | rounds |"), "{markdown}");
    assert!(markdown.contains("n2\\|&lt;b&gt;") && !markdown.contains("n2|"), "{markdown}");
}

#[test]
fn programs_get_each_host() {
    let csv = rendered("csv", 0, "n2");
    let of = |kind: &str| csv.lines().filter(|line| line.starts_with(kind)).count();
    // Five metrics, of one side.
    assert_eq!((of("run,"), of("host,"), of("further_host,")), (0, 40, 5), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&rendered("json", 0, "n2")).unwrap();
    let analysis = &json["analyses"][0];
    assert_eq!(analysis["method"]["pairing"], "over_hosts");
    assert_eq!(analysis["hosts"].as_array().unwrap().len(), 8);
    let cell = &analysis["works"][0]["sets"][0]["rows"][0]["cells"][1];
    let hosts = cell["over_hosts"]["hosts"].as_array().unwrap();
    let differ = hosts.iter().filter(|host| host["differs"] == true);
    assert_eq!((hosts.len(), differ.count()), (8, 1));
}
