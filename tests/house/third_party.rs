//! THIRD-PARTY.txt and sbom.cdx.json, which go with each release, name what its binary is made of: the packages
//! that Cargo.lock resolves for it with all features, and the system libraries that it links.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spdx::{Expression, ParseMode};

use super::licences::{cargo, metadata};
use crate::support::checkout;

/// The target of a release.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// How names of files begin that say under which terms a package is.
const FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE", "NOTICE"];

/// The binary holds these, and Cargo has no package of them.
struct Library {
    name: &'static str,
    licence: &'static str,
    /// Where it comes from.
    from: &'static str,
    /// The file with its terms: in the folder of this package, or without one in ours.
    terms: Option<(Option<&'static str>, &'static str)>,
}

const LIBRARIES: &[Library] = &[
    Library {
        name: "DejaVu Sans",
        licence: "Bitstream-Vera",
        from: "a part of the font, for pictures; its changes are in the public domain",
        terms: Some((None, "src/report/page/labels.txt")),
    },
    Library {
        name: "glibc",
        licence: "LGPL-2.1-or-later",
        from: "the C library of the machine that builds",
        terms: None,
    },
    Library {
        name: "libbpf",
        licence: "LGPL-2.1-only OR BSD-2-Clause",
        from: "in the package libbpf-sys; here under BSD-2-Clause",
        terms: Some((Some("libbpf-sys"), "libbpf/LICENSE.BSD-2-Clause")),
    },
    Library {
        name: "libelf",
        licence: "LGPL-3.0-or-later OR GPL-2.0-or-later",
        from: "elfutils of the machine that builds",
        terms: None,
    },
    Library {
        name: "sqlite",
        licence: "blessing",
        from: "in the package libsqlite3-sys; public domain",
        terms: None,
    },
    Library {
        name: "zlib",
        licence: "Zlib",
        from: "the library of the machine that builds",
        terms: Some((Some("libbpf-sys"), "zlib/LICENSE")),
    },
];

const HEAD: &str = "\
The static binary of schedlab holds the packages, libraries and font below. schedlab's own licence is MIT OR Apache-2.0
(LICENSE-MIT, LICENSE-APACHE). Where a package offers a choice that has MIT, its MIT text is the one that counts
here; elsewhere all of its texts stand here. glibc and libelf are under the LGPL: the sources of this version and
`make dist` link the binary anew with others.
";

struct Package {
    name: String,
    version: String,
    licence: String,
    checksum: Option<String>,
    folder: PathBuf,
    /// Name and text of each file about terms.
    texts: Vec<(String, String)>,
    /// `name version` of what it needs.
    needs: Vec<String>,
}

impl Package {
    fn key(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

#[test]
fn the_files_that_go_with_a_release_name_what_it_is_made_of() {
    let packages = linked();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let bare = packages.iter().filter(|package| package.texts.is_empty());
    let bare: Vec<String> = bare.map(Package::key).collect();
    assert!(bare.is_empty(), "no text of a licence: {bare:?}");
    let sbom = serde_json::to_string_pretty(&sbom(&packages)).unwrap() + "\n";
    for (name, made) in [("THIRD-PARTY.txt", terms(&packages)), ("sbom.cdx.json", sbom)] {
        let path = checkout().join(name);
        if std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == made, "{name} is not what Cargo.lock makes\nhint: make sbom");
    }
}

/// The packages in the binary, sorted by name and version, without schedlab itself.
fn linked() -> Vec<Package> {
    let words = ["tree", "--locked", "--offline", "--features", "full", "--target", TARGET];
    // Macros and build scripts are not in it.
    let edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe"];
    let tree = cargo(&[&words[..], &edges, &["--format", "{p}"]].concat());
    let held: BTreeSet<String> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let metadata = metadata(TARGET);
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let keys: BTreeMap<String, String> = array(&metadata["packages"])
        .iter()
        .map(|package| {
            (
                word(&package["id"]),
                format!("{} {}", word(&package["name"]), word(&package["version"])),
            )
        })
        .collect();
    let needs: BTreeMap<String, Vec<String>> = array(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let needs = array(&node["dependencies"]).into_iter().map(|id| keys[&word(&id)].clone());
            (keys[&word(&node["id"])].clone(), needs.filter(|key| held.contains(key)).collect())
        })
        .collect();
    let checksums = checksums();
    let mut packages: Vec<Package> = array(&metadata["packages"])
        .iter()
        .filter(|package| {
            held.contains(&keys[&word(&package["id"])]) && !package["source"].is_null()
        })
        .map(|package| {
            let key = &keys[&word(&package["id"])];
            let licence = word(&package["license"]).replace('/', " OR ");
            let manifest = word(&package["manifest_path"]);
            let folder = Path::new(&manifest).parent().expect("a folder").to_path_buf();
            let texts = texts(&folder, &licence);
            Package {
                name: word(&package["name"]),
                version: word(&package["version"]),
                licence,
                checksum: checksums.get(key).cloned(),
                folder,
                texts,
                needs: needs.get(key).cloned().unwrap_or_default(),
            }
        })
        .collect();
    packages.sort_by_key(Package::key);
    let named: BTreeSet<String> = packages.iter().map(Package::key).collect();
    let is_ours = |key: &&String| key.starts_with("schedlab");
    let missing: Vec<_> = held.difference(&named).filter(|key| !is_ours(key)).collect();
    assert!(missing.is_empty(), "in the binary, and not resolved: {missing:?}");
    packages
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_string()
}

