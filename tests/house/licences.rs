//! The dependency-licence check: every package that Cargo resolves for this machine, including ours and those
//! that only tests or unused features need, has a licence that lets everybody use one static binary freely.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq, Licensee, ParseMode};

use super::{assert_none, read};
use crate::support::checkout;

/// Accepted licences, each with its reason in docs/design/dependencies.md.
const ACCEPTED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "Unicode-3.0",
];

#[test]
fn every_package_has_an_accepted_licence() {
    let packages = packages();
    assert!(packages.iter().any(|package| package.name == "schedlab"), "our own is looked at");
    let findings = packages.iter().filter_map(refusal).collect();
    assert_none("a licence is not accepted (docs/design/dependencies.md, licences):", findings);
}

#[test]
fn each_accepted_licence_has_its_reason_written_down() {
    let document = read("docs/design/dependencies.md");
    let missing = ACCEPTED.iter().filter(|name| !document.contains(&format!("| {name} |")));
    let missing = missing.map(|name| name.to_string()).collect();
    assert_none("docs/design/dependencies.md does not say why these are accepted:", missing);
}

struct Package {
    name: String,
    licence: Option<String>,
}

/// The packages that `cargo metadata` resolves for this machine's target.
fn packages() -> Vec<Package> {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo -vV");
    let packages = metadata(host)["packages"].take();
    let text = |value: &Value| value.as_str().map(str::to_string);
    packages
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| Package {
            name: text(&package["name"]).expect("a package's name"),
            licence: text(&package["license"]),
        })
        .collect()
}

/// Without the network: packages were fetched to build this test.
pub(super) fn metadata(target: &str) -> Value {
    let format = ["metadata", "--format-version", "1", "--locked", "--offline"];
    // Without it packages of the features that are off by default are left out.
    let resolved = ["--all-features", "--filter-platform", target];
    let metadata = cargo(&[&format[..], &resolved].concat());
    serde_json::from_str(&metadata).expect("JSON from cargo")
}

/// Its standard output.
pub(super) fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let output = Command::new(&cargo).args(arguments).current_dir(checkout()).output();
    let output = output.unwrap_or_else(|why| panic!("{cargo}: {why}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{cargo} {}: {said}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("UTF-8 from cargo")
}

/// Why a package may not be used; `None` if it may.
fn refusal(package: &Package) -> Option<String> {
    let name = &package.name;
    let Some(licence) = &package.licence else {
        return Some(format!("{name}: names no licence"));
    };
    // Old manifests write `MIT/Apache-2.0`.
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(why) => return Some(format!("{name}: `{licence}`: {}", why.reason)),
    };
    (!expression.evaluate(is_accepted)).then(|| format!("{name}: `{licence}`"))
}

pub(super) fn is_accepted(wanted: &LicenseReq) -> bool {
    ACCEPTED
        .iter()
        .any(|name| Licensee::parse(name).expect("an SPDX licence").into_req() == *wanted)
}

#[test]
fn licences_are_judged_as_expressions() {
    let cases: &[(Option<&str>, bool)] = &[
        (Some("MIT"), true),
        (Some("MIT OR Apache-2.0"), true),
        (Some("MIT/Apache-2.0"), true),
        (Some("(MIT OR Apache-2.0) AND Unicode-3.0"), true),
        (Some("GPL-2.0-only OR MIT"), true),
        (Some("Apache-2.0 WITH LLVM-exception"), true),
        (Some("GPL-2.0-only"), false),
        (Some("MIT AND GPL-3.0-or-later"), false),
        (Some("LGPL-2.1-only OR BSD-2-Clause"), true),
        (Some("LGPL-2.1-only"), false),
        (Some("MPL-2.0"), false),
        (Some("Apache-2.0 WITH Classpath-exception-2.0"), false),
        (Some("LicenseRef-ours"), false),
        (Some("free"), false),
        (Some(""), false),
        (None, false),
    ];
    for (licence, accepted) in cases {
        let package = Package { name: "x".to_string(), licence: licence.map(str::to_string) };
        assert_eq!(refusal(&package).is_none(), *accepted, "{licence:?}");
    }
}
