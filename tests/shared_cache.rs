//! How to ask for a cache that several users share: options, the configuration file, and what is refused
//! before anything runs. tests/lab.rs tests it with guests.

use std::fs;
use std::process::Output;

use crate::home::Home;
use crate::support::{done, stderr};

const LAB: [&str; 4] = ["run", "lab-quick", "--backend", "lab"];

fn configured(text: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.at(".config/schedlab")).unwrap();
    home.write(".config/schedlab/config.toml", text);
    home
}

fn run(home: &Home, words: &[&str], more: &[&str]) -> Output {
    home.call(&[words, more].concat())
}

fn assert_refused(output: &Output, says: &str) {
    // Lines are wrapped, with a bar before each.
    let words = stderr(output);
    let words = words.split_whitespace().filter(|word| !["|", "│"].contains(word));
    let text = words.collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{text}");
    let has_hint = text.contains("hint: ") || text.contains("help: ");
    assert!(text.contains(says) && has_hint, "{text}");
    assert!(!text.contains("s3cret") && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn what_is_wrong_with_the_options_is_said_before_anything_runs() {
    let home = Home::new();
    for (more, says) in [
        (
            &["--cache", "http://example.org:s3cret@example.org/"][..],
            "--cache: a URL with a user or a password",
        ),
        (
            &["--cache", "ftp://example.org/"],
            "--cache: `ftp://example.org/` is not a URL of http or https",
        ),
        (&["--cache", "http://example.org,write"], "--cache: `write` is not a URL"),
        (&["--cache", "http://example.org,trust=101%"], "--cache: trust: 101% is above the most"),
        (&["--cache", "http://example.org,trust=98"], "--cache: trust: "),
        (&["--cache", "trust=98%"], "--cache: no cache is named"),
    ] {
        assert_refused(&run(&home, &LAB, more), says);
    }
    let on_a_host = run(&home, &["run", "smoke"], &["--cache", "http://example.org"]);
    assert_refused(&on_a_host, "--cache are for the lab, not for `local`");
}

#[test]
fn the_configuration_is_read_for_the_lab_and_refused_where_it_is_wrong() {
    for (text, says) in [
        (
            "[cache]\nurl = \"http://example.org:s3cret@example.org/\"\n",
            "a URL with a user or a password",
        ),
        (
            "[cache]\nurl = \"http://example.org\"\nmode = \"readonly\"\n",
            "did you mean \"read-only\"?",
        ),
        ("[cache]\ntrusted = \"98%\"\n", "unknown key `trusted` in [cache]"),
    ] {
        let home = configured(text);
        assert_refused(&run(&home, &LAB, &[]), says);
        // Other backends do not care.
        done(run(&home, &["run", "smoke", "--backend", "null", "--quiet"], &[]));
        // With the cache off it does not matter, either.
        let off = stderr(&run(&home, &LAB, &["--cache", "off"]));
        assert!(!off.contains(says), "{off}");
    }
}