/// SHA-256 of each package as the registry has it, from Cargo.lock.
fn checksums() -> BTreeMap<String, String> {
    let lock: toml::Table = super::read("Cargo.lock").parse().expect("Cargo.lock");
    let packages = lock["package"].as_array().expect("packages").iter();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_string());
    packages
        .filter_map(|one| {
            let key = format!("{} {}", text(one, "name")?, text(one, "version")?);
            Some((key, text(one, "checksum")?))
        })
        .collect()
}

/// The texts under whose terms a package is passed on: that of MIT where MIT is enough.
fn texts(folder: &Path, licence: &str) -> Vec<(String, String)> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap_or_else(|why| panic!("{}: {why}", folder.display()))
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| FILES.iter().any(|start| name.to_uppercase().starts_with(start)))
        .collect();
    names.sort();
    let expression = Expression::parse_mode(licence, ParseMode::LAX).expect("an accepted licence");
    let is_mit = |name: &str| name.to_uppercase().contains("MIT");
    if names.iter().any(|name| is_mit(name))
        && expression.evaluate(|wanted| wanted.to_string() == "MIT")
    {
        names.retain(|name| is_mit(name) || name.to_uppercase().starts_with("NOTICE"));
    }
    let text = |name: &String| {
        String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned()
    };
    names.iter().map(|name| (name.clone(), text(name))).collect()
}

impl Library {
    /// Where its terms stand, and their text.
    fn terms(&self, packages: &[Package]) -> Option<(String, String)> {
        let (package, path) = self.terms?;
        let folder = match package {
            Some(name) => {
                let package = packages.iter().find(|package| package.name == name);
                package.unwrap_or_else(|| panic!("no package {name}")).folder.clone()
            }
            None => checkout().to_path_buf(),
        };
        let text = std::fs::read_to_string(folder.join(path));
        let text = text.unwrap_or_else(|why| panic!("{path}: {why}"));
        Some((format!("{}: {}", self.name, path.rsplit('/').next().unwrap()), text))
    }
}

/// A table of all, then each text once, below the libraries and packages that it is of.
fn terms(packages: &[Package]) -> String {
    let mut out = format!("{HEAD}\n");
    for Library { name, licence, from, .. } in LIBRARIES {
        out += &format!("{name}: {licence} ({from})\n");
    }
    out += "\n";
    let mut found: Vec<(String, String)> =
        LIBRARIES.iter().filter_map(|library| library.terms(packages)).collect();
    for package in packages {
        out += &format!("{}: {}\n", package.key(), package.licence);
        let texts = package.texts.iter();
        found
            .extend(texts.map(|(name, text)| (format!("{}: {name}", package.key()), text.clone())));
    }
    let mut by_text: BTreeMap<Vec<&str>, (&str, Vec<String>)> = BTreeMap::new();
    for (of, text) in &found {
        // Copies differ in blanks and line ends.
        let same = text.split_whitespace().collect();
        by_text.entry(same).or_insert((text, Vec::new())).1.push(of.clone());
    }
    let mut texts: Vec<_> = by_text.into_values().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    for (text, of) in texts {
        out += &format!("\n{}\n{}\n\n", "=".repeat(78), of.join("\n"));
        let lines: Vec<&str> =
            text.trim_matches(['\u{feff}', '\n', '\r']).lines().map(str::trim_end).collect();
        out += &(lines.join("\n") + "\n");
    }
    out
}

/// CycloneDX 1.5. No time and no serial number: the same lock file gives the same bytes.
fn sbom(packages: &[Package]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let of = |key: &str| format!("pkg:cargo/{}", key.replace(' ', "@"));
    let library = |Library { name, licence, from, .. }: &Library| {
        json!({"type": "library", "bom-ref": name, "name": name, "description": from,
               "licenses": [{"expression": licence}]})
    };
    let component = |package: &Package| {
        let mut component = json!({
            "type": "library", "bom-ref": of(&package.key()), "purl": of(&package.key()),
            "name": package.name, "version": package.version,
            "licenses": [{"expression": package.licence}],
        });
        if let Some(checksum) = &package.checksum {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    };
    let needs = |package: &Package| {
        let needs: Vec<String> = package.needs.iter().map(|key| of(key)).collect();
        json!({"ref": of(&package.key()), "dependsOn": needs})
    };
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": of(&format!("schedlab {version}")), "name": "schedlab",
            "version": version, "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }},
        "components": LIBRARIES.iter().map(library).chain(packages.iter().map(component)).collect::<Vec<_>>(),
        "dependencies": packages.iter().map(needs).collect::<Vec<_>>(),
    })
}
