//! Patches out of what people have: a diff, a mail, or an mbox with a whole thread. Pure.
//!
//! Of a thread the newest version of the series is taken, in its order; cover letters and answers
//! are left out. Formats: RFC 2045 (bodies), RFC 4155 (mbox, and mboxrd's quoting).

use std::io::Read;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::super::plain::plain;
use super::patch::{Patch, PatchFault};

/// Of an unpacked mbox.
const MAX_BYTES: u64 = 256 << 20;
/// Parts in parts of a mail.
const MAX_DEPTH: usize = 4;

#[derive(Debug, PartialEq, Eq, Error)]
pub enum MailFault {
    #[error("{}: {fault}", plain(name))]
    Patch { name: String, fault: PatchFault },
    #[error("it has no diff")]
    Nothing,
    #[error("of {total} patches of the series {missing} is not there")]
    Missing { missing: u64, total: u64 },
    #[error("patch {0} of the series is there twice, with different texts")]
    Twice(u64),
    #[error("it cannot be unpacked: it has more than {} MB or is no gzip", MAX_BYTES >> 20)]
    Packed,
}

/// The patches of one file, in the order in which they are applied.
pub fn patches(file: &str, bytes: &[u8]) -> Result<Vec<Patch>, MailFault> {
    let unpacked = unpacked(bytes)?;
    let messages = messages(&unpacked);
    let mut found = Vec::new();
    for message in &messages {
        let mail = Mail::read(message);
        let name = match &mail.subject {
            Some(subject) if messages.len() > 1 => format!("{file}: {subject}"),
            _ => file.to_string(),
        };
        let patch = Patch::parse(&name, &mail.text);
        let is_alone = messages.len() == 1;
        match patch {
            Ok(Some(patch)) => found.push((mail.place(), patch)),
            // Answers quote what they answer to, and have any text.
            Err(fault) if is_alone || !mail.is_answer() => {
                return Err(MailFault::Patch { name, fault });
            }
            _ => {}
        }
    }
    if found.iter().any(|(place, _)| !place.is_answer) {
        found.retain(|(place, _)| !place.is_answer);
    }
    in_order(found)
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, MailFault> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(MAX_BYTES + 1);
    match reader.read_to_end(&mut unpacked) {
        Ok(read) if read as u64 <= MAX_BYTES => Ok(unpacked),
        _ => Err(MailFault::Packed),
    }
}

/// Where in a thread a patch stands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    version: u64,
    /// Which of how many.
    number: Option<(u64, u64)>,
    is_answer: bool,
}

/// The newest version in its order, whole.
fn in_order(mut found: Vec<(Place, Patch)>) -> Result<Vec<Patch>, MailFault> {
    let newest = found.iter().map(|(place, _)| place.version).max().ok_or(MailFault::Nothing)?;
    found.retain(|(place, _)| place.version == newest);
    let total = found.iter().filter_map(|(place, _)| place.number).map(|(_, total)| total).max();
    let is_series = found.len() > 1 && found.iter().all(|(place, _)| place.number.is_some());
    let (Some(total), true) = (total, is_series) else {
        return Ok(found.into_iter().map(|(_, patch)| patch).collect());
    };
    found.sort_by_key(|(place, _)| place.number);
    found.dedup_by(|(a, b), (c, d)| a.number == c.number && b.digest == d.digest);
    for pair in found.windows(2) {
        if let (Some((number, _)), true) = (pair[0].0.number, pair[0].0.number == pair[1].0.number)
        {
            return Err(MailFault::Twice(number));
        }
    }
    let has = |number: u64| found.iter().any(|(place, _)| place.number == Some((number, total)));
    match (1..=total).find(|number| !has(*number)) {
        Some(missing) => Err(MailFault::Missing { missing, total }),
        None => Ok(found.into_iter().map(|(_, patch)| patch).collect()),
    }
}

/// The messages of an mbox, without the line that separates them; a text that is none is one.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut is_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A separator has a date; "From here on" does not.
        let words = String::from_utf8_lossy(line).split_whitespace().count();
        if is_blank && line.starts_with(b"From ") && words >= 6 {
            all.push(Vec::new());
        } else {
            if all.is_empty() {
                all.push(Vec::new());
            }
            if let Some(message) = all.last_mut() {
                message.extend(unquoted(line));
            }
        }
        is_blank = line.iter().all(u8::is_ascii_whitespace);
    }
    all
}

/// mboxrd puts one `>` before each line that begins with any number of `>` and `From `.
fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") { &line[1..] } else { line }
}

#[derive(Debug, Default)]
struct Mail {
    subject: Option<String>,
    text: Vec<u8>,
}

impl Mail {
    fn read(bytes: &[u8]) -> Mail {
        let Some((headers, body)) = headers(bytes) else {
            return Mail { subject: None, text: bytes.to_vec() };
        };
        let subject = header(&headers, "subject").map(str::to_string);
        Mail { subject, text: decoded(&headers, body, MAX_DEPTH) }
    }

