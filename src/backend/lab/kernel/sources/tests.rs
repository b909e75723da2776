//! Lists of sources as they are found on machines.

use super::*;

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

fn list(text: &str) -> Vec<Source> {
    parse(Path::new("sources.list"), text)
}

fn stanzas(text: &str) -> Vec<Source> {
    parse(Path::new("debian.sources"), text)
}

/// `suite suite component, keys`, a line for each source.
fn lines_of(sources: &[Source]) -> Vec<String> {
    let one = |source: &Source| {
        let Source { uris, suites, components, signed_by } = source;
        let (uris, suites, components) = (uris.join(" "), suites.join(" "), components.join(" "));
        format!("{uris}|{suites}|{components}|{}", signed_by.as_deref().unwrap_or(""))
    };
    sources.iter().map(one).collect()
}

#[test]
fn lines_of_the_old_format() {
    let cases: &[(&str, &[&str])] = &[
        (
            "deb http://example.org/debian bookworm main",
            &["http://example.org/debian|bookworm|main|"],
        ),
        (
            "deb [arch=amd64,i386 signed-by=/k.gpg] https://example.org/d/ trixie main contrib # why",
            &["https://example.org/d/|trixie|main contrib|/k.gpg"],
        ),
        ("deb[arch=amd64] https://example.org/d sid main", &["https://example.org/d|sid|main|"]),
        ("\tdeb\thttp://example.org/d\tsid\tmain\r", &["http://example.org/d|sid|main|"]),
        ("deb [arch=arm64] http://example.org/debian bookworm main", &[]),
        ("# deb http://example.org/debian bookworm main", &[]),
        ("deb-src http://example.org/debian bookworm main", &[]),
        ("debian http://example.org/debian bookworm main", &[]),
        ("deb [arch=amd64 http://example.org/debian bookworm main", &[]),
        ("deb http://example.org/debian", &[]),
        ("", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(lines_of(&list(text)), *expected, "{text}");
    }
}

#[test]
fn stanzas_of_the_new_format() {
    let both = format!(
        "# generated\nTypes: deb deb-src\nURIs: http://example.org/debian\n# why\nSuites: bookworm\n \
         bookworm-updates\nComponents: main\nSigned-By: {KEYS}\n\n\nTypes: deb\n\
         uris: http://example.org/debian-security http://example.org/s\nSUITES:bookworm-security\n\
         Components:\n main\n contrib\n"
    );
    assert_eq!(
        lines_of(&stanzas(&both)),
        [
            &*format!("http://example.org/debian|bookworm bookworm-updates|main|{KEYS}"),
            "http://example.org/debian-security http://example.org/s|bookworm-security|main contrib|",
        ]
    );
    let base = "URIs: http://example.org/debian\nSuites: bookworm\nComponents: main\n";
    let cases = [
        ("Types: deb\n", 1),
        ("Types: deb\nEnabled: yes\n", 1),
        ("Types: deb\nEnabled: No\n", 0),
        ("Types: deb\nEnabled: false\n", 0),
        ("Types: deb-src\n", 0),
        ("", 0),
        ("Types: deb\nArchitectures: arm64 amd64\n", 1),
        ("Types: deb\nArchitectures: arm64\n", 0),
        ("Types: deb\nArchitectures-Remove: amd64\n", 0),
    ];
    for (more, expected) in cases {
        assert_eq!(stanzas(&format!("{more}{base}")).len(), expected, "{more}");
    }
}

#[test]
fn a_block_of_keys_is_no_more_than_a_value() {
    let text = "Types: deb\nURIs: http://example.org/d\nSuites: bookworm\nComponents: main\nSigned-By:\n \
                -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n Suites: trixie\n mQINBF\n";
    let sources = stanzas(text);
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].suites, ["bookworm"]);
    assert_eq!(suites(&sources, Reach::Supported), [], "keys of somebody else");
}

#[test]
fn files_that_apt_does_not_read_are_not_read() {
    for name in ["debian.sources.save", "debian.list.disabled", "README", "debian"] {
        assert_eq!(parse(Path::new(name), "deb http://example.org/debian bookworm main"), []);
    }
}

fn looked_into(text: &str) -> Vec<String> {
    suites(&list(text), Reach::Supported)
        .into_iter()
        .map(|suite| format!("{} {}", suite.uri, suite.name))
        .collect()
}

#[test]
fn a_mirror_is_looked_into_beyond_the_machines_own_suite() {
    let m = "http://example.org/debian";
    let archive = ["bookworm", "bookworm-backports", "trixie", "trixie-backports"];
    let expected: Vec<String> = archive.iter().map(|suite| format!("{m} {suite}")).collect();
    assert_eq!(looked_into(&format!("deb {m} bookworm main")), expected);
    assert_eq!(
        looked_into(&format!("deb {m}/ stable main\ndeb {m} stable-updates main")),
        expected
    );
    let sid = looked_into(&format!("deb {m} sid main"));
    assert_eq!((sid.len(), sid.last().map(String::as_str)), (5, Some(&*format!("{m} sid"))));
    let security = looked_into(&format!("deb {m}-security bookworm-security main"));
    let expected =
        ["bookworm-security", "trixie-security"].map(|suite| format!("{m}-security {suite}"));
    assert_eq!(security, expected, "the security archive has no other suites");
}

#[test]
fn third_parties_are_left_alone() {
    let none = [
        "deb https://example.org/linux/debian bookworm stable",
        "deb [signed-by=/usr/share/keyrings/third.gpg] https://example.org/debian bookworm main",
        "deb [signed-by=0123456789ABCDEF] https://example.org/debian bookworm main",
        "deb https://example.org/apt bookworm-pgdg main",
        "deb https://example.org/apt cloud-sdk-bookworm main",
        "deb https://example.org/apt nodistro main",
        "deb https://example.org/ubuntu noble main",
        "deb https://example.org/apt ./",
        "deb cdrom:[Debian_12]/ bookworm main",
    ];
    for text in none {
        assert_eq!(looked_into(text), [""; 0], "{text}");
    }
    let own = format!("deb [signed-by={KEYS}] https://example.org/debian bookworm main");
    assert_eq!(looked_into(&own).len(), 4);
}
