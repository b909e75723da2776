//! The configuration file: `[cache]`. Read as strictly as a plan. Pure.

use crate::model::{Advice, CacheUrl, CacheUrlError, Field, Kind, SharedCache, Value, fields};

use super::document;
use super::error::{Faults, PlanErrors};
use super::fields::names;
use super::table::{Table, section};

const CACHE: &[Field] = fields! {
    "url": Kind::Text => "a cache of answers that several users share";
    "mode": MODE => "whether new answers are sent there";
    "trust": TRUST => "how many of its answers are taken without running them again";
};

const MODE: Kind = Kind::Choice(&[SharedCache::READ_ONLY, SharedCache::READ_WRITE]);
pub const TRUST: Kind = Kind::Percent { min: 0.0, max: 100.0 };

/// A user's settings for all plans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Configuration {
    pub cache_url: Option<CacheUrl>,
    pub cache_may_write: Option<bool>,
    pub cache_trust_percent: Option<f64>,
}

/// `source_name` is the file's name, for messages.
pub fn configuration(source_name: &str, text: &str) -> Result<Configuration, PlanErrors> {
    document::read(source_name, text, document::Kind::Configuration, |mut top, faults| {
        let found = section(&mut top, "cache", faults).map(|table| cache(table, faults));
        top.finish(&["cache"], "the configuration", faults);
        Some(found.unwrap_or_default())
    })
}

fn cache(mut table: Table, faults: &mut Faults) -> Configuration {
    let mut found = Configuration::default();
    for field in CACHE {
        let Some((value, span)) = table.take_value(field, faults) else { continue };
        match (field.name, value) {
            ("mode", value) => {
                found.cache_may_write = value.as_text().map(|mode| mode == SharedCache::READ_WRITE);
            }
            ("trust", Value::Percent(percent)) => found.cache_trust_percent = Some(percent),
            (_, value) => match value.as_text().unwrap_or_default().parse::<CacheUrl>() {
                Ok(url) => found.cache_url = Some(url),
                // The line must not be shown.
                Err(CacheUrlError::Credentials) => {
                    let why = CacheUrlError::Credentials;
                    let hint = why.hint().unwrap_or_default();
                    faults.add_of_all(format!("`url` in [cache]: {why}"), hint);
                }
                Err(why) => {
                    let hint = why.hint().unwrap_or_default();
                    faults.add(&span, why.to_string(), "this value", hint);
                }
            },
        }
    }
    table.finish(&names(CACHE), "[cache]", faults);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_whole_or_refused_with_the_place() {
        let read = |text| configuration("config.toml", text);
        assert_eq!(read("").unwrap(), Configuration::default());
        let text =
            "[cache]\nurl = \"http://example.org:80/x\"\nmode = \"read-only\"\ntrust = \"99.5%\"";
        let all = Configuration {
            cache_url: Some("http://example.org:80/x".parse().unwrap()),
            cache_may_write: Some(false),
            cache_trust_percent: Some(99.5),
        };
        assert_eq!(read(text).unwrap(), all);
        for (text, says) in [
            ("[cache]\nurl = \"c:80\"", "config.toml:2:7: `c:80` is not a URL of http or https"),
            ("[cache]\nmode = \"write\"", "config.toml:2:8: "),
            ("[cache]\ntrust = \"101%\"", "config.toml:2:9: "),
            ("[cache]\ntrust = 98", "config.toml:2:9: "),
            ("[cache]\nurls = \"x\"", "config.toml:2:1: unknown key `urls` in [cache]"),
            ("[cash]\n", "config.toml:1:2: unknown key `cash` in the configuration"),
            ("cache = 1", "config.toml:1:9: `cache` is a number, not a table"),
            ("[cache", "config.toml:1:7: not TOML: "),
        ] {
            let errors = read(text).unwrap_err();
            let line = errors.errors()[0].one_line();
            assert!(line.starts_with(says), "{line}");
        }
        let secret = read("[cache]\nurl = \"http://example.org:secret@example.org\"").unwrap_err();
        let text = secret.render();
        assert!(text.contains("a URL with a user") && !text.contains("secret"), "{text}");
        let wrong = read("cache = {").unwrap_err();
        assert!(wrong.errors()[0].hint.contains("schedlab help shared-cache"), "{wrong:?}");
    }
}
