//! JSON as Go's encoder writes it, and records that lose nothing: unknown fields
//! keep their place in the object and their text to the last digit.
//!
//! Input: text. Output: records that borrow from it, or the place of an error; and text again. Pure.
//!
//! As in Go, field names match in any case, and `null` counts as a missing field. Unlike in Go, a field that
//! stands twice is refused, because it would be a guess which one counts.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::Serialize;
use serde_json::ser::{CharEscape, Formatter};
use serde_json::value::RawValue;

/// Unknown fields, in the file's order.
pub type Rest<'t> = Vec<(Cow<'t, str>, &'t RawValue)>;

/// Declares a record, its reading and its writing. Fields are written in the order given; one
/// that is `omitted if` a test holds is left out, others are written even when they are zero.
macro_rules! record {
    ($(#[$about:meta])* $record:ident {
        $($(#[$doc:meta])* $field:ident: $kind:ty = $key:literal $(omitted if $omitted:path)?,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        pub struct $record<'t> {
            $($(#[$doc])* pub $field: $kind,)*
            pub rest: $crate::compat::schedbench::json::Rest<'t>,
        }

        impl<'de> serde::Deserialize<'de> for $record<'de> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $record<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        use $crate::compat::schedbench::json::Key;
                        #[derive(Default)]
                        struct Seen { $($field: bool,)* }
                        let (mut seen, mut record) = (Seen::default(), $record::default());
                        while let Some(Key(key)) = map.next_key()? {
                            $(if key.eq_ignore_ascii_case($key) {
                                if std::mem::replace(&mut seen.$field, true) {
                                    return Err(serde::de::Error::duplicate_field($key));
                                }
                                let value: Option<_> = map.next_value()?;
                                record.$field = value.unwrap_or_default();
                                continue;
                            })*
                            record.rest.push((key, map.next_value()?));
                        }
                        Ok(record)
                    }
                }
                from.deserialize_map(Fields)
            }
        }

        impl serde::Serialize for $record<'_> {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = to.serialize_map(None)?;
                $(if !(false $(|| $omitted(&self.$field))?) {
                    map.serialize_entry($key, &self.$field)?;
                })*
                for (key, value) in &self.rest {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    };
}
pub(super) use record;

/// The name of a field, borrowed where no escape is in it.
pub struct Key<'t>(pub Cow<'t, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_string())))
            }
        }
        from.deserialize_str(Text)
    }
}

/// Whether these bytes are one JSON object and nothing else.
pub fn is_whole_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<de::IgnoredAny>(bytes).is_ok()
}

/// Whether these bytes begin a JSON object with `Input` or `Runs`, as a `.bench` file does, even if the rest
/// is broken.
pub fn is_bench(bytes: &[u8]) -> bool {
    has_key(bytes, &["Input", "Runs"])
}

/// Whether these bytes begin a JSON object with one of `keys`.
pub fn has_key(bytes: &[u8], keys: &[&str]) -> bool {
    struct Search<'f>(&'f [&'f str], &'f mut bool);
    impl<'de> Visitor<'de> for Search<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Cow<str>>()? {
                if self.0.iter().any(|known| key.eq_ignore_ascii_case(known)) {
                    *self.1 = true;
                    return Ok(());
                }
                map.next_value::<de::IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut found = false;
    // An error says no more than that the object does not end there.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(Search(keys, &mut found));
    found
}

/// An error in a JSON text and its place, counted from 1; columns in bytes, as serde_json counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misshapen {
    pub line: usize,
    pub column: usize,
    /// From the outermost object: `Runs[2].WorkerSets[0].Count`.
    pub path: String,
    pub what: String,
}

/// Reads all of `text`.
pub fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, Misshapen> {
    serde_json::from_str(text).map_err(|error| misshapen::<T>(text, &error))
}

/// Reads `part`, which was borrowed from `text` and stands at `path` in it.
pub fn read_part<'t, T: Deserialize<'t>>(
    text: &str,
    part: &'t RawValue,
    path: &str,
) -> Result<T, Misshapen> {
    read(part.get()).map_err(|found: Misshapen| {
        let before = part.get().as_ptr() as usize - text.as_ptr() as usize;
        let (line, column) = place(&text.as_bytes()[..before.min(text.len())]);
        let joint = if found.path.is_empty() || found.path.starts_with('[') { "" } else { "." };
        Misshapen {
            line: line + found.line - 1,
            column: if found.line == 1 { column + found.column } else { found.column },
            path: format!("{path}{joint}{}", found.path),
            what: found.what,
        }
    })
}

/// The line of the text after `before`, and the number of bytes of that line in `before`.
pub(super) fn place(before: &[u8]) -> (usize, usize) {
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    (line, before.len() - start)
}

/// Reads once more with the path, which would slow down the reading of good files.
fn misshapen<'t, T: Deserialize<'t>>(text: &'t str, error: &serde_json::Error) -> Misshapen {
    let mut reader = serde_json::Deserializer::from_str(text);
    let path = serde_path_to_error::deserialize::<_, T>(&mut reader)
        .err()
        .map(|error| error.path().to_string())
        .unwrap_or_default();
    // A field whose name was not read to its end has none.
    let path = path.trim_end_matches(['.', '?']).to_string();
    let (line, column) = (error.line().max(1), error.column());
    Misshapen { line, column, path, what: in_words(error) }
}

fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    if let Some(inside) = text.strip_prefix("EOF while parsing ") {
        let inside = inside.replace("list", "list, where `,` or `]` was expected");
        let inside = inside.replace("object", "object, where `,` or `}` was expected");
        return format!("the text is cut off in {}", article(&inside));
    }
    let mut what = text.to_string();
    for (theirs, ours) in [
        ("expected i64", "expected a whole number of 64 bits"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: list"),
        ("duplicate field `", "a second field `"),
    ] {
        what = what.replace(theirs, ours);
    }
    what
}

fn article(what: &str) -> String {
    let has_one = what.starts_with("a ") || what.starts_with("an ");
    if has_one { what.to_string() } else { format!("a {what}") }
}

/// Writes `value` as Go's encoder does: no space between tokens, no newline at the end, `<`,
/// `>`, `&` and the Unicode line separators escaped.
pub fn write<T: Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Go);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

struct Go;

impl Formatter for Go {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut after = rest[at..].chars();
            let code = after.next().map_or(0, u32::from);
            write!(out, "\\u{code:04x}")?;
            rest = after.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            // A solidus is never handed over: it needs no escape.
            CharEscape::Quote => out.write_all(b"\\\""),
            CharEscape::ReverseSolidus => out.write_all(b"\\\\"),
            CharEscape::Solidus => out.write_all(b"/"),
            CharEscape::LineFeed => out.write_all(b"\\n"),
            CharEscape::CarriageReturn => out.write_all(b"\\r"),
            CharEscape::Tab => out.write_all(b"\\t"),
            CharEscape::Backspace => out.write_all(b"\\b"),
            CharEscape::FormFeed => out.write_all(b"\\f"),
            CharEscape::AsciiControl(byte) => write!(out, "\\u{byte:04x}"),
        }
    }

    /// Texts that are kept unchanged lose only the space between their tokens.
    fn write_raw_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let (mut from, mut in_string, mut escaped) = (0, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            if in_string {
                in_string = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
            } else if *byte == b'"' {
                in_string = true;
            } else if byte.is_ascii_whitespace() {
                out.write_all(&bytes[from..at])?;
                from = at + 1;
            }
        }
        out.write_all(&bytes[from..])
    }
}

#[cfg(test)]
mod tests;