    fn is_answer(&self) -> bool {
        self.subject.as_deref().is_some_and(|subject| {
            let start = subject.trim_start().get(..3).unwrap_or("");
            start.eq_ignore_ascii_case("re:")
        })
    }

    /// Of `[PATCH v2 03/11] Title`.
    fn place(&self) -> Place {
        let subject = self.subject.as_deref().unwrap_or("");
        let tag = subject.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let mut place = Place { version: 1, number: None, is_answer: self.is_answer() };
        for word in tag.map_or("", |(tag, _)| tag).split_whitespace() {
            let version = word.strip_prefix(['v', 'V']).and_then(|rest| rest.parse().ok());
            let number = word
                .split_once('/')
                .and_then(|(number, total)| Some((number.parse().ok()?, total.parse().ok()?)));
            place.version = version.unwrap_or(place.version);
            place.number = number.or(place.number);
        }
        place
    }
}

type Headers = Vec<(String, String)>;

/// Headers with names in small letters, and the body; `None` if the text begins with something
/// else.
fn headers(bytes: &[u8]) -> Option<(Headers, &[u8])> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut rest = bytes;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        rest = after;
        if line.is_empty() {
            let of_mail = ["subject", "content-type", "content-transfer-encoding"];
            let is_mail = of_mail.iter().any(|name| header(&headers, name).is_some());
            return is_mail.then_some((headers, rest));
        }
        if line.starts_with([' ', '\t']) {
            let (_, value) = headers.last_mut()?;
            *value = format!("{value} {}", line.trim());
            continue;
        }
        let (name, value) = line.split_once(':')?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_name) {
            return None;
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The text of a body; of several parts those with a diff.
fn decoded(headers: &[(String, String)], body: &[u8], depth: usize) -> Vec<u8> {
    let kind = header(headers, "content-type").unwrap_or("");
    let boundary = kind.to_ascii_lowercase().starts_with("multipart/").then(|| boundary(kind));
    if let (Some(Some(boundary)), true) = (boundary, depth > 0) {
        let parts = parts(body, &boundary);
        let texts = parts.iter().filter_map(|part| {
            let (headers, body) = part_headers(part);
            let text = decoded(&headers, body, depth - 1);
            let has_diff = !matches!(Patch::parse("", &text), Ok(None));
            has_diff.then_some(text)
        });
        return texts.collect::<Vec<_>>().concat();
    }
    match header(headers, "content-transfer-encoding").unwrap_or("").to_ascii_lowercase().as_str() {
        "quoted-printable" => quoted_printable(body),
        "base64" => base64(body),
        _ => body.iter().copied().filter(|byte| *byte != b'\r').collect(),
    }
}

fn boundary(kind: &str) -> Option<String> {
    let at = kind.to_ascii_lowercase().find("boundary=")? + "boundary=".len();
    let rest = &kind[at..];
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([';', ' ']).next(),
    };
    value.filter(|value| !value.is_empty()).map(str::to_string)
}

fn parts(body: &[u8], boundary: &str) -> Vec<Vec<u8>> {
    let (begin, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii_end();
        if trimmed == end.as_bytes() {
            break;
        }
        match parts.last_mut() {
            _ if trimmed == begin.as_bytes() => parts.push(Vec::new()),
            Some(part) => part.extend(line),
            None => {}
        }
    }
    parts
}

/// A part may have no header at all, and begins with an empty line then.
fn part_headers(part: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    headers(part).unwrap_or((Vec::new(), part))
}

fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len());
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let is_whole = line.ends_with(b"\n");
        let line = line.trim_ascii_end();
        let (line, joins) = match line.strip_suffix(b"=") {
            Some(line) => (line, true),
            None => (line, !is_whole),
        };
        let mut at = 0;
        while at < line.len() {
            let hexadecimal = line
                .get(at + 1..at + 3)
                .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
            match (line[at], hexadecimal) {
                (b'=', Some(byte)) => {
                    text.push(byte);
                    at += 3;
                }
                (byte, _) => {
                    text.push(byte);
                    at += 1;
                }
            }
        }
        if !joins {
            text.push(b'\n');
        }
    }
    text.retain(|byte| *byte != b'\r');
    text
}

