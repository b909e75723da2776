//! Parts that all pages share: the templates of charts, their style, the script that shows the text of a
//! mark, and the policy that lets a browser use these and nothing else. Pure.
//!
//! Names come from outside. Templates escape all that they are given, and a policy with digests lets no
//! other style or script take effect.

use std::fmt::Write;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Environment, HtmlEscape, Value};
use serde::Serialize;
use sha2::{Digest, Sha256};

const HEAD: &str = include_str!("page/begin.html");
const CHART: &str = include_str!("page/chart.html");
const STYLE: &str = include_str!("page/style.css");
/// Rules for what is drawn, in the page and alone.
const DRAWN_STYLE: &str = include_str!("page/drawn.css");
pub const SCRIPT: &str = include_str!("page/script.js");
/// Series that a reader can switch off.
const SWITCHES: usize = 24;

/// Templates by name: those given, those of charts, and what every page begins with. Names that end in .html are what has everything
/// escaped.
pub fn templates<'s>(own: &[(&'s str, &'s str)]) -> Result<Environment<'s>, minijinja::Error> {
    let mut templates = Environment::new();
    templates.add_filter("marked", marked);
    templates.add_template("begin.html", HEAD)?;
    templates.add_template("chart.html", CHART)?;
    for (name, source) in own {
        templates.add_template(name, source)?;
    }
    Ok(templates)
}

/// A text of ours as HTML: what stands between backticks is code.
fn marked(text: &str) -> Value {
    let parts: Vec<&str> = text.split('`').collect();
    let mut html = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = HtmlEscape(part);
        // The last one of an odd number has no partner.
        match (at % 2 == 1, at + 1 < parts.len()) {
            (true, true) => write!(html, "<code>{part}</code>"),
            (true, false) => write!(html, "`{part}"),
            (false, _) => write!(html, "{part}"),
        }
        .expect("a String takes everything");
    }
    Value::from_safe_string(html)
}

/// Writes a template with its values, and a line's end.
pub fn render(
    out: &mut dyn io::Write,
    templates: &Environment,
    name: &str,
    values: &impl Serialize,
) -> io::Result<()> {
    let template = templates.get_template(name).map_err(io::Error::other)?;
    let text = template.render(minijinja::value::Serde(values)).map_err(io::Error::other)?;
    writeln!(out, "{}", text.trim_end())
}

/// The style of a page, with a rule for each series that can be switched off.
pub fn style() -> String {
    let mut style = format!("{STYLE}{DRAWN_STYLE}");
    for at in 0..SWITCHES {
        let rule = "g.marks > path";
        writeln!(
            style,
            "figure:has(input.t{at}:not(:checked)) {rule}.t{at} {{ visibility: hidden; }}"
        )
        .expect("a String takes everything");
    }
    style
}

/// The style of a picture alone: the colours of a light page, which come first in its style.
pub fn alone_style() -> String {
    let light = STYLE.split(['{', '}']).nth(1).unwrap_or_default();
    let colours = light.split(';').filter_map(|rule| rule.trim().split_once(": "));
    let filled = colours.fold(DRAWN_STYLE.to_string(), |style, (name, value)| {
        style.replace(&format!("var({name})"), value)
    });
    filled + "svg text.title { font-weight: bold; }\n"
}

/// Where a page may send forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forms {
    None,
    /// To the server that it is from.
    Own,
}

/// The policy of a page: a browser may use this style and this script.
pub fn policy(style: &str, script: Option<&str>, forms: Forms) -> String {
    let digest = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    // The script makes an image of a chart.
    let images = if script.is_some() { "blob:" } else { "'none'" };
    let script = script.map_or("'none'".to_string(), digest);
    let forms = match forms {
        Forms::None => "'none'",
        Forms::Own => "'self'",
    };
    let style = digest(style);
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; img-src {images}; base-uri 'none'; form-action {forms}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_a_text_is_marked_and_nothing_gets_through() {
        let cases = [
            ("of `web` and `a b`", "of <code>web</code> and <code>a b</code>"),
            ("`<b>`&", "<code>&lt;b&gt;</code>&amp;"),
            ("it's one ` alone", "it&#x27;s one ` alone"),
            ("``", "<code></code>"),
            ("", ""),
        ];
        for (text, html) in cases {
            assert_eq!(marked(text).to_string(), html);
        }
    }

    #[test]
    fn the_policy_names_what_is_in_the_page_and_nothing_else() {
        let policy = policy("a{}", Some("1"), Forms::None);
        // printf 'a{}' | openssl dgst -sha256 -binary | base64
        assert!(policy.contains("style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(super::policy("a{}", None, Forms::Own).contains("script-src 'none'"));
    }
}
