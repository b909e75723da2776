//! apt's lists of sources, in both formats, and the Debian mirrors among them. Pure.
//!
//! Input: the text of `.list` and `.sources` files (the manual page sources.list(5)).
//! Third parties often use Debian's names of suites; the component `main` and the keys
//! distinguish them. In the end the signature decides: mirrors are read with the keys of Debian's
//! archive alone.

use std::path::Path;

/// Suites, by code name and by status.
const SUITES: &[&str] = &[
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];
/// The suites to read at each mirror.
const ARCHIVE: &[&str] = &["bookworm", "bookworm-backports", "trixie", "trixie-backports"];
const SECURITY: &[&str] = &["bookworm-security", "trixie-security"];
/// Read only for kernels that no other has.
const OLD: &[&str] = &["bullseye", "bullseye-backports"];
const OLD_SECURITY: &[&str] = &["bullseye-security"];
/// Read only if the machine itself uses them.
const AHEAD: &[&str] = &["forky", "forky-backports", "sid", "testing", "unstable"];

/// One enabled entry with amd64 packages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// A file of keys, a fingerprint or a block of keys.
    pub signed_by: Option<String>,
}

/// A suite of a Debian mirror.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    pub uri: String,
    pub name: String,
}

/// The entries of the file, in the format of its extension. apt ignores other files.
pub fn parse(path: &Path, text: &str) -> Vec<Source> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("list") => text.lines().filter_map(one_line).collect(),
        Some("sources") => deb822(text),
        _ => Vec::new(),
    }
}

/// `deb [arch=amd64 signed-by=/x.gpg] URI SUITE COMPONENT...`
fn one_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or("").trim();
    let rest = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t', '[']))?;
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_string);
    let (uri, suite) = (words.next()?, words.next()?);
    let mut source = Source {
        uris: vec![uri],
        suites: vec![suite],
        components: words.collect(),
        signed_by: None,
    };
    for (key, value) in options.split_whitespace().filter_map(|option| option.split_once('=')) {
        match key {
            "arch" if !value.split(',').any(|name| name == "amd64") => return None,
            "signed-by" => source.signed_by = Some(value.to_string()),
            _ => {}
        }
    }
    Some(source)
}

/// Stanzas of fields, separated by empty lines; lines that begin with a blank continue a field.
fn deb822(text: &str) -> Vec<Source> {
    let mut stanzas: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
            continue;
        }
        let Some(fields) = stanzas.last_mut() else { continue };
        match (line.starts_with([' ', '\t']), fields.last_mut(), line.split_once(':')) {
            (true, Some((_, value)), _) => *value = format!("{value}\n{}", line.trim()),
            (false, _, Some((key, value))) => {
                fields.push((key.trim().to_ascii_lowercase(), value.trim().to_string()));
            }
            _ => {}
        }
    }
    stanzas.iter().filter_map(|fields| stanza(fields)).collect()
}

fn stanza(fields: &[(String, String)]) -> Option<Source> {
    let field = |name: &str| {
        fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    let words = |name: &str| -> Vec<String> {
        field(name).unwrap_or("").split_whitespace().map(str::to_string).collect()
    };
    let off = ["no", "false", "without", "off", "disable", "0"];
    let is_off = field("enabled").is_some_and(|word| off.contains(&word.to_lowercase().as_str()));
    let has_amd64 = |name: &str| words(name).iter().any(|word| word == "amd64");
    let is_other = field("architectures").is_some() && !has_amd64("architectures");
    let is_deb = words("types").iter().any(|word| word == "deb");
    if is_off || is_other || has_amd64("architectures-remove") || !is_deb {
        return None;
    }
    Some(Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").map(str::to_string),
    })
}

/// Whether this is Debian's own archive, not a third party's.
fn is_debian(source: &Source) -> bool {
    let is_main = source.components.iter().any(|name| name == "main");
    let has_debians_keys = source.signed_by.as_deref().is_none_or(|keys| {
        let name = keys.rsplit('/').next().unwrap_or(keys);
        keys.starts_with('/') && name.starts_with("debian-archive-")
    });
    is_main && has_debians_keys
}

/// `bookworm` of `bookworm`, `bookworm-backports` and `bookworm/updates`.
fn is_suite(name: &str) -> bool {
    let base = name.split(['-', '/']).next().unwrap_or(name);
    let rest = &name[base.len()..];
    let known = [
        "",
        "-updates",
        "-security",
        "/updates",
        "-backports",
        "-backports-sloppy",
        "-proposed-updates",
    ];
    SUITES.contains(&base) && known.contains(&rest)
}

/// How far back suites are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Supported,
    /// Also those whose support has ended.
    Old,
}

/// The suites to read, of all mirrors among the sources, in a fixed order.
pub fn suites(sources: &[Source], reach: Reach) -> Vec<Suite> {
    let old = |suites: &'static [&'static str]| if reach == Reach::Old { suites } else { &[] };
    let mut suites: Vec<Suite> = Vec::new();
    for source in sources.iter().filter(|source| is_debian(source)) {
        let own: Vec<&str> =
            source.suites.iter().map(String::as_str).filter(|name| is_suite(name)).collect();
        let is_security = |name: &&str| name.ends_with("-security") || name.ends_with("/updates");
        let ahead = own.iter().copied().filter(|name| AHEAD.contains(name));
        let archive: Vec<&str> = if own.iter().any(|name| !is_security(name)) {
            ARCHIVE.iter().chain(old(OLD)).copied().chain(ahead).collect()
        } else {
            Vec::new()
        };
        let security: Vec<&str> = if own.iter().any(is_security) {
            SECURITY.iter().chain(old(OLD_SECURITY)).copied().collect()
        } else {
            Vec::new()
        };
        let names: Vec<&str> = archive.into_iter().chain(security).collect();
        for uri in source.uris.iter().filter(|uri| is_network(uri)) {
            let uri = uri.trim_end_matches('/').to_string();
            let new = names.iter().map(|name| Suite { uri: uri.clone(), name: name.to_string() });
            for suite in new {
                if !suites.contains(&suite) {
                    suites.push(suite);
                }
            }
        }
    }
    suites
}

/// A disc in a drive has no kernels of other suites.
fn is_network(uri: &str) -> bool {
    !uri.starts_with("cdrom:") && uri.contains(":/")
}

#[cfg(test)]
mod tests;