/// What cannot be decoded stays as it is, and has no diff.
fn base64(body: &[u8]) -> Vec<u8> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(&bytes);
    let mut decoded = decoded.unwrap_or_else(|_| body.to_vec());
    decoded.retain(|byte| *byte != b'\r');
    decoded
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::patch::testing::diff;
    use super::*;

    fn message(subject: &str, more: &str, body: &str) -> String {
        format!(
            "From mboxrd@z Thu Jan  1 00:00:00 1970\nFrom: A <a@example.org>\nSubject: {subject}\n\
             {more}\n{body}\n\n"
        )
    }

    fn names(text: &str) -> Result<Vec<String>, MailFault> {
        let found = patches("x.mbox", text.as_bytes())?;
        Ok(found.into_iter().map(|patch| patch.name).collect())
    }

    fn series(subjects: &[&str]) -> Result<Vec<String>, MailFault> {
        let one = |subject: &&str| message(subject, "", &diff("f.c", subject, "b"));
        let found = names(&subjects.iter().map(one).collect::<String>())?;
        Ok(found.iter().map(|name| name.replace("x.mbox: ", "")).collect())
    }

    #[test]
    fn a_thread_is_its_newest_series_in_order() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["[PATCH 2/2] B", "[PATCH 1/2] A"], &["[PATCH 1/2] A", "[PATCH 2/2] B"]),
            (
                &["[PATCH v2 1/1] New", "[PATCH 1/2] A", "[PATCH 2/2] B", "Re: [PATCH v3 1/1] Try"],
                &["[PATCH v2 1/1] New"],
            ),
            (
                &["[PATCH 10/10] J", "[RFC PATCH v3 02/02] B", "[RFC PATCH v3 01/02] A"],
                &["[RFC PATCH v3 01/02] A", "[RFC PATCH v3 02/02] B"],
            ),
            (
                &["[PATCH 1/2] A", "[PATCH 1/2] A", "[PATCH 2/2] B"],
                &["[PATCH 1/2] A", "[PATCH 2/2] B"],
            ),
            (&["One", "Two"], &["One", "Two"]),
            (&["[PATCH 3/7] alone"], &["x.mbox"]),
            (&["Re: a try"], &["x.mbox"]),
        ];
        for (subjects, expected) in cases {
            assert_eq!(series(subjects).as_deref().unwrap(), *expected, "{subjects:?}");
        }
    }

    #[test]
    fn a_series_with_a_gap_or_two_of_one_is_refused() {
        let missing = MailFault::Missing { missing: 2, total: 3 };
        assert_eq!(series(&["[PATCH 1/3] A", "[PATCH 3/3] C"]), Err(missing));
        assert_eq!(
            series(&["[PATCH 1/2] A", "[PATCH 1/2] Other", "[PATCH 2/2] B"]),
            Err(MailFault::Twice(1))
        );
        assert_eq!(names(&message("[PATCH 0/2] Cover", "", "no diff")), Err(MailFault::Nothing));
        assert_eq!(names(""), Err(MailFault::Nothing));
    }

    #[test]
    fn cover_letters_and_answers_are_left_out() {
        let text = [
            message("[PATCH 0/1] Cover", "", "From here on it is better\n kernel | 2 +-"),
            message(
                "[PATCH 1/1] A",
                "",
                &format!("Why.\n---\n f.c | 2\n\n{}-- \n2.39", diff("f.c", "a", "b")),
            ),
            message(
                "Re: [PATCH 1/1] A",
                "",
                "> --- a/f.c\nLooks good.\n--- a/f.c\n+++ b/../f.c\n@@ -1 +1",
            ),
        ];
        assert_eq!(names(&text.concat()).unwrap(), ["x.mbox: [PATCH 1/1] A"]);
    }

    #[test]
    fn bodies_are_decoded() {
        let plain = diff("f.c", "a = 1", "ö = \"x\"; /* From here */");
        let quoted = plain.replace('=', "=3D").replace('ö', "=C3=B6").replace("/* ", "/* =\n");
        let packed = base64::engine::general_purpose::STANDARD.encode(&plain);
        let encoding = |name: &str| format!("Content-Transfer-Encoding: {name}\n");
        let part = format!("--b1\n{}\n{packed}\n", encoding("base64"));
        let parts = format!("--b1\nContent-Type: text/plain\n\nSee below.\n{part}--b1--\nend\n");
        let cases = [
            message("A", &encoding("quoted-printable"), &quoted),
            message("A", &encoding("base64"), &packed),
            message("A", "Content-Type: multipart/mixed;\n boundary=\"b1\"\n", &parts),
            message("A", "", &plain.replace('\n', "\r\n")),
        ];
        for text in cases {
            let found = patches("x", text.as_bytes()).unwrap();
            let got = String::from_utf8_lossy(&found[0].text).trim_end().to_string();
            assert_eq!(got, plain.trim_end(), "{text}");
        }
    }

    #[test]
    fn a_bare_diff_is_a_patch_and_a_packed_one_too() {
        let text = diff("f.c", "a", "b");
        assert_eq!(names(&text).unwrap(), ["x.mbox"]);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        packer.write_all(text.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(patches("x", &packed).unwrap()[0].text, text.as_bytes());
        assert_eq!(patches("x", &packed[..packed.len() / 2]), Err(MailFault::Packed));
    }

    #[test]
    fn lines_that_an_mbox_quotes_are_restored() {
        let body = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n>From x\n".replace(">From", " From");
        let text = message("A", "", &format!(">From me\n>>From you\n{body}"));
        let found = patches("x", text.as_bytes()).unwrap();
        assert!(String::from_utf8_lossy(&found[0].text).starts_with("From me\n>From you\n"));
    }
}
