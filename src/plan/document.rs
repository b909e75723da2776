//! Text -> TOML. Pure.

use toml::Spanned;
use toml::de::DeTable;

use super::error::Faults;
use super::fields::MAX_TEXT_BYTES;

/// `None`: a fault was noted.
pub fn document<'t>(text: &'t str, faults: &mut Faults) -> Option<Spanned<DeTable<'t>>> {
    if text.len() > MAX_TEXT_BYTES {
        let message = format!("the plan has {} bytes", text.len());
        let hint = format!("at most {MAX_TEXT_BYTES} bytes are read: is this the right file?");
        faults.add_of_all(message, hint);
        return None;
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let hint = "a plan is written in TOML (https://toml.io); see: schedlab run --print quick";
        faults.add(&span, format!("not TOML: {}", error.message()), "here", hint);
    }
    errors.is_empty().then_some(document)
}
